"""Which inverted lists a query should look into: those where its best rows are to be expected.

The mean of a list under the query's aspects and weights tells how well its rows score; but the best of many rows that
spread widely is better than the mean says: of n normal scores of standard deviation σ, about σ √(2 ln n). What a query
wants is a matter of a few rows, so lists are ranked by that. A list's spread in the query's direction is taken for that
of all lists, weighed by how much more or less than they the list spreads under each aspect.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from search.packed_lists import means_and_variances

__all__ = ["ListRanking"]


class ListRanking:
    """Ranks lists.

    Args:
        sizes: int64 (L,): how many rows each holds.
        edges: Where in the concatenated space each aspect begins, and where the last ends.
    """

    def __init__(self, sizes: NDArray[np.int64], edges: Sequence[int]) -> None:
        self._means = np.zeros((len(sizes), edges[-1]), np.float32)
        self._aspects = [slice(*pair) for pair in pairwise(edges)]
        # Σ over rows of their list's variance in each dimension, and of each list its mean variance under each aspect.
        self._variance = np.zeros(edges[-1])
        self._spread = np.zeros((len(sizes), len(self._aspects)))
        self._rows = max(int(sizes.sum()), 1)

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return self._means.nbytes + self._variance.nbytes + self._spread.nbytes

    def add(
        self, first: int, sizes: NDArray[np.int64], codes: NDArray[np.uint8], centroids: NDArray[np.float32]
    ) -> None:
        """Take the lists from ``first`` on, as ``means_and_variances`` takes them."""
        end = first + len(sizes)
        self._means[first:end], variances = means_and_variances(sizes, codes, centroids)
        self._variance += sizes @ variances
        for number, aspect in enumerate(self._aspects):
            self._spread[first:end, number] = variances[:, aspect].mean(axis=1)

    def ranks(self, queries: NDArray[np.float32], available: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the best scores that are to be expected.

        Args:
            queries: float32 (Q, 4M).
            available: int64 (L,): of how many rows of each list.

        Returns:
            float64 (Q, L).
        """
        # Each aspect's share of a query's variance, and how a list's spread compares with the mean of all rows' lists.
        shares = np.stack([queries[:, a] ** 2 @ self._variance[a] for a in self._aspects], axis=1) / self._rows
        usual = np.array([self._variance[a].mean() for a in self._aspects]) / self._rows
        compared = self._spread / np.maximum(usual, np.finfo(np.float64).tiny)
        deviations = np.sqrt(np.maximum(shares @ compared.T, 0.0))
        likely_best: NDArray[np.float64] = np.sqrt(2.0 * np.log(np.maximum(available, 1)))
        return self._mean_scores(queries) + deviations * likely_best

    def _mean_scores(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        import faiss

        scores = np.empty((len(queries), len(self._means)), np.float32)
        queries = np.ascontiguousarray(queries)
        # Not by numpy, whose threads take longer to begin such a product than one takes for all of it.
        for query, out in zip(queries, scores, strict=True):
            pointers = (faiss.swig_ptr(out), faiss.swig_ptr(query), faiss.swig_ptr(self._means))
            faiss.fvec_inner_products_ny(*pointers, self._means.shape[1], len(self._means))
        return scores
