"""A Milvus collection opened for searching: the parts of a searcher that differ from an index directory's."""

from __future__ import annotations

from typing import Any

from search.answer import Answerer
from search.live.live_search import LiveSearch
from search.milvus.engine import MilvusEngine
from search.milvus.index import MilvusIndex
from search.milvus.items import MilvusItems
from search.milvus.selection import MilvusSelections
from search.milvus.vectors import MilvusVectors
from search.opened_index import OpenedIndex
from search.prepared_query import QueryPreparer
from search.query_embedder import QueryEmbedder

__all__ = ["opened_collection"]


def opened_collection(index: MilvusIndex, embedder: QueryEmbedder) -> OpenedIndex:
    """Make an opened collection ready to be searched; nothing is read.

    Args:
        index: The collection.
        embedder: Embeds the pictures of queries.
    """
    items = MilvusItems(index.connection, index.facts)
    store = MilvusVectors(index.connection, index.facts)
    engine = MilvusEngine(index.connection, index.facts, store, index_types=index.index_types, halves=index.halves)
    # What follows names the classes of index directories, and asks no more of them than these give.
    parts: dict[str, Any] = {"index": index, "items": items, "store": store}
    selections: Any = MilvusSelections(index.connection, index.facts)
    ranker: Any = engine
    return OpenedIndex(
        **parts,
        selections=selections,
        preparer=QueryPreparer(**parts, embed=embedder),
        answerer=Answerer(ranker, **parts),
        live=LiveSearch(**parts, engine=ranker, embedder=embedder),
    )
