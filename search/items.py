"""The items of an index by key and by row."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from indexer import IndexDirectory, IndexDirectoryError
from indexer.columns import ITEM_SCHEMA, concat_items
from indexer.manifest import items_file
from search.keys import Keys

__all__ = ["Items", "Keys"]

# Arrow makes a new list of names each time it is asked.
_OWN_COLUMNS = frozenset(ITEM_SCHEMA.names)
# Taking rows out of Arrow's memory costs more than a search of few; so many bytes of records, by estimate, are kept.
KEPT_BYTES = 32 << 20
_DICT_BYTES = 1 << 10


class Items:
    """The items of an index; their columns are read when they are first asked for.

    Args:
        index: The opened index.
    """

    def __init__(self, index: IndexDirectory) -> None:
        self._index = index
        self._kept: dict[int, dict[str, Any]] = {}
        self._lock = threading.Lock()

    @cached_property
    def keys(self) -> Keys:
        """The items' keys; those of removed items are found by their rows alone."""
        return Keys(self._index.items(["key"])["key"], live=self._index.live_rows())

    @property
    def count(self) -> int:
        """N, the number of stored items, removed ones included."""
        return self._index.rows

    @cached_property
    def schema(self) -> pa.Schema:
        """The items' columns, the metadata's too, and their types; reads no item.

        Raises:
            IndexDirectoryError: A part cannot be read any more.
        """
        paths = [self._index.path / items_file(part.id) for part in self._index.manifest.parts]
        return concat_items([_schema(path).empty_table() for path in paths]).schema

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Return some columns of all items in row order.

        Raises:
            IndexDirectoryError: A part cannot be read.
        """
        return self._index.items(names)

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """How many bytes each item's picture file has, int64 (N,)."""
        sizes: NDArray[np.int64] = self._index.items(["size"])["size"].to_numpy()
        return sizes

    @cached_property
    def _table(self) -> pa.Table:
        # In one piece: taking rows out of many chunks costs several times as much.
        return self._index.items().combine_chunks()

    @cached_property
    def _room(self) -> int:
        """How many records are kept."""
        # Values take several times as many bytes in a dictionary as in a column.
        return int(KEPT_BYTES // (_DICT_BYTES + 4 * self._table.nbytes // max(self.count, 1)))

    def records(self, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
        """Return all columns of the given rows, one dictionary a row, the caller's own."""
        wanted = rows.tolist()
        kept = [self._kept.get(row) for row in wanted]
        missing = sorted({row for row, record in zip(wanted, kept, strict=True) if record is None})
        if not missing:
            return [record.copy() for record in kept if record is not None]
        found = dict(zip(missing, self._table.take(pa.array(missing, pa.int64())).to_pylist(), strict=True))
        with self._lock:
            if len(self._kept) + len(found) > self._room:
                self._kept.clear()
            if len(found) <= self._room:
                self._kept.update(found)
        return [(found[row] if record is None else record).copy() for row, record in zip(wanted, kept, strict=True)]

    @staticmethod
    def metadata(record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns that came with the data, without the index's own."""
        metadata = dict(record)
        for name in _OWN_COLUMNS:
            metadata.pop(name, None)
        return metadata


def _schema(path: Path) -> pa.Schema:
    try:
        # An open file, as the index directory does it: pyarrow would read partition columns out of "a=b".
        with open(path, "rb") as stream:
            return pq.read_schema(stream).remove_metadata()
    except (OSError, pa.ArrowException) as error:
        raise IndexDirectoryError(
            f"index file {path} cannot be read any more ({error}); build the index anew"
        ) from error
