"""Answering prepared queries: the best rows without the query's own images, near-duplicates and low scores."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from indexer import IndexDirectory
from search.engine import Ranker, Ranking
from search.exact import exact_scores
from search.items import Items
from search.near_duplicates import collapse, near_duplicates
from search.prepared_query import PreparedQuery
from search.query_image import QueryImage
from search.same_picture import is_query_image
from search.selection import Selection
from search.terms import QueryError, finite_number
from search.vectors import RowVectors

__all__ = ["Answer", "Answerer", "Page", "make_page"]


@dataclass(frozen=True)
class Page:
    """Which of the ranked items are wanted.

    Attributes:
        k: How many at most.
        offset: How many better ones are passed over.
        min_score: The lowest score, or ``None``.
        dedupe: From which overall cosine on two items are near-duplicates, or ``None`` if none are collapsed.
        exclude_queries: Whether the query's own images are left out.
        exact: As ``Engine.top_k`` takes it.
        nprobe: Likewise.
    """

    k: int
    offset: int = 0
    min_score: float | None = None
    dedupe: float | None = None
    exclude_queries: bool = True
    exact: bool | None = None
    nprobe: int | None = None

    @property
    def end(self) -> int:
        """How many of the best it takes to fill the page."""
        return self.offset + self.k


def make_page(
    k: int,
    offset: int,
    min_score: float | None,
    dedupe: float | None,
    exclude_queries: bool,
    exact: bool | None,
    nprobe: int | None = None,
) -> Page:
    """Return the page that a caller asks for.

    Raises:
        QueryError: An argument is out of its range.
    """
    if min_score is not None:
        min_score = finite_number(min_score, "min_score")
    if dedupe is not None:
        dedupe = finite_number(dedupe, "dedupe")
        if not 0.0 < dedupe <= 1.0:
            raise QueryError(f"dedupe must be a cosine above 0 and at most 1, such as 0.98, not {dedupe:g}")
    if not isinstance(exclude_queries, bool):
        raise QueryError(f"exclude_queries must be True or False, not {exclude_queries!r}")
    if exact is not None and not isinstance(exact, bool):
        raise QueryError(f"exact must be True, False or None, not {exact!r}")
    if nprobe is not None:
        nprobe = _whole(nprobe, 1, "nprobe must be a whole number of lists to look into, at least 1")
        if exact:
            raise QueryError("nprobe is for approximate searches; leave it out, or exact=True")
    return Page(
        k=_whole(k, 1, "k must be a whole number of hits, at least 1"),
        offset=_whole(offset, 0, "offset must be a whole number of hits to pass over, at least 0"),
        min_score=min_score,
        dedupe=dedupe,
        exclude_queries=exclude_queries,
        exact=exact,
        nprobe=nprobe,
    )


def _whole(value: int, least: int, expected: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise QueryError(f"{expected}, not {value!r}")
    return number


@dataclass(frozen=True, eq=False)
class Answer:
    """The rows of a page, the best first.

    Attributes:
        rows: int64 (K,).
        scores: float64 (K,).
        duplicates: For each row the rows that it stands for, the best first.
        exact: Whether the page is proven to be what a full scan gives.
        rescored: How many items were scored exactly.
        probed: How many inverted lists were looked into; ``None`` if it did not go by lists.
    """

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]
    duplicates: list[NDArray[np.int64]]
    exact: bool
    rescored: int
    probed: int | None


class Answerer:
    """Answers prepared queries from one index.

    Args:
        engine: Ranks.
        store: The index's vectors.
        items: Its items.
        index: The index.
    """

    def __init__(self, engine: Ranker, store: RowVectors, items: Items, index: IndexDirectory) -> None:
        self._engine = engine
        self._store = store
        self._items = items
        self._index = index

    def answers(self, queries: Sequence[PreparedQuery], page: Page, selection: Selection) -> list[Answer]:
        """Return the same page of every query; all that need more rows ask the engine again together.

        Raises:
            QueryError: The approximate way is asked for, and the index has no codes.
            IndexDirectoryError: Stored vectors are damaged.
        """
        answers: dict[int, Answer] = {}
        # Room for the query's images, which are usually found right on top.
        wanted = {n: page.end + page.exclude_queries * len(query.images) for n, query in enumerate(queries)}
        while wanted:
            counts = [min(count, max(selection.count, 1)) for count in wanted.values()]
            vectors = [queries[number].compiled.vectors for number in wanted]
            rankings = self._engine.top_k_batch(
                vectors, counts, rows=selection.rows, exact=page.exact, nprobe=page.nprobe
            )
            more = {}
            for (number, count), ranking in zip(wanted.items(), rankings, strict=True):
                places = self._kept(queries[number], ranking, page)
                if len(places) < page.end and self._goes_on(ranking, count, page, selection):
                    more[number] = 2 * count + len(ranking.rows) - len(places)
                else:
                    answers[number] = self._answer(queries[number], ranking, places, page, selection)
            wanted = more
        return [answers[number] for number in range(len(queries))]

    def _kept(self, query: PreparedQuery, ranking: Ranking, page: Page) -> NDArray[np.int64]:
        """Return the places in a ranking of the items to show, up to the page's end."""
        places = np.arange(len(ranking.rows))
        if page.min_score is not None:
            places = places[ranking.scores >= page.min_score]
        if page.exclude_queries:
            places = places[~self._is_image(query.images, ranking.rows[places])]
        if page.dedupe is not None:
            return places[collapse(ranking.rows[places], self._store, page.dedupe, page.end)]
        return places[: page.end]

    @staticmethod
    def _goes_on(ranking: Ranking, asked: int, page: Page, selection: Selection) -> bool:
        """Tell whether further items could belong to the page."""
        if len(ranking.rows) < asked or asked >= selection.count:
            return False
        return page.min_score is None or bool(ranking.scores[-1] >= page.min_score)

    def _answer(
        self,
        query: PreparedQuery,
        ranking: Ranking,
        places: NDArray[np.int64],
        page: Page,
        selection: Selection,
    ) -> Answer:
        shown = places[page.offset :]
        rows = ranking.rows[shown]
        duplicates = [np.empty(0, np.int64)] * len(rows)
        if page.dedupe is not None and len(rows):
            # Those before the page count too: what they stand for is not the page's.
            groups = near_duplicates(
                ranking.rows[places],
                self._engine,
                self._store,
                page.dedupe,
                among=selection.rows,
                exact=page.exact,
                nprobe=page.nprobe,
            )
            duplicates = [self._ranked(query, group, page) for group in groups[page.offset :]]
        return Answer(rows, ranking.scores[shown], duplicates, ranking.exact, ranking.rescored, ranking.probed)

    def _ranked(self, query: PreparedQuery, rows: NDArray[np.int64], page: Page) -> NDArray[np.int64]:
        """Return those of a hit's near-duplicates that would be hits themselves, the best first."""
        scores = exact_scores(self._store, query.compiled.vectors, rows)
        order = np.lexsort((rows, -scores))
        if page.min_score is not None:
            order = order[scores[order] >= page.min_score]
        rows = rows[order]
        return rows[~self._is_image(query.images, rows)] if page.exclude_queries else rows

    def _is_image(self, images: Sequence[QueryImage], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        return is_query_image(images, rows, self._store, self._items, self._index)
