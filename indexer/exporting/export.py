"""Writing what an index holds for other programs: items, metadata and vectors, never the pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from indexer.directory import IndexDirectory
from indexer.exporting.laion import write_laion
from indexer.exporting.npy import write_npy
from indexer.exporting.parquet import write_parquet
from indexer.exporting.place import export_place
from indexer.exporting.record import LAYOUTS, ExportError, portable_model
from indexer.exporting.request import ExportRequest
from indexer.exporting.rows import ExportRows
from tpips_model.aspects import Aspect, AspectLike
from tpips_model.progress_bar import ProgressBar

__all__ = ["DTYPES", "ROWS_PER_FILE", "ExportSummary", "export_index"]

DTYPES = ("float16", "float32")
# As many as clip-retrieval puts into a file.
ROWS_PER_FILE = 1_000_000
_WRITERS: dict[str, Callable[[ExportRows, Path, ExportRequest], None]] = {
    "parquet": write_parquet,
    "npy": write_npy,
    "laion": write_laion,
}


@dataclass(frozen=True)
class ExportSummary:
    """What an export holds."""

    path: Path
    items: int
    aspects: tuple[Aspect, ...]
    bytes: int


def export_index(
    index: IndexDirectory,
    to: Path,
    *,
    layout: str,
    aspects: Sequence[AspectLike] = (),
    dtype: str = "float16",
    rows_per_file: int = ROWS_PER_FILE,
    progress: bool = True,
) -> ExportSummary:
    """Export the items that are not removed, in row order, and their vectors as they are stored.

    No path of this machine goes into it.

    Args:
        index: The index.
        to: What does not exist yet, or an empty folder; it appears when it is whole.
        layout: ``"parquet"`` for one file, ``"npy"`` or ``"laion"`` for a folder.
        aspects: Which; by default all that every part has.
        dtype: The type of the vectors in the export; the index has halves.
        rows_per_file: How many rows a file of the laion layout holds.
        progress: Whether a progress bar is shown on standard error.

    Raises:
        ExportError: The arguments make no sense, something is there already, or it cannot be written.
        IndexDirectoryError: An aspect is not indexed, a part cannot be read, or a vector is not finite.
    """
    for what, given, known in (("layout", layout, LAYOUTS), ("dtype", dtype, DTYPES)):
        if given not in known:
            raise ExportError(f"the {what} {given!r} is unknown; give one of {', '.join(known)}")
    if rows_per_file < 1:
        raise ExportError(f"a file cannot hold {rows_per_file} rows; give at least 1")
    if layout == "parquet" and to.suffix not in (".parquet", ".pq"):
        raise ExportError(f"{to} is to be one file of the layout parquet; give a name that ends in .parquet with --to")
    chosen = tuple(dict.fromkeys(map(index.indexed_aspect, aspects))) if aspects else index.aspects
    rows = ExportRows(index, chosen)
    if not rows.count or not chosen:
        raise ExportError(
            f"the index {index.path} holds no {'items' if chosen else 'vectors'}, so there is nothing to export"
        )
    model = replace(index.manifest.model, name=portable_model(index.manifest.model.name))
    needed = rows.count * index.dim * np.dtype(dtype).itemsize * len(chosen)
    with export_place(to, index=index.path, needed=needed) as place:
        with ProgressBar(total=rows.count, desc="exporting", unit=" items", disable=not progress) as bar:
            _WRITERS[layout](rows, place, ExportRequest(model, dtype, rows_per_file, bar.update))
        files = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
    return ExportSummary(to, rows.count, chosen, size)
