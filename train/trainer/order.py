"""Which examples make up which update: a pure function of data, seed and step, so that a run can go on anywhere."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from train.judgements.records import Judgement
from train.trainer.config import TrainingConfig
from train.trainer.errors import TrainingError

__all__ = ["ExampleOrder", "MicroBatch", "dealt", "fingerprint", "grouped_by_item"]


@dataclass(frozen=True)
class MicroBatch:
    """Examples that go through the model together: one item under some of its aspects.

    Attributes:
        judgements: n examples of the same pictures and kind.
        seed: Of all that is drawn at random while they are computed, so that nothing depends on what came before.
        weight: What an example's loss counts for in the update: 1 / examples of the update, or 0 for a repeat that
            only keeps a process in step with the others.
    """

    judgements: tuple[Judgement, ...]
    seed: int
    weight: float


class ExampleOrder:
    """The examples of every update.

    With ``aspects_per_step = 1`` an epoch is a random permutation of all examples. Otherwise it is one of groups: up to
    so many aspects of one item, drawn anew every epoch. Epochs follow one another without a gap, and an update takes
    the next ``effective_batch`` examples, so that a group may be cut by the end of an update.

    Args:
        judgements: All examples of the data.
        config: Its batch, seed, epochs or steps, share of the data.

    Attributes:
        judgements: The examples that are used.
        examples: How many the run takes in, repeats by epoch counted.
        steps: Updates.

    Raises:
        TrainingError: There is nothing to train on.
    """

    def __init__(self, judgements: Sequence[Judgement], config: TrainingConfig) -> None:
        self._config = config
        self.judgements = _share_of_items(judgements, config.data_fraction, config.seed)
        if not self.judgements:
            raise TrainingError("the data holds no judgement to train on; give at least one item with an aspect")
        if config.steps is None:
            self.examples = max(round(config.epochs * len(self.judgements)), 1)
            self.steps = math.ceil(self.examples / config.effective_batch)
        else:
            self.steps = config.steps
            self.examples = self.steps * config.effective_batch
        self._items = _item_numbers(self.judgements)
        self._epoch = lru_cache(maxsize=2)(self._drawn_epoch)

    def __len__(self) -> int:
        return self.steps

    def update(self, step: int) -> list[MicroBatch]:
        """Return what update ``step`` (from 0) is computed from.

        Raises:
            IndexError: The run has no such update.
        """
        if not 0 <= step < self.steps:
            raise IndexError(f"the run has {self.steps} updates, and none of number {step}")
        batch = self._config.effective_batch
        places = range(step * batch, min((step + 1) * batch, self.examples))
        total = len(self.judgements)
        # (epoch, group) and the example, in order
        drawn = [(place // total, *self._epoch(place // total)[:, place % total].tolist()) for place in places]
        most = self._config.aspects_per_step or total
        cuts: list[list[int]] = []
        previous: tuple[int, int] | None = None
        for epoch, group, example in drawn:
            if previous == (epoch, group) and len(cuts[-1]) < most:
                cuts[-1].append(example)
            else:
                cuts.append([example])
            previous = epoch, group
        return [
            MicroBatch(tuple(self.judgements[example] for example in cut), self._seed(step, number), 1.0 / len(places))
            for number, cut in enumerate(cuts)
        ]

    def _seed(self, step: int, number: int) -> int:
        return int(np.random.SeedSequence([self._config.seed, step, number]).generate_state(1, np.uint64)[0])

    def _drawn_epoch(self, epoch: int) -> NDArray[np.int64]:
        """int64 (2, N): the groups and the examples of an epoch, in order."""
        rng = np.random.default_rng([self._config.seed, 0, epoch])
        count, size = len(self.judgements), self._config.aspects_per_step
        if size == 1:
            return np.stack([np.arange(count), rng.permutation(count)])
        within = rng.random(count)
        order = np.lexsort((within, self._items))
        items = self._items[order]
        begins = np.flatnonzero(np.r_[True, items[1:] != items[:-1]])
        rank = np.arange(count) - np.repeat(begins, np.diff(np.r_[begins, count]))
        starts = (rank == 0) if size == 0 else (rank % size == 0)
        groups = starts.cumsum() - 1
        place = rng.permutation(int(groups[-1]) + 1)[groups]
        sorting = np.argsort(place, kind="stable")
        return np.stack([place[sorting], order[sorting]])


def dealt(batches: Sequence[MicroBatch], process: int, processes: int) -> list[MicroBatch]:
    """Return one process's share: every so-many-th, filled up with repeats of weight 0 to equal numbers.

    All processes must run the model equally often, since it waits for the others while it runs.
    """
    rounds = math.ceil(len(batches) / processes)
    filled = [*batches, *(replace(batches[0], weight=0.0) for _ in range(rounds * processes - len(batches)))]
    return filled[process::processes]


def grouped_by_item(judgements: Iterable[Judgement], most: int) -> list[MicroBatch]:
    """Return judgements in micro-batches of one item and at most ``most`` aspects, for validation."""
    groups: dict[tuple[object, ...], list[Judgement]] = {}
    for judgement in judgements:
        groups.setdefault((judgement.item, judgement.pictures, judgement.kind), []).append(judgement)
    return [
        MicroBatch(tuple(group[start : start + most]), seed=0, weight=1.0)
        for group in groups.values()
        for start in range(0, len(group), most)
    ]


def fingerprint(judgements: Iterable[Judgement]) -> str:
    """Return a short name for exactly these judgements in this order; pictures count by their keys."""
    digest = hashlib.sha256()
    for one in judgements:
        facts = (one.item, [picture.key for picture in one.pictures], one.aspect.text, one.votes)
        digest.update(repr(facts).encode())
    return digest.hexdigest()[:32]


def _share_of_items(judgements: Sequence[Judgement], share: float, seed: int) -> tuple[Judgement, ...]:
    if share >= 1 or not judgements:
        return tuple(judgements)
    numbers = _item_numbers(judgements)
    count = int(numbers.max()) + 1
    kept = np.zeros(count, dtype=bool)
    kept[np.random.default_rng([seed, 1]).permutation(count)[: max(round(share * count), 1)]] = True
    return tuple(one for one, number in zip(judgements, numbers, strict=True) if kept[number])


def _item_numbers(judgements: Sequence[Judgement]) -> NDArray[np.int64]:
    """int64 (N,): equal for judgements of the same pictures and kind, counted in order of appearance."""
    numbers: dict[tuple[object, ...], int] = {}
    return np.array(
        [numbers.setdefault((one.item, one.pictures, one.kind), len(numbers)) for one in judgements], dtype=np.int64
    )
