"""The exact scan is a float64 brute force, only faster."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from indexer import IndexDirectoryError
from search import exact, vectors
from search.compile import EmbeddedTerm, compile_query
from search.exact import exact_top_k
from search.row_scores import RowScorer, ScaledQuery
from search.vectors import Piece, StoredVectors
from tpips_model.aspects import Aspect

ASPECTS = ("overall", "subject", "brushwork", "color palette")


def brute_force(
    rows: Mapping[str, NDArray[Any]], query: Mapping[str, NDArray[np.float64]], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Score every row in float64 and sort all of them, equal scores by row."""
    scores = sum((np.asarray(rows[slug], np.float64) * vector).sum(axis=1) for slug, vector in query.items())
    order = np.lexsort((np.arange(len(scores)), -scores))[:k]
    return order, scores[order]


def unit_rows(rng: np.random.Generator, count: int, dim: int) -> NDArray[np.float16]:
    rows = rng.standard_normal((count, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)


def in_parts(rows: Mapping[str, NDArray[np.float16]], cuts: list[int], *, held: bool = False) -> StoredVectors:
    """Return rows as they lie on disk, or held in float32, as few are."""
    parts = {slug: np.split(array, cuts) for slug, array in rows.items()}
    return StoredVectors.of_arrays(parts, singles_bytes=1 << 40 if held else 0)


def random_query(rng: np.random.Generator, aspects: tuple[str, ...], dim: int) -> dict[str, NDArray[np.float64]]:
    """Compile 1 to 4 terms with weights in [-1, 1] and, every second time, a penalty."""
    terms = []
    for _ in range(rng.integers(1, 5)):
        vectors = {Aspect(text).slug: unit_rows(rng, 1, dim)[0].astype(np.float64) for text in aspects}
        terms.append(EmbeddedTerm(Aspect(str(rng.choice(aspects))), rng.uniform(-1, 1), vectors))
    return dict(compile_query(terms, 0.3 * float(rng.integers(0, 2))).vectors)


def test_bar_100_queries_over_20_000_items_and_4_aspects() -> None:
    """The issue's bar, at 64 dimensions to be quick: the path does not depend on them beyond the rounding bound."""
    rng = np.random.default_rng(0)
    rows = {Aspect(text).slug: unit_rows(rng, 20_000, 64) for text in ASPECTS}
    store = in_parts(rows, [1_000, 1_003, 9_000])
    as_float64 = {slug: array.astype(np.float64) for slug, array in rows.items()}
    for _ in range(100):
        query = random_query(rng, ASPECTS, 64)
        expected_rows, expected_scores = brute_force(as_float64, query, 10)
        top = exact_top_k(store, query, 10)
        np.testing.assert_array_equal(top.rows, expected_rows)
        np.testing.assert_array_equal(top.scores, expected_scores)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 700),
    dim=st.sampled_from([1, 2, 7, 16, 33]),
    distinct=st.sampled_from([1, 2, 5, 10_000]),
    parts=st.integers(1, 6),
    k=st.integers(1, 800),
    threads=st.integers(1, 3),
    held=st.booleans(),
)
def test_equals_brute_force(
    seed: int, count: int, dim: int, distinct: int, parts: int, k: int, threads: int, held: bool
) -> None:
    rng = np.random.default_rng(seed)
    copies = rng.integers(0, min(distinct, count), count)  # few distinct rows make many ties
    rows = {Aspect(text).slug: unit_rows(rng, count, dim)[copies] for text in ASPECTS[:3]}
    # Some parts are empty.
    store = in_parts(rows, sorted(rng.integers(0, count + 1, parts - 1).tolist()), held=held)
    query = random_query(rng, ASPECTS[:3], dim)
    expected_rows, expected_scores = brute_force(rows, query, k)
    top = exact_top_k(store, query, k, threads=threads)
    np.testing.assert_array_equal(top.rows, expected_rows)
    np.testing.assert_array_equal(top.scores, expected_scores)


