"""Which part of an index a row belongs to."""

from __future__ import annotations

import weakref
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from indexer.records import IndexDirectoryError, PartRecord

if TYPE_CHECKING:
    from indexer.directory import IndexDirectory

__all__ = ["part_of_row"]

# Weak: an index that somebody holds on to keeps the files that a writer would delete.
_ends: weakref.WeakKeyDictionary[IndexDirectory, list[int]] = weakref.WeakKeyDictionary()


def part_of_row(index: IndexDirectory, row: int) -> tuple[PartRecord, int]:
    """Return the part that holds a row, and the place of the row within it.

    Raises:
        IndexDirectoryError: There is no such row.
    """
    ends = _ends.get(index)
    if ends is None:
        ends = _ends[index] = list(accumulate(part.rows for part in index.manifest.parts))
    number = bisect_right(ends, row)
    if row < 0 or number == len(ends):
        raise IndexDirectoryError(f"the index {index.path} has no row {row:,}")
    part = index.manifest.parts[number]
    return part, row - ends[number] + part.rows
