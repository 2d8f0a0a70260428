"""One parquet file: an item a row, with a column of vectors for each aspect."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from indexer.exporting.columns import metadata_columns, open_writer, vector_array, vector_column, with_columns
from indexer.exporting.record import SCHEMA_KEY, ExportRecord
from indexer.exporting.request import ExportRequest
from indexer.exporting.rows import ExportRows

__all__ = ["write_parquet"]


def write_parquet(rows: ExportRows, to: Path, request: ExportRequest) -> None:
    """Write the file; its schema's metadata hold the record, and its columns of vectors are named by slug.

    Raises:
        IndexDirectoryError: A part cannot be read, or a vector is not finite.
        OSError: The file cannot be written.
    """
    vectors = {aspect: vector_column(aspect.slug) for aspect in rows.aspects}
    columns = metadata_columns(rows.schema.names, vectors.values())
    record = ExportRecord(
        layout="parquet",
        model=request.model,
        vectors=vectors,
        count=rows.count,
        dtype=request.dtype,
        metadata={column: name for name, column in columns.items()},
    )
    element = pa.float16() if request.dtype == "float16" else pa.float32()
    lists = [pa.field(name, pa.list_(element, rows.index.dim), nullable=False) for name in vectors.values()]
    items = with_columns(rows.schema.empty_table(), columns).schema
    schema = pa.schema([*items, *lists], metadata={SCHEMA_KEY: record.to_json().encode()})
    with open_writer(to, schema, vectors=list(vectors.values())) as writer:
        for block in rows.blocks():
            arrays = [vector_array(block.vectors[aspect].astype(request.dtype)) for aspect in vectors]
            writer.write_table(pa.Table.from_arrays([*block.items.columns, *arrays], schema=schema))
            request.advance(len(block.items))
