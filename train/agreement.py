"""How well a model agrees with people: agreement, human consensus and standard error (section 5 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Estimate", "agreement", "estimate", "human_consensus", "odd_one_out_choices", "two_afc_votes"]


@dataclass(frozen=True)
class Estimate:
    """A mean over a test set and how sure it is.

    Attributes:
        mean: The mean over all points.
        standard_error: The standard deviation over √N; NaN for a single point.
        count: N.
    """

    mean: float
    standard_error: float
    count: int


def estimate(values: ArrayLike) -> Estimate:
    """Return the mean of values and its standard error (the error bars of Figure 5 are two of them).

    Raises:
        ValueError: There are no values.

    Examples:
        >>> estimate([1.0, 0.0, 1.0, 0.0])
        Estimate(mean=0.5, standard_error=0.28867513459481287, count=4)
    """
    array = np.asarray(values, dtype=np.float64).ravel()
    if array.size == 0:
        raise ValueError("an estimate needs at least one value, but got none")
    # A sample's standard deviation, with N − 1: one point says nothing about its spread.
    spread = float(array.std(ddof=1)) if array.size > 1 else float("nan")
    return Estimate(float(array.mean()), spread / array.size**0.5, array.size)


def agreement(scores: ArrayLike, votes: ArrayLike) -> NDArray[np.float64]:
    """Return how probably a random rater chooses as the model does: y at the model's top choice (section 5).

    Args:
        scores: float (N, C): how strongly the model chooses each of C members; for an odd-one-out triplet (C = 3)
            entry k is the similarity of the two others, for 2AFC (C = 2) the similarity to the reference.
        votes: float (N, C), rows that sum to one: the share of raters who chose each member.

    Returns:
        float64 (N,) in [0, 1], one value a point, to be averaged by ``estimate``. A tie among the model's top choices
        counts as a choice among them by lot, so that a model that says nothing scores chance.

    Raises:
        ValueError: The shapes disagree, a score is NaN, or votes are no distribution.

    Examples:
        Four of five raters call the first image the odd one, and the model, which finds the other two most alike,
        agrees with them:

        >>> agreement([[0.9, 0.1, 0.2]], [[0.8, 0.2, 0.0]])
        array([0.8])
        >>> agreement([[0.5, 0.5]], [[1.0, 0.0]])
        array([0.5])
    """
    score, vote = np.asarray(scores, dtype=np.float64), _distribution(votes)
    if score.shape != vote.shape:
        raise ValueError(f"scores of shape {score.shape} do not fit votes of shape {vote.shape}")
    if np.isnan(score).any():
        raise ValueError(f"{int(np.isnan(score).any(axis=1).sum())} of {len(score)} points have a score that is NaN")
    top = score == score.max(axis=1, keepdims=True)
    return (vote * top).sum(axis=1) / top.sum(axis=1)


def human_consensus(votes: ArrayLike) -> NDArray[np.float64]:
    """Return Σ y², how probably two random raters choose alike: what the paper reports beside every agreement.

    Args:
        votes: float (N, C), rows that sum to one.

    Returns:
        float64 (N,) in [1 / C, 1].

    Examples:
        >>> human_consensus([[0.8, 0.2, 0.0], [1.0, 0.0, 0.0]]).round(2)
        array([0.68, 1.  ])
    """
    result: NDArray[np.float64] = np.square(_distribution(votes)).sum(axis=1)
    return result


def odd_one_out_choices(scores: ArrayLike) -> NDArray[np.int64]:
    """Return the member that a model calls the odd one: k̂ = argmax_k s̄_k.

    Args:
        scores: float (N, 3); entry k is s̄_k, the similarity of the two members other than k (section 4.1).

    Returns:
        int64 (N,), the first of several that tie.

    Examples:
        >>> odd_one_out_choices([[0.1, 0.7, 0.3]])
        array([1])
    """
    return np.asarray(scores, dtype=np.float64).argmax(axis=1)


def two_afc_votes(share_of_second: ArrayLike) -> NDArray[np.float64]:
    """Turn 2AFC's y, the share of raters who chose x₁ as closer to the reference (section 3.2), into votes (N, 2).

    Examples:
        >>> two_afc_votes([0.8]).round(2)
        array([[0.2, 0.8]])
    """
    second = np.asarray(share_of_second, dtype=np.float64)
    return _distribution(np.stack([1.0 - second, second], axis=1))


def _distribution(votes: ArrayLike) -> NDArray[np.float64]:
    vote = np.asarray(votes, dtype=np.float64)
    if vote.ndim != 2:
        raise ValueError(f"votes must have the shape (N, C), but have {vote.shape}")
    if not ((vote >= 0).all() and np.allclose(vote.sum(axis=1), 1.0, atol=1e-4)):
        raise ValueError('every row of votes must be shares that sum to one; drop the "can\'t tell" votes and divide')
    return vote
