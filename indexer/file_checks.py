"""Checking the files of an index against its manifest, before anything in them is believed."""

from __future__ import annotations

import hashlib
import math
import tokenize
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from indexer.clustering import list_dtype
from indexer.columns import ERROR_SCHEMA, ITEM_SCHEMA, THUMBNAIL_SCHEMA
from indexer.file_names import codes_file, items_file, lists_file, thumbnails_file, vectors_file
from indexer.manifest import FileRecord, IndexDirectoryError, Manifest, PartRecord
from indexer.quantizer import sub_quantizers

__all__ = ["check_file", "check_part", "mapped_array", "read_parquet", "removed_rows"]

# numpy reads an array's header as a Python expression; damaged ones fail in any of these ways.
_HEADER_FAULTS = (ValueError, TypeError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError)

_Scalar = TypeVar("_Scalar", bound=np.generic)

_REBUILD = "copy the index again if it is a copy, or build it anew"
_RECODE = (
    "copy the index again if it is a copy, or make the codes anew: tpips-index codes --remove, then tpips-index codes"
)

_RELIST = (
    "copy the index again if it is a copy, or make the lists anew: tpips-index codes --lists 0, then tpips-index codes "
    "--lists N"
)


def check_file(path: Path, record: FileRecord, *, verify: bool) -> None:
    """Check a file's size and, with ``verify``, its checksum.

    Raises:
        IndexDirectoryError: It is missing, or not the one that the manifest names.
    """
    advice = _RECODE if path.name.endswith((".codes.npy", ".safetensors")) else _REBUILD
    advice = _RELIST if path.parent.name == "lists" else advice
    try:
        size = path.stat().st_size
    except OSError as error:
        raise IndexDirectoryError(f"index file {path} is missing ({error.strerror}); {advice}") from error
    if size != record.bytes:
        raise IndexDirectoryError(f"index file {path} has {size:,} bytes instead of {record.bytes:,}; {advice}")
    if verify:
        with open(path, "rb") as stream:
            digest = hashlib.sha256()
            while block := stream.read(1 << 20):
                digest.update(block)
        if digest.hexdigest() != record.sha256:
            raise IndexDirectoryError(f"index file {path} does not have the checksum of the manifest; {advice}")


def check_part(folder: Path, part: PartRecord, manifest: Manifest) -> None:
    """Check that a part's files hold what the manifest says, by their headers alone.

    Raises:
        IndexDirectoryError: One holds another number of rows, lacks a column, or is damaged.
    """
    for name, rows, schema in (
        (items_file(part.id), part.rows, ITEM_SCHEMA),
        (part.ledger_file, part.errors, ERROR_SCHEMA),
        *([(thumbnails_file(part.id), part.rows, THUMBNAIL_SCHEMA)] if part.has_thumbnails else []),
    ):
        metadata, found = _parquet_head(folder / name)
        if metadata.num_rows != rows:
            raise IndexDirectoryError(
                f"index file {folder / name} has {metadata.num_rows} rows, and the manifest says {rows}; {_REBUILD}"
            )
        for field in schema:
            if field.name not in found.names or found.field(field.name).type != field.type:
                raise IndexDirectoryError(
                    f"index file {folder / name} lacks the column {field.name!r} of type {field.type}; {_REBUILD}"
                )
    for aspect in manifest.aspects:
        if part.has(aspect):
            _check_array(folder / vectors_file(aspect, part.id), "<f2", (part.rows, manifest.model.dim), _REBUILD)
        if part.has_codes(aspect):
            code_bytes = sub_quantizers(manifest.model.dim) // 2
            _check_array(folder / codes_file(aspect, part.id), "|u1", (part.rows, code_bytes), _RECODE)
    if part.removal_file is not None:
        _check_array(folder / part.removal_file, "<u4", (part.removed,), _REBUILD)
    if part.has_lists and manifest.lists is not None:
        kind = list_dtype(manifest.lists.count).str
        _check_array(folder / lists_file(part.id), kind, (part.rows,), _RELIST)


