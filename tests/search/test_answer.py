"""Selections, pages, lowest scores and batches against a brute force over the stored vectors."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from indexer import IndexDirectoryError
from search import Hits, Searcher
from search.terms import QueryError, TermLike
from tests.fixtures.indices import StubEmbedder, write_index
from tests.search.conftest import ASPECTS, COUNT, png, unit
from tests.search.test_searcher import CountingEmbedder
from tpips_model.errors import AspectError

ITEMS, DIM = 300, 8
Shown = list[tuple[str, float, int, tuple[str, ...], tuple[float, ...]]]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    """An index of which every tenth item has a copy, with metadata that is sometimes missing."""
    generator = np.random.default_rng(11)
    vectors = {aspect: unit(generator.standard_normal((ITEMS, DIM))).astype(np.float32) for aspect in ASPECTS}
    for array in vectors.values():
        array[5::10] = array[::10]
    metadata: list[dict[str, Any]] = [
        {"number": row, "group": None if row % 7 == 0 else row % 4} for row in range(ITEMS)
    ]
    return Searcher.open(write_index(tmp_path_factory.mktemp("large") / "index", vectors, metadata=metadata))


def shown(hits: Hits) -> Shown:
    return [(hit.key, hit.score, hit.rank, hit.duplicates, hit.contributions) for hit in hits]


def brute_force(searcher: Searcher, terms: list[tuple[str, str, float]], penalty: float, keep: np.ndarray) -> list[int]:
    """Rank the rows to keep by the paper's formula, ties by row."""
    stored = {a: np.concatenate(searcher.index.vectors(a)).astype(np.float64) for a in ASPECTS}
    scores = np.zeros(ITEMS)
    for key, aspect, weight in terms:
        row = int(key[-6:])
        query = {a: unit(stored[a][[row]])[0] for a in ASPECTS}
        scores += weight * (stored[aspect] * query[aspect]).sum(axis=1)
        if aspect != "overall":
            scores -= weight * penalty * (stored["overall"] * query["overall"]).sum(axis=1)
    rows = np.flatnonzero(keep)
    return rows[np.lexsort((rows, -scores[rows].round(12)))].tolist()


