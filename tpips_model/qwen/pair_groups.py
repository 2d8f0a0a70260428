"""Pairs in groups whose images fit in memory together, and which images of them are one and the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from PIL import Image

__all__ = ["Opened", "PairGroup", "group_pairs", "image_size", "same_pixels"]

# What Preprocessor.opened returns.
Opened = torch.Tensor | Image.Image


@dataclass(frozen=True)
class PairGroup:
    """Consecutive pairs and the images they need.

    Attributes:
        members: The images, as indices into all images, each once.
        left: For each pair the index of its first image among ``members``.
        right: For each pair the index of its second image among ``members``.
    """

    members: tuple[int, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]


def image_size(image: Opened) -> tuple[int, int]:
    """Return (height, width) in pixels."""
    if isinstance(image, torch.Tensor):
        return int(image.shape[-2]), int(image.shape[-1])
    return image.height, image.width


def same_pixels(a: Opened, b: Opened) -> bool:
    """Return whether two opened images are of one kind and hold the same pixels."""
    if image_size(a) != image_size(b):
        return False
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a is b or bool(torch.equal(a, b.to(a.device, a.dtype)))
    if isinstance(a, Image.Image) and isinstance(b, Image.Image):
        return a is b or a.tobytes() == b.tobytes()
    return False


def group_pairs(
    left: Sequence[int], right: Sequence[int], lengths: Sequence[int], *, max_tokens: int
) -> list[PairGroup]:
    """Split pairs, in their order, into groups whose images together have at most ``max_tokens`` tokens.

    An image that several pairs of a group share is counted, and read, once. A pair over the bound stands alone.

    Args:
        left: For each of P pairs the index of its first image.
        right: For each of P pairs the index of its second image.
        lengths: For each of N images its number of tokens.
        max_tokens: The bound.

    Examples:
        >>> [group.members for group in group_pairs([0, 0, 0], [1, 2, 3], [4, 4, 4, 4], max_tokens=12)]
        [(0, 1, 2), (0, 3)]
    """
    groups: list[PairGroup] = []
    members: dict[int, int] = {}
    pairs: list[tuple[int, int]] = []
    for pair in zip(left, right, strict=True):
        with_pair = dict.fromkeys((*members, *pair))
        if pairs and sum(lengths[image] for image in with_pair) > max_tokens:
            groups.append(_group(members, pairs))
            members, pairs = {}, []
        for image in pair:
            members.setdefault(image, len(members))
        pairs.append(pair)
    return [*groups, _group(members, pairs)]


def _group(members: dict[int, int], pairs: Sequence[tuple[int, int]]) -> PairGroup:
    return PairGroup(
        tuple(members), tuple(members[first] for first, _ in pairs), tuple(members[second] for _, second in pairs)
    )
