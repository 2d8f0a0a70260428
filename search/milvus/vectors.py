"""The vectors of a Milvus collection by row, as ``StoredVectors`` gives those of an index directory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from search.milvus.connection import MAX_HITS, ROW, MilvusConnection
from search.milvus.facts import CollectionFacts

__all__ = ["MilvusVectors"]

# A query asks for the same rows several times: to score them, to tell its own image, and for each term's share.
KEPT_BYTES = 64 << 20
FETCH_BYTES = 16 << 20


class MilvusVectors:
    """Fetches vectors, the halves that were pushed, and keeps the latest; several threads may ask at once.

    Args:
        connection: The collection.
        facts: What it says of itself.
    """

    def __init__(self, connection: MilvusConnection, facts: CollectionFacts) -> None:
        self._connection = connection
        self._fields = facts.vector_fields
        self._kept: OrderedDict[tuple[str, int], NDArray[np.float16]] = OrderedDict()
        self._lock = threading.Lock()
        self.dim = facts.model.dim
        self.rows = facts.count

    def gather(self, slug: str, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the given rows of one aspect, float64 (K, D), in the order given."""
        found = self.fetch([slug], rows)
        out = np.empty((len(rows), self.dim), np.float64)
        for place, row in enumerate(rows.tolist()):
            out[place] = found[slug, row]
        return out

    def vector(self, slug: str, row: int) -> NDArray[np.float64]:
        """Return one row of one aspect, float64 (D,)."""
        return self.gather(slug, np.array([row], np.int64))[0]

    def fetch(self, slugs: Sequence[str], rows: NDArray[np.int64]) -> dict[tuple[str, int], NDArray[np.float16]]:
        """Return the given rows of several aspects, float16 (D,) by slug and row, and keep them for ``gather``.

        Raises:
            MilvusError: A row is not there any more.
        """
        found: dict[tuple[str, int], NDArray[np.float16]] = {}
        missing: dict[int, None] = {}
        with self._lock:
            for row in rows.tolist():
                for slug in slugs:
                    kept = self._kept.get((slug, row))
                    if kept is None:
                        missing[row] = None
                    else:
                        self._kept.move_to_end((slug, row))
                        found[slug, row] = kept
        wanted = np.array(list(missing), np.int64)
        at_once = max(1, min(MAX_HITS, FETCH_BYTES // (4 * self.dim * len(slugs))))
        for start in range(0, len(wanted), at_once):
            records = self._connection.by_row(wanted[start : start + at_once], [self._fields[slug] for slug in slugs])
            fresh = {
                (slug, row): self.halves(record[self._fields[slug]])
                for row, record in records.items()
                for slug in slugs
            }
            found.update(fresh)
            with self._lock:
                self._kept.update(fresh)
                while 2 * self.dim * len(self._kept) > KEPT_BYTES:
                    self._kept.popitem(last=False)
        return found

    def block(self, slugs: Sequence[str], start: int, stop: int, expression: str) -> dict[str, Any]:
        """Return the rows from ``start`` to ``stop`` that fulfil an expression, and their vectors.

        Returns:
            "rows", int64 (K,) ascending, and for each slug float16 (K, D).
        """
        inside = f"{ROW} >= {start} and {ROW} < {stop}"
        records = self._connection.rows(
            f"{inside} and {expression}" if expression else inside,
            [self._fields[slug] for slug in slugs],
            limit=stop - start,
        )
        records.sort(key=lambda record: int(record[ROW]))
        block: dict[str, Any] = {"rows": np.array([int(record[ROW]) for record in records], np.int64)}
        for slug in slugs:
            block[slug] = np.empty((len(records), self.dim), np.float16)
            for place, record in enumerate(records):
                block[slug][place] = self.halves(record[self._fields[slug]])
        return block

    def halves(self, value: Any) -> NDArray[np.float16]:
        """Return a vector as pymilvus gives it, the bytes of halves or a list of floats, as float16 (D,)."""
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], bytes):
            value = value[0]
        if isinstance(value, bytes):
            return np.frombuffer(value, "<f2").astype(np.float16)
        return np.asarray(value, np.float32).astype(np.float16)