@pytest.fixture
def eager_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start as many threads as are asked for, however little there is to scan."""
    monkeypatch.setattr(exact, "MIN_THREAD_BYTES", 1)


@pytest.mark.parametrize("order", ["ascending", "descending"])
@pytest.mark.parametrize("k", [1, 10, 500])
def test_sorted_data(order: str, k: int) -> None:
    """Where every block beats the one before it, no block may be cut short."""
    angles = np.linspace(0.0, 1.5, 9_000)
    rows = {"a": np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float16)}
    if order == "descending":
        rows = {"a": rows["a"][::-1].copy()}
    query = {"a": np.array([0.2, 0.9])}
    expected_rows, expected_scores = brute_force(rows, query, k)
    top = exact_top_k(in_parts(rows, [17]), query, k, threads=1)
    np.testing.assert_array_equal(top.rows, expected_rows)
    np.testing.assert_array_equal(top.scores, expected_scores)


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("scale", [1e-300, 1e-42, 1.0, 1e38, 1e300])
def test_weights_of_any_size(scale: float, held: bool) -> None:
    """Weights outside float32's range change the scores and not the order."""
    rng = np.random.default_rng(5)
    rows = {"a": unit_rows(rng, 500, 8), "b": unit_rows(rng, 500, 8)}
    query = {"a": rng.standard_normal(8), "b": rng.standard_normal(8)}
    plain = exact_top_k(in_parts(rows, []), query, 20)
    scaled = exact_top_k(in_parts(rows, [], held=held), {slug: vector * scale for slug, vector in query.items()}, 20)
    np.testing.assert_array_equal(scaled.rows, plain.rows)
    np.testing.assert_allclose(scaled.scores / scale, plain.scores, rtol=1e-12)


def test_differences_far_below_float32_are_seen() -> None:
    """Rows that float32 cannot tell apart are still ordered by their float64 scores."""
    rng = np.random.default_rng(6)
    one = unit_rows(rng, 1, 64)
    rows = {"a": np.repeat(one, 3_000, axis=0), "b": unit_rows(rng, 3_000, 64)}
    query = {"a": one[0].astype(np.float64), "b": 1e-10 * rng.standard_normal(64)}
    np.testing.assert_array_equal(exact_top_k(in_parts(rows, [999]), query, 10).rows, brute_force(rows, query, 10)[0])


def test_the_stated_bound_covers_the_scan() -> None:
    """Every row's scan score is within half the slack of its true score (so the slack covers both of a pair)."""
    rng = np.random.default_rng(7)
    rows = {"a": unit_rows(rng, 400, 250), "b": unit_rows(rng, 400, 250)}
    store = in_parts(rows, [100])
    query = {"a": rng.standard_normal(250), "b": -rng.standard_normal(250)}
    scaled = ScaledQuery.of(query)
    norms = [float(np.linalg.norm(vector)) for vector in query.values()]
    assert 0.5 <= sum(norms) * 2.0**scaled.exponent <= 1.0
    everything = np.arange(400)
    true = exact.exact_scores(store, query, everything)
    (gathered,) = RowScorer(store, [scaled], 400).rows(everything)
    for scores in (scaled.unscaled(gathered), scaled.unscaled(in_place(store, scaled, 128))):
        assert np.abs(scores - true).max() <= np.ldexp(scaled.slack / 2, -scaled.exponent)
    assert scaled.slack < 1e-4  # and it is no idle bound


