"""The items of a Milvus collection by key and by row, as ``Items`` gives those of an index directory."""

from __future__ import annotations

import difflib
import re
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator
from typing import Any, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from search.items import Items
from search.milvus.connection import MAX_HITS, ROW, MilvusConnection, quoted
from search.milvus.facts import CollectionFacts

__all__ = ["MilvusItems", "MilvusKeys"]

KEPT_RECORDS = 16_384
# Each key comes over the network.
MAX_COMPARED = 2_000
MAX_SUGGESTIONS = 3
_PAGE = 8_192


class MilvusItems:
    """Fetches items, and keeps the latest; several threads may ask at once.

    Args:
        connection: The collection.
        facts: What it says of itself.
    """

    def __init__(self, connection: MilvusConnection, facts: CollectionFacts) -> None:
        self._connection = connection
        self._columns = facts.columns
        self._kept: OrderedDict[int, dict[str, Any]] = OrderedDict()
        self._lock = threading.Lock()
        self.count = facts.count
        self.schema: pa.Schema = facts.schema
        self.keys = MilvusKeys(connection, self)
        self.sizes = _Sizes(self)

    def records(self, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
        """Return all columns of the given rows, one dictionary a row, the caller's own.

        Raises:
            MilvusError: A row is not there any more.
        """
        wanted = rows.tolist()
        with self._lock:
            found = {row: self._kept[row] for row in wanted if row in self._kept}
        missing = [row for row in dict.fromkeys(wanted) if row not in found]
        for start in range(0, len(missing), MAX_HITS):
            numbers = np.array(missing[start : start + MAX_HITS], np.int64)
            stored = self._connection.by_row(numbers, [column.field for column in self._columns])
            fresh = {row: {one.name: record[one.field] for one in self._columns} for row, record in stored.items()}
            found.update(fresh)
            with self._lock:
                self._kept.update(fresh)
                while len(self._kept) > KEPT_RECORDS:
                    self._kept.popitem(last=False)
        return [found[row].copy() for row in wanted]

    @staticmethod
    def metadata(record: dict[str, Any]) -> dict[str, Any]:
        """Return the columns that came with the data, without the index's own."""
        return Items.metadata(record)


class _Sizes:
    """How many bytes the items' picture files have: what ``Items.sizes`` holds, fetched for the rows asked for."""

    def __init__(self, items: MilvusItems) -> None:
        self._items = items

    @overload
    def __getitem__(self, rows: int) -> int: ...

    @overload
    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[np.int64]: ...

    def __getitem__(self, rows: int | NDArray[np.int64]) -> int | NDArray[np.int64]:
        records = self._items.records(np.atleast_1d(np.asarray(rows, np.int64)))
        sizes = np.array([record["size"] for record in records], np.int64)
        return sizes if isinstance(rows, np.ndarray) else int(sizes[0])


class MilvusKeys(Collection[str]):
    """The keys of a collection's items in row order, as ``Keys`` gives those of an index directory.

    Args:
        connection: The collection.
        items: Its items.
    """

    def __init__(self, connection: MilvusConnection, items: MilvusItems) -> None:
        self._connection = connection
        self._items = items

    def __len__(self) -> int:
        return self._items.count

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        rows = range(len(self))[index]
        wanted = np.array(rows if isinstance(rows, range) else [rows], np.int64)
        keys = [record["key"] for record in self._items.records(wanted)]
        return keys if isinstance(rows, range) else keys[0]

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _PAGE):
            yield from self.page(start, _PAGE)

    def __contains__(self, key: object) -> bool:
        return self.row(key) is not None

    def page(self, offset: int, limit: int) -> list[str]:
        """Return at most ``limit`` keys, after the first ``offset``."""
        keys: list[str] = []
        stop = min(len(self), offset + limit)
        for start in range(offset, stop, MAX_HITS):
            end = min(stop, start + MAX_HITS)
            found = self._connection.rows(f"{ROW} >= {start} and {ROW} < {end}", ["key"], limit=end - start)
            keys += [record["key"] for record in sorted(found, key=lambda record: int(record[ROW]))]
        return keys

    def row(self, key: object) -> int | None:
        """Return the row of an item, or ``None`` if no item has this key."""
        if not isinstance(key, str) or not _is_text(key):
            return None
        found = self._connection.rows(f"key == {quoted(key)}", [], limit=1)
        return int(found[0][ROW]) if found else None

    def near(self, key: str) -> list[str]:
        """Return a few keys that look like ``key``: those that hold it, else of the first those spelt alike."""
        stem = key.replace("\\", "/").rsplit("/", 1)[-1].rsplit(".", 1)[0]
        if stem and _is_text(stem):
            pattern = re.sub(r"[%_\\]", r"\\\g<0>", stem)
            held = self._connection.rows(f"key like {quoted(f'%{pattern}%')}", ["key"], limit=MAX_SUGGESTIONS)
            if held:
                return [record["key"] for record in sorted(held, key=lambda record: int(record[ROW]))]
        return difflib.get_close_matches(key, self.page(0, MAX_COMPARED), MAX_SUGGESTIONS)


def _is_text(key: str) -> bool:
    # Longer than any stored key, and more than a server reads.
    return len(key) < 1 << 16 and not any("\ud800" <= char <= "\udfff" for char in key)
