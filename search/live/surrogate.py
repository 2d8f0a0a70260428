"""A stand-in for an aspect that is not indexed: the query over indexed aspects that foretells its scores best."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_LEARNT_FROM", "SHRINKAGE", "surrogate", "telling"]

# Chosen by ``python -m benchmarks.live``; anything from .03 to .3 finds about as much (benchmarks/README.md).
SHRINKAGE = 0.1
# The work grows with the cube of their number, and what more of them teach is little.
MAX_LEARNT_FROM = 2048


def telling(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return which of many items to learn from: the best, and as many of the others, evenly spaced by their scores.

    Args:
        scores: float64 (n,).

    Returns:
        int64 (min(n, ``MAX_LEARNT_FROM``),), ascending.

    Examples:
        >>> telling(np.array([0.1, 0.9, 0.5])).tolist()
        [0, 1, 2]
    """
    if len(scores) <= MAX_LEARNT_FROM:
        return np.arange(len(scores))
    order = np.argsort(-scores, kind="stable")
    half = MAX_LEARNT_FROM // 2
    others = np.linspace(half, len(order) - 1, MAX_LEARNT_FROM - half).astype(np.int64)
    return np.sort(order[np.concatenate([np.arange(half), others])])


def surrogate(vectors: NDArray[np.float64], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the linear function of items' vectors that foretells scores of theirs, by ridge regression.

    A linear function of the vectors under several aspects, side by side, is what the engine ranks by: it is a query.
    The constant that belongs to it moves no rank, and is left out.

    Args:
        vectors: float64 (n, W), n ≥ 1: items whose scores are known, their vectors under all aspects side by side.
        scores: float64 (n,).

    Returns:
        float64 (W,); zero where the scores are all equal, or the vectors are.

    Examples:
        >>> found = surrogate(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0.9, 0.1]))
        >>> bool(found[0] > 0 > found[1])
        True
    """
    centred = vectors - vectors.mean(axis=0)
    products = centred @ centred.T
    spread = float(np.trace(products)) / len(products)
    if spread == 0.0:
        return np.zeros(vectors.shape[1])
    # Few items and many dimensions: solved for a weight an item, not a weight a dimension.
    products.flat[:: len(products) + 1] += SHRINKAGE * spread
    weights = np.linalg.solve(products, scores - scores.mean())
    found: NDArray[np.float64] = centred.T @ weights
    return found
