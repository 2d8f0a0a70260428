"""Every model's scores for every item, each picture decoded once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tpips_model.errors import ModelError
from train.evaluation.items import Item, item_identity
from train.evaluation.judges import Judge
from train.evaluation.open_pictures import OpenItem, open_items
from train.evaluation.score_cache import ScoreCache, ScoreCacheError
from train.judgements.records import PAIRS

__all__ = ["ScoringConfig", "score_items"]

Scores = list[NDArray[np.float64] | None]


@dataclass(frozen=True)
class ScoringConfig:
    """How to go through the items.

    Attributes:
        cache: Folder in which each model's scores are kept, or None.
        batch: Items scored at a time.
        workers: Threads that decode pictures.
    """

    cache: Path | None = None
    batch: int = 16
    workers: int = 2


def score_items(
    judges: Sequence[Judge],
    items: Sequence[Item],
    config: ScoringConfig,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> dict[str, Scores]:
    """Ask every judge about every item of a kind that it answers.

    Args:
        judges: Of different names.
        items: What to ask about.
        config: See ``ScoringConfig``. With a cache, what an earlier run scored is taken from there.
        on_progress: Called with how many answers (a model's to an item) there are and their total; first with what
            the cache held.

    Returns:
        For each judge's name and each item float64 (A, C), None where the judge does not answer such items.

    Raises:
        ImageError: A picture cannot be read; what was scored before is in the cache.
        ModelError: A model gave a score that is not a number.
        ScoreCacheError: A file of the cache is none of ours.
    """
    identities = [item_identity(item) for item in items] if config.cache is not None else []
    ledgers = [_Ledger(judge, items, _cache(config, judge), identities) for judge in judges]
    done = sum(ledger.held for ledger in ledgers)
    total = done + sum(len(ledger.missing) for ledger in ledgers)
    if on_progress:
        on_progress(done, total)
    wanted = sorted({number for ledger in ledgers for number in ledger.missing})
    batches = open_items([items[number] for number in wanted], batch=config.batch, workers=config.workers)
    for place, opened in enumerate(batches):
        numbers = wanted[place * config.batch :][: config.batch]
        for ledger in ledgers:
            done += ledger.score(dict(zip(numbers, opened, strict=True)))
        if on_progress:
            on_progress(done, total)
    return {ledger.judge.name: ledger.scores for ledger in ledgers}


def _cache(config: ScoringConfig, judge: Judge) -> ScoreCache | None:
    if config.cache is None:
        return None
    return ScoreCache(config.cache, name=judge.name, fingerprint=judge.fingerprint)


class _Ledger:
    """What one judge has answered, and what it has yet to.

    Attributes:
        scores: One entry an item.
        missing: The items yet to be scored.
        held: How many were in the cache.
    """

    def __init__(self, judge: Judge, items: Sequence[Item], cache: ScoreCache | None, identities: list[str]) -> None:
        self.judge = judge
        self.scores: Scores = [None] * len(items)
        self.missing: set[int] = set()
        self.held = 0
        self._cache = cache
        self._identities = identities
        for number, item in enumerate(items):
            if item.kind not in judge.kinds:
                continue
            known = cache.get(identities[number]) if cache is not None else None
            if known is None:
                self.missing.add(number)
            elif known.shape != (len(item.aspects), len(PAIRS[item.kind])):
                raise ScoreCacheError(f"{cache.path if cache else ''} holds scores of another shape; delete it")
            else:
                self.scores[number] = known
                self.held += 1

    def score(self, opened: Mapping[int, OpenItem]) -> int:
        """Score those of the opened items that are missing, and return how many."""
        numbers = [number for number in opened if number in self.missing]
        if not numbers:
            return 0
        found = self.judge.scores([opened[number] for number in numbers])
        for number, rows in zip(numbers, found, strict=True):
            if not np.isfinite(rows).all():
                raise ModelError(
                    f"{self.judge.name} gave a score that is not a finite number; load it in another dtype, such as "
                    "NAME?dtype=float32"
                )
            self.scores[number] = rows
        if self._cache is not None:
            self._cache.add({self._identities[number]: self.scores[number] for number in numbers})  # type: ignore[misc]
        self.missing.difference_update(numbers)
        return len(numbers)
