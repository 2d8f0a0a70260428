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
from search.prepared_query import PreparedTerm, QueryPreparer
from search.query_embedder import QueryEmbedder
from search.selection import Selections, Where
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
        )

    def hits(
        self, queries: Sequence[tuple[PreparedTerm, ...]], page: Page, penalty: float, where: Where | None
    ) -> list[Hits]:
        """Return a page of hits for each query.

        Args:
            queries: Each query's terms, as ``preparer.terms`` gives them.
            page: Which of the ranked items are wanted.
            penalty: λ.
            where: As ``Searcher.query`` takes it.

        Raises:
            TpipsError: As ``Searcher.query``.
        """
        if page.dedupe is not None:
            self.preparer.aspect(OVERALL)
        selection = self.selections.of(where)
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
