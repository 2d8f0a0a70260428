"""An answer's rows as hits: their keys, metadata and what each term adds to their scores."""

from __future__ import annotations

from functools import lru_cache, reduce

import numpy as np
from numpy.typing import NDArray

from indexer import IndexDirectory
from search.answer import Answer, Page
from search.compile import Vectors
from search.exact import exact_scores
from search.hits import Hit, Hits, LiveFacts, QueryFacts, QueryTerm
from search.items import Items
from search.prepared_query import PreparedQuery
from search.selection import Selection
from search.vectors import RowVectors

__all__ = ["answer_hits"]

# How many items tell how an index's scores are spread.
SAMPLE = 10_000


def answer_hits(
    query: PreparedQuery,
    answer: Answer,
    page: Page,
    *,
    penalty: float,
    selection: Selection,
    store: RowVectors,
    items: Items,
    index: IndexDirectory,
    live: LiveFacts | None = None,
) -> Hits:
    """Return what a query's answer shows.

    Args:
        query: The query.
        answer: Its answer.
        page: The page that was asked for.
        penalty: λ.
        selection: What the query chose from.
        store: The index's vectors.
        items: Its items.
        index: The index.
        live: As ``Hits`` has it.
    """
    compiled = query.compiled
    facts = QueryFacts(
        terms=tuple(QueryTerm(term.image.label, term.aspect, term.weight, term.image) for term in query.terms),
        overall_penalty=penalty,
        total=index.live_count,
        where=selection.where,
        selected=selection.count,
        offset=page.offset,
        min_score=page.min_score,
        dedupe=page.dedupe,
        exact=answer.exact,
        rescored=answer.rescored,
        probed=answer.probed,
        live=live,
        sample_scores=lru_cache(maxsize=1)(
            lambda: np.sort(exact_scores(store, compiled.vectors, selection.spread(SAMPLE)))
        ),
    )
    vectors = {slug: store.gather(slug, answer.rows) for slug in dict.fromkeys(s for t in compiled.terms for s in t)}
    contributions = zip(*(_share(term, vectors).tolist() for term in compiled.terms), strict=True)
    found = zip(
        items.records(answer.rows),
        answer.rows.tolist(),
        answer.scores.tolist(),
        contributions,
        answer.duplicates,
        strict=True,
    )
    hits = [
        Hit(
            key=record["key"],
            score=score,
            contributions=shares,
            row=row,
            metadata=items.metadata(record),
            rank=rank,
            duplicates=tuple(items.keys[other] for other in duplicates.tolist()),
            record=record,
            index=index,
        )
        for rank, (record, row, score, shares, duplicates) in enumerate(found, start=page.offset + 1)
    ]
    return Hits(hits, facts)


def _share(term: Vectors, vectors: dict[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return what a term adds to the scores of rows, float64 (K,), by their vectors (K, D) under each aspect."""
    by_aspect = [np.add.reduce(vectors[slug] * vector, axis=1) for slug, vector in term.items()]
    return reduce(np.add, by_aspect)
