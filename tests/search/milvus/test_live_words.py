"""Words that are not indexed, asked of a collection in Milvus Lite and of the directory that it was pushed from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from search import Searcher
from search.terms import QueryError, TermLike
from tests.fixtures.indices import StubEmbedder, write_index
from tests.search.conftest import ASPECTS, COUNT, png
from tests.search.milvus.conftest import push

WORDS = "evening mood"


def test_a_collection_looks_at_pictures_as_the_directory_does(tmp_path: Path) -> None:
    pictures = [png(seed) for seed in range(COUNT)]
    vectors = StubEmbedder().embed(pictures, ASPECTS)
    index = write_index(
        tmp_path / "index",
        {aspect: vectors[:, column] for column, aspect in enumerate(ASPECTS)},
        pictures=pictures,
        metadata=[{"year": 1900 + number} for number in range(COUNT)],
    )
    address = f"milvus:{tmp_path / 'vectors.db'}/pictures"
    push(index, address)
    directory = Searcher.open(index, model=StubEmbedder())
    collection = Searcher.open(address, model=StubEmbedder(), data_root=index / "gallery")
    asked: list[tuple[list[TermLike], dict[str, Any]]] = [
        ([("picture-000003", WORDS)], {"live": COUNT}),
        ([(png(99), WORDS), ("picture-000004", "brushwork", -0.3)], {"live": 18, "overall_penalty": 0.2}),
        ([("picture-000003", WORDS)], {"live": 6, "where": "year >= 1910"}),
    ]
    for terms, options in asked:
        found, expected = collection.query(terms, **options), directory.query(terms, **options)
        assert len(found) > 3
        assert found.to_record()["hits"] == expected.to_record()["hits"]
        assert (found.live, found.exact) == (expected.live, expected.exact)
    with pytest.raises(QueryError, match="cannot be compared by 'evening mood', which is not indexed"):
        Searcher.open(address, model=StubEmbedder()).query([("picture-000003", WORDS)], live=8)
