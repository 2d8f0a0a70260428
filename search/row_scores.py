"""Scores of stored rows in float32, read where they lie, with a proven bound on their error.

Halves are slow to convert, and copying them side by side costs as much as scoring them. faiss's half-precision scalar
quantiser, whose codes are plain halves, scores them in place: its list scanner takes any memory, so that the parts of
an index, mapped from their files, are read once and never copied.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from indexer import IndexDirectoryError
from search.compile import Vectors
from search.vectors import Piece, StoredVectors

__all__ = ["DAMAGED", "ROW_NORM", "RowScorer", "ScaledQuery"]

# The indexer stores unit rows to 1e-3, and rounding to half precision adds at most 5e-4.
ROW_NORM = 1.01
DAMAGED = "the index's stored vectors are damaged (tpips-index info --verify tells which); build the index anew"
_UNIT_ROUNDOFF = 2.0**-24
# Where the squares of a vector of this norm are still far from vanishing.
_TINY = 1e-100


@dataclass(frozen=True, eq=False)
class ScaledQuery:
    """A compiled query in float32, and what scores against it are worth.

    Attributes:
        vectors: float32 (D,) by slug, scaled by 2 ** ``exponent`` so that their norms sum to between 1/2 and 1.
        exponent: What the query was scaled by; a power of two scales without rounding.
        slack: By how much a row of the true top k may fall short of the k-th best float32 score.
    """

    vectors: dict[str, NDArray[np.float32]]
    exponent: int
    slack: float

    @classmethod
    def of(cls, query: Vectors, *, row_norm: float = ROW_NORM) -> ScaledQuery:
        """Scale a query, float64 (D,) by slug, at least one, not all zero."""
        # Tiny and huge weights must stay inside float32. First the largest component where the norms themselves could
        # overflow or vanish.
        small, peak, norm = query, 0, _norms(query)
        if not _TINY < norm < 1.0 / _TINY:
            peak = max(math.frexp(float(np.abs(vector).max()))[1] for vector in query.values())
            small = {slug: np.ldexp(vector, -peak) for slug, vector in query.items()}
            norm = _norms(small)
        total = math.frexp(norm)[1]
        # Whatever the order of summation, a float32 inner product of W terms with a query rounded to float32 errs by
        # at most γ(W + 1) Σ|q||x| ≤ γ(W + 1) Σ_a‖q_a‖‖x_a‖ (Higham, Accuracy and Stability, section 3.1), with
        # γ(n) = nu / (1 − nu). Both the row and the k-th best may be off. 1e-30 covers underflow.
        steps = (sum(len(vector) for vector in query.values()) + 2) * _UNIT_ROUNDOFF
        error = steps / (1.0 - steps) * row_norm + 1e-30
        vectors = {slug: np.ldexp(vector, -total).astype(np.float32) for slug, vector in small.items()}
        return cls(vectors, -(peak + total), 2.0 * error)

    def unscaled(self, scores: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return scores on the scale of the query as it was given."""
        return np.ldexp(scores.astype(np.float64), -self.exponent)


def _norms(query: Vectors) -> float:
    with np.errstate(over="ignore"):  # infinite then, and seen to be
        return sum(math.sqrt(vector.dot(vector)) for vector in query.values())


class RowScorer:
    """One thread's way to float32 scores Σ_a query[a]·x_a.

    Args:
        store: N items.
        queries: What to score by; all may name different aspects.
        capacity: How many rows are scored at once at most.
    """

    def __init__(self, store: StoredVectors, queries: Sequence[ScaledQuery], capacity: int) -> None:
        import faiss

        self._store = store
        self._queries = queries
        self._quantizer = faiss.ScalarQuantizer(store.dim, faiss.ScalarQuantizer.QT_fp16)
        self._scanner = self._quantizer.select_InvertedListScanner(faiss.METRIC_INNER_PRODUCT, None, True, None)
        # faiss gives it away without an owner, and setting ``thisown`` on it corrupts SWIG's record of the class.
        weakref.finalize(self, faiss.InvertedListScanner.__swig_destroy__, self._scanner)
        self._found = faiss.RangeSearchResult(1)
        self._found.buffer_size = capacity + 1
        self._buffers = faiss.RangeSearchPartialResult(self._found)
        self._buffers.append_buffer()
        self._result = self._buffers.new_result(0)
        self._labels = np.empty(capacity, np.int64)
        self._scores = np.empty(capacity, np.float32)
        self._halves = np.empty(0, np.float16)

    def block(self, number: int, pieces: Sequence[Piece]) -> NDArray[np.float32]:
        """Return the scores of pieces of parts by the query of a number, float32 (rows,), valid until the next call."""
        count = sum(piece.stop - piece.start for piece in pieces)
        total: NDArray[np.float32] | None = None
        for slug, query in self._queries[number].vectors.items():
            scores = self._scan(query, [(self._store.pointer(slug, p), p.stop - p.start) for p in pieces], count)
            total = scores.copy() if total is None else np.add(total, scores, out=total)
        assert total is not None
        return total

    def rows(self, rows: NDArray[np.int64]) -> list[NDArray[np.float32]]:
        """Return the scores of given rows, ascending, by every query, float32 (rows,) each."""
        import faiss

        shape = (len(rows), self._store.dim)
        if self._halves.size < shape[0] * shape[1]:
            self._halves = np.empty(shape[0] * shape[1], np.float16)
        halves = self._halves[: shape[0] * shape[1]].reshape(shape)
        totals = [np.zeros(len(rows), np.float32) for _ in self._queries]
        for slug in dict.fromkeys(slug for query in self._queries for slug in query.vectors):
            self._store.gather_halves(slug, rows, halves)
            pointer = faiss.swig_ptr(halves.reshape(-1).view(np.uint8))
            for total, query in zip(totals, self._queries, strict=True):
                if slug in query.vectors and len(rows):
                    total += self._scan(query.vectors[slug], [(pointer, len(rows))], len(rows))
        return totals

    def _scan(
        self, query: NDArray[np.float32], pieces: Sequence[tuple[object, int]], count: int
    ) -> NDArray[np.float32]:
        """Score pieces of memory (a pointer, how many rows) one after another."""
        import faiss

        self._scanner.set_query(faiss.swig_ptr(query))  # keeps the pointer
        self._buffers.wp = 0
        self._result.nres = 0
        for pointer, rows in pieces:
            self._scanner.scan_codes_range(rows, pointer, None, -np.inf, self._result)
        # What is not above minus infinity is left out, and the scores after it would be another row's.
        if self._result.nres != count:
            raise IndexDirectoryError(DAMAGED)
        self._buffers.copy_range(0, count, faiss.swig_ptr(self._labels), faiss.swig_ptr(self._scores))
        return self._scores[:count]
