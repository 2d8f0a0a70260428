"""Which items are embedded under aspects that are not indexed, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from search.engine import Ranker
from search.exact import exact_scores
from search.live.live_vectors import LiveVectors
from search.live.look import LiveLook, totals
from search.live.overlay import Overlay
from search.live.surrogate import surrogate, telling
from search.selection import Selection
from search.vectors import RowVectors
from tpips_model.aspects import Aspect
from tpips_model.errors import TpipsError

__all__ = ["Candidates", "LiveQuery"]

Vectors = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class LiveQuery:
    """A compiled query, taken apart into what the index can answer and what it cannot.

    Attributes:
        stored: float64 (D,) by slug: the part over indexed aspects.
        live: The part over aspects that are not indexed.
        sources: The indexed aspects that foretell these.
        stand_ins: For each source the live part asked of that aspect instead.
        known: Items' vectors under the sources, side by side, and their scores by ``live``: the query's own images.
    """

    stored: Vectors
    live: Vectors
    sources: tuple[str, ...]
    stand_ins: tuple[Vectors, ...]
    known: tuple[tuple[NDArray[np.float64], float], ...]


@dataclass(eq=False)
class Candidates:
    """The items that have been chosen for a query so far.

    Attributes:
        live: The aspects that are not indexed.
        left_out: Rows that are not to be chosen.
        vectors: float16 (A, D) by row, under these.
        unreadable: Why the pictures of others could not be had, by row.
    """

    live: tuple[Aspect, ...]
    left_out: frozenset[int] = frozenset()
    vectors: dict[int, NDArray[np.float16]] = field(default_factory=dict)
    unreadable: dict[int, TpipsError] = field(default_factory=dict)

    @property
    def tried(self) -> int:
        """How many have been chosen."""
        return len(self.vectors) + len(self.unreadable)

    def overlay(self, store: RowVectors) -> tuple[NDArray[np.int64], Overlay]:
        """Return the rows of those that could be read, int64, ascending, and what gives all their vectors."""
        rows = np.array(sorted(self.vectors), np.int64)
        found = np.empty((len(rows), len(self.live), store.dim), np.float16)
        for place, row in enumerate(rows.tolist()):
            found[place] = self.vectors[row]
        by_slug = {aspect.slug: found[:, place] for place, aspect in enumerate(self.live)}
        return rows, Overlay(store, rows, by_slug)

    def embed(self, rows: Sequence[int], pictures: LiveVectors, progress: Callable[[int], None]) -> None:
        """Embed further items."""
        for row, made in pictures.of(rows, self.live, progress).items():
            if isinstance(made, TpipsError):
                self.unreadable[row] = made
            else:
                self.vectors[row] = made

    def choose(
        self,
        query: LiveQuery,
        look: LiveLook,
        *,
        engine: Ranker,
        store: RowVectors,
        pictures: LiveVectors,
        selection: Selection,
        exact: bool | None,
        nprobe: int | None,
    ) -> None:
        """Choose and embed items until there are as many as wanted.

        The first are those most like the query's images by the indexed aspects. After each batch, the query over these
        that foretells best what was found is learnt anew, and gives the next.

        Args:
            query: The query.
            look: How many are wanted.
            engine: Ranks by indexed aspects.
            store: The stored vectors.
            pictures: Embeds.
            selection: The items to choose from.
            exact: As ``Engine.top_k`` takes it.
            nprobe: Likewise.
        """

        def best(queries: Sequence[Vectors], wanted: int) -> list[int]:
            room = min(selection.count, wanted + self.tried + len(self.left_out))
            asked = [query for query in queries if any(vector.any() for vector in query.values())]
            if not asked:  # terms that cancel each other out by every indexed aspect
                return self._new([selection.spread(room)], wanted)
            rankings = engine.top_k_batch(asked, room, rows=selection.rows, exact=exact, nprobe=nprobe)
            return self._new([ranking.rows for ranking in rankings], wanted)

        final = min(look.candidates, selection.count)
        look.progress(0, final)
        for total in totals(final):
            while (wanted := total - self.tried) > 0:
                rows = best([self._learnt(query, store)], wanted) if self.vectors else best(query.stand_ins, wanted)
                if not rows:
                    return
                done = self.tried
                self.embed(rows, pictures, lambda more, done=done: look.progress(done + more, final))  # type: ignore[misc]

    def _learnt(self, query: LiveQuery, store: RowVectors) -> Vectors:
        """Return the query over indexed aspects that foretells best what was found; the stand-ins' sum if none does."""
        rows, overlay = self.overlay(store)
        scores = exact_scores(overlay, query.live, rows)
        kept = telling(scores)
        rows, scores = rows[kept], scores[kept]
        sides = np.concatenate([store.gather(slug, rows) for slug in query.sources], axis=1)
        if query.known:
            sides = np.concatenate([sides, [vectors for vectors, _ in query.known]])
            scores = np.concatenate([scores, [score for _, score in query.known]])
        weights = surrogate(sides, scores)
        if not weights.any():
            return _sum(query.stand_ins)
        learnt = dict(zip(query.sources, np.split(weights, len(query.sources)), strict=True))
        return _sum([query.stored, learnt])

    def _new(self, rankings: Sequence[NDArray[np.int64]], wanted: int) -> list[int]:
        """Return the first rows of some rankings, each ranking's first before any one's second, that are new."""
        found: dict[int, None] = {}
        for place in range(max(map(len, rankings), default=0)):
            for ranking in rankings:
                row = int(ranking[place]) if place < len(ranking) else -1
                taken = row in self.vectors or row in self.unreadable or row in self.left_out
                if row >= 0 and not taken and len(found) < wanted:
                    found[row] = None
        return list(found)


def _sum(parts: Sequence[Vectors]) -> Vectors:
    total: dict[str, NDArray[np.float64]] = {}
    for part in parts:
        for slug, vector in part.items():
            total[slug] = total[slug] + vector if slug in total else vector
    return total
