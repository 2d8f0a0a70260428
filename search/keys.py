"""The keys of an index: which item has which key, and which keys look alike."""

from __future__ import annotations

import difflib
import threading
from bisect import bisect_left
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["Keys"]

# Comparing a word with every key takes a second per 100,000 keys; beyond this the suggestions come from the first.
MAX_COMPARED = 20_000
MAX_SUGGESTIONS = 3
# Making the table of hashes takes as long as about so many scans of all keys.
SCANS_BEFORE_TABLE = 64
_CHUNK = 1 << 16


class Keys(Collection[str]):
    """The keys of the items of an index, in Arrow's memory.

    They count and iterate over the items that are there, in row order. ``keys[row]`` is the key of a stored row, of a
    removed item's, too, so that a row that a hit names stays what it is.

    Several threads may ask at once.

    Args:
        column: The keys of all stored rows.
        live: int64, ascending: the rows that are not removed; ``None`` means all. Of the rows of one key all but at
            most one are removed.
    """

    def __init__(self, column: pa.ChunkedArray, *, live: NDArray[np.int64] | None = None) -> None:
        # Large strings: the keys of tens of millions of items exceed the 2 GiB that a plain string array holds.
        self._column = pa.concat_arrays(column.cast(pa.large_string()).chunks or [pa.array([], pa.large_string())])
        self._live = live
        self._scans = 0
        # Ascending hashes and their rows. One number of a memoryview is had ten times as fast as one of an array.
        self._table: tuple[memoryview[int], memoryview[int]] | None = None
        self._making = threading.Lock()

    def __len__(self) -> int:
        return len(self._column) if self._live is None else len(self._live)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        rows = range(len(self._column))[index]
        if isinstance(rows, range):
            return [self[row] for row in rows]
        key: str = self._column[rows].as_py()
        return key

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _CHUNK):
            yield from self.page(start, _CHUNK)

    def __contains__(self, key: object) -> bool:
        return self.row(key) is not None

    def page(self, offset: int, limit: int) -> list[str]:
        """Return at most ``limit`` keys, after the first ``offset``, of items that are not removed."""
        if self._live is None:
            return self._column.slice(min(offset, len(self)), limit).to_pylist()
        return self._column.take(pa.array(self._live[offset : offset + limit])).to_pylist()

    def row(self, key: object) -> int | None:
        """Return the row of an item, or ``None`` if no item has this key."""
        if not isinstance(key, str):
            return None
        if self._table is None and not self._made():
            return self._scanned(key)
        assert self._table is not None
        hashes, rows = self._table
        wanted = hash(key)
        place = bisect_left(hashes, wanted)
        while place < len(hashes) and hashes[place] == wanted:
            if self._column[rows[place]].as_py() == key:
                return rows[place]
            place += 1
        return None

    def near(self, key: str) -> list[str]:
        """Return a few keys that look like ``key``: those that hold it, else those spelt alike."""
        stem = key.replace("\\", "/").rsplit("/", 1)[-1].rsplit(".", 1)[0]
        if stem and not _has_surrogate(stem):
            holding = pc.match_substring(self._column, stem, ignore_case=True).to_numpy(zero_copy_only=False)
            rows = np.flatnonzero(holding if self._removed is None else holding & ~self._removed)
            if len(rows):
                return [self[row] for row in rows[:MAX_SUGGESTIONS].tolist()]
        return difflib.get_close_matches(key, self.page(0, MAX_COMPARED), MAX_SUGGESTIONS)

    @cached_property
    def _removed(self) -> NDArray[np.bool_] | None:
        """Which stored rows are removed, bool (N,); ``None`` if none is."""
        if self._live is None:
            return None
        removed = np.ones(len(self._column), bool)
        removed[self._live] = False
        return removed

    def _scanned(self, key: str) -> int | None:
        if _has_surrogate(key):
            return None
        wanted = pa.scalar(key, pa.large_string())
        row = pc.index(self._column, wanted).as_py()
        while row >= 0 and self._removed is not None and self._removed[row]:
            following = pc.index(self._column.slice(row + 1), wanted).as_py()
            row = following if following < 0 else row + 1 + following
        return None if row < 0 else int(row)

    def _made(self) -> bool:
        """Make the table of hashes once it pays; another thread that asks meanwhile does without."""
        self._scans += 1
        if self._scans <= SCANS_BEFORE_TABLE or not self._making.acquire(blocking=False):
            return False
        try:
            if self._table is None:
                chunks = (self.page(start, _CHUNK) for start in range(0, len(self), _CHUNK))
                found = [np.fromiter(map(hash, chunk), np.int64, len(chunk)) for chunk in chunks]
                hashes = np.concatenate([np.empty(0, np.int64), *found])
                order = np.argsort(hashes, kind="stable")
                rows = order if self._live is None else self._live[order]
                self._table = memoryview(hashes[order]), memoryview(rows)  # type: ignore[arg-type]
            return True
        finally:
            self._making.release()


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
