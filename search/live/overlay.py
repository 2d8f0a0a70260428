"""Vectors of a few rows under aspects that are not indexed, beside those that are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from search.engine import Ranking
from search.exact import rescored
from search.vectors import RowVectors

__all__ = ["FewRows", "Overlay"]


class Overlay:
    """What reads vectors for answering queries, with further aspects for some rows.

    Args:
        store: The stored vectors.
        rows: int64 (K,), ascending: the rows that have the further aspects.
        vectors: float16 (K, D) by slug.
    """

    def __init__(self, store: RowVectors, rows: NDArray[np.int64], vectors: Mapping[str, NDArray[np.float16]]) -> None:
        self._store, self._rows, self._vectors = store, rows, vectors
        self.dim = store.dim

    def gather(self, slug: str, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the given rows of one aspect, float64 (K, D), in the order given."""
        own = self._vectors.get(slug)
        if own is None:
            return self._store.gather(slug, rows)
        places = np.searchsorted(self._rows, rows)
        assert np.array_equal(self._rows[places], rows)
        return own[places].astype(np.float64)

    def vector(self, slug: str, row: int) -> NDArray[np.float64]:
        """Return one row of one aspect, float64 (D,)."""
        if slug not in self._vectors:
            return self._store.vector(slug, row)
        found: NDArray[np.float64] = self.gather(slug, np.array([row], np.int64))[0]
        return found


class FewRows:
    """The engine's place where the rows to choose from are few and named: all of them are scored.

    Args:
        store: Their vectors.
        all_there_are: Whether no others could have been chosen.
    """

    def __init__(self, store: RowVectors, *, all_there_are: bool) -> None:
        self._store, self._all = store, all_there_are

    def top_k_batch(
        self,
        queries: Sequence[Mapping[str, NDArray[np.float64]]],
        k: int | Sequence[int],
        *,
        rows: NDArray[np.int64] | None = None,
        exact: bool | None = None,
        nprobe: int | None = None,
    ) -> list[Ranking]:
        """Return the k best of the rows for each query, as ``Engine.top_k_batch`` does."""
        assert rows is not None
        counts = [k] * len(queries) if isinstance(k, int) else k
        found = [rescored(self._store, query, rows, count) for query, count in zip(queries, counts, strict=True)]
        return [Ranking(top.rows, top.scores, self._all, len(rows)) for top in found]