def in_place(store: StoredVectors, query: ScaledQuery, block_rows: int) -> NDArray[np.float32]:
    """Score all rows block by block."""
    scorer = RowScorer(store, [query], block_rows)
    scores = np.full(store.rows, np.nan, np.float32)
    for start, pieces in store.blocks(block_rows):
        block = scorer.block(0, pieces)
        scores[start : start + len(block)] = block
    return scores


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 500),
    share=st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0]),
    k=st.integers(1, 40),
    parts=st.integers(1, 60),
    held=st.booleans(),
)
def test_best_of_selected_rows(seed: int, count: int, share: float, k: int, parts: int, held: bool) -> None:
    """Few selected rows or many, scattered or in one place."""
    rng = np.random.default_rng(seed)
    rows = {"a": unit_rows(rng, count, 8), "b": unit_rows(rng, count, 8)}
    store = in_parts(rows, sorted(rng.integers(0, count + 1, parts - 1).tolist()), held=held)
    query = {"a": rng.standard_normal(8), "b": rng.standard_normal(8)}
    chosen = np.flatnonzero(rng.random(count) < share)
    if rng.random() < 0.5:
        chosen = np.arange(len(chosen)) + int(rng.integers(0, count - len(chosen) + 1))
    expected_rows, expected_scores = brute_force({slug: array[chosen] for slug, array in rows.items()}, query, k)
    top = exact_top_k(store, query, k, rows=chosen)
    np.testing.assert_array_equal(top.rows, chosen[expected_rows])
    np.testing.assert_array_equal(top.scores, expected_scores)


@pytest.mark.usefixtures("eager_threads")
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_many_queries_at_once_equal_one_by_one(threads: int, held: bool) -> None:
    """Whatever aspects each of them names."""
    rng = np.random.default_rng(12)
    rows = {Aspect(text).slug: unit_rows(rng, 3_000, 16) for text in ASPECTS}
    store = in_parts(rows, [10, 700, 2_900], held=held)
    queries = [random_query(rng, ASPECTS, 16) for _ in range(7)]
    counts = [1, 5, 10, 3_000, 4_000, 7, 2]
    for chosen in (None, np.arange(0, 3_000, 2), np.arange(5, 3_000, 50)):
        together = exact.exact_top_k_batch(store, queries, counts, rows=chosen, threads=threads)
        for top, query, k in zip(together, queries, counts, strict=True):
            alone = exact_top_k(store, query, k, rows=chosen)
            np.testing.assert_array_equal(top.rows, alone.rows)
            np.testing.assert_array_equal(top.scores, alone.scores)


@pytest.mark.usefixtures("eager_threads")
def test_block_border_within_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that span parts, and parts that span blocks, give the same rows."""
    rng = np.random.default_rng(8)
    rows = {"a": unit_rows(rng, 1_000, 5), "b": unit_rows(rng, 1_000, 5)}
    query = {"a": rng.standard_normal(5), "b": rng.standard_normal(5)}
    expected = brute_force(rows, query, 25)[0]
    monkeypatch.setattr(exact, "BLOCK_BYTES", 1)
    for block_rows in (1, 7, 64, 999, 1_000, 5_000):
        monkeypatch.setattr(exact, "MIN_BLOCK_ROWS", block_rows)
        for cuts in ([], [0, 0, 1, 1_000], list(range(3, 1_000, 10))):
            for threads in (1, 3):
                top = exact_top_k(in_parts(rows, cuts), query, 25, threads=threads)
                np.testing.assert_array_equal(top.rows, expected)


@pytest.mark.usefixtures("eager_threads")
def test_a_worker_that_comes_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker may take all blocks before another takes its first."""
    rng = np.random.default_rng(10)
    rows = {"a": unit_rows(rng, 300, 5)}
    query = {"a": rng.standard_normal(5)}
    monkeypatch.setattr(exact, "BLOCK_BYTES", 1)
    all_taken = threading.Barrier(2)
    init, block = RowScorer.__init__, RowScorer.block

    def late(self: RowScorer, store: StoredVectors, queries: list[ScaledQuery], capacity: int) -> None:
        init(self, store, queries, capacity)
        if threading.current_thread().name.endswith("_1"):
            all_taken.wait(timeout=60)

    def first(self: RowScorer, number: int, pieces: list[Piece]) -> NDArray[np.float32]:
        if pieces[-1].stop == 300:
            all_taken.wait(timeout=60)
        return block(self, number, pieces)

    monkeypatch.setattr(exact, "MIN_BLOCK_ROWS", 64)
    monkeypatch.setattr(RowScorer, "__init__", late)
    monkeypatch.setattr(RowScorer, "block", first)
    top = exact_top_k(in_parts(rows, []), query, 5, threads=2)
    np.testing.assert_array_equal(top.rows, brute_force(rows, query, 5)[0])


