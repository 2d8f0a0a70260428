"""One version of an index, opened for searching: what every query to it needs, all of that version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from indexer import IndexDirectory
from search.answer import Answerer, Page
from search.answer_hits import answer_hits
from search.engine import Engine
from search.hits import Hits
from search.items import Items
from search.live.live_search import LiveSearch
from search.live.look import LiveLook
from search.prepared_query import PreparedTerm, QueryPreparer
from search.query_embedder import QueryEmbedder
from search.selection import Selection, Selections, Where
from search.vectors import StoredVectors
from tpips_model.aspects import OVERALL

__all__ = ["OpenedIndex"]


@dataclass(frozen=True, eq=False)
class OpenedIndex:
    """A version of an index with what reads it; nothing of it changes, whatever is written to the index meanwhile."""

    index: IndexDirectory
    items: Items
    store: StoredVectors
    selections: Selections
    preparer: QueryPreparer
    answerer: Answerer
    live: LiveSearch

    @classmethod
    def of(
        cls, index: IndexDirectory, embedder: QueryEmbedder, *, devices: Sequence[str], codes_memory: int
    ) -> OpenedIndex:
        """Make an opened index ready; nothing but what ``IndexDirectory.open`` reads is read.

        Args:
            index: The index.
            embedder: Embeds the pictures of queries.
            devices: As ``Engine`` takes them.
            codes_memory: Likewise.
        """
        items = Items(index)
        store = StoredVectors.of_index(index)
        engine = Engine(store, index, devices=devices, codes_memory=codes_memory)
        return cls(
            index=index,
            items=items,
            store=store,
            selections=Selections(items, index.live_rows()),
            preparer=QueryPreparer(index, items, store, embedder),
            answerer=Answerer(engine, store, items, index),
            live=LiveSearch(index, items, store, engine, embedder),
        )

    def hits(
        self,
        queries: Sequence[tuple[PreparedTerm, ...]],
        page: Page,
        penalty: float,
        where: Where | None,
        look: LiveLook | None = None,
    ) -> list[Hits]:
        """Return a page of hits for each query.

        Args:
            queries: Each query's terms, as ``preparer.terms`` gives them.
            page: Which of the ranked items are wanted.
            penalty: λ.
            where: As ``Searcher.query`` takes it.
            look: How many items are embedded for each query whose terms name aspects that are not indexed.

        Raises:
            TpipsError: As ``Searcher.query``.
        """
        if page.dedupe is not None:
            self.preparer.aspect(OVERALL)
        selection = self.selections.of(where)
        found: dict[int, Hits] = {}
        if look is not None:
            found = {
                number: self.live.hits(terms, page, penalty, selection, look)
                for number, terms in enumerate(queries)
                if not all(self.preparer.is_indexed(term.aspect) for term in terms)
            }
        indexed = [number for number in range(len(queries)) if number not in found]
        found.update(
            zip(indexed, self._indexed_hits([queries[n] for n in indexed], page, penalty, selection), strict=True)
        )
        return [found[number] for number in range(len(queries))]

    def _indexed_hits(
        self, queries: Sequence[tuple[PreparedTerm, ...]], page: Page, penalty: float, selection: Selection
    ) -> list[Hits]:
        prepared = self.preparer.queries(queries, penalty, with_overall=page.exclude_queries)
        answers = self.answerer.answers(prepared, page, selection)
        return [
            answer_hits(
                query,
                answer,
                page,
                penalty=penalty,
                selection=selection,
                store=self.store,
                items=self.items,
                index=self.index,
            )
            for query, answer in zip(prepared, answers, strict=True)
        ]
