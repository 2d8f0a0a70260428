"""The columns of an export: names that cannot be mistaken for one another, and how they are written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from indexer.columns import ITEM_SCHEMA

__all__ = ["metadata_columns", "open_writer", "vector_array", "vector_column", "with_columns"]


def metadata_columns(names: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """Return what an index's metadata columns are called in an export: a name that is taken gets ``meta_`` before it.

    >>> metadata_columns(["style", "year"], ["style"])
    {'style': 'meta_style', 'year': 'year'}
    """
    wanted = [name for name in names if name not in ITEM_SCHEMA.names]
    columns: dict[str, str] = {}
    for name in wanted:
        column = name
        while column in taken or column in columns.values() or (column != name and column in wanted):
            column = f"meta_{column}"
        columns[name] = column
    return columns


def vector_column(slug: str) -> str:
    """Return what the column of an aspect's vectors is called: as its slug, unless an item has such a column.

    >>> vector_column("color-palette"), vector_column("size")
    ('color-palette', 'aspect-size')
    """
    return f"aspect-{slug}" if slug in ITEM_SCHEMA.names else slug


def vector_array(rows: NDArray[np.floating]) -> pa.Array:
    """Return vectors (rows, D) as a column of lists of a fixed size."""
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(rows).reshape(-1)), rows.shape[1])


def open_writer(path: Any, schema: pa.Schema, *, vectors: Collection[str] = ()) -> pq.ParquetWriter:
    """Open a parquet file for writing; columns of vectors are stored plainly, since they neither repeat nor shrink.

    Args:
        path: The file.
        schema: Its columns.
        vectors: Those that hold vectors.
    """
    others = [name for name in schema.names if name not in vectors]
    # A column of lists is named by the path to its values.
    plain = {f"{name}.list.element": "none" for name in vectors}
    return pq.ParquetWriter(
        path,
        schema,
        version="2.6",
        compression={**plain, **dict.fromkeys(others, "zstd")} if vectors else "zstd",
        use_dictionary=others,
        write_statistics=others,
    )


def with_columns(items: pa.Table, columns: Mapping[str, str]) -> pa.Table:
    """Return items with their metadata columns renamed."""
    return items.rename_columns([columns.get(name, name) for name in items.column_names])
