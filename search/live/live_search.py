"""Answering queries by words that are not indexed, among the likeliest items, which are embedded under them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from indexer import IndexDirectory
from search.answer import Answerer, Page
from search.answer_hits import answer_hits
from search.engine import Ranker
from search.hits import Hits, LiveFacts
from search.items import Items
from search.live.candidates import Candidates, LiveQuery
from search.live.live_vectors import LiveVectors
from search.live.look import LiveLook
from search.live.overlay import FewRows, Overlay
from search.prepared_query import PreparedQuery, PreparedTerm, needed_slugs, prepared_query
from search.query_embedder import QueryEmbedder
from search.query_image import QueryImage, stored_unit_vectors
from search.selection import Selection
from search.terms import QueryError
from search.vectors import RowVectors
from tpips_model.aspects import OVERALL, Aspect
from tpips_model.errors import TpipsError

__all__ = ["LiveSearch"]

# Every further aspect makes each batch's search dearer; what the nearest few do not foretell, others hardly do.
MAX_SOURCES = 4

Vectors = Mapping[str, NDArray[np.float64]]
_ByImage = dict[tuple[str, object], Vectors]


@dataclass(eq=False)
class LiveSearch:
    """Answers queries whose terms name aspects that are not indexed.

    Attributes:
        index: The index.
        items: Its items.
        store: Its vectors.
        engine: Ranks by its aspects.
        embedder: Its model.
    """

    index: IndexDirectory
    items: Items
    store: RowVectors
    engine: Ranker
    embedder: QueryEmbedder
    _pictures: LiveVectors = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._pictures = LiveVectors(self.index, self.items, self.embedder)

    def hits(
        self, terms: Sequence[PreparedTerm], page: Page, penalty: float, selection: Selection, look: LiveLook
    ) -> Hits:
        """Return a page of the best among the likeliest items, all of which are scored exactly.

        Args:
            terms: The terms; the aspects of some are not indexed.
            page: Which of the ranked items are wanted.
            penalty: λ.
            selection: The items to choose from.
            look: How many of them are embedded.

        Raises:
            QueryError: No picture can be read where it was when it was indexed.
            TpipsError: Otherwise as ``Searcher.query``.
        """
        live = self._live(terms)
        images = {term.image.identity: term.image for term in terms}
        vectors = self._image_vectors(list(images.values()), live)
        overall = any(aspect.is_overall for aspect in (*self.index.aspects, *live))
        needed = needed_slugs(terms, penalty, with_overall=page.exclude_queries and overall)
        prepared = prepared_query(terms, needed, vectors, penalty)
        # They would be left out of the hits, and need no look.
        own = frozenset(image.row for image in images.values() if image.row is not None and page.exclude_queries)
        candidates = Candidates(live, own)
        if selection.count:
            candidates.choose(
                self._taken_apart(prepared, live, vectors),
                look,
                engine=self.engine,
                store=self.store,
                pictures=self._pictures,
                selection=selection,
                exact=page.exact,
                nprobe=page.nprobe,
            )
        if candidates.unreadable and not candidates.vectors:
            raise _all_unreadable(live, list(candidates.unreadable.values()))
        rows, overlay = candidates.overlay(self.store)
        chosen = Selection(selection.where, rows, len(rows))
        engine = FewRows(overlay, all_there_are=len(rows) + _within(own, selection) == selection.count)
        answer = Answerer(engine, overlay, self.items, self.index).answers([prepared], page, chosen)[0]
        return answer_hits(
            prepared,
            answer,
            page,
            penalty=penalty,
            selection=chosen,
            store=overlay,
            items=self.items,
            index=self.index,
            live=LiveFacts(tuple(aspect.text for aspect in live), selection.count, len(candidates.unreadable)),
        )

    def _live(self, terms: Sequence[PreparedTerm]) -> tuple[Aspect, ...]:
        indexed = {aspect.slug for aspect in self.index.aspects}
        return tuple({term.aspect.slug: term.aspect for term in terms if term.aspect.slug not in indexed}.values())

    def _image_vectors(self, images: Sequence[QueryImage], live: Sequence[Aspect]) -> _ByImage:
        """Return the unit vectors of the query's images under all indexed aspects, and those that are not."""
        found: _ByImage = {}
        indexed = self.index.aspects
        rows = {image.row: image for image in images if image.row is not None}
        made = self._pictures.of(list(rows), live, lambda done: None)
        for row, image in rows.items():
            own = made[row]
            if isinstance(own, TpipsError):
                raise QueryError(
                    f"{image.label!r} cannot be compared by {_words(live)}, which is not indexed: {own}"
                ) from own
            by_slug = {aspect.slug: own[place : place + 1] for place, aspect in enumerate(live)}
            overlay = Overlay(self.store, np.array([row], np.int64), by_slug)
            slugs = [aspect.slug for aspect in (*indexed, *live)]
            found[image.identity] = stored_unit_vectors(overlay, row, slugs, key=image.label)
        pictures = [image for image in images if image.row is None]
        embedded = self.embedder(pictures, [*indexed, *live]) if pictures else []
        found.update({image.identity: own for image, own in zip(pictures, embedded, strict=True)})
        return found

    def _taken_apart(self, query: PreparedQuery, live: Sequence[Aspect], vectors: _ByImage) -> LiveQuery:
        slugs = {aspect.slug for aspect in live}
        stored = {slug: vector for slug, vector in query.compiled.vectors.items() if slug not in slugs}
        asked = {slug: vector for slug, vector in query.compiled.vectors.items() if slug in slugs}
        terms = [term for term in query.terms if term.aspect.slug in slugs]
        sources = self._sources(terms, vectors)
        stand_ins = []
        for source in sources:
            own = np.sum([term.weight * vectors[term.image.identity][source] for term in terms], axis=0)
            stand_ins.append({**stored, source: stored[source] + own if source in stored else own})
        known = []
        for identity in dict.fromkeys(term.image.identity for term in terms):
            of_image = vectors[identity]
            side = np.concatenate([of_image[slug] for slug in sources])
            known.append((side, sum(float(vector @ of_image[slug]) for slug, vector in asked.items())))
        return LiveQuery(stored, asked, sources, tuple(stand_ins), tuple(known))

    def _sources(self, terms: Sequence[PreparedTerm], vectors: _ByImage) -> tuple[str, ...]:
        """Return the indexed aspects, overall first, under which the query's images look most as under its words."""
        slugs = [aspect.slug for aspect in self.index.aspects]

        def affinity(slug: str) -> float:
            pairs = [(vectors[term.image.identity], term.aspect.slug) for term in terms]
            return sum(abs(float(own[slug] @ own[words])) for own, words in pairs)

        return tuple(sorted(slugs, key=lambda slug: (slug != OVERALL.slug, -affinity(slug)))[:MAX_SOURCES])


def _within(rows: Iterable[int], selection: Selection) -> int:
    """Return how many of some rows of items that are not removed are selected; 0 where only a server knows."""
    if selection.rows is None:
        return sum(1 for _ in rows)
    if not isinstance(selection.rows, np.ndarray):
        return 0
    return int(np.isin(list(rows), selection.rows).sum())


def _words(live: Sequence[Aspect]) -> str:
    return " and ".join(repr(aspect.text) for aspect in live)


def _all_unreadable(live: Sequence[Aspect], reasons: Sequence[TpipsError]) -> QueryError:
    return QueryError(
        f"{_words(live)} is not indexed, and none of the {len(reasons):,} pictures that were to be looked at can be "
        f"read: {reasons[0]}"
    )
