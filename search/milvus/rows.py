"""The rows of a collection, made from an index directory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer import IndexDirectory
from indexer.columns import concat_items
from indexer.records import PartRecord
from search.items import Items
from search.milvus.address import MilvusError
from search.milvus.connection import MAX_TEXT_BYTES, ROW
from search.milvus.facts import CollectionFacts

__all__ = ["collection_rows"]

CHUNK_ROWS = 2_000


def collection_rows(index: IndexDirectory, facts: CollectionFacts, start: int, dtype: Any) -> Iterator[dict[str, Any]]:
    """Give the rows as pymilvus takes them, from ``start`` on, reading no part before it.

    Args:
        index: The opened index.
        facts: What the collection says of itself.
        start: The first row, counted among the items that are not removed.
        dtype: What the vectors are given as: float16, or float32, which holds every half.

    Raises:
        MilvusError: An item has a text that is too long.
        IndexDirectoryError: A part cannot be read.
    """
    first = 0
    for part, removed in _parts_with_removed(index):
        kept = np.delete(np.arange(part.rows), removed)
        skipped = min(max(start - first, 0), len(kept))
        if skipped < len(kept):
            yield from _part_rows(index, facts, part, kept[skipped:], first + skipped, dtype)
        first += len(kept)


def _parts_with_removed(index: IndexDirectory) -> Iterator[tuple[PartRecord, NDArray[np.int64]]]:
    first, removed = 0, index.removed_rows
    for part in index.manifest.parts:
        low, high = np.searchsorted(removed, [first, first + part.rows])
        yield part, removed[low:high] - first
        first += part.rows


def _part_rows(
    index: IndexDirectory, facts: CollectionFacts, part: PartRecord, kept: NDArray[np.int64], first: int, dtype: Any
) -> Iterator[dict[str, Any]]:
    # Laid under an empty table of all columns, a part has each, in the type that it has in the whole index.
    table = concat_items([Items(index).schema.empty_table(), index.part_items(part)]).take(pa.array(kept))
    fields = {column.name: column.field for column in facts.columns}
    vectors = {field: index.part_vectors(part, aspect) for aspect, field in facts.aspects}
    for start in range(0, len(kept), CHUNK_ROWS):
        records = table.slice(start, CHUNK_ROWS).select(list(fields)).to_pylist()
        numbers = kept[start : start + CHUNK_ROWS]
        of_chunk = {field: rows[numbers].astype(dtype) for field, rows in vectors.items()}
        for place, record in enumerate(records):
            stored = {fields[name]: _stored(value, name, record["key"]) for name, value in record.items()}
            yield {ROW: first + start + place, **stored, **{field: rows[place] for field, rows in of_chunk.items()}}


def _stored(value: Any, column: str, key: str) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None  # which Milvus does not take
    if isinstance(value, str) and len(value.encode()) > MAX_TEXT_BYTES:
        raise MilvusError(
            f"the item {key!r:.80} has a text of {len(value.encode()):,} bytes in the column {column!r}, and Milvus "
            f"takes {MAX_TEXT_BYTES:,}; choose other columns with --metadata"
        )
    return value
