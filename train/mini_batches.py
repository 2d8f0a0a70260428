"""Batches of triplets for the bundled model: within families, and across families that share a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from train.mini_dataset import FamilyData
from train.scenes import FACTORS, FAMILY_SIZE
from train.synthetic import ASPECTS, TRIPLETS

__all__ = ["BatchSampler", "BatchSizes", "TripletBatch"]

_SURE = (0.04, 0.04, 0.92)
# How often a batch starts from a composite aspect, compared with a factor.
_COMPOSITE_SHARE = 0.35


class BatchSizes(Protocol):
    """What a sampler needs of a training configuration (see MiniTrainingConfig)."""

    @property
    def seed(self) -> int: ...
    @property
    def labels_per_step(self) -> int: ...
    @property
    def aspects_per_family(self) -> int: ...
    @property
    def triplets_per_label(self) -> int: ...
    @property
    def cross_triplets(self) -> int: ...
    @property
    def cross_family_share(self) -> float: ...


@dataclass(frozen=True)
class TripletBatch:
    """Triplets and the questions asked of them.

    Attributes:
        pictures: int64 (P,), the pictures used, as rows of the features.
        values: int64 (P, factors), the number of each factor's value, −1 where there is none.
        questions: Q pairs of an aspect and the number of one of its paraphrases.
        row_question: int64 (R,); row r is one picture embedded under one question.
        row_picture: int64 (R,), into ``pictures``.
        triplets: int64 (T, 3), into the rows.
        targets: float32 (T, 3).
    """

    pictures: NDArray[np.int64]
    values: NDArray[np.int64]
    questions: list[tuple[str, int]]
    row_question: NDArray[np.int64]
    row_picture: NDArray[np.int64]
    triplets: NDArray[np.int64]
    targets: NDArray[np.float32]


class BatchSampler:
    """Draws batches from families, the same ones for the same seed.

    Args:
        data: The families.
        paraphrase_counts: Aspect → number of paraphrases.
        sizes: How large a batch is.
    """

    def __init__(self, data: FamilyData, paraphrase_counts: Mapping[str, int], sizes: BatchSizes) -> None:
        self._data = data
        self._paraphrases = paraphrase_counts
        self._sizes = sizes
        self._rng = np.random.default_rng([sizes.seed, 29])
        names = tuple(ASPECTS)
        self._labels_of = {name: np.flatnonzero(data.label_aspect == number) for number, name in enumerate(names)}
        cross = np.array([kind == "cross" for kind in data.kinds])[data.label_family]
        self._cross_labels_of = {name: labels[cross[labels]] for name, labels in self._labels_of.items()}
        self._asked = [name for name in names if len(self._labels_of[name]) and name in paraphrase_counts]
        share = np.array([1.0 if name in FACTORS else _COMPOSITE_SHARE for name in self._asked])
        self._shares = share / share.sum()
        self._names = names
        self._usable = [np.flatnonzero(row) for row in data.usable]
        self._family_labels: dict[int, list[int]] = {}
        for label, (number, aspect) in enumerate(zip(data.label_family.tolist(), data.label_aspect, strict=True)):
            if names[aspect] in paraphrase_counts:
                self._family_labels.setdefault(number, []).append(label)
        self._values, self.value_counts = _numbered(data)
        self._with_value = {
            name: _members(self._values[:, number]) for number, name in enumerate(FACTORS) if name in paraphrase_counts
        }
        self._holders = {
            name: {int(self._values[rows[0], FACTORS.index(name)]): rows for rows in groups}
            for name, groups in self._with_value.items()
        }
        self._varying = {name: _varying(self._values[:, FACTORS.index(name)]) for name in self._with_value}

    def batch(self) -> TripletBatch:
        """Draw the next batch."""
        sizes, rng = self._sizes, self._rng
        questions: list[tuple[str, int]] = []
        rows_question: list[NDArray[np.int64]] = []
        rows_picture: list[NDArray[np.int64]] = []
        triplets: list[NDArray[np.int64]] = []
        targets: list[NDArray[np.float32]] = []
        pictures: list[NDArray[np.int64]] = []
        count = 0
        for place, start in enumerate(self._start_labels()):
            family = int(self._data.label_family[start])
            pictures.append(family * FAMILY_SIZE + np.arange(FAMILY_SIZE))
            for label in self._labels_to_ask(start, family):
                usable = self._usable[label]
                taken = usable[rng.integers(len(usable), size=min(sizes.triplets_per_label, len(usable)))]
                rows_question.append(np.full(FAMILY_SIZE, len(questions)))
                rows_picture.append(place * FAMILY_SIZE + np.arange(FAMILY_SIZE))
                triplets.append(count + TRIPLETS[taken])
                targets.append(self._data.targets[label][taken])
                questions.append(self._question(self._names[int(self._data.label_aspect[label])]))
                count += FAMILY_SIZE
        used = len(pictures) * FAMILY_SIZE
        for aspect, members in self._cross():
            pictures.append(members)
            rows_question.append(np.full(3, len(questions)))
            rows_picture.append(used + np.arange(3))
            triplets.append(count + np.arange(3)[None])
            targets.append(np.array([_SURE], np.float32))
            questions.append(self._question(aspect))
            used += 3
            count += 3
        chosen = np.concatenate(pictures)
        return TripletBatch(
            pictures=chosen,
            values=self._values[chosen],
            questions=questions,
            row_question=np.concatenate(rows_question),
            row_picture=np.concatenate(rows_picture),
            triplets=np.concatenate(triplets),
            targets=np.concatenate(targets),
        )

    def _start_labels(self) -> list[int]:
        aspects = self._rng.choice(len(self._asked), self._sizes.labels_per_step, p=self._shares)
        crossing = self._rng.random(len(aspects)) < self._sizes.cross_family_share
        labels = []
        for number, cross in zip(aspects, crossing, strict=True):
            pool = self._cross_labels_of[self._asked[number]] if cross else ()
            pool = pool if len(pool) else self._labels_of[self._asked[number]]
            labels.append(int(pool[self._rng.integers(len(pool))]))
        return labels

    def _labels_to_ask(self, start: int, family: int) -> list[int]:
        others = [label for label in self._family_labels[family] if label != start]
        count = min(self._sizes.aspects_per_family - 1, len(others))
        return [start, *(int(label) for label in self._rng.choice(others, count, replace=False))] if count else [start]

    def _question(self, aspect: str) -> tuple[str, int]:
        return aspect, int(self._rng.integers(self._paraphrases[aspect]))

    def _cross(self) -> list[tuple[str, NDArray[np.int64]]]:
        """Two pictures that share a factor's value, and a third that has another.

        The third is a sibling of the first, like it in most else, as often as one from anywhere.
        """
        drawn: list[tuple[str, NDArray[np.int64]]] = []
        names = [name for name, members in self._with_value.items() if len(members) >= 2 and len(self._varying[name])]
        for turn, number in enumerate(self._rng.integers(len(names), size=self._sizes.cross_triplets if names else 0)):
            name = names[number]
            if turn % 2:
                groups = self._with_value[name]
                same, other = self._rng.choice(len(groups), 2, replace=False)
                members = np.array([*self._rng.choice(groups[same], 2), self._rng.choice(groups[other])])
            else:
                members = self._siblings(name)
            drawn.append((name, members))
        return drawn

    def _siblings(self, name: str) -> NDArray[np.int64]:
        values = self._values[:, FACTORS.index(name)]
        while True:
            varying = self._varying[name]
            family = varying[self._rng.integers(len(varying))]
            first, third = family * FAMILY_SIZE + self._rng.choice(FAMILY_SIZE, 2, replace=False)
            if values[first] == values[third]:
                continue
            alike = self._holders[name].get(int(values[first]), ())
            second = alike[self._rng.integers(len(alike))] if len(alike) else first
            if second // FAMILY_SIZE != family:
                return np.array([first, second, third])


def _numbered(data: FamilyData) -> tuple[NDArray[np.int64], dict[str, int]]:
    """Number every factor's values; a photograph's subject is its scene, whatever the variant."""
    columns = []
    counts: dict[str, int] = {}
    for name in FACTORS:
        words = [None if value is None else value.split("/")[0] for value in data.values[name]]
        known = {word: number for number, word in enumerate(sorted({word for word in words if word is not None}))}
        counts[name] = max(1, len(known))
        columns.append([-1 if word is None else known[word] for word in words])
    return np.array(columns, np.int64).T, counts


def _varying(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The families whose pictures all have the factor, in two values of which another family has one as well."""
    families = values.reshape(-1, FAMILY_SIZE)
    homes = [
        len(np.unique(np.flatnonzero(values == number) // FAMILY_SIZE)) for number in range(max(0, values.max()) + 1)
    ]
    shared = np.array([home >= 2 for home in homes])
    low, high = families.min(1), families.max(1)
    return np.flatnonzero((low >= 0) & (low < high) & (shared[low] | shared[high]))


def _members(values: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return [np.flatnonzero(values == number) for number in range(values.max() + 1) if (values == number).sum() >= 2]
