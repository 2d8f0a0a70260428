"""Codes find what the exact scan finds, however the data lie, and say how sure they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from indexer import IndexDirectory, IndexDirectoryError
from indexer.quantizer import Quantizer
from search import approximate, stored_codes
from search.approximate import ApproximateSearch, expected_misses
from search.engine import Engine
from search.exact import exact_top_k
from search.joint_cache import JointCache
from search.joint_codes import JointCodes
from search.row_scores import ScaledQuery
from search.stored_codes import StoredCodes
from search.terms import QueryError
from search.vectors import StoredVectors
from tests.fixtures.indices import write_index

DIM = 32
QUERIES = 110  # at ten hits each, one may be missed
ASPECTS = ("a", "b", "c")


def correlated(rng: np.random.Generator, count: int) -> dict[str, NDArray[np.float16]]:
    """Unit rows of three aspects that share content."""
    shared = rng.standard_normal((count, 8))
    rows = {}
    for slug in ASPECTS:
        own = rng.standard_normal((count, 8))
        mixing = np.random.default_rng(ord(slug)).standard_normal((16, DIM))
        vectors = np.concatenate([shared, own], axis=1) @ mixing + rng.standard_normal((count, DIM))
        rows[slug] = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
    return rows


def search_over(
    rows: dict[str, NDArray[np.float16]], cuts: Sequence[int] = (), *, memory: int = 1 << 30
) -> tuple[StoredVectors, ApproximateSearch, JointCache]:
    """Code rows as the indexer does and make them searchable."""
    store = StoredVectors.of_arrays({slug: np.split(array, list(cuts)) for slug, array in rows.items()})
    quantizers = {slug: Quantizer.train(array[:4096]) for slug, array in rows.items()}
    codes = {slug: np.split(quantizers[slug].encode(array), list(cuts)) for slug, array in rows.items()}
    stored = StoredCodes(
        [len(part) for part in next(iter(codes.values()))], codes.__getitem__, quantizers.__getitem__, frozenset(rows)
    )
    cache = JointCache(stored, memory=memory)
    return store, ApproximateSearch(store, cache), cache


@pytest.fixture(scope="module")
def data() -> dict[str, NDArray[np.float16]]:
    return correlated(np.random.default_rng(0), 60_000)


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_codes, "MAX_RANGE_ROWS", 16_384)


def queries_of(rng: np.random.Generator, count: int) -> list[dict[str, NDArray[np.float64]]]:
    """Queries of one to three aspects, each from an item of its own, of weights of any sign."""
    pool = correlated(rng, count)
    made = []
    for number in range(count):
        slugs = rng.permutation(ASPECTS)[: 1 + number % 3]
        made.append({str(slug): rng.uniform(-1, 1) * pool[slug][number].astype(np.float64) for slug in slugs})
    return made


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("share", [None, 0.5, 0.05])
def test_finds_what_the_exact_scan_finds(data: dict[str, NDArray[np.float16]], share: float | None) -> None:
    """The issue's bar, recall at 10 of 0.999, on less data: every mix of weights, everything or a selection."""
    rng = np.random.default_rng(1)
    store, search, _ = search_over(data, [100, 101, 30_000])
    chosen = None if share is None else np.flatnonzero(rng.random(store.rows) < share)
    found = total = rescored = 0
    for query in queries_of(rng, QUERIES):
        expected = exact_top_k(store, query, 10, rows=chosen)
        top = search.top_k(query, 10, rows=chosen)
        found += int(np.isin(expected.rows, top.rows).sum())
        total += len(expected.rows)
        rescored += top.rescored
        if np.array_equal(top.rows, expected.rows):
            np.testing.assert_array_equal(top.scores, expected.scores)
    assert found >= 0.999 * total
    assert share is not None or rescored < 0.2 * QUERIES * store.rows  # and not by scoring everything


@pytest.mark.usefixtures("small_ranges")
def test_batches_equal_single_queries(data: dict[str, NDArray[np.float16]]) -> None:
    rng = np.random.default_rng(2)
    store, search, _ = search_over(data)
    queries = queries_of(rng, 12)
    counts = [1 + 3 * number for number in range(12)]
    for chosen in (None, np.arange(0, store.rows, 3)):
        together = search.top_k_batch(queries, counts, rows=chosen)
        for query, k, top in zip(queries, counts, together, strict=True):
            alone = search.top_k(query, k, rows=chosen)
            assert set(top.rows) == set(alone.rows)
            np.testing.assert_array_equal(top.scores, alone.scores)


@pytest.mark.usefixtures("small_ranges")
def test_answers_do_not_depend_on_threads(data: dict[str, NDArray[np.float16]]) -> None:
    _, search, _ = search_over(data)
    for query in queries_of(np.random.default_rng(3), 6):
        one, many = search.top_k(query, 10, threads=1), search.top_k(query, 10, threads=4)
        np.testing.assert_array_equal(one.rows, many.rows)
        assert one.rescored == many.rescored


