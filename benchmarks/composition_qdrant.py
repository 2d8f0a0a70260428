"""Qdrant's local mode with prefetches and a formula, for the composition benchmark.

As its documentation has it: a collection with a named vector per aspect (distance Dot), a ``Prefetch`` per field, and
a ``FormulaQuery`` that sums weight · ``$score[i]``; a score that was not fetched defaults to zero. A field with a
negative weight is searched with the negated vector and a positive weight. Local mode keeps float32 vectors in memory
and scans them in numpy; it is what the client offers without a server, and says nothing of a server's speed.
"""

from __future__ import annotations

import warnings

import numpy as np

from benchmarks.composition_cases import Query, Selection
from benchmarks.composition_ways import Answer, Setting, rival_module

__all__ = ["QdrantFormula"]

FETCHED = 1_000
UPLOAD_ROWS = 2_000


class QdrantFormula:
    """A collection in memory, and formula queries in it."""

    name = f"Qdrant local, formula, limit {FETCHED:,}"

    def __init__(self, setting: Setting) -> None:
        self._models = rival_module("qdrant_client.models", "qdrant-client")
        client = rival_module("qdrant_client", "qdrant-client")
        self._client = client.QdrantClient(":memory:")
        size, dot = setting.files.source.dim, self._models.Distance.DOT
        columns = setting.files.columns()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that local mode is slow for so many points
            self._client.create_collection(
                "items", {slug: self._models.VectorParams(size=size, distance=dot) for slug in setting.indexed}
            )
            for start in range(0, setting.files.items, UPLOAD_ROWS):
                rows = range(start, min(setting.files.items, start + UPLOAD_ROWS))
                self._client.upload_collection(
                    "items",
                    vectors={slug: setting.rows(slug, rows.start, rows.stop) for slug in setting.indexed},
                    payload=[{name: int(column[row]) for name, column in columns.items()} for row in rows],
                    ids=rows,
                )

    def top(self, query: Query, k: int, selection: Selection | None) -> Answer:
        """Return the k hits of one query."""
        models = self._models
        kept = None
        if selection is not None:
            below = models.FieldCondition(key=selection.column, range=models.Range(lt=selection.below))
            kept = models.Filter(must=[below])
        prefetches = [
            models.Prefetch(
                query=(np.sign(field.weight) * field.unit).tolist(), using=field.slug, limit=FETCHED, filter=kept
            )
            for field in query.fields
        ]
        total = models.SumExpression(
            sum=[
                models.MultExpression(mult=[abs(field.weight), f"$score[{place}]"])
                for place, field in enumerate(query.fields)
            ]
        )
        zeros = {f"$score[{place}]": 0.0 for place in range(len(query.fields))}
        answer = self._client.query_points(
            "items",
            prefetch=prefetches,
            query=models.FormulaQuery(formula=total, defaults=zeros),
            limit=k,
            with_payload=False,
        )
        return Answer(np.array([point.id for point in answer.points], np.int64))
