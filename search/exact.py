"""Exact top-k of a compiled query over float16 vectors on disk.

Rows are scored in float32, block by block where they lie (``row_scores``). The rounding error is bounded, everything
within the bound of the k-th best is kept, and those few rows are scored again in float64. The answer is that of a
float64 brute force.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from indexer import IndexDirectoryError
from search.candidates import Candidates
from search.compile import Vectors
from search.row_scores import DAMAGED, ROW_NORM, RowScorer, ScaledQuery
from search.vectors import Piece, RowVectors, StoredVectors

__all__ = [
    "ROW_NORM",
    "TopK",
    "default_threads",
    "exact_scores",
    "exact_top_k",
    "exact_top_k_batch",
    "rescored",
]

# Bytes of an aspect in a block. One query: so many that Python's cost per block vanishes. Several: so few that the
# queries after the first find the block in the processor's cache.
BLOCK_BYTES = 1 << 24
SHARED_BLOCK_BYTES = 1 << 21
MIN_BLOCK_ROWS = 1024
# Fewer selected rows than one in so many are copied out and scored; more are scored where they lie, with the others.
GATHER_BELOW = 1 / 6
# A thread that scans fewer bytes than this takes longer to start than to scan.
MIN_THREAD_BYTES = 1 << 21
RESCORE_ROWS = 4096

_Block = tuple[int, list[Piece]]


@dataclass(frozen=True, eq=False)
class TopK:
    """The best rows, highest score first, equal scores by row.

    Attributes:
        rows: int64 (K,), rows in the whole index.
        scores: float64 (K,).
    """

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]


def exact_top_k(
    store: StoredVectors,
    query: Vectors,
    k: int,
    *,
    rows: NDArray[np.int64] | None = None,
    row_norm: float = ROW_NORM,
    threads: int | None = None,
) -> TopK:
    """Return the k best rows by Σ_a query[a]·x_a, as a float64 computation over the stored halves gives them.

    Args:
        store: N items.
        query: float64 (D,) by slug, at least one, not all zero.
        k: At least 1; fewer rows come back only if there are fewer.
        rows: int64, ascending: the rows to choose from; by default all.
        row_norm: Bound on the Euclidean norm of every stored row, which the error bound rests on.
        threads: How many scan at once; by default as many as OpenMP would use (``OMP_NUM_THREADS``).

    Raises:
        IndexDirectoryError: Stored vectors are not finite.
    """
    return exact_top_k_batch(store, [query], [k], rows=rows, row_norm=row_norm, threads=threads)[0]


def exact_top_k_batch(
    store: StoredVectors,
    queries: Sequence[Vectors],
    counts: Sequence[int],
    *,
    rows: NDArray[np.int64] | None = None,
    row_norm: float = ROW_NORM,
    threads: int | None = None,
) -> list[TopK]:
    """Return what ``exact_top_k`` gives for each query and its k, reading the rows once for all of them."""
    chosen = store.rows if rows is None else len(rows)
    if chosen == 0 or not queries:
        return [TopK(np.empty(0, np.int64), np.empty(0, np.float64)) for _ in queries]
    scaled = [ScaledQuery.of(query, row_norm=row_norm) for query in queries]
    wanted = [min(k, chosen) for k in counts]
    found = _scan_few(store, scaled, wanted, rows) or _scan(store, scaled, wanted, rows, threads)
    return [
        rescored(store, query, candidates.rows, k) for query, candidates, k in zip(queries, found, wanted, strict=True)
    ]


def exact_scores(store: RowVectors, query: Vectors, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return Σ_a query[a]·x_a of the given rows, float64 (K,); equal rows give equal bits wherever they stand."""
    scores = np.zeros(len(rows), np.float64)
    for start in range(0, len(rows), RESCORE_ROWS):
        chunk = slice(start, start + RESCORE_ROWS)
        for slug, vector in query.items():
            # Not a matrix product: BLAS sums in an order that depends on a row's place.
            products = store.gather(slug, rows[chunk])
            products *= vector
            scores[chunk] += np.add.reduce(products, axis=1)
    return scores


def default_threads() -> int:
    """Return how many threads scan at once: as many as OpenMP would use."""
    import faiss

    return min(int(faiss.omp_get_max_threads()), os.cpu_count() or 1)


