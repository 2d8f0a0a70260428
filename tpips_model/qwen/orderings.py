"""Averaging over the orderings of images, against a model's preference for a place (Appendix C.1 and C.3)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import torch

__all__ = ["PAIR_ORDERINGS", "TRIPLET_ORDERINGS", "average_over_orderings", "random_orderings", "to_original_places"]

# An ordering says which original image stands in each place: (2, 0, 1) shows the third image first.
TRIPLET_ORDERINGS: tuple[tuple[int, ...], ...] = tuple(permutations(range(3)))
PAIR_ORDERINGS: tuple[tuple[int, ...], ...] = tuple(permutations(range(2)))


def random_orderings(n: int, places: int = 3, *, generator: torch.Generator | None = None) -> torch.Tensor:
    """Return n uniformly random orderings, int64 (n, places), for the augmentation in training."""
    return torch.rand(n, places, generator=generator, dtype=torch.float64).argsort(-1)


def to_original_places(scores: torch.Tensor, orderings: torch.Tensor) -> torch.Tensor:
    """Bring scores of places back to the images that stood there.

    Args:
        scores: floating point (…, K), one score per place.
        orderings: int64, broadcast to ``scores``: ``orderings[…, place]`` is the image shown in that place.

    Returns:
        (…, K), one score per image.

    Examples:
        >>> to_original_places(torch.tensor([0.5, 0.3, 0.2]), torch.tensor([2, 0, 1])).tolist() == \\
        ...     torch.tensor([0.3, 0.2, 0.5]).tolist()
        True
    """
    return scores.gather(-1, orderings.argsort(-1).expand_as(scores))


def average_over_orderings(probabilities: torch.Tensor, orderings: Sequence[Sequence[int]]) -> torch.Tensor:
    """Average distributions over places, each made with another ordering of the same images, as one over images.

    Args:
        probabilities: floating point (…, P, K): for each of P orderings a distribution over K places.
        orderings: P orderings of K images.

    Returns:
        (…, K), a distribution over the images in their original order.
    """
    return to_original_places(probabilities, torch.tensor(orderings, device=probabilities.device)).mean(-2)
