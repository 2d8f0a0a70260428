"""One prefix, many suffixes: the language model over [prefix] once and over each suffix after it.

Late fusion's sequence is [system turn][image][words of the aspect][opening of the answer], and attention is causal:
what comes before the words is the same for every aspect. Block by block, the prefix goes through first and leaves its
keys and values; then all suffixes, laid one after another in one row, go through the same block, each attending to
the prefix and to itself. Nothing is kept beyond a block, so memory does not grow with depth, and gradients flow.

Sequences are padded on the right, so the prefix needs no mask (causal attention never reaches the padding from real
tokens); the suffixes' mask hides the padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tpips_model.errors import ModelError
from tpips_model.qwen.backbone import Backbone, TokenBatch

__all__ = ["SuffixRow", "pack_suffixes", "shared_prefix_states", "suffix_mask"]

# Longer rows of suffixes are cut: attention within a row grows with the square of its length.
MAX_ROW_TOKENS = 1024


@dataclass(frozen=True)
class SuffixRow:
    """Some suffixes laid one after another.

    Attributes:
        ids: int64 (S,): their tokens.
        block: int64 (S,): which suffix of the row a token belongs to.
        offset: int64 (S,): its place within its suffix.
    """

    ids: Tensor
    block: Tensor
    offset: Tensor

    @property
    def last(self) -> Tensor:
        """int64 (suffixes,): where each suffix ends."""
        return torch.bincount(self.block).cumsum(0) - 1

    def to(self, device: torch.device) -> SuffixRow:
        """Return the row on a device."""
        return SuffixRow(self.ids.to(device), self.block.to(device), self.offset.to(device))


def pack_suffixes(suffixes: Sequence[Sequence[int]], *, max_tokens: int = MAX_ROW_TOKENS) -> list[SuffixRow]:
    """Lay suffixes in order into rows of at most ``max_tokens`` tokens (a longer suffix is a row of its own).

    >>> [row.block.tolist() for row in pack_suffixes([[7, 8], [9], [5, 6]], max_tokens=3)]
    [[0, 0, 1], [0, 0]]
    """
    rows: list[list[Sequence[int]]] = []
    for suffix in suffixes:
        if rows and sum(map(len, rows[-1])) + len(suffix) <= max_tokens:
            rows[-1].append(suffix)
        else:
            rows.append([suffix])
    return [
        SuffixRow(
            ids=torch.tensor([token for suffix in row for token in suffix]),
            block=torch.tensor([index for index, suffix in enumerate(row) for _ in suffix]),
            offset=torch.tensor([place for suffix in row for place in range(len(suffix))]),
        )
        for row in rows
    ]


def suffix_mask(block: Tensor, real: Tensor) -> Tensor:
    """Return which token a suffix token may attend to: the real prefix, and its own suffix up to itself.

    Args:
        block: int64 (S,): which suffix each token of the row belongs to.
        real: bool (B, P): which prefix tokens are no padding.

    Returns:
        bool (B, 1, S, P + S).

    Examples:
        >>> suffix_mask(torch.tensor([0, 0, 1]), torch.tensor([[True, False]]))[0, 0].int()
        tensor([[1, 0, 1, 0, 0],
                [1, 0, 1, 1, 0],
                [1, 0, 0, 0, 1]], dtype=torch.int32)
    """
    steps = torch.arange(len(block), device=block.device)
    own = (block[:, None] == block[None, :]) & (steps[:, None] >= steps[None, :])
    batch = len(real)
    to_prefix = real[:, None, :].expand(-1, len(block), -1)
    return torch.cat([to_prefix, own.expand(batch, -1, -1)], dim=-1)[:, None]


def shared_prefix_states(
    backbone: Backbone,
    prefix: TokenBatch,
    positions: Tensor,
    suffixes: Sequence[SuffixRow],
    *,
    pooling: str = "last_token",
    checkpointing: bool = False,
) -> Tensor:
    """Run B prefixes once and every suffix after each of them.

    Args:
        backbone: Its language model must use SDPA, as ``load_backbone`` loads it.
        prefix: B prefixes, padded on the right.
        positions: int64 (3, B, P): M-RoPE positions of the prefixes. A suffix counts on from the largest real one.
        suffixes: Rows of ``pack_suffixes``, A suffixes in all.
        pooling: ``"last_token"``: the state of each suffix's last token. ``"mean"``: the mean over all tokens of
            prefix and suffix.
        checkpointing: Keep only what goes into each block and compute the block anew in the backward pass: less
            memory in training, a third more time.

    Raises:
        ModelError: The library's own gradient checkpointing is on.

    Returns:
        (B, A, D): states after the final norm, in the backbone's type.
    """
    language = backbone.language_model
    positions = positions.to(backbone.device)
    rows = [row.to(backbone.device) for row in suffixes]
    start = positions.amax(0).masked_fill(~prefix.real, -1).amax(-1) + 1  # (B,)
    states = [prefix.embeds] + [language.embed_tokens(row.ids).expand(len(start), -1, -1) for row in rows]
    places = [positions] + [(start[:, None] + row.offset).expand(3, -1, -1) for row in rows]
    rotations = [language.rotary_emb(prefix.embeds, place) for place in places]
    masks = [None] + [suffix_mask(row.block, prefix.real) for row in rows]
    visual = prefix.visual.flatten().nonzero().squeeze(-1)
    for index, layer in enumerate(language.layers):
        features = prefix.deepstack[index] if index < len(prefix.deepstack) else None
        if checkpointing and torch.is_grad_enabled():
            states = checkpoint(_block, layer, rotations, masks, visual, features, *states, use_reentrant=False)
        else:
            states = _block(layer, rotations, masks, visual, features, *states)
    return _pooled(language.norm, states, rows, prefix.real, pooling)


class _PrefixKeys:
    """Stands in the place of the library's cache for one block: the prefix leaves its keys and values, a suffix row
    finds them before its own. Reading does not change it."""

    def __init__(self) -> None:
        self.kept: tuple[Tensor, Tensor] | None = None

    def update(self, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        if self.kept is None:
            self.kept = keys, values
            return keys, values
        return torch.cat([self.kept[0], keys], dim=2), torch.cat([self.kept[1], values], dim=2)


def _block(
    layer: Any,
    rotations: Sequence[tuple[Tensor, Tensor]],
    masks: Sequence[Tensor | None],
    visual: Tensor,
    features: Tensor | None,
    *states: Tensor,
) -> list[Tensor]:
    """Send the prefix, then every row of suffixes, through one block; deepstack features join the prefix only."""
    keys = _PrefixKeys()
    if layer.gradient_checkpointing and layer.training and torch.is_grad_enabled():
        raise ModelError(
            "the transformers library's gradient checkpointing drops the shared prefix's keys; switch it off and set "
            "checkpointing = True on the late-fusion model instead"
        )
    after = [
        layer(state, position_embeddings=rotation, attention_mask=mask, cache=keys)
        for state, rotation, mask in zip(states, rotations, masks, strict=True)
    ]
    if features is not None:
        flat = after[0].flatten(0, 1).index_add(0, visual, features.to(after[0].dtype))
        after[0] = flat.view_as(after[0])
    return after


def _pooled(norm: Any, states: Sequence[Tensor], rows: Sequence[SuffixRow], real: Tensor, pooling: str) -> Tensor:
    """Reduce the states of prefix and suffixes to one vector (B, A, D) for each suffix."""
    if pooling == "last_token":
        return norm(torch.cat([state[:, row.last] for state, row in zip(states[1:], rows, strict=True)], dim=1))
    assert pooling == "mean"
    before = (norm(states[0]) * real[..., None]).sum(1, keepdim=True)  # (B, 1, D)
    means = []
    for state, row in zip(states[1:], rows, strict=True):
        counts = torch.bincount(row.block)
        sums = state.new_zeros(state.shape[0], len(counts), state.shape[2]).index_add(1, row.block, norm(state))
        tokens = real.sum(1)[:, None] + counts
        means.append((before + sums) / tokens[..., None])
    return torch.cat(means, dim=1)
