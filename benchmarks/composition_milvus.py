"""Milvus Lite's ``hybrid_search`` with a ``WeightedRanker``, for the composition benchmark.

As its documentation has it: a collection with a vector field per aspect (index FLAT, metric IP), an
``AnnSearchRequest`` per field, and weights in [0, 1]. A query's weights are divided by the largest. A negative weight
cannot be given, so that field is searched with the negated vector, which has the same meaning under IP.
``norm_score=False`` sums the inner products as they are; the default first maps each by an arctangent.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from benchmarks.composition_cases import Query, Selection
from benchmarks.composition_ways import Answer, Setting, rival_module

__all__ = ["MilvusHybrid"]

# 16,384 is the most that Milvus fetches; an insertion must stay under gRPC's 64 MiB.
FETCHED = 1_000
INSERT_ROWS = 2_000


class MilvusHybrid:
    """A collection in a temporary folder, and hybrid searches in it."""

    name = f"Milvus Lite hybrid_search, limit {FETCHED:,}"

    def __init__(self, setting: Setting) -> None:
        self._milvus = rival_module("pymilvus", "pymilvus")
        rival_module("milvus_lite", "milvus-lite")
        self._folder = tempfile.TemporaryDirectory()
        self._client = self._milvus.MilvusClient(str(Path(self._folder.name, "vectors.db")))
        kinds = self._milvus.DataType
        columns = setting.files.columns()
        schema = self._client.create_schema(auto_id=False)
        schema.add_field("row", kinds.INT64, is_primary=True)
        for name in columns:
            schema.add_field(name, kinds.INT64)
        index = self._client.prepare_index_params()
        for slug in setting.indexed:
            schema.add_field(_field(slug), kinds.FLOAT_VECTOR, dim=setting.files.source.dim)
            index.add_index(_field(slug), index_type="FLAT", metric_type="IP")
        self._client.create_collection("items", schema=schema, index_params=index)
        for start in range(0, setting.files.items, INSERT_ROWS):
            stop = min(setting.files.items, start + INSERT_ROWS)
            vectors = {_field(slug): setting.rows(slug, start, stop) for slug in setting.indexed}
            self._client.insert(
                "items",
                [
                    {"row": row}
                    | {name: int(column[row]) for name, column in columns.items()}
                    | {field: rows[row - start] for field, rows in vectors.items()}
                    for row in range(start, stop)
                ],
            )
        self._client.flush("items")
        self._client.load_collection("items")

    def top(self, query: Query, k: int, selection: Selection | None) -> Answer:
        """Return the k hits of one hybrid search."""
        filtered = {} if selection is None else {"expr": f"{selection.column} < {selection.below}"}
        largest = max(abs(field.weight) for field in query.fields)
        requests = [
            self._milvus.AnnSearchRequest(
                [(np.sign(field.weight) * field.unit).astype(np.float32).tolist()],
                _field(field.slug),
                {"metric_type": "IP"},
                FETCHED,
                **filtered,
            )
            for field in query.fields
        ]
        ranker = self._milvus.WeightedRanker(*(abs(field.weight) / largest for field in query.fields), norm_score=False)
        (hits,) = self._client.hybrid_search("items", requests, ranker, limit=k)
        return Answer(np.array([hit["row"] for hit in hits], np.int64))


def _field(slug: str) -> str:
    return slug.replace("-", "_")
