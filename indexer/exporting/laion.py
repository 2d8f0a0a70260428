"""The layout of clip-retrieval and of LAION's releases, one folder an aspect.

``img_emb/img_emb_0.npy`` and ``metadata/metadata_0.parquet`` hold the same rows; the tools that read them, such as
autofaiss and embedding-reader, put files in order by name, so the numbers of ten files and more get leading zeros.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from indexer.exporting.columns import metadata_columns, open_writer, with_columns
from indexer.exporting.npy import ArrayFile
from indexer.exporting.record import EXPORT_FILE, SCHEMA_KEY, ExportRecord
from indexer.exporting.request import ExportRequest
from indexer.exporting.rows import ExportRows, RowBlock
from indexer.stored_bytes import is_whole_file
from tpips_model.aspects import Aspect

__all__ = ["ARRAYS", "METADATA", "write_laion"]

# The folders' names, which the files' names begin with.
ARRAYS, METADATA = "img_emb", "metadata"
_IMAGE_PATH = "image_path"


def write_laion(rows: ExportRows, to: Path, request: ExportRequest) -> None:
    """Write a folder for every aspect, and ``export.json``.

    Raises:
        IndexDirectoryError: A part cannot be read, or a vector is not finite.
        OSError: A file cannot be written.
    """
    to.mkdir()
    columns = metadata_columns(rows.schema.names, [_IMAGE_PATH])
    record = ExportRecord(
        layout="laion",
        model=request.model,
        vectors={aspect: aspect.slug for aspect in rows.aspects},
        count=rows.count,
        dtype=request.dtype,
        metadata={column: name for name, column in columns.items()},
    )
    for aspect in rows.aspects:
        for folder in (ARRAYS, METADATA):
            (to / aspect.slug / folder).mkdir(parents=True)
    items = with_columns(rows.schema.empty_table(), columns).schema
    schema = pa.schema([pa.field(_IMAGE_PATH, pa.string(), nullable=False), *items])
    schema = schema.with_metadata({SCHEMA_KEY: record.to_json().encode()})
    files = range(0, rows.count, request.rows_per_file)
    blocks = rows.blocks(cut_at=request.rows_per_file)
    for number, start in enumerate(files):
        count = min(request.rows_per_file, rows.count - start)
        name = f"{number:0{len(str(len(files) - 1))}d}"
        with ExitStack() as stack:
            writers = [
                _Chunk(stack, to, aspect, name, schema, (count, rows.index.dim), request) for aspect in rows.aspects
            ]
            while count:
                block = next(blocks)
                table = _with_paths(block, schema)
                for writer in writers:
                    writer.write(block, table)
                count -= len(table)
                request.advance(len(table))
    (to / EXPORT_FILE).write_text(record.to_json(), encoding="utf-8")


class _Chunk:
    """The two files of one aspect that hold the same rows."""

    def __init__(
        self,
        stack: ExitStack,
        to: Path,
        aspect: Aspect,
        name: str,
        schema: pa.Schema,
        shape: tuple[int, int],
        request: ExportRequest,
    ) -> None:
        folder = to / aspect.slug
        self._aspect = aspect
        self._array = stack.enter_context(ArrayFile(folder / ARRAYS / f"{ARRAYS}_{name}.npy", request.dtype, shape))
        self._metadata = stack.enter_context(open_writer(folder / METADATA / f"{METADATA}_{name}.parquet", schema))

    def write(self, block: RowBlock, table: pa.Table) -> None:
        self._array.write(block.vectors[self._aspect])
        self._metadata.write_table(table)


def _with_paths(block: RowBlock, schema: pa.Schema) -> pa.Table:
    """Return the items with a path for each: its file, or its key where the file holds other things too."""
    places = (block.items[name].to_pylist() for name in ("key", "file", "member", "offset"))
    paths = [
        file if file and is_whole_file(member, offset) else key
        for key, file, member, offset in zip(*places, strict=True)
    ]
    return pa.Table.from_arrays([pa.array(paths, pa.string()), *block.items.columns], schema=schema)