def rescored(store: RowVectors, query: Vectors, rows: NDArray[np.int64], k: int) -> TopK:
    """Return the k best of the given rows by their float64 scores.

    Raises:
        IndexDirectoryError: Stored vectors are not finite.
    """
    scores = exact_scores(store, query, rows)
    if not np.isfinite(scores).all():
        raise IndexDirectoryError(DAMAGED)
    best = np.lexsort((rows, -scores))[:k]
    return TopK(rows[best], scores[best])


def _scan_few(
    store: StoredVectors, queries: Sequence[ScaledQuery], counts: Sequence[int], rows: NDArray[np.int64] | None
) -> list[Candidates]:
    """Return what ``_scan`` does, by numpy on this thread, where rows are so few that they are held in float32."""
    aspects = {slug: store.singles(slug) for slug in dict.fromkeys(slug for query in queries for slug in query.vectors)}
    found = []
    for k, query in zip(counts, queries, strict=True):
        scores = np.zeros(store.rows, np.float32)
        for slug, vector in query.vectors.items():
            singles = aspects[slug]
            if singles is None:
                return []
            with np.errstate(invalid="ignore"):  # told as an error below
                # Not a matrix product: BLAS would wake its threads for it.
                scores += np.einsum("nd,d->n", singles, vector)
        if rows is not None:
            scores = scores[rows]
        if not np.isfinite(scores).all():
            raise IndexDirectoryError(DAMAGED)
        candidates = Candidates(k, query.slack)
        candidates.offer(scores, 0 if rows is None else rows)
        found.append(candidates)
    return found


def _scan(
    store: StoredVectors,
    queries: Sequence[ScaledQuery],
    counts: Sequence[int],
    rows: NDArray[np.int64] | None,
    threads: int | None,
) -> list[Candidates]:
    """Return for each query rows among which are the k best and all that tie with them."""
    chosen = store.rows if rows is None else len(rows)
    threads = threads or default_threads()
    block_bytes = BLOCK_BYTES if len(queries) == 1 else SHARED_BLOCK_BYTES
    block_rows = max(MIN_BLOCK_ROWS, min(block_bytes // (2 * store.dim), chosen // (4 * threads)))
    work: list[_Block] | list[NDArray[np.int64]]
    if rows is not None and chosen < GATHER_BELOW * store.rows:
        work = [rows[start : start + block_rows] for start in range(0, chosen, block_rows)]
    else:
        work = list(store.blocks(block_rows))
    scanned = 2 * store.dim * chosen * sum(len(query.vectors) for query in queries)
    workers = min(threads, len(work), max(1, scanned // MIN_THREAD_BYTES))
    tasks = _Shared(work)

    def run(_: int) -> list[Candidates]:
        scorer = RowScorer(store, queries, block_rows)
        found = [Candidates(k, query.slack) for k, query in zip(counts, queries, strict=True)]
        for task in tasks:
            if isinstance(task, tuple):
                _score_block(scorer, found, task, rows)
            else:
                for candidates, scores in zip(found, scorer.rows(task), strict=True):
                    candidates.offer(scores, task)
        return found

    if workers == 1:
        return run(0)
    with ThreadPoolExecutor(workers) as pool:
        by_worker = list(pool.map(run, range(workers)))
    merged = [Candidates(k, query.slack) for k, query in zip(counts, queries, strict=True)]
    for found in by_worker:
        for total, part in zip(merged, found, strict=True):
            total.offer(part.scores, part.rows)
    return merged


def _score_block(scorer: RowScorer, found: Sequence[Candidates], block: _Block, rows: NDArray[np.int64] | None) -> None:
    start, pieces = block
    selected: NDArray[np.int64] | None = None
    if rows is not None:
        stop = start + sum(piece.stop - piece.start for piece in pieces)
        low, high = np.searchsorted(rows, [start, stop])
        selected = rows[low:high]
        if len(selected) == 0:
            return
    for number, candidates in enumerate(found):
        scores = scorer.block(number, pieces)
        if selected is None:
            candidates.offer(scores, start)
        else:
            candidates.offer(scores[selected - start], selected)


class _Shared(Iterator[_Block | NDArray[np.int64]]):
    """An iterator that several threads draw from."""

    def __init__(self, tasks: Iterable[_Block | NDArray[np.int64]]) -> None:
        self._tasks = iter(tasks)
        self._lock = threading.Lock()

    def __next__(self) -> _Block | NDArray[np.int64]:
        with self._lock:
            return next(self._tasks)
