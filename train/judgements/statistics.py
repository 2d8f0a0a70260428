"""How much a set of judgements holds, counted as Table 1 counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from train.agreement import Estimate, estimate, human_consensus
from train.judgements.records import Judgement, JudgementSet, Kind, PictureSource

__all__ = ["SubsetCounts", "count_judgements"]


@dataclass(frozen=True)
class SubsetCounts:
    """One row of Table 1, and a little more.

    Attributes:
        kind: Odd-one-out or 2AFC.
        subset: Its name; None for all of the kind.
        items: "Triplet".
        judgements: "Triplet-Aspect".
        aspects: How many different aspects.
        votes: "Human vote": valid votes, or None where a judgement does not say how many it rests on.
        pictures: How many different pictures.
        consensus: Human consensus over the judgements (section 5).
    """

    kind: Kind
    subset: str | None
    items: int
    judgements: int
    aspects: int
    votes: int | None
    pictures: int
    consensus: Estimate


def count_judgements(found: JudgementSet) -> list[SubsetCounts]:
    """Count each subset in its first order, then all of the kind if there are several; one kind after the other."""
    rows: list[SubsetCounts] = []
    by_kind: dict[Kind, dict[str, list[Judgement]]] = {}
    for judgement in found.judgements:
        by_kind.setdefault(judgement.kind, {}).setdefault(judgement.subset, []).append(judgement)
    for kind, subsets in by_kind.items():
        rows += [_counts(kind, subset, held) for subset, held in subsets.items()]
        if len(subsets) > 1:
            rows.append(_counts(kind, None, [judgement for held in subsets.values() for judgement in held]))
    return rows


def _counts(kind: Kind, subset: str | None, held: Sequence[Judgement]) -> SubsetCounts:
    raters = [judgement.raters for judgement in held]
    pictures: set[PictureSource] = set()
    for judgement in held:
        pictures.update(judgement.pictures)
    return SubsetCounts(
        kind=kind,
        subset=subset,
        items=len({(judgement.subset, judgement.item) for judgement in held}),
        judgements=len(held),
        aspects=len({aspect.slug for aspect in {judgement.aspect for judgement in held}}),
        votes=None if None in raters else sum(count or 0 for count in raters),
        pictures=len(pictures),
        consensus=estimate(human_consensus([judgement.votes for judgement in held])),
    )