terms = st.lists(
    st.tuples(
        st.integers(0, ITEMS - 1).map(lambda row: f"picture-{row:06d}"),
        st.sampled_from(ASPECTS),
        st.sampled_from([1.0, 0.3, -0.7]),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda term: term[1],
)
selections = st.one_of(
    st.integers(0, ITEMS).map(lambda least: (f"number >= {least}", np.arange(ITEMS) >= least)),
    st.integers(0, ITEMS - 1).map(lambda row: (pc.field("number") == row, np.arange(ITEMS) == row)),
    st.sampled_from(
        [
            (None, np.ones(ITEMS, bool)),
            ("group != 1", (np.arange(ITEMS) % 7 != 0) & (np.arange(ITEMS) % 4 != 1)),
            ("not group in [1, 2]", (np.arange(ITEMS) % 7 != 0) & ~np.isin(np.arange(ITEMS) % 4, [1, 2])),
        ]
    ),
)


@settings(max_examples=40, deadline=None)
@given(terms, selections, st.sampled_from([0.0, 0.3]), st.integers(1, 20))
def test_hits_are_the_best_of_any_selection(
    large: Searcher, terms: list[tuple[str, str, float]], selection: tuple[Any, np.ndarray], penalty: float, k: int
) -> None:
    where, keep = selection
    hits = large.query(terms, k, penalty, exclude_queries=False, where=where)
    assert [hit.row for hit in hits] == brute_force(large, terms, penalty, keep)[:k]
    assert (hits.selected, hits.total, hits.exact) == (int(keep.sum()), ITEMS, True)


@settings(max_examples=25, deadline=None)
@given(
    terms=terms,
    selection=selections,
    size=st.integers(15, 80),
    dedupe=st.sampled_from([None, 1.0, 0.6]),
    exclude=st.booleans(),
    least=st.sampled_from([None, 0.1, 5.0]),
)
def test_pages_join_to_the_whole(
    large: Searcher,
    terms: list[tuple[str, str, float]],
    selection: tuple[Any, np.ndarray],
    size: int,
    dedupe: float | None,
    exclude: bool,
    least: float | None,
) -> None:
    options: dict[str, Any] = {
        "exclude_queries": exclude, "where": selection[0], "dedupe": dedupe, "min_score": least,
    }  # fmt: skip
    whole = large.query(terms, ITEMS, 0.3, **options)
    if least is not None:
        without = large.query(terms, ITEMS, 0.3, **{**options, "min_score": None})
        assert whole.keys == [hit.key for hit in without if hit.score >= least]
    pages: Shown = []
    for offset in range(0, ITEMS, size):
        page = large.query(terms, size, 0.3, offset=offset, **options)
        assert page.offset == offset
        pages += shown(page)
        if len(page) < size:
            break
    assert pages == shown(whole)
    assert [hit.rank for hit in whole] == list(range(1, len(whole) + 1))


@settings(max_examples=15, deadline=None)
@given(
    queries=st.lists(terms, max_size=6),
    selection=selections,
    dedupe=st.sampled_from([None, 0.6]),
    exclude=st.booleans(),
    offset=st.integers(0, 3),
)
def test_a_batch_is_its_queries(
    large: Searcher,
    queries: list[list[TermLike]],
    selection: tuple[Any, np.ndarray],
    dedupe: float | None,
    exclude: bool,
    offset: int,
) -> None:
    options: dict[str, Any] = {
        "k": 7, "exclude_queries": exclude, "where": selection[0], "dedupe": dedupe, "offset": offset,
    }  # fmt: skip
    singly = [large.query(query, **options) for query in queries]
    together = large.query_batch(queries, **options)
    assert list(map(shown, together)) == list(map(shown, singly))
    assert [[term.label for term in hits.terms] for hits in together] == [[t.label for t in h.terms] for h in singly]


def test_a_batch_embeds_each_picture_once_and_together(gallery: Path, pictures: list[bytes]) -> None:
    embedder = CountingEmbedder()
    searcher = Searcher.open(gallery, model=embedder)
    opened = Image.open(io.BytesIO(png(201)))
    queries: list[list[TermLike]] = [
        [(png(200), "brushwork"), (opened, "brushwork", 0.5)],
        [(png(200), "brushwork"), ("picture 02", "color palette")],
        [(pictures[3], "brushwork", -1.0)],
        [(opened, "color palette")],
    ]
    together = searcher.query_batch(queries, overall_penalty=0.3)
    assert sorted(embedder.calls) == [(1, ("brushwork", "overall", "color palette")), (2, ("brushwork", "overall"))]
    for query, hits in zip(queries, together, strict=True):
        assert shown(hits) == shown(searcher.query(query, overall_penalty=0.3))
    # What the fourth query needs of the picture does not make the first compare copies by it.
    assert sorted(together[0].terms[1].source.vectors) == ["brushwork", "overall"]


def test_a_batch_tells_which_query_is_wrong(searcher: Searcher) -> None:
    good: list[TermLike] = [("picture 01", "brushwork")]
    with pytest.raises(QueryError, match="query 2 of the batch: 'pictur 01' is neither the key"):
        searcher.query_batch([good, [("pictur 01", "brushwork")]])
    with pytest.raises(AspectError, match="query 1 of the batch: aspect 'line art' is not indexed"):
        searcher.query_batch([[("picture 01", "line art")], good])
    with pytest.raises(QueryError, match="query 1 of the batch: a term must be"):
        searcher.query_batch(good)  # type: ignore[arg-type]
    for wrong in ("picture 01", None, 3):
        with pytest.raises(QueryError, match="queries must be a list of lists of terms"):
            searcher.query_batch(wrong)  # type: ignore[arg-type]
    assert searcher.query_batch([]) == []


def test_similar_takes_the_same_arguments(searcher: Searcher) -> None:
    options: dict[str, Any] = {"where": "year > 1905", "min_score": -0.5, "offset": 2, "dedupe": 0.99, "exact": True}
    similar = searcher.similar("picture 05", "brushwork", 4, **options)
    assert shown(similar) == shown(searcher.query([("picture 05", "brushwork")], 4, 0.25, **options))
    assert (similar.offset, similar.min_score, similar.dedupe, similar.exact) == (2, -0.5, 0.99, True)
    assert similar.rescored > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"offset": -1}, "offset must be a whole number of hits to pass over, at least 0, not -1"),
        ({"offset": 1.5}, "offset must be a whole number"),
        ({"offset": True}, "offset must be a whole number"),
        ({"min_score": float("nan")}, "min_score must be a finite number"),
        ({"min_score": "0.5"}, "min_score must be a finite number"),
        ({"dedupe": 0}, "dedupe must be a cosine above 0 and at most 1, such as 0.98, not 0"),
        ({"dedupe": 98}, "dedupe must be a cosine above 0 and at most 1"),
        ({"dedupe": True}, "dedupe must be a finite number"),
        ({"exact": 1}, "exact must be True, False or None"),
        ({"exclude_queries": None}, "exclude_queries must be True or False, not None"),
    ],
)
def test_what_is_no_page(searcher: Searcher, options: dict[str, Any], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        searcher.query([("picture 01", "brushwork")], **options)


def test_beyond_the_last_hit(searcher: Searcher) -> None:
    term = [("picture 01", "brushwork")]
    beyond: list[dict[str, Any]] = [
        {"offset": COUNT}, {"offset": 10**9}, {"min_score": 9.0}, {"where": "year < 0", "dedupe": 0.9},
    ]  # fmt: skip
    for options in beyond:
        assert len(searcher.query(term, **options)) == 0


def test_dedupe_needs_overall(tmp_path: Path) -> None:
    vectors = StubEmbedder().embed([png(1), png(2)], ["brushwork"])[:, 0]
    searcher = Searcher.open(write_index(tmp_path / "index", {"brushwork": vectors}))
    with pytest.raises(AspectError, match="'overall' is not indexed"):
        searcher.query([("picture-000000", "brushwork")], dedupe=0.9)


def test_nothing_where_something_belongs(searcher: Searcher) -> None:
    with pytest.raises(QueryError, match="a term's image must be a picture or the key of an indexed item, not None"):
        searcher.query([(None, "brushwork")])  # type: ignore[list-item]
    for wrong in (None, 3):
        with pytest.raises(IndexDirectoryError, match="an index must be given as a path, not"):
            Searcher.open(wrong)  # type: ignore[arg-type]
    with pytest.raises(IndexDirectoryError, match="the data root must be given as a path, not int"):
        Searcher.open("index", data_root=3)  # type: ignore[arg-type]
