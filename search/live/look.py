"""How many items a query may embed under aspects that are not indexed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from search.terms import QueryError

__all__ = ["MAX_LOOKED_AT", "LiveLook", "as_look", "totals"]

# So many take a large model on one GPU minutes; who wants more of them wants the aspect indexed.
MAX_LOOKED_AT = 10_000
# The first are chosen without knowing anything of the words; each later batch by what those before it showed.
FIRST = 16
LEAST = 8
GROWTH = 4


def _unseen(done: int, total: int) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class LiveLook:
    """Leave to embed items under aspects that are not indexed, while the question is answered.

    Attributes:
        candidates: How many items at most, from 1 to 10,000.
        progress: Called with how many have been looked at, and how many will be; an exception ends the query.

    Raises:
        QueryError: ``candidates`` is out of its range, or ``progress`` cannot be called.
    """

    candidates: int
    progress: Callable[[int, int], None] = _unseen

    def __post_init__(self) -> None:
        try:
            number = operator.index(self.candidates)
        except TypeError:
            number = 0
        if isinstance(self.candidates, bool) or not 1 <= number <= MAX_LOOKED_AT:
            raise QueryError(
                f"live must be how many items are embedded for the question, a whole number from 1 to "
                f"{MAX_LOOKED_AT:,}, not {self.candidates!r}"
            )
        if not callable(self.progress):
            raise QueryError(f"progress must be a function of two numbers, done and total, not {self.progress!r}")
        object.__setattr__(self, "candidates", number)


def as_look(live: int | LiveLook | None) -> LiveLook | None:
    """Return what a query's argument ``live`` allows.

    Raises:
        QueryError: It is no number of items in its range.
    """
    return live if live is None or isinstance(live, LiveLook) else LiveLook(live)


def totals(candidates: int) -> Iterator[int]:
    """Yield how many items have been chosen after each batch.

    A larger number of candidates begins with the same batches, so that looking further costs only what is new.

    >>> list(totals(64))
    [16, 24, 32, 40, 50, 62, 64]
    """
    total = FIRST
    while total < candidates:
        yield total
        total += max(LEAST, total // GROWTH)
    yield candidates
