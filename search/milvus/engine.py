"""The best rows of a compiled query in a Milvus collection: candidates by field, scored exactly, and a proof.

Milvus ranks by one vector field at a time, and the best by a sum need not be among the best by any term of it. So each
field is searched with its own part of the query, whatever is found is scored by the whole query from the stored
vectors, and a bound tells whether that is all: a row that no field's search gave scores at most the sum of the lowest
scores that they gave (the threshold algorithm; Fagin, Lotem and Naor, Optimal aggregation algorithms for middleware,
2003, section 4). If the k-th best is above it, nothing is missing; otherwise the searches go deeper.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from numpy.typing import NDArray

from search.compile import Vectors
from search.engine import Ranking
from search.exact import exact_scores
from search.milvus.connection import MAX_HITS, MilvusConnection
from search.milvus.facts import CollectionFacts
from search.milvus.selection import MilvusRows
from search.milvus.vectors import MilvusVectors
from search.row_scores import ROW_NORM
from search.terms import QueryError
from search.vectors import StoredVectors

__all__ = ["MilvusEngine"]

# How many candidates a field gives at first, and how much deeper each further search goes.
FIRST_DEPTH = 256
DEEPER = 4
# With exact=False one search a field is all.
ONLY_DEPTH = 1_024
RESCORE_AT_LEAST = 128
SCAN_BYTES = 16 << 20
_UNIT_ROUNDOFF = 2.0**-24


class MilvusEngine:
    """Ranks the rows of a collection, as ``Engine`` does those of an index directory.

    Args:
        connection: The collection.
        facts: What it says of itself.
        store: Its vectors.
        index_types: The type of each vector field's index.
        halves: Whether the fields hold halves, which are searched with halves.
    """

    def __init__(
        self,
        connection: MilvusConnection,
        facts: CollectionFacts,
        store: MilvusVectors,
        *,
        index_types: Mapping[str, str],
        halves: bool,
    ) -> None:
        self._connection = connection
        self._fields = facts.vector_fields
        self._store = store
        self._types = index_types
        self._dtype = np.dtype(np.float16 if halves else np.float32)

    def top_k(
        self,
        query: Vectors,
        k: int,
        *,
        rows: MilvusRows | None = None,
        exact: bool | None = None,
        nprobe: int | None = None,
    ) -> Ranking:
        """Return the k best rows by Σ_a query[a]·x_a.

        Args:
            query: float64 (D,) by slug, at least one, not all zero.
            k: At least 1; fewer rows come back only if there are fewer.
            rows: The rows to choose from; ``None`` means all.
            exact: ``None`` searches deeper until the answer is proven, as far as Milvus goes; ``True`` then reads every
                vector of the query's aspects if it is not; ``False`` searches once.
            nprobe: How many lists a field of an inverted file is searched in.

        Raises:
            QueryError: ``k`` is more than Milvus gives, or ``nprobe`` is given and no field has lists.
            MilvusError: Milvus cannot be reached.
        """
        return self.top_k_batch([query], k, rows=rows, exact=exact, nprobe=nprobe)[0]

    def top_k_batch(
        self,
        queries: Sequence[Vectors],
        k: int | Sequence[int],
        *,
        rows: MilvusRows | None = None,
        exact: bool | None = None,
        nprobe: int | None = None,
    ) -> list[Ranking]:
        """Return what ``top_k`` gives for each query; ``k`` may differ from query to query."""
        if nprobe is not None and not any(kind.startswith("IVF") for kind in self._types.values()):
            raise QueryError("no vector field of the collection has inverted lists; leave out nprobe")
        if nprobe is None:  # a quarter of the lists that a push makes
            nprobe = max(1, round(math.sqrt(self._store.rows)))
        count = self._store.rows if rows is None else rows.count
        counts = [min(one, count) for one in ([k] * len(queries) if isinstance(k, int) else k)]
        if max(counts, default=0) > MAX_HITS and not exact:
            raise QueryError(
                f"Milvus gives at most {MAX_HITS:,} candidates a field, and {max(counts):,} hits are needed; ask for "
                "fewer, raise min_score or dedupe, or read every vector with exact=True"
            )
        if count == 0:
            return [Ranking(np.empty(0, np.int64), np.empty(0), True, 0) for _ in queries]
        depth = ONLY_DEPTH if exact is False else FIRST_DEPTH
        depth = min(max(depth, DEEPER * max(counts, default=1)), MAX_HITS)
        searches = [_Search(query, wanted) for query, wanted in zip(queries, counts, strict=True)]
        pending = searches
        while pending:
            lists = self._lists([search.query for search in pending], min(depth, count), rows, nprobe)
            for search, found in zip(pending, lists, strict=True):
                self._judge(search, found, count)
            pending = [search for search in pending if not search.proven]
            if exact is False or depth >= min(MAX_HITS, count):
                break
            depth = min(DEEPER * depth, MAX_HITS)
        unproven = [search for search in searches if not search.proven or not self._is_exact(search.query)]
        if exact and unproven:
            self._scan(unproven, rows, count)
        return [
            Ranking(search.rows, search.scores, search.scanned or search not in unproven, search.rescored)
            for search in searches
        ]

    def _is_exact(self, query: Vectors) -> bool:
        return all(self._types.get(self._fields[slug]) == "FLAT" for slug in query)

    def _lists(
        self, queries: Sequence[Vectors], depth: int, rows: MilvusRows | None, nprobe: int
    ) -> list[dict[str, _List]]:
        """Return for each query, by slug, the best rows of that field alone; each field is asked for all queries."""
        lists: list[dict[str, _List]] = [{} for _ in queries]
        for slug in dict.fromkeys(slug for query in queries for slug in query):
            numbers = [number for number, query in enumerate(queries) if slug in query]
            sent = [_SentVector.of(queries[number][slug], self._dtype) for number in numbers]
            found = self._connection.search(
                self._fields[slug],
                [one.vector for one in sent],
                depth,
                expression="" if rows is None else rows.expression,
                options=self._options(self._fields[slug], depth, nprobe),
            )
            for number, one, (found_rows, scores) in zip(numbers, sent, found, strict=True):
                lists[number][slug] = _List(found_rows, np.ldexp(scores, one.exponent) + one.slack)
        return lists

    def _options(self, field_name: str, depth: int, nprobe: int) -> dict[str, int]:
        kind = self._types.get(field_name, "")
        if kind.startswith("HNSW"):
            return {"ef": 2 * depth}
        return {"nprobe": nprobe} if kind.startswith("IVF") else {}

    def _judge(self, search: _Search, lists: Mapping[str, _List], count: int) -> None:
        """Score the candidates that may be among the k best, the likeliest first, and see what the others can reach."""
        candidates = np.unique(np.concatenate([found.rows for found in lists.values()]))
        bounds, unseen = np.zeros(len(candidates)), 0.0
        for found in lists.values():
            lowest = -math.inf if len(found.rows) >= count else float(found.bounds.min(initial=math.inf))
            bound = np.full(len(candidates), lowest)
            bound[np.searchsorted(candidates, found.rows)] = found.bounds
            bounds += bound
            unseen += lowest
        order = np.argsort(-bounds, kind="stable")
        candidates, bounds = candidates[order], bounds[order]
        step = max(RESCORE_AT_LEAST, search.k)
        for start in range(0, len(candidates), step):
            if bounds[start] < search.kth_best:
                break
            self._score(search, candidates[start : start + step])
        search.proven = len(candidates) >= count or search.kth_best > unseen

    def _score(self, search: _Search, rows: NDArray[np.int64]) -> None:
        fresh = rows[~np.isin(rows, search.known)]
        if len(fresh) == 0:
            return
        self._store.fetch(list(search.query), fresh)
        # Which asks no more of a store than to gather.
        search.add(fresh, exact_scores(cast(StoredVectors, self._store), search.query, fresh))

    def _scan(self, searches: Sequence[_Search], rows: MilvusRows | None, count: int) -> None:
        """Score every row by reading its vectors."""
        slugs = list(dict.fromkeys(slug for search in searches for slug in search.query))
        step = max(1, min(MAX_HITS, SCAN_BYTES // (4 * self._store.dim * len(slugs))))
        for search in searches:
            search.restart()
        for start in range(0, self._store.rows, step):
            stop = min(start + step, self._store.rows)
            block = self._store.block(slugs, start, stop, "" if rows is None else rows.expression)
            for search in searches:
                scores = np.zeros(len(block["rows"]))
                for slug, vector in search.query.items():
                    scores += (block[slug].astype(np.float64) * vector).sum(axis=1)
                search.add(block["rows"], scores)
        for search in searches:
            search.scanned, search.rescored = True, count


@dataclass(frozen=True, eq=False)
class _List:
    """The best rows of one field, int64 (K,), and what each one's true score cannot exceed, float64 (K,)."""

    rows: NDArray[np.int64]
    bounds: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _SentVector:
    """A field's part of a query as it is sent.

    Attributes:
        vector: (D,) of the field's type, scaled by 2 ** -``exponent``.
        exponent: What scores are multiplied by two to the power of.
        slack: How far a true score may exceed what comes back, on the query's own scale.
    """

    vector: NDArray[np.float16] | NDArray[np.float32]
    exponent: int
    slack: float

    @classmethod
    def of(cls, vector: NDArray[np.float64], dtype: np.dtype) -> _SentVector:
        """Round a vector, float64 (D,), to the type of its field."""
        exponent = math.frexp(float(np.abs(vector).max()))[1]
        scaled = np.ldexp(vector, -exponent)
        sent = scaled.astype(dtype)
        # What rounding the query costs, and the bound of search/row_scores.py for its product with a row in float32.
        steps = (len(vector) + 2) * _UNIT_ROUNDOFF
        lost = float(np.linalg.norm(scaled - sent.astype(np.float64)))
        product = steps / (1.0 - steps) * float(np.linalg.norm(sent.astype(np.float64)))
        return cls(sent, exponent, math.ldexp((lost + product) * ROW_NORM + 1e-30, exponent))


@dataclass(eq=False)
class _Search:
    """A query on its way to its k best rows: those of all that are scored, the best first, equal scores by row."""

    query: Vectors
    k: int
    rows: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    scores: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    known: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    rescored: int = 0
    proven: bool = False
    scanned: bool = False

    @property
    def kth_best(self) -> float:
        """The score that a row must reach to be among the k best, as far as is known."""
        return float(self.scores[-1]) if len(self.scores) >= self.k else -math.inf

    def add(self, rows: NDArray[np.int64], scores: NDArray[np.float64]) -> None:
        """Take in rows that were not scored before."""
        if not self.scanned:
            self.known = np.concatenate([self.known, rows])
        self.rescored += len(rows)
        rows, scores = np.concatenate([self.rows, rows]), np.concatenate([self.scores, scores])
        best = np.lexsort((rows, -scores))[: self.k]
        self.rows, self.scores = rows[best], scores[best]

    def restart(self) -> None:
        """Forget what is known, to be given every row."""
        self.rows, self.scores = np.empty(0, np.int64), np.empty(0)
        self.known, self.scanned = np.empty(0, np.int64), True