@pytest.mark.usefixtures("small_ranges")
def test_the_best_in_one_place(data: dict[str, NDArray[np.float16]]) -> None:
    """Rows sorted by score: one range holds all of the best, and is asked again for more."""
    query = queries_of(np.random.default_rng(4), 1)[0]
    slug = next(iter(query))
    order = np.argsort(-(data[slug].astype(np.float64) @ query[slug]))
    store, search, _ = search_over({slug: data[slug][order]})
    for k in (10, 300):
        top = search.top_k(query, k)
        assert np.isin(exact_top_k(store, query, k).rows, top.rows).mean() >= 0.999


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 33, 500])
def test_few_rows(count: int) -> None:
    """Fewer rows than centroids, than a packed block, than candidates: then all are scored, and said to be exact."""
    rows = {slug: array[:count] for slug, array in correlated(np.random.default_rng(5), 500).items()}
    store, search, _ = search_over(rows)
    for query in queries_of(np.random.default_rng(6), 3):
        expected = exact_top_k(store, query, 10)
        top = search.top_k(query, 10)
        np.testing.assert_array_equal(top.rows, expected.rows)
        np.testing.assert_array_equal(top.scores, expected.scores)
        assert top.exact == (top.rescored == count) == (count <= approximate.FIRST_CANDIDATES)


def test_identical_rows() -> None:
    """All estimates and all scores tie: nothing tells which rows are the best but their numbers."""
    one = correlated(np.random.default_rng(7), 1)
    rows = {slug: np.repeat(array, 40_000, axis=0) for slug, array in one.items()}
    store, search, _ = search_over(rows)
    query = {slug: array[0].astype(np.float64) for slug, array in one.items()}
    top = search.top_k(query, 10)
    np.testing.assert_array_equal(top.rows, exact_top_k(store, query, 10).rows)
    np.testing.assert_array_equal(top.rows, np.arange(10))


def test_no_rows_to_choose_from(data: dict[str, NDArray[np.float16]]) -> None:
    _, search, _ = search_over(data)
    top = search.top_k({"a": np.ones(DIM)}, 10, rows=np.empty(0, np.int64))
    assert len(top.rows) == len(top.scores) == 0
    assert top.exact


def test_damaged_vectors_are_told(data: dict[str, NDArray[np.float16]]) -> None:
    rows = {"a": data["a"][:5_000].copy()}
    _, search, _ = search_over(rows)
    query = {"a": rows["a"][77].astype(np.float64)}
    damaged = StoredVectors.of_arrays({"a": [np.where(np.arange(5_000)[:, None] == 77, np.float16(np.nan), rows["a"])]})
    with pytest.raises(IndexDirectoryError, match="stored vectors are damaged"):
        ApproximateSearch(damaged, search._cache).top_k(query, 5)


def test_estimates_are_those_of_the_quantisers(data: dict[str, NDArray[np.float16]]) -> None:
    """The joint scan gives Σ_a rotate(q_a) · decoded codes, to the rounding of its 8-bit look-up tables."""
    rows = {slug: array[:3_000] for slug, array in data.items()}
    _, _, cache = search_over(rows)
    joint = cache.get(ASPECTS)
    query = ScaledQuery.of({slug: array[5].astype(np.float64) for slug, array in rows.items()}).vectors
    ((estimates, found, _, _),) = joint.search([query], 3_000)
    expected = np.zeros(3_000)
    for slug in ASPECTS:
        quantizer = cache._stored.quantizer(slug)
        codes = np.concatenate(list(cache._stored.codes(slug)))
        nibbles = np.stack([codes & 15, codes >> 4], axis=2).reshape(len(codes), -1)
        decoded = quantizer.centroids[np.arange(nibbles.shape[1]), nibbles].reshape(len(codes), -1)
        expected += decoded.astype(np.float64) @ quantizer.rotate(query[slug].astype(np.float64))
    assert len(found) == 3_000
    np.testing.assert_allclose(estimates, expected[found], atol=0.02)


def test_the_cache_keeps_within_its_bound(data: dict[str, NDArray[np.float16]]) -> None:
    rows = {slug: array[:2_000] for slug, array in data.items()}
    one = JointCodes.bytes_of(2_000, [Quantizer.train(rows["a"])])
    _, _, cache = search_over(rows, memory=2 * one)
    first = cache.get(["a"])
    assert cache.get(["a"]) is first
    assert first.nbytes == cache.nbytes == one
    second = cache.get(["b"])
    cache.get(["a"])
    cache.get(["c"])  # b was used longest ago
    assert cache.nbytes == 2 * one
    assert cache.get(["a"]) is first
    assert cache.get(["b"]) is not second
    _, _, cache = search_over(rows, memory=one)
    cache.get(["a"])
    assert cache.get(["a", "b", "c"]) is cache.get(["c", "a", "b"])  # held though it passes the bound alone
    assert cache.nbytes == cache.get(ASPECTS).nbytes


