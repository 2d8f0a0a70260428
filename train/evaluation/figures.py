"""From scores to the paper's figures: agreement, human consensus, standard errors, and Figure 11's curve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from train.agreement import Estimate, agreement, estimate, human_consensus
from train.evaluation.items import Plan
from train.evaluation.scoring import Scores
from train.judgements.records import Judgement, JudgementSet, Kind

__all__ = ["Curve", "Figure", "Points", "agreement_points", "confidence_curve", "figures_by"]

# Vote shares are fractions of a few votes; sums of floats must not make two thresholds of one.
_SHARE_DIGITS = 6
# Five raters, some of whom could not tell, leave fewer confidences. Beyond that the shares are no votes of a few
# people but something continuous, and steps of a twentieth show as much.
MOST_THRESHOLDS = 20
_STEPS = 20


@dataclass(frozen=True)
class Points:
    """Every judgement of one kind in one data set, with what each model makes of it.

    Attributes:
        data: The data set's name.
        kind: Odd-one-out or 2AFC.
        subsets: N names, empty where there is none.
        aspects: N aspects' words, in one spelling each.
        confidence: float64 (N,), the share of raters who made the most frequent choice (Figure 11's τ).
        consensus: float64 (N,), Σ y² (section 5).
        agreement: For each model that answers such judgements float64 (N,), y at its choice (section 5).
    """

    data: str
    kind: Kind
    subsets: tuple[str, ...]
    aspects: tuple[str, ...]
    confidence: NDArray[np.float64]
    consensus: NDArray[np.float64]
    agreement: Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Figure:
    """The mean over a part of the points.

    Attributes:
        data: The data set's name.
        kind: Odd-one-out or 2AFC.
        part: The subset or the aspect; None for all.
        consensus: Human consensus ± standard error.
        majority: The agreement of always choosing as most raters did: no model can reach more. It lies above the
            consensus wherever people disagree, and so can a model's agreement.
        agreement: For each model agreement ± standard error.
    """

    data: str
    kind: Kind
    part: str | None
    consensus: Estimate
    majority: Estimate
    agreement: Mapping[str, Estimate]


@dataclass(frozen=True)
class Curve:
    """Agreement where people were at least so sure (Figure 11).

    Attributes:
        data: The data set's name.
        kind: Odd-one-out or 2AFC.
        thresholds: float64 (T,), τ ascending.
        counts: int64 (T,), how many points have a confidence of at least τ.
        consensus: float64 (T,), human consensus over them.
        agreement: For each model float64 (T,).
    """

    data: str
    kind: Kind
    thresholds: NDArray[np.float64]
    counts: NDArray[np.int64]
    consensus: NDArray[np.float64]
    agreement: Mapping[str, NDArray[np.float64]]


def agreement_points(sets: Sequence[JudgementSet], plan: Plan, scores: Mapping[str, Scores]) -> list[Points]:
    """Compare every model's choices with the votes.

    Args:
        sets: The data sets, whose judgements in a row the plan was made of.
        plan: See ``plan_items``.
        scores: For each model what ``score_items`` returned.

    Returns:
        One entry for each data set and kind that occurs in it.
    """
    points, first = [], 0
    spelling: dict[str, str] = {}  # "Color palette" and "color-palette" are one aspect
    for judgement_set in sets:
        for judgement in judgement_set.judgements:
            spelling.setdefault(judgement.aspect.slug, judgement.aspect.text)
    for judgement_set in sets:
        numbered = list(enumerate(judgement_set.judgements, start=first))
        first += len(numbered)
        kinds: tuple[Kind, ...] = ("odd-one-out", "2afc")
        for kind in kinds:
            some = [(number, judgement) for number, judgement in numbered if judgement.kind == kind]
            if some:
                points.append(_points(judgement_set.name, kind, some, spelling, plan, scores))
    return points


def _points(
    data: str,
    kind: Kind,
    some: Sequence[tuple[int, Judgement]],
    spelling: Mapping[str, str],
    plan: Plan,
    scores: Mapping[str, Scores],
) -> Points:
    votes = np.array([judgement.votes for _, judgement in some])
    agreements = {}
    for model, of_items in scores.items():
        rows = [
            None if (answers := of_items[plan.item_of[number]]) is None else answers[plan.aspect_of[number]]
            for number, _ in some
        ]
        if all(row is not None for row in rows):
            agreements[model] = agreement(np.array(rows), votes)
    return Points(
        data=data,
        kind=kind,
        subsets=tuple(judgement.subset for _, judgement in some),
        aspects=tuple(spelling[judgement.aspect.slug] for _, judgement in some),
        confidence=votes.max(axis=1),
        consensus=human_consensus(votes),
        agreement=agreements,
    )


def figures_by(points: Points, parts: Sequence[str] | None = None) -> list[Figure]:
    """Return the figure of every part, in the order of first appearance, or the one over all points.

    Args:
        points: The points.
        parts: ``points.subsets`` or ``points.aspects``; None for one figure over all.

    Examples:
        Section 3.2's 2AFC: four of five raters find the second candidate closer, and so does the model; two of three
        find the first one closer, and the model does not.

        >>> votes = np.array([[0.2, 0.8], [2 / 3, 1 / 3]])
        >>> points = Points("pairs", "2afc", ("", ""), ("pose", "light"), votes.max(1), human_consensus(votes),
        ...                 {"model": agreement([[0.1, 0.9], [0.3, 0.4]], votes)})
        >>> figure, = figures_by(points)
        >>> round(figure.agreement["model"].mean, 4), round(figure.consensus.mean, 4)
        (0.5667, 0.6178)
    """
    if parts is None:
        return [_figure(points, None, np.ones(len(points.consensus), dtype=bool))]
    names = np.array(parts, dtype=object)
    return [_figure(points, part, names == part) for part in dict.fromkeys(parts)]


def _figure(points: Points, part: str | None, chosen: NDArray[np.bool_]) -> Figure:
    return Figure(
        points.data,
        points.kind,
        part,
        estimate(points.consensus[chosen]),
        estimate(points.confidence[chosen]),
        {model: estimate(values[chosen]) for model, values in points.agreement.items()},
    )


def confidence_curve(points: Points) -> Curve:
    """Return agreement and consensus over the points at which people were at least so sure (Figure 11).

    The thresholds are the confidences that occur: with five raters, some of whom could not tell, 2/5, 1/2, 3/5, 2/3, …
    """
    confidence = points.confidence.round(_SHARE_DIGITS)
    thresholds = np.unique(confidence)
    if len(thresholds) > MOST_THRESHOLDS:
        steps = np.arange(_STEPS + 1) / _STEPS
        thresholds = steps[(steps >= thresholds[0]) & (steps <= thresholds[-1])]
    kept = [confidence >= threshold for threshold in thresholds]
    return Curve(
        data=points.data,
        kind=points.kind,
        thresholds=thresholds,
        counts=np.array([int(mask.sum()) for mask in kept]),
        consensus=_means(points.consensus, kept),
        agreement={model: _means(values, kept) for model, values in points.agreement.items()},
    )


def _means(values: NDArray[np.float64], kept: Iterable[NDArray[np.bool_]]) -> NDArray[np.float64]:
    return np.array([values[mask].mean() for mask in kept])
