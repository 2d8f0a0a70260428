"""Reading one picture out of a parquet file by its row."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from indexer.stored_bytes import MAX_PICTURE_BYTES, PictureReadError

__all__ = ["PARQUET_FAULTS", "open_parquet", "picture_of", "read_row", "row_batches"]

# What pyarrow raises on damaged files; a page that claims to be huge gives a MemoryError.
PARQUET_FAULTS = (OSError, ValueError, pa.ArrowException, MemoryError)
_BATCH_ROWS = 16


def open_parquet(path: Path) -> pq.ParquetFile:
    """Open a parquet file so that a row group is read page by page, never as a whole.

    Raises:
        OSError: Or another of ``PARQUET_FAULTS``.
    """
    # A buffer and no read-ahead: memory stays at some pages, however large a row group is.
    return pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False, page_checksum_verification=True)


def row_batches(file: pq.ParquetFile, group: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Give a row group's rows in small batches, in order."""
    yield from file.iter_batches(batch_size=_BATCH_ROWS, row_groups=[group], columns=columns, use_threads=False)


def picture_of(value: Any) -> bytes | None:
    """Return the bytes in a cell of binary type or of a struct with the field ``bytes``; ``None`` if it has none."""
    data = value.get("bytes") if isinstance(value, dict) else value
    return data if isinstance(data, bytes) else None


def read_row(path: Path, member: str) -> bytes:
    """Read the picture that a member ``ROW/COLUMN`` names.

    Rows asked for in order cost one pass over their row group: each thread keeps its last place in one file.

    Raises:
        PictureReadError: There is no such row or column, it holds no bytes, or the file is damaged.
    """
    number, _, column = member.partition("/")
    if not number.isdecimal() or not column:
        raise PictureReadError(f"has no picture {member!r:.80}")
    try:
        value = _cursor(path, column).value(int(number))
    except PARQUET_FAULTS as error:
        _places.__dict__.clear()
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
        raise PictureReadError(f"cannot be read: {reason}") from error
    data = picture_of(value)
    if data is None:
        raise PictureReadError(f"holds no picture in row {number} of its column {column!r}")
    if len(data) > MAX_PICTURE_BYTES:
        raise PictureReadError(f"has {len(data):,} bytes in row {number}; at most {MAX_PICTURE_BYTES:,} are read")
    return data


class _Cursor:
    """The place in one column of one file up to which rows have been read."""

    def __init__(self, path: Path, column: str) -> None:
        self._file = open_parquet(path)
        if column not in self._file.schema_arrow.names:
            raise ValueError(f"it has no column {column!r}")
        self._column = column
        self._group = -1
        self._start = self._end = 0
        self._values: list[Any] = []
        self._batches: Iterator[pa.RecordBatch] = iter(())

    def value(self, row: int) -> Any:
        """Return a row's value, reading on from the last one where that is possible."""
        group, first = self._group_of(row)
        if group != self._group or row < self._start:
            self._batches = row_batches(self._file, group, [self._column])
            self._group, self._start, self._end, self._values = group, first, first, []
        while row >= self._end:
            batch = next(self._batches, None)
            if batch is None:
                raise ValueError(f"row group {group} ends before row {row:,}")
            self._values = batch.column(0).to_pylist()
            self._start, self._end = self._end, self._end + len(self._values)
        return self._values[row - self._start]

    def _group_of(self, row: int) -> tuple[int, int]:
        first = 0
        for group in range(self._file.metadata.num_row_groups):
            rows = self._file.metadata.row_group(group).num_rows
            if row < first + rows:
                return group, first
            first += rows
        raise ValueError(f"it has {first:,} rows, and no row {row:,}")


_places = threading.local()


def _cursor(path: Path, column: str) -> _Cursor:
    status = os.stat(path)
    place = (path, column, status.st_ino, status.st_size, status.st_mtime_ns)
    if getattr(_places, "place", None) != place:
        _places.__dict__.clear()
        _places.cursor = _Cursor(path, column)
        _places.place = place
    cursor: _Cursor = _places.cursor
    return cursor
