"""Shards that are runs of a table's rows: named by file and rows, so that a table that has grown is gone on with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from indexer.sources.source import SourceError

__all__ = ["RowRange", "covered_ranges", "uncovered"]

_NAME = re.compile(r"(.*)\[(\d{1,18})-(\d{1,18})\]~([0-9a-f]{8})", re.DOTALL)


@dataclass(frozen=True)
class RowRange:
    """Rows ``start`` to before ``end`` of a file, and a checksum that tells whether they are still the same."""

    file: str
    start: int
    end: int
    check: str

    @property
    def name(self) -> str:
        """The shard's name, such as ``"data/train.parquet[0-256]~1f0c33ab"``."""
        return f"{self.file}[{self.start}-{self.end}]~{self.check}"

    def changed(self, shown: str) -> SourceError:
        """Return the error that says that these rows are no longer what was indexed."""
        return SourceError(
            f"rows {self.start:,} to {self.end:,} of {shown} are not what they were when they were indexed; put the "
            "old file back (new rows may be added at its end), or build another index with another --out"
        )


def covered_ranges(file: str, shards: Iterable[str]) -> list[RowRange]:
    """Return the ranges of one file among the names of shards, in order."""
    matches = (_NAME.fullmatch(name) for name in shards)
    found = (RowRange(m[1], int(m[2]), int(m[3]), m[4]) for m in matches if m is not None and m[1] == file)
    return sorted(found, key=lambda one: (one.start, one.end))


def uncovered(runs: Iterable[tuple[int, int]], covered: Sequence[RowRange]) -> Iterator[tuple[int, int]]:
    """Give what of runs of rows is in no range, in order.

    >>> list(uncovered([(0, 4), (4, 8), (8, 9)], [RowRange("x", 2, 6, "")]))
    [(0, 2), (6, 8), (8, 9)]
    """
    for start, end in runs:
        for known in covered:
            if known.start < end and known.end > start:
                if start < known.start:
                    yield start, known.start
                start = max(start, known.end)
            if start >= end:
                break
        if start < end:
            yield start, end
