"""The items of an index by key and by row."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from indexer import IndexDirectory, IndexDirectoryError
from indexer.columns import ITEM_SCHEMA, concat_items
from indexer.manifest import items_file

__all__ = ["Items", "Keys"]

# Comparing a word with every key takes a second per 100,000 keys; beyond this the suggestions come from the first.
MAX_COMPARED = 20_000
MAX_SUGGESTIONS = 3
# Arrow makes a new list of names each time it is asked.
_OWN_COLUMNS = frozenset(ITEM_SCHEMA.names)


class Keys(Sequence[str]):
    """The keys of an index in row order; a sequence that stays in Arrow's memory."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        # Large strings: the keys of tens of millions of items exceed the 2 GiB that a plain string array holds.
        self._column = pa.concat_arrays(column.cast(pa.large_string()).chunks or [pa.array([], pa.large_string())])

    def __len__(self) -> int:
        return len(self._column)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        key: str = self._column[range(len(self))[index]].as_py()
        return key

    def __iter__(self) -> Iterator[str]:
        return (key.as_py() for key in self._column)

    def __contains__(self, key: object) -> bool:
        return self.row(key) is not None

    def row(self, key: object) -> int | None:
        """Return the row of an item, or ``None`` if no item has this key."""
        if not isinstance(key, str) or _has_surrogate(key):
            return None
        row = pc.index(self._column, pa.scalar(key, pa.large_string())).as_py()
        return None if row < 0 else int(row)

    def near(self, key: str) -> list[str]:
        """Return a few keys that look like ``key``: those that hold it, else those spelt alike."""
        stem = key.replace("\\", "/").rsplit("/", 1)[-1].rsplit(".", 1)[0]
        if stem and not _has_surrogate(stem):
            holding = self._column.filter(pc.match_substring(self._column, stem, ignore_case=True))
            if len(holding):
                return holding.slice(0, MAX_SUGGESTIONS).to_pylist()
        return difflib.get_close_matches(key, self._column.slice(0, MAX_COMPARED).to_pylist(), MAX_SUGGESTIONS)


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)


class Items:
    """The items of an index; their columns are read when they are first asked for.

    Args:
        index: The opened index.
    """

    def __init__(self, index: IndexDirectory) -> None:
        self._index = index

    @cached_property
    def keys(self) -> Keys:
        """The keys in row order."""
        return Keys(self._index.items(["key"])["key"])

    @property
    def count(self) -> int:
        """N, the number of items."""
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

    def records(self, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
        """Return all columns of the given rows, one dictionary a row."""
        records: list[dict[str, Any]] = self._table.take(pa.array(rows, pa.int64())).to_pylist()
        return records

    @staticmethod
    def metadata(record: dict[str, Any]) -> dict[str, Any]:
        """Return the columns that came with the data, without the index's own."""
        return {name: value for name, value in record.items() if name not in _OWN_COLUMNS}


def _schema(path: Path) -> pa.Schema:
    try:
        # An open file, as the index directory does it: pyarrow would read partition columns out of "a=b".
        with open(path, "rb") as stream:
            return pq.read_schema(stream).remove_metadata()
    except (OSError, pa.ArrowException) as error:
        raise IndexDirectoryError(
            f"index file {path} cannot be read any more ({error}); build the index anew"
        ) from error
