"""Pictures that hardly anyone tells apart, kept out of questions that need pictures that differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apps.index_view import IndexView
from tpips_model.aspects import Aspect

__all__ = ["NEAR_DUPLICATE", "are_near_copies", "telling_aspects"]

# The cosine of overall vectors from which hardly anyone tells two pictures apart.
NEAR_DUPLICATE = 0.98


def telling_aspects(view: IndexView) -> list[str]:
    """Return the aspects by which pictures are told apart: overall, or all of an index that has none."""
    overall = [aspect for aspect in view.aspects if Aspect(aspect).is_overall]
    return overall or list(view.aspects)


def are_near_copies(vectors: Sequence[NDArray[np.float64]]) -> NDArray[np.bool_]:
    """Tell which pictures are near copies of which.

    Args:
        vectors: For every telling aspect float64 (N, D), unit rows.

    Returns:
        bool (N, N): whether two are as alike as near-duplicates by all of them; a picture is a near copy of itself.
    """
    alike = np.eye(len(vectors[0]), dtype=np.bool_)
    return np.asarray(alike | np.stack([one @ one.T >= NEAR_DUPLICATE for one in vectors]).all(axis=0))
