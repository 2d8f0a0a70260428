"""Inverted lists: probed wholly they change nothing, probed in part they lose little, and say so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from indexer import IndexDirectory, IndexDirectoryError
from indexer.clustering import Clustering, fit_projections
from indexer.lists import make_lists
from indexer.quantizer import Quantizer
from search import approximate, joint_codes
from search.approximate import ApproximateSearch
from search.exact import exact_top_k
from search.joint_cache import JointCache
from search.joint_codes import JointCodes
from search.packed_lists import means_and_variances
from search.searcher import Searcher
from search.terms import QueryError, TermLike
from search.vectors import StoredVectors
from tests.fixtures.indices import write_index
from tests.indexer.test_directory import unit_rows
from tests.search.test_approximate import correlated, queries_of, search_over
from tests.search.test_command_line import run

LISTS = 64
Rows = dict[str, NDArray[np.float16]]


def listed(rows: Rows, count: int, cuts: tuple[int, ...] = ()) -> tuple[StoredVectors, ApproximateSearch, JointCache]:
    """Code rows and sort them into lists as the indexer does."""
    projections = fit_projections(rows)
    projected = Clustering(projections, np.empty(0, np.float32)).project(rows)
    return in_lists(rows, Clustering.train(projections, projected, count).assign(rows), count, cuts)


def in_lists(
    rows: Rows, numbers: NDArray[Any], count: int, cuts: tuple[int, ...] = ()
) -> tuple[StoredVectors, ApproximateSearch, JointCache]:
    """Code rows that lie in given lists."""
    store, _, cache = search_over(rows, cuts)
    cache = JointCache(replace(cache._stored, list_count=count, lists=lambda: np.split(numbers, list(cuts))))
    return store, ApproximateSearch(store, cache), cache


@pytest.fixture(scope="module")
def rows() -> Rows:
    return correlated(np.random.default_rng(0), 20_000)


@pytest.fixture(scope="module")
def searches(rows: Rows) -> tuple[StoredVectors, ApproximateSearch, ApproximateSearch]:
    _, plain, _ = search_over(rows)
    store, search, _ = listed(rows, LISTS, (100, 101, 15_000))
    return store, plain, search


@pytest.mark.parametrize("share", [None, 0.5, 0.05])
def test_lists_probed_wholly_give_the_answers_without_lists(
    searches: tuple[StoredVectors, ApproximateSearch, ApproximateSearch], share: float | None
) -> None:
    store, plain, search = searches
    rng = np.random.default_rng(1)
    chosen = None if share is None else np.flatnonzero(rng.random(store.rows) < share)
    for query in queries_of(rng, 15):
        expected = plain.top_k(query, 10, rows=chosen)
        for nprobe in (None, LISTS, 10 * LISTS):
            top = search.top_k(query, 10, rows=chosen, nprobe=nprobe)
            np.testing.assert_array_equal(top.rows, expected.rows)
            np.testing.assert_array_equal(top.scores, expected.scores)
            assert (top.exact, top.rescored) == (expected.exact, expected.rescored)
            assert top.probed == (None if top.exact else LISTS)  # a full scan where codes do not tell


def test_groups_and_hands_do_not_change_answers(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    _, one, _ = listed(rows, LISTS)
    monkeypatch.setattr(joint_codes, "GROUP_BYTES", 1)
    monkeypatch.setattr(joint_codes, "default_threads", lambda: 20)
    _, many, cache = listed(rows, LISTS)
    joint = cache.get(["a"])
    assert len(joint._groups) >= 8
    assert joint._hands == -(-20 // len(joint._groups)) > 1
    for query in queries_of(np.random.default_rng(2), 6):
        for nprobe in (1, 10, None):
            tops = [search.top_k(query, 10, nprobe=nprobe, threads=n) for search, n in ((one, 1), (many, 1), (many, 4))]
            for top in tops[1:]:
                np.testing.assert_array_equal(top.rows, tops[0].rows)
                assert top.probed == tops[0].probed


def test_recall_grows_with_the_lists_looked_into(
    searches: tuple[StoredVectors, ApproximateSearch, ApproximateSearch],
) -> None:
    store, _, search = searches
    queries = queries_of(np.random.default_rng(3), 40)
    truth = [exact_top_k(store, query, 10).rows for query in queries]
    recalls = []
    for nprobe in (1, 4, 16, 32, 64):
        tops = [search.top_k(query, 10, nprobe=nprobe) for query in queries]
        assert all(top.probed == (None if top.exact else nprobe) for top in tops)
        recalls.append(np.mean([np.isin(rows, top.rows).mean() for rows, top in zip(truth, tops, strict=True)]))
    assert recalls == sorted(recalls)
    assert recalls[2] >= 0.9  # a quarter
    assert recalls[-1] >= 0.999


def test_rows_come_from_the_lists_that_promise_most() -> None:
    """Lists of one corner each: a query looks into that of its corner, of either sign."""
    corner = np.random.default_rng(4).integers(8, size=4_000)
    vectors = np.eye(32, dtype=np.float16)[corner]
    _, search, cache = in_lists({"a": vectors}, corner.astype(np.uint16), 8)
    for number in range(8):
        query = {"a": np.eye(32)[number]}
        (found,) = cache.get(["a"]).search([query], 100, nprobe=1)
        assert (found.among, found.probed) == (int((corner == number).sum()), 1)
        opposite = search.top_k({"a": -query["a"]}, 5, nprobe=1)
        assert (corner[opposite.rows] != number).all()
        np.testing.assert_array_equal(opposite.scores, np.zeros(5))


def test_a_selection_is_looked_for_where_it_is(rows: Rows) -> None:
    """The lists that hold no selected row do not count, however well the query likes them."""
    store, search, cache = listed(rows, LISTS)
    numbers = cache._stored.list_numbers
    for query in queries_of(np.random.default_rng(5), 6):
        order = np.argsort(-sum(rows[slug].astype(np.float64) @ vector for slug, vector in query.items()))
        far = np.unique(numbers[order[-2_000:]])[:2]
        chosen = np.flatnonzero(np.isin(numbers, far))
        top = search.top_k(query, 10, rows=chosen, nprobe=2)
        np.testing.assert_array_equal(top.rows, exact_top_k(store, query, 10, rows=chosen).rows)
        assert top.probed == 2
    assert search.top_k(query, 10, rows=np.empty(0, np.int64), nprobe=2).rows.size == 0


def test_more_lists_are_looked_into_where_these_hold_too_few(rows: Rows) -> None:
    few = {slug: array[:300] for slug, array in rows.items()}
    _, search, _ = listed(few, 100)
    for query in queries_of(np.random.default_rng(6), 6):
        top = search.top_k(query, 50, nprobe=1)
        assert len(top.rows) == 50
        assert not top.exact
        assert top.probed is not None
        assert 10 < top.probed < 100


def test_batches_equal_single_queries(searches: tuple[StoredVectors, ApproximateSearch, ApproximateSearch]) -> None:
    store, _, search = searches
    queries = queries_of(np.random.default_rng(7), 9)
    counts = [1 + 40 * number for number in range(9)]
    for chosen in (None, np.arange(0, store.rows, 3)):
        for nprobe in (1, 9, None):
            together = search.top_k_batch(queries, counts, rows=chosen, nprobe=nprobe)
            for query, k, top in zip(queries, counts, together, strict=True):
                alone = search.top_k(query, k, rows=chosen, nprobe=nprobe)
                assert set(top.rows) == set(alone.rows)
                assert top.probed == alone.probed


def test_very_large_indices_look_into_a_quarter(
    searches: tuple[StoredVectors, ApproximateSearch, ApproximateSearch], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _, search = searches
    query = queries_of(np.random.default_rng(8), 1)[0]
    assert search.top_k(query, 10).probed == LISTS
    monkeypatch.setattr(approximate, "LISTS_FROM_ROWS", store.rows)
    assert search.top_k(query, 10).probed == LISTS // 4
    assert search.top_k(query, 10, nprobe=LISTS).probed == LISTS


@pytest.mark.parametrize("count", [1, 2, 33, 500])
def test_few_rows(rows: Rows, count: int) -> None:
    few = {slug: array[:count] for slug, array in rows.items()}
    for lists in {1, min(count, 40)}:
        store, search, _ = listed(few, lists)
        for query in queries_of(np.random.default_rng(9), 3):
            top = search.top_k(query, 10)
            np.testing.assert_array_equal(top.rows, exact_top_k(store, query, 10).rows)
            assert top.exact or count > 256
            assert len(search.top_k(query, 10, nprobe=1).rows) == min(10, count)


def test_identical_rows(rows: Rows) -> None:
    same = {slug: np.repeat(array[:1], 5_000, axis=0) for slug, array in rows.items()}
    _, search, _ = listed(same, 16)
    query = {slug: array[0].astype(np.float64) for slug, array in same.items()}
    for nprobe in (1, None):
        np.testing.assert_array_equal(search.top_k(query, 10, nprobe=nprobe).rows, np.arange(10))


def test_means_and_variances_of_lists() -> None:
    """As numpy has them of the decoded rows, odd and even sub-quantizers, and a list without rows."""
    rng = np.random.default_rng(10)
    quantizer = Quantizer.train(rng.standard_normal((500, 16)) * 0.2)
    codes = quantizer.encode(rng.standard_normal((60, 16)) * 0.2)
    sizes = np.array([25, 0, 35])
    nibbles = np.stack([codes & 15, codes >> 4], axis=2).reshape(60, -1)
    decoded = quantizer.centroids[np.arange(nibbles.shape[1]), nibbles].reshape(60, -1)
    means, variances = means_and_variances(sizes, codes, quantizer.centroids)
    for number, own in ((0, decoded[:25]), (2, decoded[25:])):
        np.testing.assert_allclose(means[number], own.mean(axis=0), atol=1e-6)
        np.testing.assert_allclose(variances[number], own.var(axis=0), atol=1e-6)
    assert not means[1].any()
    assert not variances[1].any()


def test_bytes_an_item_and_aspect(rows: Rows) -> None:
    """At most 45 at 256 dimensions and ten million items, with what ranks the lists and pads them."""
    quantizer = Quantizer.train(np.zeros((1, 256)))
    sizes = np.full(8192, 10_000_000 // 8192)
    for aspects in (1, 3, 8):
        ranking = len(sizes) * 256 * 4 * aspects
        assert JointCodes.bytes_of(sizes, [quantizer] * aspects) + ranking <= 45 * aspects * sizes.sum()
    _, _, cache = listed({"a": rows["a"][:3_000]}, 16)
    joint = cache.get(["a"])
    blocks = -(-cache._stored.list_sizes // 32) * 32
    assert joint.nbytes == pytest.approx(blocks.sum() * 4 + 3_000 * 8 + 16 * 32 * 4, rel=0.02)


def test_lists_that_there_are_not(rows: Rows) -> None:
    _, _, cache = listed({"a": rows["a"][:500]}, 16)
    damaged = JointCache(replace(cache._stored, list_count=int(cache._stored.list_numbers.max())))
    with pytest.raises(IndexDirectoryError, match=r"lists are damaged: one has the number 15, .* codes --lists 0"):
        damaged.get(["a"])


@pytest.fixture
def index(tmp_path: Path) -> Path:
    vectors = {"overall": unit_rows(400, 16), "brushwork": unit_rows(400, 16, seed=1)}
    path = write_index(tmp_path / "index", vectors, rows_per_part=150, codes=True)
    make_lists(IndexDirectory.open(path), 20, progress=False)
    return path


def test_the_searcher_looks_into_so_many_lists_and_says_so(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searcher = Searcher.open(index)
    terms: list[TermLike] = [("picture-000007", "brushwork"), ("picture-000100", "overall", -0.5)]
    exact = searcher.query(terms, exact=True)
    assert exact.probed is None
    whole = searcher.query(terms, exact=False)
    assert (whole.keys, whole.probed) == (exact.keys, 20)
    hits = searcher.query(terms, exact=False, nprobe=5)
    assert (hits.probed, hits.exact, len(hits)) == (5, False, 10)
    assert json.loads(hits.to_json())["probed"] == 5
    assert searcher.query_batch([terms], exact=False, nprobe=5)[0].keys == hits.keys
    few = searcher.similar("picture-000007", "brushwork", exact=False, nprobe=1, dedupe=0.999)
    assert (few.exact, few.probed is not None and few.probed < 5) == (False, True)
    monkeypatch.setenv("COLUMNS", "200")
    printed = run(str(index), "--term", "picture-000007:brushwork", "--approximate", "--nprobe", "5")
    assert "scored exactly, 5 lists)" in " ".join(printed.split())


@pytest.mark.parametrize("nprobe", [0, -1, 1.5, True, "4"])
def test_nprobe_must_be_a_number_of_lists(index: Path, nprobe: object) -> None:
    with pytest.raises(QueryError, match="nprobe must be a whole number of lists to look into, at least 1, not"):
        Searcher.open(index).query([("picture-000007", "brushwork")], nprobe=nprobe)  # type: ignore[arg-type]


def test_nprobe_without_lists_or_with_an_exact_search(index: Path, tmp_path: Path) -> None:
    terms = [("picture-000000", "overall")]
    with pytest.raises(QueryError, match="nprobe is for approximate searches; leave it out, or exact=True"):
        Searcher.open(index).query(terms, exact=True, nprobe=3)
    plain = Searcher.open(write_index(tmp_path / "plain", {"overall": unit_rows(5)}, codes=True))
    with pytest.raises(QueryError, match=r"has no inverted lists, .* tpips-index codes .* --lists N, or leave out"):
        plain.query(terms, nprobe=3)
