"""The Qwen3-VL backbone: vision tower, language model, tokenizer and image settings, with nothing hidden between calls.

The library's own ``Qwen3VLModel.forward`` keeps the position offset of the last picture (``rope_deltas``) for the next
call; here every position is computed from the sequence at hand and passed explicitly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from tpips_model.errors import ModelError
from tpips_model.qwen.adapters import LoraSettings
from tpips_model.qwen.chat import Chat
from tpips_model.qwen.preprocessing import Patches, Preprocessor

__all__ = ["Backbone", "ImageFeatures", "TokenBatch", "multimodal_positions"]


@dataclass(frozen=True)
class ImageFeatures:
    """What the vision tower makes of B pictures of any sizes.

    Attributes:
        tokens: For each picture (T_i, D): the embeddings that take the placeholders' places.
        deepstack: For each tapped block of the tower, for each picture (T_i, D): added to the hidden states of the
            first blocks of the language model.
        grids: For each picture the (rows, columns) of its image tokens.
    """

    tokens: tuple[Tensor, ...]
    deepstack: tuple[tuple[Tensor, ...], ...]
    grids: tuple[tuple[int, int], ...]

    def select(self, indices: Sequence[int]) -> ImageFeatures:
        """Return the features of some pictures, in the order asked for, repeats allowed."""
        return ImageFeatures(
            tokens=tuple(self.tokens[index] for index in indices),
            deepstack=tuple(tuple(level[index] for index in indices) for level in self.deepstack),
            grids=tuple(self.grids[index] for index in indices),
        )


@dataclass(frozen=True)
class TokenBatch:
    """Sequences of words and image tokens, padded to one length.

    Attributes:
        embeds: (B, T, D).
        real: bool (B, T): False where there is padding.
        visual: bool (B, T): True where there is an image token.
        deepstack: For each level (Σ T_i, D), the image tokens of all sequences in order.
    """

    embeds: Tensor
    real: Tensor
    visual: Tensor
    deepstack: tuple[Tensor, ...]


class Backbone(nn.Module):
    """A Qwen3-VL model as its parts.

    Args:
        model: A ``Qwen3VLModel`` of the transformers library.
        chat: Its tokenizer.
        preprocess: Its image settings.
        name: The directory or hub id it came from.
        revision: The hub commit, if it came from there.
        lm_head: The head that turns hidden states into logits, for a generative model.

    Attributes:
        visual: The vision tower.
        language_model: The language model.
        config: The library's configuration.
        lora: What its adapters are like, None where it never had any (``attach_lora``).
    """

    def __init__(
        self,
        model: Any,
        *,
        chat: Chat,
        preprocess: Preprocessor,
        name: str,
        revision: str | None = None,
        lm_head: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.visual = model.visual
        self.language_model = model.language_model
        self.lm_head = lm_head
        self.config = model.config
        self.chat = chat
        self.preprocess = preprocess
        self.name = name
        self.revision = revision
        self.lora: LoraSettings | None = None

    @property
    def dim(self) -> int:
        """D, the width of the language model."""
        return int(self.config.text_config.hidden_size)

    @property
    def layers(self) -> int:
        """How many blocks the language model has."""
        return int(self.config.text_config.num_hidden_layers)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.language_model.embed_tokens.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type of the weights."""
        return self.language_model.embed_tokens.weight.dtype

    def image_features(self, patches: Sequence[Patches]) -> ImageFeatures:
        """Run the vision tower over pictures of any sizes; none sees another.

        Args:
            patches: B pictures; gradients flow back to their values.
        """
        values = torch.cat([each.values.to(self.device, self.dtype) for each in patches])
        output = self.visual(values, grid_thw=self.preprocess.grid_tensor(patches, self.device), return_dict=True)
        counts = [each.tokens for each in patches]
        return ImageFeatures(
            tokens=tuple(output.pooler_output.split(counts)),
            deepstack=tuple(tuple(level.split(counts)) for level in output.deepstack_features),
            grids=tuple(each.merged_grid for each in patches),
        )

    def assemble(
        self, sequences: Sequence[Sequence[int]], features: ImageFeatures, *, side: str = "right"
    ) -> TokenBatch:
        """Embed sequences of tokens, put the image features in the placeholders' places, and pad.

        Args:
            sequences: B sequences of token ids.
            features: The pictures, in the order in which the placeholders of all sequences name them.
            side: Where padding goes, ``"right"`` or ``"left"``.
        """
        assert side in ("right", "left")
        longest = max(len(sequence) for sequence in sequences)
        ids = torch.full((len(sequences), longest), self.chat.pad)
        real = torch.zeros(ids.shape, dtype=torch.bool)
        for row, sequence in enumerate(sequences):
            place = slice(0, len(sequence)) if side == "right" else slice(longest - len(sequence), longest)
            ids[row, place] = torch.tensor(sequence)
            real[row, place] = True
        visual = ids == self.chat.image
        assert int(visual.sum()) == sum(len(tokens) for tokens in features.tokens), "placeholders and image tokens"
        ids, real, visual = (tensor.to(self.device) for tensor in (ids, real, visual))
        embeds = self.language_model.embed_tokens(ids)
        if features.tokens:
            embeds = embeds.masked_scatter(visual[..., None], torch.cat(features.tokens).to(embeds.dtype))
        deepstack = tuple(torch.cat(level) for level in features.deepstack) if features.tokens else ()
        return TokenBatch(embeds=embeds, real=real, visual=visual, deepstack=deepstack)

    def positions(self, sequence: Sequence[int], grids: Sequence[tuple[int, int]]) -> Tensor:
        """Return the standard M-RoPE positions of one sequence, int64 (3, T); see ``multimodal_positions``."""
        return multimodal_positions(sequence, grids, image_token_id=self.chat.image)

    def encode(self, batch: TokenBatch, positions: Tensor, mask: Tensor | None = None) -> Tensor:
        """Run the language model.

        Args:
            batch: B sequences of T tokens.
            positions: int64 (3, B, T): time, height and width of every token.
            mask: bool (B, 1, T, T), True where a query (third axis) may see a key (fourth). None is causal attention,
                which suits sequences padded on the right.

        Returns:
            (B, T, D): the hidden states after the final norm, in the backbone's type.
        """
        output = self.language_model(
            inputs_embeds=batch.embeds,
            position_ids=positions.to(self.device),
            attention_mask=None if mask is None else mask.to(self.device),
            visual_pos_masks=batch.visual if batch.deepstack else None,
            deepstack_visual_embeds=list(batch.deepstack) or None,
            use_cache=False,
        )
        hidden: Tensor = output.last_hidden_state
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Turn hidden states (…, D) into logits (…, vocabulary).

        Raises:
            ModelError: The backbone was loaded without its language head.
        """
        if self.lm_head is None:
            raise ModelError(f"{self.name} was loaded without its language head; load it with generative=True")
        logits: Tensor = self.lm_head(hidden)
        return logits


def multimodal_positions(
    sequence: Sequence[int], grids: Sequence[tuple[int, int]], *, image_token_id: int, start: int = 0
) -> Tensor:
    """Return M-RoPE positions (time, height, width): words count on, an image spreads over its grid.

    A word takes the next number on all three axes. Image token (row, column) takes (s, s + row, s + column) with s the
    next number; after the image, the next number is s + max(rows, columns).

    Args:
        sequence: T token ids; each run of ``image_token_id`` is one image.
        grids: (rows, columns) of the images in order.
        image_token_id: The placeholder of an image token.
        start: The number of the first token.

    Returns:
        int64 (3, T).

    Raises:
        ValueError: The runs and the grids do not match.

    Examples:
        >>> multimodal_positions([5, 0, 0, 6], [(1, 2)], image_token_id=0).tolist()
        [[0, 1, 1, 3], [0, 1, 1, 3], [0, 1, 2, 3]]
    """
    runs = [(visual, len(list(run))) for visual, run in groupby(sequence, lambda token: token == image_token_id)]
    lengths = [length for visual, length in runs if visual]
    if lengths != [rows * columns for rows, columns in grids]:
        raise ValueError(f"the sequence has images of {lengths} tokens, the grids are {list(grids)}")
    rest = iter(grids)
    parts = []
    for visual, length in runs:
        if visual:
            rows, columns = next(rest)
            steps = torch.arange(length)
            row, column = steps.div(columns, rounding_mode="floor"), steps % columns
            parts.append(torch.stack([torch.zeros_like(steps), row, column]) + start)
            start += max(rows, columns)
        else:
            parts.append((torch.arange(length) + start).expand(3, -1))
            start += length
    return torch.cat(parts, dim=1)
