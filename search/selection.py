"""Selections: which items of an index a ``where`` lets through."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from search.items import Items
from search.terms import QueryError

if TYPE_CHECKING:
    from search.filter_language import FilterLanguage

__all__ = ["Selection", "Selections", "Where"]

Where: TypeAlias = "str | pc.Expression"

MAX_KEPT = 16
MAX_KEPT_BYTES = 256 << 20
# A name that no one would give to a metadata column; it is found again as the last one.
_ROW = "\0row"


@dataclass(frozen=True, eq=False)
class Selection:
    """The items that a query chooses from.

    Attributes:
        where: What selects them, in words; ``None`` if nothing does.
        rows: int64, ascending; ``None`` means all.
        count: How many they are.
    """

    where: str | None
    rows: NDArray[np.int64] | None
    count: int

    def spread(self, most: int) -> NDArray[np.int64]:
        """Return at most this many of the rows, evenly spaced."""
        places = np.unique(np.linspace(0, max(self.count - 1, 0), min(self.count, most)).astype(np.int64))
        return places if self.rows is None else self.rows[places]


class Selections:
    """Finds the rows that a ``where`` selects, reading no column that it does not name, and keeps the latest few.

    Several threads may ask at once.

    Args:
        items: The items of an index.
        live: int64, ascending: the rows of those that are not removed, of which alone any are selected; ``None`` if
            none is removed.
    """

    def __init__(self, items: Items, live: NDArray[np.int64] | None = None) -> None:
        self._items = items
        self._live = live
        self._kept: list[tuple[pc.Expression, NDArray[np.int64]]] = []
        self._lock = threading.Lock()

    def of(self, where: Where | None) -> Selection:
        """Return the selection.

        Args:
            where: A filter as ``search.filter_language`` reads it, a pyarrow expression over the items' columns, or
                ``None`` for all items. An item for which it is null is not selected.

        Raises:
            QueryError: It is neither, cannot be read, names a column that there is not, or compares what cannot be.
            IndexDirectoryError: A part's items cannot be read.
        """
        if where is None:
            return Selection(None, self._live, self._items.count if self._live is None else len(self._live))
        if isinstance(where, str):
            expression = self._language.expression(where)
        elif isinstance(where, pc.Expression):
            expression = where
        else:
            raise QueryError(
                f"where must be a filter as text or a pyarrow.compute.Expression, not {type(where).__name__}; "
                "for example 'year >= 1900' or pc.field('year') >= 1900"
            )
        rows = self._recall(expression)
        if rows is None:
            rows = self._evaluate(expression)
            self._keep(expression, rows)
        return Selection(str(where), None if len(rows) == self._items.count else rows, len(rows))

    @cached_property
    def _language(self) -> FilterLanguage:
        from search.filter_language import FilterLanguage

        return FilterLanguage(self._items.schema)

    def _recall(self, expression: pc.Expression) -> NDArray[np.int64] | None:
        # Compared as expressions: Arrow abridges long lists in the text of one.
        with self._lock:
            for place, (kept, rows) in enumerate(self._kept):
                if kept.equals(expression):
                    self._kept.append(self._kept.pop(place))
                    return rows
        return None

    def _keep(self, expression: pc.Expression, rows: NDArray[np.int64]) -> None:
        with self._lock:
            self._kept.append((expression, rows))
            while len(self._kept) > MAX_KEPT or sum(rows.nbytes for _, rows in self._kept[:-1]) > MAX_KEPT_BYTES:
                del self._kept[0]

    def _evaluate(self, expression: pc.Expression) -> NDArray[np.int64]:
        """Return the rows for which the expression is true, int64, ascending."""
        names = self._columns_of(expression)
        numbers = pa.chunked_array([np.arange(self._items.count, dtype=np.int64)])
        columns = self._items.columns(names).columns if names else []
        table = pa.table([*columns, numbers], [*names, _ROW])
        try:
            found = _filtered(table, expression).columns[-1]
        except pa.ArrowException as error:
            raise self._unusable(expression, error) from error
        rows: NDArray[np.int64] = np.sort(found.to_numpy())
        return rows if self._live is None else np.intersect1d(rows, self._live, assume_unique=True)

    def _columns_of(self, expression: pc.Expression) -> list[str]:
        """Return the columns that an expression names: those without which Arrow cannot bind it."""
        if "FieldPath(" in str(expression):
            raise QueryError(f"where must name its columns rather than number them: {expression!s:.200}")
        empty = self._items.schema.empty_table().append_column(_ROW, pa.array([], pa.int64()))
        try:
            _filtered(empty, expression)
        except pa.ArrowException as error:
            raise self._unusable(expression, error) from error
        return [name for name in self._items.schema.names if not _binds(expression, empty.drop_columns([name]))]

    def _unusable(self, expression: pc.Expression, error: Exception) -> QueryError:
        from search.filter_conditions import columns_in_words

        reason = str(error).partition("\n")[0]
        return QueryError(
            f"cannot filter by {expression!s:.200}: {reason}; columns: {columns_in_words(self._items.schema)}"
        )


def _binds(expression: pc.Expression, table: pa.Table) -> bool:
    try:
        _filtered(table, expression)
    except pa.ArrowException:
        return False
    return True


def _filtered(table: pa.Table, expression: pc.Expression) -> pa.Table:
    """Return the rows for which an expression is true, found on this thread.

    ``Table.filter`` uses Arrow's threads, and one of them that lets go of a numpy buffer while the interpreter ends
    aborts the process.
    """
    from pyarrow import acero

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    chosen = acero.Declaration("filter", acero.FilterNodeOptions(expression))
    return acero.Declaration.from_sequence([source, chosen]).to_table(use_threads=False)
