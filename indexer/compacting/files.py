"""Files written block by block, so that none need fit into memory; each is wholly there or not there, as all others."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from indexer.durable import make_folder, write_failure
from indexer.records import FileRecord
from tpips_model.durable_files import durable_file

__all__ = ["StreamedFile", "streamed_file", "write_array_blocks", "write_tables"]


class StreamedFile:
    """A file that is being written, of which size and checksum are known so far; numpy and pyarrow write to it."""

    closed = False

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self._bytes = 0

    def write(self, data: Any) -> int:
        """Write all of ``data``, bytes or a buffer of them."""
        view = memoryview(data)
        self._stream.write(view)
        self._digest.update(view)
        self._bytes += view.nbytes
        return view.nbytes

    def flush(self) -> None:
        """Do nothing; the whole file is flushed to the disk when it is finished."""

    @property
    def record(self) -> FileRecord:
        """What is written so far."""
        return FileRecord(self._bytes, self._digest.hexdigest())


@contextmanager
def streamed_file(path: Path) -> Iterator[StreamedFile]:
    """Write a file under a temporary name; when the block ends it is flushed to the disk and renamed.

    The block raises an OSError for writing alone.

    Raises:
        IndexDirectoryError: The file cannot be written.
    """
    make_folder(path.parent)
    try:
        with durable_file(path) as stream:
            yield StreamedFile(stream)
    except OSError as error:
        raise write_failure(path, error) from error


def write_array_blocks(
    path: Path, blocks: Iterable[NDArray[Any]], *, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> FileRecord:
    """Write an array that comes in blocks of rows as npy; the same bytes as ``write_array`` gives.

    Raises:
        IndexDirectoryError: The file cannot be written.
    """
    rows = 0
    with streamed_file(path) as file:
        header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks:
            assert (block.dtype, block.shape[1:]) == (dtype, shape[1:])
            rows += len(block)
            file.write(np.ascontiguousarray(block).reshape(-1).view(np.uint8).data)
        assert rows == shape[0]
    return file.record


def write_tables(
    path: Path, tables: Iterable[pa.Table], *, schema: pa.Schema, rows_per_group: int, settings: Mapping[str, Any]
) -> FileRecord:
    """Write a table that comes in pieces as parquet; the same bytes as ``indexer.part`` gives for the whole.

    Args:
        path: The file.
        tables: The pieces, of this schema.
        schema: The columns.
        rows_per_group: How many rows are held in memory, and make a row group.
        settings: Those of ``indexer.parquet_settings`` for this kind of file.

    Raises:
        IndexDirectoryError: The file cannot be written.
    """
    with streamed_file(path) as file, pq.ParquetWriter(file, schema, **settings) as writer:
        for group in _groups(tables, schema, rows_per_group):
            writer.write_table(group, row_group_size=rows_per_group)
    return file.record


def _groups(tables: Iterable[pa.Table], schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
    """Give the same rows in tables of so many, at least one table."""
    pending, count, written = [schema.empty_table()], 0, False
    for table in tables:
        start = 0
        while start < table.num_rows:
            piece = table.slice(start, rows - count)
            pending.append(piece)
            start += piece.num_rows
            count += piece.num_rows
            if count == rows:
                yield pa.concat_tables(pending).combine_chunks()
                pending, count, written = [schema.empty_table()], 0, True
    if count or not written:
        yield pa.concat_tables(pending).combine_chunks()
