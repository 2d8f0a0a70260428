"""Words to vectors without a language model: a table of token vectors and a greedy WordPiece tokeniser."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from tpips_model.errors import AspectError, ModelError
from tpips_model.mini.tensor_files import read_tensors, token_strings
from tpips_model.mini.word_pieces import pieces_of_word, words_of

__all__ = ["TEXT_DIM", "TextTable", "pieces_of_word", "words_of"]

TEXT_DIM = 128


class TextTable:
    """What every word of an aspect means, as a 128-dimensional vector per word piece.

    A text's vector is the sum over its words of the mean over the word's pieces, brought to the length √128, so that
    its components have unit variance whatever the number of words. The rows already carry how much a token says
    (little for "of" and "the"), see ``train.mini_assets``. Words that hold a letter of another script, and characters
    such as emoji, are not in the table and are left out.

    Args:
        tokens: T different token strings; a leading "##" marks a piece that continues a word.
        rows: int8 (T, 128).
        scales: float (T,); row i stands for ``rows[i] * scales[i]``.

    Raises:
        ModelError: The lengths disagree, or a token is there twice.
    """

    def __init__(self, tokens: Sequence[str], rows: NDArray[np.int8], scales: NDArray[np.floating]) -> None:
        self.index = {token: number for number, token in enumerate(tokens)}
        if len(self.index) != len(tokens) or rows.shape != (len(tokens), TEXT_DIM) or scales.shape != (len(tokens),):
            raise ModelError(
                f"a text table needs as many distinct tokens as rows of {TEXT_DIM} and scales, but got "
                f"{len(self.index)} distinct tokens, rows {rows.shape} and scales {scales.shape}; reinstall the package"
            )
        self._rows = rows
        self._scales = scales.astype(np.float32)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> TextTable:
        """Load a table from a safetensors file: "tokens" (uint8, UTF-8 lines), "rows" (int8), "scales" (float16).

        Raises:
            ModelError: The file is missing, damaged, or no text table.
        """
        tensors, _ = read_tensors(path)
        expected = {"tokens": torch.uint8, "rows": torch.int8, "scales": torch.float16}
        if {name: tensor.dtype for name, tensor in tensors.items()} != expected:
            raise ModelError(f"{path} is no text table (it holds {sorted(tensors)}); reinstall the package")
        tokens = token_strings(tensors["tokens"].numpy(), path)
        return cls(tokens, tensors["rows"].numpy(), tensors["scales"].numpy())

    def pieces(self, text: str) -> list[list[str]]:
        """Split a text into words, and each known word into pieces of the table; unknown words are left out.

        They are the pieces that BERT's uncased tokeniser gives, save that a word held whole by this table stays whole.
        """
        return [pieces for word in words_of(text) if (pieces := pieces_of_word(word, self.index))]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Turn texts into vectors.

        Args:
            texts: N texts, such as aspects.

        Returns:
            float32 (N, 128), every row of length √128. Case and accents do not matter.

        Raises:
            AspectError: No word of a text is known; the table reads English.
        """
        vectors = np.empty((len(texts), TEXT_DIM), np.float32)
        for number, text in enumerate(texts):
            words = self.pieces(text)
            vector = np.sum([self._word_vector(pieces) for pieces in words], axis=0) if words else np.zeros(TEXT_DIM)
            length = float(np.linalg.norm(vector))
            if length == 0.0:
                raise AspectError(
                    f"the model 'mini' knows no word of the aspect {text!r}; it reads English words in Latin letters, "
                    "such as 'brushwork' or 'color palette'"
                )
            vectors[number] = vector * (TEXT_DIM**0.5 / length)
        return vectors

    def _word_vector(self, pieces: Sequence[str]) -> NDArray[np.float32]:
        numbers = [self.index[piece] for piece in pieces]
        mean: NDArray[np.float32] = (self._rows[numbers] * self._scales[numbers, None]).mean(axis=0, dtype=np.float32)
        return mean
