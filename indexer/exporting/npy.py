"""A folder of one array an aspect, with the items beside them."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.columns import ITEM_SCHEMA
from indexer.exporting.columns import open_writer
from indexer.exporting.record import EXPORT_FILE, SCHEMA_KEY, ExportRecord
from indexer.exporting.request import ExportRequest
from indexer.exporting.rows import ExportRows

__all__ = ["ITEMS_FILE", "ArrayFile", "array_name", "write_npy"]

ITEMS_FILE = "items.parquet"


class ArrayFile:
    """An npy file that is written block by block, so that no more than a block is in memory.

    Args:
        path: The file, which is made.
        dtype: The type of its numbers.
        shape: (N, D).
    """

    def __init__(self, path: Path, dtype: str, shape: tuple[int, int]) -> None:
        self._stream = open(path, "wb")  # noqa: SIM115 (closed by __exit__)
        self._dtype = np.dtype(dtype).newbyteorder("<")
        header: dict[str, Any] = {"descr": self._dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._stream, header)

    def __enter__(self) -> ArrayFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def write(self, rows: NDArray[np.floating]) -> None:
        """Write the next rows, (rows, D)."""
        self._stream.write(np.ascontiguousarray(rows, self._dtype).data)


def array_name(slug: str) -> str:
    """Return what an aspect's array is called."""
    return f"{slug}.npy"


def write_npy(rows: ExportRows, to: Path, request: ExportRequest) -> None:
    """Write the folder: ``SLUG.npy`` (N, D) for every aspect, ``items.parquet`` and ``export.json``.

    Raises:
        IndexDirectoryError: A part cannot be read, or a vector is not finite.
        OSError: A file cannot be written.
    """
    to.mkdir()
    record = ExportRecord(
        layout="npy",
        model=request.model,
        vectors={aspect: array_name(aspect.slug) for aspect in rows.aspects},
        count=rows.count,
        dtype=request.dtype,
        metadata={name: name for name in rows.schema.names if name not in ITEM_SCHEMA.names},
    )
    shape = (rows.count, rows.index.dim)
    schema = rows.schema.with_metadata({SCHEMA_KEY: record.to_json().encode()})
    with ExitStack() as stack:
        arrays = {
            aspect: stack.enter_context(ArrayFile(to / array_name(aspect.slug), request.dtype, shape))
            for aspect in rows.aspects
        }
        items = stack.enter_context(open_writer(to / ITEMS_FILE, schema))
        for block in rows.blocks():
            items.write_table(block.items.cast(schema))
            for aspect, array in arrays.items():
                array.write(block.vectors[aspect])
            request.advance(len(block.items))
    (to / EXPORT_FILE).write_text(record.to_json(), encoding="utf-8")
