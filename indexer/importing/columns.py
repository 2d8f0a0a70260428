"""Vectors in a column of a parquet file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from indexer.importing.vector_input import EmbeddingsError, VectorInput, check_dim
from indexer.stored_rows import PARQUET_FAULTS, open_parquet

__all__ = ["column_input", "open_table", "parquet_fault", "vector_columns"]

# What a column of vectors is called where a file has several, most telling first.
_NAMES = ("embedding", "embeddings", "vector", "vectors", "image_embedding", "img_emb", "emb", "features")


def open_table(path: Path) -> pq.ParquetFile:
    """Open a parquet file.

    Raises:
        EmbeddingsError: It is none, is damaged, or has two columns of one name.
    """
    try:
        file = open_parquet(path)
        names = file.schema_arrow.names
    except PARQUET_FAULTS as error:
        raise EmbeddingsError(f"{path} is no parquet file that can be read ({parquet_fault(error)})") from error
    if len(set(names)) != len(names):
        raise EmbeddingsError(f"{path} has two columns of one name; give each its own")
    return file


def vector_columns(schema: pa.Schema) -> list[str]:
    """Return the columns that may hold vectors: lists of floating-point numbers."""
    return [field.name for field in schema if _is_list(field.type) and pa.types.is_floating(field.type.value_type)]


def column_input(path: Path, column: str | None, *, slug: str) -> VectorInput:
    """Return the vectors in a column.

    Args:
        path: The parquet file.
        column: The column that the user named. By default the one named by ``slug``, the only one that may hold
            vectors, or the one of a usual name.
        slug: The aspect's.

    Raises:
        EmbeddingsError: There is no such column, or it is not clear which.
    """
    file = open_table(path)
    known = vector_columns(file.schema_arrow)
    name = column if column is not None else _guessed(known, slug)
    if name not in known:
        held = ", ".join(map(repr, known)) or "none"
        why = (
            f"has no column of vectors {name!r}" if name is not None else "does not tell which column holds the vectors"
        )
        raise EmbeddingsError(f"{path} {why}; its columns of vectors: {held}. Say which with FILE?column=NAME")
    shown = f"{path}?column={name}"
    kind = file.schema_arrow.field(name).type
    rows = file.metadata.num_rows
    dim = kind.list_size if pa.types.is_fixed_size_list(kind) else _first_length(file, name, shown)
    check_dim(dim, shown=shown)

    def blocks(most: int) -> Iterator[NDArray[Any]]:
        first = 0
        for column in _columns(open_table(path), name, most, shown):
            yield _matrix(column, dim, first=first, shown=shown)
            first += len(column)

    return VectorInput(shown, rows, dim, blocks)


def _guessed(known: list[str], slug: str) -> str | None:
    if slug in known or f"aspect-{slug}" in known:
        return slug if slug in known else f"aspect-{slug}"
    return known[0] if len(known) == 1 else next((name for name in _NAMES if name in known), None)


def _first_length(file: pq.ParquetFile, name: str, shown: str) -> int:
    for column in _columns(file, name, 1, shown):
        if column[0].is_valid:
            return len(column[0])
        break
    raise EmbeddingsError(f"{shown} has no vector in row 0 (rows count from 0)")


def _columns(file: pq.ParquetFile, name: str, most: int, shown: str) -> Iterator[pa.Array]:
    try:
        for batch in file.iter_batches(batch_size=most, columns=[name], use_threads=False):
            if batch.num_rows:
                yield batch.column(batch.schema.get_field_index(name))
    except PARQUET_FAULTS as error:
        raise EmbeddingsError(f"{shown} cannot be read ({parquet_fault(error)}); it is damaged") from error


def _matrix(column: pa.Array, dim: int, *, first: int, shown: str) -> NDArray[Any]:
    lengths = pc.list_value_length(column)
    bad = np.flatnonzero(lengths.fill_null(-1).to_numpy(zero_copy_only=False) != dim)
    if len(bad):
        length = lengths[int(bad[0])].as_py()
        what = "no vector" if length is None else f"a vector of {length:,} dimensions instead of {dim:,}"
        raise EmbeddingsError(f"{shown} has {what} in row {first + int(bad[0]):,} (rows count from 0)")
    values = column.flatten()
    if values.null_count:
        missing = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
        raise EmbeddingsError(
            f"{shown} has a vector with a missing number in row {first + missing // dim:,} (rows count from 0)"
        )
    matrix: NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(len(column), dim)
    return matrix


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def parquet_fault(error: Exception) -> str:
    """Return in a few words what is wrong with a parquet file."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
    return text.partition("\n")[0][:200]
