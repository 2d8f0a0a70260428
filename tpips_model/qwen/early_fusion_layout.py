"""Early fusion's attention mask and positions (Appendix C.2), as pure functions.

A sequence is aspect text and markup, the patches of image a, the patches of image b, and two registers::

    <|im_start|>user\\n{prompt}
    <|vision_start|> a … <|vision_end|><|vision_start|> b … <|vision_end|><|im_end|>\\n r_a r_b

The mask and the positions treat a and b alike, which makes the similarity symmetric and a picture's similarity to
itself 1, whatever the weights are.

Where the paper and the authors' release differ, this follows the release: every token that is no patch counts as
text, the markup between and after the images included; patch coordinates count the patches before merging, so they
are 0, 2, 4, …; a register also attends to itself. Images may have different numbers of patches (the paper assumes
equal ones).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from itertools import groupby

import torch

__all__ = ["Segment", "attention_mask", "left_padded", "position_ids", "token_segments"]


class Segment(IntEnum):
    """What a token of the sequence is."""

    PADDING = 0
    TEXT = 1
    IMAGE_A = 2
    IMAGE_B = 3
    REGISTER_A = 4
    REGISTER_B = 5


def token_segments(token_ids: Sequence[int], image_token_id: int) -> list[int]:
    """Return the segment of every token of one sequence, the two registers appended.

    Args:
        token_ids: T − 2 tokens in which two runs of ``image_token_id`` stand for the patches of a and of b.
        image_token_id: The placeholder of a patch.

    Returns:
        T segments.

    Raises:
        ValueError: There are not exactly two runs of placeholders.

    Examples:
        >>> token_segments([7, 0, 0, 8, 7, 0, 8], image_token_id=0)
        [1, 2, 2, 1, 1, 3, 1, 4, 5]
    """
    runs = [(is_patch, len(list(run))) for is_patch, run in groupby(token_ids, lambda token: token == image_token_id)]
    images = [length for is_patch, length in runs if is_patch]
    if len(images) != 2:
        raise ValueError(f"early fusion takes two images, but the sequence holds {len(images)} runs of patches")
    patches = iter((Segment.IMAGE_A, Segment.IMAGE_B))
    segments = [
        int(segment) for is_patch, length in runs for segment in [next(patches) if is_patch else Segment.TEXT] * length
    ]
    return [*segments, int(Segment.REGISTER_A), int(Segment.REGISTER_B)]


def left_padded(rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Pad rows of segments on the left, so that the registers are the last two columns.

    Returns:
        int64 (B, T), T the length of the longest row.
    """
    width = max(len(row) for row in rows)
    return torch.tensor([[int(Segment.PADDING)] * (width - len(row)) + list(row) for row in rows])


def attention_mask(segments: torch.Tensor) -> torch.Tensor:
    """Return which token may attend to which (the three rules of Appendix C.2).

    Text attends to text before it and to itself; patches attend to all text and to the patches of both images;
    register a attends to all text, the patches of a and itself, register b likewise. Padding attends to itself alone,
    so that no row of the softmax is empty, and nothing attends to it.

    Args:
        segments: int64 (B, T).

    Returns:
        bool (B, 1, T, T): True where the query (third axis) may see the key (fourth); for scaled_dot_product_attention.
    """
    query, key = segments[:, :, None], segments[:, None, :]
    steps = torch.arange(segments.shape[1], device=segments.device)
    before = (steps[:, None] >= steps[None, :])[None]
    text_key, a_key, b_key = key == Segment.TEXT, key == Segment.IMAGE_A, key == Segment.IMAGE_B
    patch_query = (query == Segment.IMAGE_A) | (query == Segment.IMAGE_B)
    allowed = (query == Segment.TEXT) & text_key & before
    allowed |= patch_query & (text_key | a_key | b_key)
    allowed |= (query == Segment.REGISTER_A) & (text_key | a_key)
    allowed |= (query == Segment.REGISTER_B) & (text_key | b_key)
    # Registers see themselves (release), padding only itself; text and patches do already.
    allowed |= (steps[:, None] == steps[None, :])[None]
    return allowed[:, None]


def position_ids(
    segments: torch.Tensor, patch_columns_a: torch.Tensor, patch_columns_b: torch.Tensor, *, merge_size: int = 2
) -> torch.Tensor:
    """Return the M-RoPE positions (time, height, width) of every token.

    Text: (t, 0, 0) with t = 1, 2, … in sequence order. Patches of either image: (0, h, w), h and w = 0, 2, 4, …
    Registers: (t, 0, 0) with t one more than the largest before them. Padding: zeros.

    Args:
        segments: int64 (B, T).
        patch_columns_a: int64 (B,): how many merged patches stand in one line of image a.
        patch_columns_b: int64 (B,): the same of image b.
        merge_size: Patches merged along each side, the step between coordinates.

    Returns:
        int64 (3, B, T).
    """
    text = segments == Segment.TEXT
    registers = segments >= Segment.REGISTER_A
    time = text.cumsum(1) * text + (text.sum(1, keepdim=True) + 1) * registers
    height, width = torch.zeros_like(segments), torch.zeros_like(segments)
    for image, columns in ((Segment.IMAGE_A, patch_columns_a), (Segment.IMAGE_B, patch_columns_b)):
        patch = segments == image
        index = patch.cumsum(1) - 1
        height = torch.where(patch, index // columns[:, None] * merge_size, height)
        width = torch.where(patch, index % columns[:, None] * merge_size, width)
    return torch.stack([time, height, width])
