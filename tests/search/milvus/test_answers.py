"""What a searcher promises, on an index directory and on the same index pushed to Milvus Lite."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from indexer import IndexDirectory, IndexDirectoryError
from search import Searcher
from search.milvus import engine as milvus_engine
from search.terms import QueryError
from tests.fixtures.indices import StubEmbedder
from tests.search.conftest import ASPECTS, png, unit
from tests.search.milvus.conftest import COUNT, Query, answered, push, random_queries
from tpips_model.errors import AspectError, ModelError


@pytest.fixture(scope="module", params=["directory", "milvus"])
def searcher(request: pytest.FixtureRequest, index: Path, address: str) -> Searcher:
    return Searcher.open(index if request.param == "directory" else address)


@pytest.fixture(scope="module")
def vectors(index: Path) -> dict[str, NDArray[np.float64]]:
    opened = IndexDirectory.open(index)
    return {a.text: np.concatenate(opened.vectors(a)).astype(np.float64) for a in opened.aspects}


def brute_force(query: Query, vectors: dict[str, NDArray[np.float64]], k: int) -> list[tuple[int, float]]:
    scores = np.zeros(COUNT)
    for key, aspect, weight in query.terms:
        image = slice(int(key[-6:]), int(key[-6:]) + 1)
        scores += weight * vectors[aspect] @ unit(vectors[aspect][image])[0]
        if aspect != "overall":
            scores -= weight * query.penalty * vectors["overall"] @ unit(vectors["overall"][image])[0]
    own = set()
    for number in {int(key[-6:]) for key, _, _ in query.terms}:
        # Five items have the vectors of number 100.
        own |= {100, *range(240, 245)} if number in {100, *range(240, 245)} else {number}
    rows = [row for row in query.kept.tolist() if row not in own]
    return sorted(((row, scores[row]) for row in rows), key=lambda pair: (-pair[1], pair[0]))[:k]


def test_answers_are_those_of_a_brute_force(searcher: Searcher, vectors: dict[str, NDArray[np.float64]]) -> None:
    for query in random_queries(24, seed=1):
        hits = searcher.query(query.terms, 8, query.penalty, where=query.where)
        expected = brute_force(query, vectors, 8)
        assert [hit.row for hit in hits] == [row for row, _ in expected]
        np.testing.assert_allclose([hit.score for hit in hits], [score for _, score in expected], atol=1e-12)
        assert hits.exact
        assert (hits.total, hits.selected, hits.where) == (COUNT, len(query.kept), query.where)
        np.testing.assert_allclose([sum(hit.contributions) for hit in hits], [hit.score for hit in hits], atol=1e-12)


def test_a_hundred_random_queries_equal_the_directorys_to_the_bit(index: Path, address: str) -> None:
    directory, collection = Searcher.open(index), Searcher.open(address)
    for number, query in enumerate(random_queries(100, seed=2)):
        page: dict[str, Any] = {
            "k": 1 + number % 12,
            "overall_penalty": query.penalty,
            "where": query.where,
            "offset": number % 5,
        }
        expected = directory.query(query.terms, **page)
        found = collection.query(query.terms, **page)
        assert answered(found) == answered(expected)
        assert found.exact


@pytest.mark.parametrize("deepest", [16_384, 16])
def test_shallow_searches_are_deepened_and_never_called_exact_without_proof(
    index: Path, address: str, monkeypatch: pytest.MonkeyPatch, deepest: int
) -> None:
    monkeypatch.setattr(milvus_engine, "FIRST_DEPTH", 4)
    monkeypatch.setattr(milvus_engine, "MAX_HITS", deepest)
    directory, collection = Searcher.open(index), Searcher.open(address)
    proven = 0
    for query in random_queries(30, seed=3):
        expected = answered(directory.query(query.terms, 2, query.penalty, where=query.where))
        found = collection.query(query.terms, 2, query.penalty, where=query.where)
        proven += found.exact
        if found.exact:
            assert answered(found) == expected
        read = collection.query(query.terms, 2, query.penalty, where=query.where, exact=True)
        assert read.exact
        assert answered(read) == expected
    assert proven == 30 if deepest > COUNT else 0 < proven < 30


def test_one_search_a_field_is_enough_for_approximate_answers(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milvus_engine, "ONLY_DEPTH", 40)
    hits = Searcher.open(address).query(
        [("picture-000001", "brushwork", 1.0), ("picture-000050", "color palette", -1.0)], 5, exact=False
    )
    assert len(hits) == 5
    assert 5 <= hits.rescored <= 80


def test_pages_join_and_low_scores_are_left_out(searcher: Searcher) -> None:
    terms = [("picture-000003", "brushwork", 1.0), ("picture-000090", "overall", -0.4)]
    whole = searcher.query(terms, 30)
    paged = [hit for offset in range(0, 30, 7) for hit in searcher.query(terms, 7, offset=offset)]
    assert [hit.key for hit in paged[:30]] == whole.keys
    assert [hit.rank for hit in paged] == list(range(1, 36))
    floor = whole[11].score
    assert searcher.query(terms, 30, min_score=floor).keys == whole.keys[:12]


def test_near_duplicates_collapse_alike(index: Path, address: str) -> None:
    directory, collection = Searcher.open(index), Searcher.open(address)
    duplicates = 0
    for row in (5, 100, 175, 210):
        terms = [(f"picture-{row:06d}", "brushwork", 1.0)]
        expected = directory.query(terms, 12, 0.3, dedupe=0.98)
        assert answered(collection.query(terms, 12, 0.3, dedupe=0.98)) == answered(expected)
        duplicates += sum(len(hit.duplicates) for hit in expected)
    assert duplicates


def test_a_batch_is_its_queries(searcher: Searcher) -> None:
    queries = [query.terms for query in random_queries(10, seed=4)]
    together = searcher.query_batch(queries, 5, 0.3, where="year >= 1950")
    assert [answered(hits) for hits in together] == [
        answered(searcher.query(terms, 5, 0.3, where="year >= 1950")) for terms in queries
    ]


def test_similar_takes_the_models_penalty(searcher: Searcher) -> None:
    hits = searcher.similar("picture-000009", "brushwork", 6)
    assert hits.overall_penalty == 0.25
    assert answered(hits) == answered(searcher.query([("picture-000009", "brushwork")], 6, 0.25))


def test_keys_columns_and_percentiles(searcher: Searcher) -> None:
    assert len(searcher) == len(searcher.keys) == COUNT
    assert list(searcher.keys) == [f"picture-{row:06d}" for row in range(COUNT)]
    assert searcher.keys.page(298, 9) == ["picture-000298", "picture-000299"]
    assert searcher.keys[17] == searcher.keys[17:18][0] == "picture-000017"
    assert (searcher.keys.row("picture-000017"), searcher.keys.row("else"), "else" in searcher.keys) == (
        17,
        None,
        False,
    )
    assert searcher.columns.names[-3:] == ["artist", "year", "été"]
    assert [aspect.text for aspect in searcher.aspects] == list(ASPECTS)
    for where in (None, "year >= 2000"):
        hits = searcher.query([("picture-000003", "brushwork")], 3, where=where)
        assert hits.percentile(hits[0].score) == pytest.approx(100 - 100 / hits.selected, abs=1)
    with pytest.raises(QueryError, match=r"neither the key of an indexed item nor an existing .*'picture-000017'"):
        searcher.query([("icture-000017", "brushwork")])
    with pytest.raises(AspectError, match="aspect 'shape' is not indexed; indexed aspects: 'overall', 'brushwork'"):
        searcher.query([("picture-000017", "shape")])


def test_what_a_collection_lacks_is_added_to_the_index_that_was_pushed(address: str) -> None:
    with pytest.raises(AspectError, match="build --out INDEX --aspect shape, and then tpips-index push INDEX milvus:"):
        Searcher.open(address).query([("picture-000017", "shape")])


def test_threads_may_ask_at_once(index: Path, address: str) -> None:
    collection, queries = Searcher.open(address), random_queries(12, seed=5)
    directory = Searcher.open(index)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda q: answered(collection.query(q.terms, 5, where=q.where)), queries))
    assert found == [answered(directory.query(q.terms, 5, where=q.where)) for q in queries]


def test_pictures_are_embedded_and_found_again(gallery: Path, pictures: list[bytes], tmp_path: Path) -> None:
    there = f"milvus:{tmp_path / 'gallery.db'}/gallery"
    push(gallery, there)
    directory = Searcher.open(gallery, model=StubEmbedder())
    collection = Searcher.open(there, model=StubEmbedder(), data_root=gallery / "gallery")
    for image in (pictures[3], "picture 03", png(1234)):
        for terms in ([(image, "brushwork")], [(image, "overall", 1.0), (pictures[5], "color palette", -0.5)]):
            expected = directory.query(terms, 10, 0.3)
            found = collection.query(terms, 10, 0.3)
            assert answered(found) == answered(expected)
            assert found.image(0).tobytes() == expected.image(0).tobytes()
    assert "picture 07" not in collection.query([(pictures[3], "brushwork")], 30).keys  # a copy of number 3
    homeless = Searcher.open(there, model=StubEmbedder())
    hits = homeless.query([("picture 03", "brushwork")], 3)
    assert hits.keys == directory.query([("picture 03", "brushwork")], 3).keys
    with pytest.raises(IndexDirectoryError, match="a Milvus collection holds no pictures; say where they are"):
        hits.image(0)
    stranger = StubEmbedder()
    stranger.fingerprint = "stub:2"
    with pytest.raises(ModelError, match=r"milvus:.*/gallery was made by the model 'stub'"):
        Searcher.open(there, model=stranger)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nprobe": 3}, "no vector field of the collection has inverted lists"),
        ({"k": 20}, "Milvus gives at most 16 candidates a field, and 21 hits are needed"),
    ],
)
def test_what_milvus_does_not_give(
    address: str, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(milvus_engine, "MAX_HITS", 16)
    with pytest.raises(QueryError, match=message):
        Searcher.open(address).query([("picture-000001", "brushwork")], **options)


@pytest.mark.parametrize("kind", ["hnsw", "ivf_flat", "ivf_sq8"])
def test_other_indexes_find_much_and_prove_nothing(index: Path, tmp_path: Path, kind: str) -> None:
    there = f"milvus:{tmp_path / 'other.db'}/pictures"
    assert push(index, there, index_type=kind, aspects=["brushwork", "overall"]).index_type == kind.upper()
    directory, collection = Searcher.open(index), Searcher.open(there)
    shared = 0
    for query in random_queries(10, seed=6):
        terms = [(key, "brushwork", weight) for key, _, weight in query.terms]
        expected, found = directory.query(terms, 5), collection.query(terms, 5)
        assert not found.exact
        shared += len({*expected.keys} & {*found.keys})
        assert answered(collection.query(terms, 5, exact=True)) == answered(expected)
    assert shared >= 40
