"""Exact top-k of a compiled query over float16 vectors on disk.

Halves are slow to convert, so the rows are scanned in blocks that fit the processor's cache: the asked aspects' rows
are laid side by side, and faiss's half-precision scalar quantiser, whose codes are plain halves, takes the inner
product with the concatenated query in float32. Its rounding error is bounded, everything within the bound of the k-th
best is kept, and those few rows are scored again in float64. The answer is that of a float64 brute force.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from indexer import IndexDirectoryError
from search.compile import Vectors
from search.vectors import StoredVectors

__all__ = ["ROW_NORM", "TopK", "exact_scores", "exact_top_k"]

# The indexer stores unit rows to 1e-3, and rounding to half precision adds at most 5e-4.
ROW_NORM = 1.01
# Large enough that Python's cost per block vanishes, small enough that a block stays in the processor's cache.
BLOCK_BYTES = 1 << 20
MIN_BLOCK_ROWS = 64
# faiss's vector code for halves works in steps of 16 values; zeros fill up the rest.
LANES = 16
# How many hits a block is first asked for, beyond which it is asked again for more.
FIRST_HITS = 32
MORE_HITS = 8
RESCORE_ROWS = 4096
_UNIT_ROUNDOFF = 2.0**-24
_DAMAGED = "the index's stored vectors are damaged (tpips-index info --verify tells which); build the index anew"


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
    store: StoredVectors, query: Vectors, k: int, *, row_norm: float = ROW_NORM, threads: int | None = None
) -> TopK:
    """Return the k best rows by Σ_a query[a]·x_a, as a float64 computation over the stored halves gives them.

    Args:
        store: N items.
        query: float64 (D,) by slug, at least one, not all zero.
        k: At least 1; fewer rows come back only if the index has fewer.
        row_norm: Bound on the Euclidean norm of every stored row, which the error bound rests on.
        threads: How many scan at once; by default as many as OpenMP would use (``OMP_NUM_THREADS``).

    Raises:
        IndexDirectoryError: Stored vectors are not finite.
    """
    if store.rows == 0:
        return TopK(np.empty(0, np.int64), np.empty(0, np.float64))
    rows = _scan(store, query, min(k, store.rows), row_norm, threads)
    scores = exact_scores(store, query, rows)
    if not np.isfinite(scores).all():
        raise IndexDirectoryError(_DAMAGED)
    best = np.lexsort((rows, -scores))[:k]
    return TopK(rows[best], scores[best])


def exact_scores(store: StoredVectors, query: Vectors, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return Σ_a query[a]·x_a of the given rows, float64 (K,); equal rows give equal bits wherever they stand."""
    scores = np.zeros(len(rows), np.float64)
    for start in range(0, len(rows), RESCORE_ROWS):
        chunk = slice(start, start + RESCORE_ROWS)
        for slug, vector in query.items():
            # Not a matrix product: BLAS sums in an order that depends on a row's place.
            scores[chunk] += (store.gather(slug, rows[chunk]) * vector).sum(axis=1)
    return scores


def _scan(store: StoredVectors, query: Vectors, k: int, row_norm: float, threads: int | None) -> NDArray[np.int64]:
    """Return rows, ascending, among which are the k best and all that tie with them."""
    import faiss

    layout = _Layout.of(store, query, row_norm)
    starts = range(0, store.rows, layout.block_rows)
    workers = min(threads or faiss.omp_get_max_threads(), len(starts))
    blocks = _Shared(iter(starts))

    def work(_: int) -> _Candidates:
        scorer = _BlockScorer(store, layout)
        found = _Candidates(k, layout.slack)
        for start in blocks:
            scorer.scan(start, found)
        return found

    # Each worker's faiss keeps to its own thread; the setting is per thread and ends with it.
    with ThreadPoolExecutor(workers, initializer=faiss.omp_set_num_threads, initargs=(1,)) as pool:
        found = list(pool.map(work, range(workers)))
    merged = _Candidates(k, layout.slack)
    for part in found:
        order = np.argsort(-part.scores)
        merged.add(part.scores[order], part.rows[order])
    return np.sort(merged.rows)