@pytest.mark.parametrize("singles_bytes", [0, 1 << 20])
def test_threads_that_come_at_once_read_one_mapping(singles_bytes: int) -> None:
    """Each part is loaded once, so that no pointer outlives what it points into."""
    rng = np.random.default_rng(13)
    rows = {"a": unit_rows(rng, 500, 8)}
    query = {"a": rng.standard_normal(8)}
    expected = brute_force(rows, query, 5)[0]
    loaded: list[str] = []
    both = threading.Barrier(4)

    def load(slug: str) -> list[NDArray[np.float16]]:
        loaded.append(slug)
        return np.split(rows[slug].copy(), [100])

    store = StoredVectors(load, part_rows=[100, 400], dim=8, singles_bytes=singles_bytes)

    def search() -> NDArray[np.int64]:
        both.wait(timeout=60)
        return exact_top_k(store, query, 5, threads=1).rows

    with ThreadPoolExecutor(4) as pool:
        for found in [future.result() for future in [pool.submit(search) for _ in range(4)]]:
            np.testing.assert_array_equal(found, expected)
    assert loaded == ["a"]


def test_more_hits_than_items_and_no_items() -> None:
    rng = np.random.default_rng(9)
    rows = {"a": unit_rows(rng, 3, 4)}
    assert len(exact_top_k(in_parts(rows, []), {"a": rng.standard_normal(4)}, 100).rows) == 3
    empty = exact_top_k(in_parts({"a": rows["a"][:0]}, []), {"a": rng.standard_normal(4)}, 100)
    assert empty.rows.shape == empty.scores.shape == (0,)


def test_few_rows_are_held_of_so_many_aspects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded both ways; beyond, the rows are scored where they lie, and so is a query of both kinds."""
    monkeypatch.setattr(vectors, "MAX_SINGLES", 2)
    rng = np.random.default_rng(14)
    rows = {Aspect(text).slug: unit_rows(rng, 50, 8) for text in ASPECTS}
    parts = {slug: [array] for slug, array in rows.items()}
    query = {slug: rng.standard_normal(8) for slug in rows}
    for least, held in ((4 * 50 * 8 - 1, 0), (4 * 50 * 8, 2)):
        store = StoredVectors.of_arrays(parts, singles_bytes=least)
        top = exact_top_k(store, query, 10)
        np.testing.assert_array_equal(top.scores, brute_force(rows, query, 10)[1])
        assert sum(store.singles(slug) is not None for slug in rows) == held
        for slug, array in rows.items():
            np.testing.assert_array_equal(store.gather(slug, np.array([49, 0])), array[[49, 0]].astype(np.float64))
            np.testing.assert_array_equal(store.vector(slug, 31), array[31].astype(np.float64))


def test_a_short_scan_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise AssertionError("a thread was about to be started")

    monkeypatch.setattr(exact, "ThreadPoolExecutor", none)
    rows = {"a": unit_rows(np.random.default_rng(15), 9_000, 16)}
    for held in (False, True):
        assert len(exact_top_k(in_parts(rows, [], held=held), {"a": np.ones(16)}, 5, threads=4).rows) == 5


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_damaged_vectors_are_told(value: float, held: bool) -> None:
    rows = {"a": unit_rows(np.random.default_rng(11), 30, 4), "b": unit_rows(np.random.default_rng(12), 30, 4)}
    rows["a"][13] = value
    rows["b"][13, 0] = -value
    store = in_parts(rows, [8], held=held)
    query = {"a": np.ones(4), "b": np.ones(4)}
    with pytest.raises(IndexDirectoryError, match=r"stored vectors are damaged .*build the index anew"):
        exact_top_k(store, query, 30)
    # Of what is not asked, nothing is said.
    assert len(exact_top_k(store, query, 30, rows=np.array([2, 12])).rows) == 2
