"""LanceDB over several vector columns, for the composition benchmark.

LanceDB has no weighted sum over vector columns. What it offers is ``RRFReranker.rerank_multivector``: a search per
column, fused by reciprocal ranks without weights. A negative weight or a penalty is no rank that could be counted down,
so those columns are searched with the negated vector. Plain scans, without an index; float32 columns in a temporary
folder. LanceDB's "dot" is a distance, 1 − inner product.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.composition_cases import Query, Selection
from benchmarks.composition_ways import Answer, Setting, rival_module

__all__ = ["LanceFusion"]

FETCHED = 1_000
BATCH_ROWS = 8_192


class LanceFusion:
    """A table in a temporary folder, searched column by column."""

    name = f"LanceDB, fused ranks, limit {FETCHED:,}"

    def __init__(self, setting: Setting) -> None:
        lancedb = rival_module("lancedb", "lancedb")
        self._reranker = rival_module("lancedb.rerankers", "lancedb").RRFReranker()
        self._folder = tempfile.TemporaryDirectory()
        batches = _batches(setting)
        first = next(batches)
        self._table = lancedb.connect(self._folder.name).create_table("items", first)
        for batch in batches:
            self._table.add(batch)
        self._table.optimize()

    def top(self, query: Query, k: int, selection: Selection | None) -> Answer:
        """Return the k best by fused ranks."""
        found = [
            self._search((np.sign(field.weight) * field.unit).astype(np.float32), field.slug, selection)
            for field in query.fields
        ]
        best = self._reranker.rerank_multivector(found)
        return Answer(best["row"].to_numpy()[:k])

    def _search(self, vector: NDArray[np.float32], slug: str, selection: Selection | None) -> Any:
        search = self._table.search(vector, vector_column_name=_column(slug)).distance_type("dot")
        if selection is not None:
            search = search.where(f"{selection.column} < {selection.below}", prefilter=True)
        return search.limit(FETCHED).select(["row", "_distance"]).with_row_id(True).to_arrow()


def _batches(setting: Setting) -> Iterator[Any]:
    import pyarrow as pa

    columns = setting.files.columns()
    dim = setting.files.source.dim
    for start in range(0, setting.files.items, BATCH_ROWS):
        stop = min(setting.files.items, start + BATCH_ROWS)
        arrays = {"row": pa.array(np.arange(start, stop))}
        arrays |= {name: pa.array(column[start:stop]) for name, column in columns.items()}
        for slug in setting.indexed:
            flat = pa.array(setting.rows(slug, start, stop).ravel())
            arrays[_column(slug)] = pa.FixedSizeListArray.from_arrays(flat, dim)
        yield pa.table(arrays)


def _column(slug: str) -> str:
    return slug.replace("-", "_")