def test_bytes_an_item_and_aspect() -> None:
    """The issue's bar: 45 bytes at 256 dimensions, the rows' numbers and all."""
    quantizer = Quantizer.train(np.zeros((1, 256)))
    for aspects in (1, 3, 8):
        assert JointCodes.bytes_of(1_000_000, [quantizer] * aspects) / aspects <= 45_000_000


def test_expected_misses_of_known_distributions() -> None:
    """Where estimates and errors are normal, as many are missed on average as is said, or fewer."""
    rng = np.random.default_rng(8)
    told, missed = 0.0, 0
    for _ in range(60):
        true = np.sort(rng.standard_normal(40_000))[::-1].astype(np.float32)
        estimates = true + rng.normal(-0.3, 0.25, len(true)).astype(np.float32)
        order = np.argsort(-estimates)[:40]
        told += expected_misses(estimates[order], true[order], 10, unseen=len(true) - 40)
        missed += 10 - int((order < 10).sum())
    assert missed > 0  # the case is hard enough to tell anything
    assert 0.5 * missed <= told <= 20 * missed


def test_expected_misses_at_the_ends() -> None:
    estimates = np.linspace(1.0, 0.5, 100, dtype=np.float32)
    assert expected_misses(estimates, estimates, 10, unseen=0) == 0.0
    assert expected_misses(estimates, estimates, 100, unseen=7) == 7.0  # the k-th best is the lowest candidate
    assert expected_misses(estimates, estimates, 10, unseen=10**6) == 0.0  # estimates without error
    same = np.ones(100, np.float32)
    assert expected_misses(same, same, 10, unseen=50) == 50.0


def test_clusters_that_the_rule_must_not_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster of near-copies denser than the codes can tell apart: more and more are rescored, at last all."""
    rng = np.random.default_rng(9)
    centre = correlated(rng, 1)["a"].astype(np.float64)
    rows = centre + 0.01 * rng.standard_normal((30_000, DIM))
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)
    store, search, _ = search_over({"a": rows})
    monkeypatch.setattr(approximate, "FIRST_CANDIDATES", 64)
    query = {"a": rows[3].astype(np.float64)}
    assert np.isin(exact_top_k(store, query, 10).rows, search.top_k(query, 10).rows).mean() >= 0.9


def coded_index(path: Path, *, codes: bool) -> IndexDirectory:
    rows = {slug: array.astype(np.float32) for slug, array in correlated(np.random.default_rng(10), 200).items()}
    return IndexDirectory.open(write_index(path / "index", rows, rows_per_part=70, codes=codes))


def test_engine_chooses_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = coded_index(tmp_path, codes=True)
    store = StoredVectors.of_index(index)
    engine = Engine(store, index)
    query = {"a": store.gather("a", np.array([5]))[0], "c": -store.gather("c", np.array([6]))[0]}
    expected = exact_top_k(store, query, 10)
    used: list[str] = []
    monkeypatch.setattr("search.engine.exact_top_k_batch", _noting(used, "exact", "search.engine.exact_top_k_batch"))
    monkeypatch.setattr(ApproximateSearch, "top_k_batch", _noting(used, "codes", ApproximateSearch.top_k_batch))
    for exact in (None, True, False):
        ranking = engine.top_k(query, 10, exact=exact)
        np.testing.assert_array_equal(ranking.rows, expected.rows)
        np.testing.assert_array_equal(ranking.scores, expected.scores)
        assert ranking.exact
        assert ranking.rescored == 200
    monkeypatch.setattr("search.engine.CODES_FROM_ROWS", 200)
    engine.top_k(query, 10)
    engine.top_k(query, 10, rows=np.arange(5))
    engine.top_k(query, 10, exact=True)
    assert used == ["exact", "exact", "codes", "codes", "exact", "exact"]


def _noting(used: list[str], way: str, function: object) -> object:
    if isinstance(function, str):
        from search import exact

        function = exact.exact_top_k_batch

    def noted(*arguments: object, **keywords: object) -> object:
        used.append(way)
        return function(*arguments, **keywords)  # type: ignore[operator]

    return noted


def test_codes_asked_of_an_index_without(tmp_path: Path) -> None:
    index = coded_index(tmp_path, codes=False)
    engine = Engine(StoredVectors.of_index(index), index)
    with pytest.raises(QueryError, match=r"has no codes .* tpips-index codes .*, or search exactly"):
        engine.top_k({"a": np.ones(DIM)}, 10, exact=False)
