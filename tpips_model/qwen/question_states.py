"""The hidden states at the end of a question about images, where an answer would begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.utils.rnn import pad_sequence

from tpips_model.qwen.backbone import Backbone, ImageFeatures
from tpips_model.qwen.batching import plan_batches

__all__ = ["Question", "states_at_end"]


@dataclass(frozen=True)
class Question:
    """A sequence of tokens and the images that stand at its placeholders.

    Attributes:
        tokens: T token ids.
        images: For each image of the sequence, in order, its index among the features.
    """

    tokens: list[int]
    images: tuple[int, ...]


def states_at_end(
    backbone: Backbone, questions: Sequence[Question], features: ImageFeatures, *, max_tokens: int, last: int = 1
) -> torch.Tensor:
    """Return the final hidden states of the last tokens of every sequence.

    Args:
        backbone: The model.
        questions: N sequences of any lengths.
        features: Of the images they name.
        max_tokens: Bound on a batch's tokens, padding included; a longer sequence goes alone.
        last: How many tokens from the end.

    Returns:
        The backbone's type, (N, last, D).
    """
    states: dict[int, torch.Tensor] = {}
    for batch in plan_batches([len(question.tokens) for question in questions], max_tokens):
        rows = [questions[index] for index in batch]
        used = features.select([image for row in rows for image in row.images])
        tokens = backbone.assemble([row.tokens for row in rows], used, side="right")
        grids = iter(used.grids)
        positions = [backbone.positions(row.tokens, [next(grids) for _ in row.images]).T for row in rows]
        # Padding stands at the end, where the causal mask hides it from everything that is read.
        hidden = backbone.encode(tokens, pad_sequence(positions, batch_first=True).permute(2, 0, 1), None)
        for row, index in enumerate(batch):
            length = len(questions[index].tokens)
            states[index] = hidden[row, length - last : length]
    return torch.stack([states[index] for index in range(len(questions))])
