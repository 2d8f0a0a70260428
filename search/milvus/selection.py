"""Selections in a Milvus collection: a filter as a boolean expression, and how many items it lets through."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from search.milvus.connection import MAX_HITS, ROW, MilvusConnection
from search.milvus.facts import CollectionFacts
from search.selection import Where
from search.terms import QueryError

if TYPE_CHECKING:
    from search.milvus.filter import MilvusFilterLanguage

__all__ = ["MilvusRows", "MilvusSelection", "MilvusSelections"]

MAX_KEPT = 256
# How many stretches of the collection a sample of a large selection comes from.
STRETCHES = 32


@dataclass(frozen=True)
class MilvusRows:
    """The rows that an expression is true for, and how many they are; the rows themselves stay with Milvus."""

    expression: str
    count: int


@dataclass(frozen=True, eq=False)
class MilvusSelection:
    """The items that a query chooses from, as ``Selection`` describes them.

    Attributes:
        where: What selects them, in words; ``None`` if nothing does.
        rows: Which they are; ``None`` means all.
        count: How many they are.
    """

    where: str | None
    rows: MilvusRows | None
    count: int
    connection: MilvusConnection
    total: int

    def spread(self, most: int) -> NDArray[np.int64]:
        """Return at most this many of the rows, evenly spaced, or of a large selection from stretches that are."""
        places = np.unique(np.linspace(0, max(self.count - 1, 0), min(self.count, most)).astype(np.int64))
        if self.rows is None:
            return places
        if self.count <= MAX_HITS:
            return self._between(0, self.total, MAX_HITS)[places]
        cuts = np.linspace(0, self.total, STRETCHES + 1).astype(np.int64).tolist()
        return np.concatenate([self._between(start, stop, most // STRETCHES) for start, stop in pairwise(cuts)])

    def _between(self, start: int, stop: int, limit: int) -> NDArray[np.int64]:
        assert self.rows is not None
        test = f"{ROW} >= {start} and {ROW} < {stop} and {self.rows.expression}"
        return np.sort(np.array([int(record[ROW]) for record in self.connection.rows(test, [], limit=limit)], np.int64))


class MilvusSelections:
    """Turns filters into selections, and keeps the latest; several threads may ask at once.

    Args:
        connection: The collection.
        facts: What it says of itself.
    """

    def __init__(self, connection: MilvusConnection, facts: CollectionFacts) -> None:
        self._connection = connection
        self._count = facts.count
        self._facts = facts
        self._kept: OrderedDict[str, MilvusSelection] = OrderedDict()
        self._lock = threading.Lock()

    @cached_property
    def _language(self) -> MilvusFilterLanguage:
        from search.milvus.filter import MilvusFilterLanguage

        return MilvusFilterLanguage(self._facts.columns, self._facts.schema)

    def of(self, where: Where | None) -> MilvusSelection:
        """Return the selection.

        Args:
            where: A filter as ``search.filter_language`` reads it, or ``None`` for all items.

        Raises:
            QueryError: It is no text, cannot be read, or says what Milvus cannot evaluate.
            MilvusError: Milvus cannot be reached.
        """
        if where is None:
            return MilvusSelection(None, None, self._count, self._connection, self._count)
        if not isinstance(where, str):
            raise QueryError(
                f"a Milvus collection is filtered by text such as 'year >= 1900', not by {type(where).__name__}; "
                "pyarrow expressions are for index directories"
            )
        with self._lock:
            kept = self._kept.get(where)
        if kept is not None:
            return kept
        expression = self._language.expression(where)
        count = self._connection.count(expression)
        rows = None if count == self._count else MilvusRows(expression, count)
        selection = MilvusSelection(where, rows, count, self._connection, self._count)
        with self._lock:
            self._kept[where] = selection
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return selection
