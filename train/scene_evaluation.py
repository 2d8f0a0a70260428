"""Odd one out and retrieval on procedural pictures that no training run has seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from train.agreement import Estimate, estimate
from train.mini_dataset import FamilyData
from train.paraphrases import HELD_PARAPHRASES
from train.retrieval_views import View
from train.scenes import FACTORS, FAMILY_SIZE, VOCABULARY
from train.synthetic import ASPECTS, TRIPLETS

__all__ = ["Precision", "odd_one_out_accuracy", "query_rows", "ranked", "retrieval_precision"]

HITS = 10


@dataclass(frozen=True)
class Precision:
    """How many of a query's first ten hits share its value of a factor.

    Attributes:
        by_penalty: Overall penalty λ → the mean over queries, in [0, 1].
        chance: What hits drawn by lot would give, in [0, 1].
        queries: How many.
    """

    by_penalty: Mapping[float, float]
    chance: float
    queries: int


def odd_one_out_accuracy(view: View, data: FamilyData) -> dict[str, Estimate]:
    """Measure how often the model's odd one is the true one, for every aspect of the procedural families.

    Every aspect is asked in all of its words that training never sees. The standard error counts families, since the
    triplets of one family hang together.

    Args:
        view: Of the families' pictures.
        data: Families for evaluation.

    Returns:
        Aspect → estimate in [0, 1]; for an aspect that rests on several factors, a choice is right if no other has a
        higher target.
    """
    found: dict[str, Estimate] = {}
    for number, aspect in enumerate(ASPECTS):
        rows = np.flatnonzero(data.label_aspect == number)
        if not rows.size:
            continue
        vectors = view(HELD_PARAPHRASES[aspect])
        found[aspect] = estimate([_right(vectors, data, int(row)) for row in rows])
    return found


def _right(vectors: NDArray[np.float32], data: FamilyData, row: int) -> float:
    """The share of right choices among one family's usable triplets under one aspect, over all words."""
    start = int(data.label_family[row]) * FAMILY_SIZE
    members = vectors[start : start + FAMILY_SIZE].transpose(1, 0, 2)
    similarities = members @ members.transpose(0, 2, 1)
    first, second, third = TRIPLETS[data.usable[row]].T
    scores = np.stack(
        [similarities[:, second, third], similarities[:, first, third], similarities[:, first, second]], 2
    )
    targets = data.targets[row][data.usable[row]]
    chosen = np.take_along_axis(targets[None], scores.argmax(2)[..., None], axis=2)
    return float((chosen[..., 0] >= targets.max(1) - 1e-6).mean())


def retrieval_precision(view: View, data: FamilyData, *, penalties: Sequence[float] = (0.0,)) -> dict[str, Precision]:
    """Measure retrieval by one aspect among the pictures of all other families.

    Args:
        view: Of the families' pictures.
        data: Families for evaluation.
        penalties: Overall penalties λ to try: score = f_aspect − λ·f_overall.

    Returns:
        Factor → precision. Queries are pictures in which the factor does something (blurred ones for "blur"); their
        own families are left out, lest siblings that share all else crowd the hits.
    """
    overall = view(["overall"])[:, 0]
    found: dict[str, Precision] = {}
    for factor in FACTORS:
        known, values = _known_values(data, factor)
        queries = query_rows(data, factor)
        if not queries.size:
            continue
        same = values[np.searchsorted(known, queries)][:, None] == values[None]
        outside = (queries // FAMILY_SIZE)[:, None] != (known // FAMILY_SIZE)[None]
        vectors = view(HELD_PARAPHRASES[factor][:1])[:, 0]
        by_penalty = {}
        for penalty in penalties:
            scores = vectors[queries] @ vectors[known].T - penalty * (overall[queries] @ overall[known].T)
            by_penalty[penalty] = float(np.take_along_axis(same, ranked(scores, outside), axis=1).mean())
        chance = float(((same & outside).sum(1) / outside.sum(1)).mean())
        found[factor] = Precision(by_penalty, chance, len(queries))
    return found


def query_rows(data: FamilyData, factor: str) -> NDArray[np.int64]:
    """Return one picture of every family that has one in which the factor does something."""
    neutral = str(VOCABULARY[factor].neutral)
    rows: dict[int, int] = {}
    for row, value in enumerate(data.values[factor]):
        if value is not None and value != neutral:
            rows.setdefault(row // FAMILY_SIZE, row)
    return np.array(list(rows.values()), np.int64)


def ranked(scores: NDArray[np.floating], allowed: NDArray[np.bool_], count: int = HITS) -> NDArray[np.int64]:
    """Return the columns of the highest allowed scores, best first, int64 (Q, count)."""
    return np.argsort(np.where(allowed, -scores, np.inf), axis=1, kind="stable")[:, :count]


def _known_values(data: FamilyData, factor: str) -> tuple[NDArray[np.int64], NDArray[np.str_]]:
    """Return the pictures that have the factor and their values; instances of a kind of scene count as one value."""
    known = [row for row, value in enumerate(data.values[factor]) if value is not None]
    return np.array(known, np.int64), np.array([str(data.values[factor][row]).split("/")[0] for row in known])
