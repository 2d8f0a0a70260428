"""The footer of a parquet file, read without the rest of it, wherever the file lies."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from indexer.sources.shard_files import ShardFile
from indexer.sources.source import SourceError
from indexer.stored_rows import PARQUET_FAULTS

__all__ = ["DamagedParquetError", "Footer", "read_footer"]

_FIRST_LOOK = 1 << 16
_MAX_FOOTER = 256 << 20
_END = b"PAR1"


class DamagedParquetError(Exception):
    """A file that is no parquet file, or no longer; the message is the reason alone."""


@dataclass(frozen=True)
class Footer:
    """What a parquet file says of itself, and a checksum of that, which changes with the file's rows."""

    schema: pa.Schema
    groups: tuple[int, ...]
    check: str


def read_footer(file: ShardFile) -> Footer:
    """Read a parquet file's footer; a remote file is fetched only if its server cannot send the end alone.

    A fetched file that is no parquet file is removed, so that it is fetched anew.

    Raises:
        DamagedParquetError: It is no parquet file.
        SourceError: It cannot be fetched.
    """
    try:
        return _footer(file)
    except DamagedParquetError as error:
        raise DamagedParquetError(f"{error}{file.dropped()}") from error


def _footer(file: ShardFile) -> Footer:
    tail = _tail(file, _FIRST_LOOK)
    if tail[-4:] != _END or len(tail) < 12:
        raise DamagedParquetError("is no parquet file, or is cut short: it lacks a parquet file's end")
    length = int.from_bytes(tail[-8:-4], "little") + 8
    if length > _MAX_FOOTER:
        raise DamagedParquetError(f"is damaged: it claims a footer of {length:,} bytes")
    if length > len(tail):
        tail = _tail(file, length)
    if length > len(tail):
        raise DamagedParquetError("is cut short: its footer is longer than it")
    try:
        metadata = pq.read_metadata(pa.BufferReader(tail))
        schema = metadata.schema.to_arrow_schema()
        groups = tuple(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
    except PARQUET_FAULTS as error:
        raise DamagedParquetError(f"is damaged: {error}") from error
    if len(set(schema.names)) != len(schema.names):
        raise DamagedParquetError("has two columns of one name")
    if min(groups, default=0) < 0:
        raise DamagedParquetError("is damaged: a row group has fewer than no rows")
    return Footer(schema, groups, f"{zlib.crc32(tail[-length:]):08x}")


def _tail(file: ShardFile, count: int) -> bytes:
    if file.remote is not None and not file.path.exists():
        tail = file.remote.tail(count)
        if tail is not None:
            return tail
    return _local_tail(file.fetched(), count)


def _local_tail(path: Path, count: int) -> bytes:
    try:
        with open(path, "rb") as stream:
            stream.seek(max(os.fstat(stream.fileno()).st_size - count, 0))
            return stream.read()
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror or error}; see to it and run again") from error