def _check_array(path: Path, kind: str, shape: tuple[int, ...], advice: str) -> None:
    expected = np.dtype(kind)
    try:
        with open(path, "rb") as stream:
            version = np.lib.format.read_magic(stream)
            if version != (1, 0):
                raise ValueError(f"npy format {version}")
            found, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
            header = stream.tell()
    except (OSError, *_HEADER_FAULTS) as error:
        raise IndexDirectoryError(f"index file {path} is no array file ({error}); {advice}") from error
    size = header + expected.itemsize * math.prod(shape)
    if found != shape or fortran or dtype != expected or path.stat().st_size != size:
        raise IndexDirectoryError(
            f"index file {path} should hold {expected} {shape} in C order, and holds {dtype} {found}; {advice}"
        )


def mapped_array(path: Path, shape: tuple[int, ...], dtype: type[_Scalar]) -> NDArray[_Scalar]:
    """Return the array in a file that was checked when the index was opened, memory-mapped.

    Raises:
        IndexDirectoryError: It is no longer what it was.
    """
    if shape[0] == 0:
        return np.empty(shape, dtype)  # a file without rows has nothing to map
    try:
        array: NDArray[_Scalar] = np.load(path, mmap_mode="r", allow_pickle=False)
        if (array.shape, array.dtype) != (shape, np.dtype(dtype)):
            raise ValueError(f"it holds {array.dtype} {array.shape}")
    except (OSError, EOFError, *_HEADER_FAULTS) as error:
        raise IndexDirectoryError(
            f"index file {path} has changed since the index was opened ({error}); open it again"
        ) from error
    return array


def removed_rows(folder: Path, part: PartRecord) -> NDArray[np.int64]:
    """Read which rows of a part are removed, int64, ascending, counted within the part; none of most parts.

    Args:
        folder: The index directory.
        part: The part.

    Raises:
        IndexDirectoryError: It is no longer what it was, or no such thing.
    """
    if part.removal_file is None:
        return np.empty(0, np.int64)
    path = folder / part.removal_file
    rows = mapped_array(path, (part.removed,), np.uint32).astype(np.int64)
    if (np.diff(rows) <= 0).any() or rows[-1] >= part.rows:
        raise IndexDirectoryError(f"index file {path} is damaged (no ascending rows of its part); {_REBUILD}")
    return rows


def _parquet_head(path: Path) -> tuple[Any, pa.Schema]:
    try:
        with open(path, "rb") as stream, pq.ParquetFile(stream) as file:
            names = file.schema_arrow.names
            if len(set(names)) != len(names):
                raise ValueError("it has two columns of one name")
            return file.metadata, file.schema_arrow
    except (OSError, ValueError, pa.ArrowException) as error:
        raise IndexDirectoryError(f"index file {path} is damaged ({error}); {_REBUILD}") from error


def read_parquet(path: Path, columns: Sequence[str] | None) -> pa.Table:
    """Read a part's table; ``None`` reads all columns, and a name that it has not is left out.

    Raises:
        IndexDirectoryError: It cannot be read.
    """
    # An open file rather than a path: pyarrow would read partition columns out of a folder called "a=b".
    try:
        with open(path, "rb") as stream, pq.ParquetFile(stream) as file:
            names = None if columns is None else [name for name in columns if name in file.schema_arrow.names]
            # On this thread: one of Arrow's own that lets go of a Python buffer while the interpreter ends aborts it.
            table = file.read(columns=names, use_threads=False)
        table.validate(full=True)  # strings that are not UTF-8 would raise only where they are used
        if len(set(table.column_names)) != table.num_columns:
            raise ValueError("it has two columns of one name")
        return table
    except (OSError, ValueError, pa.ArrowException) as error:
        raise IndexDirectoryError(f"index file {path} is damaged ({error}); {_REBUILD}") from error
