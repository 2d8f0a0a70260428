"""Writing parts: items, error ledger and vectors, checked row by row, the same bytes for the same content."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from indexer.columns import THUMBNAIL_SCHEMA, Item, LedgerLine, error_table, item_table
from indexer.directory import MANIFEST_FILE
from indexer.durable import make_folder, write_durably
from indexer.file_names import errors_file, items_file, revision_of, thumbnails_file, vectors_file
from indexer.manifest import FileRecord, Manifest, PartRecord
from indexer.parquet_settings import ROWS_PER_GROUP, TABLE_SETTINGS, THUMBNAIL_SETTINGS, THUMBNAILS_PER_GROUP
from indexer.readers import begin_epoch
from tpips_model.aspects import Aspect
from tpips_model.errors import ModelError

__all__ = [
    "NORM_TOLERANCE",
    "with_ledger",
    "write_array",
    "write_items",
    "write_ledger",
    "write_manifest",
    "write_part",
    "write_thumbnails",
    "write_vectors",
]

NORM_TOLERANCE = 1e-3


def write_part(
    index: Path,
    part: int,
    *,
    shard: str,
    items: Sequence[Item],
    errors: Sequence[LedgerLine],
    vectors: Mapping[Aspect, NDArray[np.float32]],
    thumbnails: Sequence[bytes] | None = None,
) -> PartRecord:
    """Write all files of one part; until the manifest names them, they count for nothing.

    Args:
        index: The index directory.
        part: The part's number.
        shard: The name of the shard that it came from.
        items: One per row.
        errors: What was skipped, and why.
        vectors: For every aspect float32 (rows, D), unit rows; row i belongs to item i.
        thumbnails: A small picture file of every item, if they are to be stored.

    Raises:
        ModelError: A vector is not finite or not of unit length.
        IndexDirectoryError: A file cannot be written.
    """
    keys = [item.key for item in items]
    for aspect, rows in vectors.items():
        _check_vectors(aspect, rows, keys)
    files = {
        items_file(part): write_items(index, part, item_table(items)),
        **write_ledger(index, part, errors),
    }
    for aspect, rows in vectors.items():
        files[vectors_file(aspect, part)] = write_vectors(index, part, aspect=aspect, vectors=rows, keys=keys)
    if thumbnails is not None:
        assert len(thumbnails) == len(items)
        files[thumbnails_file(part)] = write_thumbnails(index, part, thumbnails)
    return PartRecord(id=part, shards=(shard,), rows=len(items), errors=len(errors), files=files)


def write_items(index: Path, part: int, table: pa.Table) -> FileRecord:
    """Write a part's items, a table as ``item_table`` gives it.

    Raises:
        IndexDirectoryError: The file cannot be written.
    """
    return _write(index / items_file(part), _parquet_bytes(table))


def write_ledger(index: Path, part: int, lines: Sequence[LedgerLine], *, revision: int = 0) -> dict[str, FileRecord]:
    """Write a part's error ledger, under the name that its revision gives it.

    Raises:
        IndexDirectoryError: The file cannot be written.
    """
    name = errors_file(part, revision)
    return {name: _write(index / name, _parquet_bytes(error_table(lines)))}


def with_ledger(index: Path, part: PartRecord, lines: Sequence[LedgerLine]) -> PartRecord:
    """Write a part's error ledger anew, under the name of its next revision, and return the part that names it.

    Raises:
        IndexDirectoryError: The file cannot be written.
    """
    files = {name: file for name, file in part.files.items() if name != part.ledger_file}
    revision = (revision_of(part.ledger_file) or 0) + 1
    return replace(part, files=files | write_ledger(index, part.id, lines, revision=revision), errors=len(lines))


def write_thumbnails(index: Path, part: int, thumbnails: Sequence[bytes]) -> FileRecord:
    """Write small pictures of a part's items, one a row.

    Raises:
        IndexDirectoryError: The file cannot be written.
    """
    sink = pa.BufferOutputStream()
    table = pa.table([pa.array(thumbnails, pa.binary())], schema=THUMBNAIL_SCHEMA)
    pq.write_table(table, sink, row_group_size=THUMBNAILS_PER_GROUP, **THUMBNAIL_SETTINGS)
    return _write(index / thumbnails_file(part), bytes(sink.getvalue()))


def write_vectors(
    index: Path, part: int, *, aspect: Aspect, vectors: NDArray[np.float32], keys: Sequence[str]
) -> FileRecord:
    """Write a part's vectors under one aspect as float16.

    Args:
        index: The index directory.
        part: The part's number.
        aspect: The aspect.
        vectors: float32 (rows, D), unit rows.
        keys: The rows' keys, for the message about a bad vector.

    Raises:
        ModelError: A vector is not finite or not of unit length within ``NORM_TOLERANCE``; the message has its key.
        IndexDirectoryError: The file cannot be written.
    """
    _check_vectors(aspect, vectors, keys)
    return write_array(index / vectors_file(aspect, part), vectors.astype("<f2"))


def write_array(path: Path, array: NDArray[Any]) -> FileRecord:
    """Write an array as npy.

    Raises:
        IndexDirectoryError: The file cannot be written.
    """
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
    return _write(path, stream.getvalue())


def write_manifest(index: Path, manifest: Manifest) -> None:
    """Replace the index's manifest; from this moment its parts are what the index holds.

    Raises:
        IndexDirectoryError: It cannot be written.
    """
    begin_epoch(index, manifest.epoch)
    _write(index / MANIFEST_FILE, manifest.to_json().encode())


def _check_vectors(aspect: Aspect, vectors: NDArray[np.float32], keys: Sequence[str]) -> None:
    if vectors.ndim != 2 or len(vectors) != len(keys):
        raise ModelError(
            f"the model gave vectors of shape {vectors.shape} under {aspect.text!r} for {len(keys)} images"
        )
    # In float64, since the squares of large float32 values overflow and would hide behind a mere infinity.
    norms = np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=1))
    bad = np.flatnonzero(~(np.abs(norms - 1.0) <= NORM_TOLERANCE))
    if len(bad) == 0:
        return
    row = int(bad[0])
    what = f"of length {norms[row]:.6g}" if np.isfinite(norms[row]) else "that is not finite"
    raise ModelError(
        f"the model gave a vector {what} for {keys[row]!r} under {aspect.text!r}, where unit length "
        f"(±{NORM_TOLERANCE}) is expected ({len(bad)} of {len(keys)} such vectors in this part); nothing of this part "
        "was written"
    )


def _parquet_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=ROWS_PER_GROUP, **TABLE_SETTINGS)
    return bytes(sink.getvalue())


def _write(path: Path, payload: bytes) -> FileRecord:
    make_folder(path.parent)
    return write_durably(path, payload)