@dataclass(frozen=True, eq=False)
class _Layout:
    """How the aspects' rows stand side by side in a block, and what the scan is worth.

    Attributes:
        slugs: The aspects from left to right.
        query: float32 (1, W), the concatenated query, scaled so that its aspects' norms sum to between 1/2 and 1.
        slack: By how much a row of the true top k may fall short of the k-th best of the scan.
        block_rows: Rows of a block.
    """

    slugs: tuple[str, ...]
    query: NDArray[np.float32]
    slack: float
    block_rows: int

    @classmethod
    def of(cls, store: StoredVectors, query: Vectors, row_norm: float) -> _Layout:
        used = len(query) * store.dim
        width = -(-used // LANES) * LANES
        # A power of two scales without rounding, and keeps tiny and huge weights inside float32. First the largest
        # component, so that the norms themselves cannot overflow.
        peak = max(math.frexp(float(np.abs(vector).max()))[1] for vector in query.values())
        scaled = {slug: np.ldexp(vector, -peak) for slug, vector in query.items()}
        total = math.frexp(sum(float(np.linalg.norm(vector)) for vector in scaled.values()))[1]
        flat = np.zeros((1, width), np.float32)
        flat[0, :used] = np.concatenate([np.ldexp(vector, -total) for vector in scaled.values()])
        # Whatever the order of summation, a float32 inner product of W terms with a query rounded to float32 errs by
        # at most γ(W + 1) Σ|q||x| ≤ γ(W + 1) Σ_a‖q_a‖‖x_a‖ (Higham, Accuracy and Stability, section 3.1), with
        # γ(n) = nu / (1 − nu). Both the row and the k-th best may be off. 1e-30 covers underflow.
        steps = (width + 2) * _UNIT_ROUNDOFF
        error = steps / (1.0 - steps) * row_norm + 1e-30
        return cls(tuple(query), flat, 2.0 * error, max(MIN_BLOCK_ROWS, BLOCK_BYTES // (2 * width)))


class _BlockScorer:
    """One worker's block: a faiss index of half-precision codes whose memory is filled anew for every block."""

    def __init__(self, store: StoredVectors, layout: _Layout) -> None:
        import faiss

        width = layout.query.shape[1]
        self._store = store
        self._layout = layout
        self._index = faiss.IndexScalarQuantizer(width, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
        self._index.is_trained = True  # nothing to learn: a code is the half itself
        self._index.codes.resize(layout.block_rows * 2 * width)  # with zeros
        codes = faiss.rev_swig_ptr(self._index.codes.data(), layout.block_rows * 2 * width)
        self._codes = codes.view(np.float16).reshape(layout.block_rows, width)

    def scan(self, start: int, found: _Candidates) -> None:
        """Add the rows of the block from ``start`` on that may belong to the best."""
        count = min(self._layout.block_rows, self._store.rows - start)
        dim = self._store.dim
        for position, slug in enumerate(self._layout.slugs):
            self._store.copy_block(slug, start, self._codes[:count, position * dim : (position + 1) * dim])
        self._index.ntotal = count
        wanted = FIRST_HITS if found.full else max(FIRST_HITS, found.k + MORE_HITS)
        while True:
            wanted = min(wanted, count)
            scores, rows = (array[0] for array in self._index.search(self._layout.query, wanted))
            # faiss gives -1 in place of a row whose score is NaN; added to ``start`` it would be another row.
            if rows.min() < 0:
                raise IndexDirectoryError(_DAMAGED)
            if wanted == count or scores[-1] < found.floor_with(scores):
                break
            wanted *= MORE_HITS
        found.add(scores, rows + start)


class _Candidates:
    """The rows seen so far that may be among the k best, by their float32 scores."""

    def __init__(self, k: int, slack: float) -> None:
        self.k = k
        self.rows = np.empty(0, np.int64)
        self.scores = np.empty(0, np.float32)
        self._slack = slack
        self._floor = -math.inf

    @property
    def full(self) -> bool:
        """Whether k rows have been seen."""
        return self._floor > -math.inf

    def floor_with(self, scores: NDArray[np.float32]) -> float:
        """Return what a row must reach, given these scores in descending order besides those seen."""
        return max(self._floor, self._floor_under(scores[self.k - 1])) if len(scores) >= self.k else self._floor

    def add(self, scores: NDArray[np.float32], rows: NDArray[np.int64]) -> None:
        """Take more rows, their scores in descending order."""
        # Mostly none is good enough, and a worker that came too late for a block has none at all.
        if len(scores) == 0 or scores[0] < self._floor:
            return
        good = scores >= self._floor
        self.scores = np.concatenate([self.scores, scores[good]])
        self.rows = np.concatenate([self.rows, rows[good]])
        if len(self.scores) >= self.k:
            cut = len(self.scores) - self.k
            self._floor = self._floor_under(np.partition(self.scores, cut)[cut])
            kept = self.scores >= self._floor
            self.scores, self.rows = self.scores[kept], self.rows[kept]

    def _floor_under(self, kth_best: np.float32) -> float:
        # Rounded down to a float32, since that is what it is compared with.
        return float(np.nextafter(np.float32(float(kth_best) - self._slack), np.float32(-np.inf)))


class _Shared(Iterator[int]):
    """An iterator that several threads draw from."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self._lock = threading.Lock()

    def __next__(self) -> int:
        with self._lock:
            return next(self._numbers)
