"""The exact scan is a float64 brute force, only faster."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from indexer import IndexDirectoryError
from search import exact
from search.compile import EmbeddedTerm, compile_query
from search.exact import exact_top_k
from search.vectors import StoredVectors
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


def in_parts(rows: Mapping[str, NDArray[np.float16]], cuts: list[int]) -> StoredVectors:
    return StoredVectors.of_arrays({slug: np.split(array, cuts) for slug, array in rows.items()})


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
)
def test_equals_brute_force(seed: int, count: int, dim: int, distinct: int, parts: int, k: int, threads: int) -> None:
    rng = np.random.default_rng(seed)
    copies = rng.integers(0, min(distinct, count), count)  # few distinct rows make many ties
    rows = {Aspect(text).slug: unit_rows(rng, count, dim)[copies] for text in ASPECTS[:3]}
    store = in_parts(rows, sorted(rng.integers(0, count + 1, parts - 1).tolist()))  # some parts are empty
    query = random_query(rng, ASPECTS[:3], dim)
    expected_rows, expected_scores = brute_force(rows, query, k)
    top = exact_top_k(store, query, k, threads=threads)
    np.testing.assert_array_equal(top.rows, expected_rows)
    np.testing.assert_array_equal(top.scores, expected_scores)


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


@pytest.mark.parametrize("scale", [1e-300, 1e-42, 1.0, 1e38, 1e300])
def test_weights_of_any_size(scale: float) -> None:
    """Weights outside float32's range change the scores and not the order."""
    rng = np.random.default_rng(5)
    rows = {"a": unit_rows(rng, 500, 8), "b": unit_rows(rng, 500, 8)}
    query = {"a": rng.standard_normal(8), "b": rng.standard_normal(8)}
    plain = exact_top_k(in_parts(rows, []), query, 20)
    scaled = exact_top_k(in_parts(rows, []), {slug: vector * scale for slug, vector in query.items()}, 20)
    np.testing.assert_array_equal(scaled.rows, plain.rows)
    np.testing.assert_allclose(scaled.scores / scale, plain.scores, rtol=1e-12)


def test_differences_far_below_float32_are_seen() -> None:
    """Rows that float32 cannot tell apart are still ordered by their float64 scores."""
    rng = np.random.default_rng(6)
    one = unit_rows(rng, 1, 64)
    rows = {"a": np.repeat(one, 3_000, axis=0), "b": unit_rows(rng, 3_000, 64)}
    query = {"a": one[0].astype(np.float64), "b": 1e-10 * rng.standard_normal(64)}
    np.testing.assert_array_equal(exact_top_k(in_parts(rows, [999]), query, 10).rows, brute_force(rows, query, 10)[0])


def test_the_stated_bound_covers_the_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row's scan score is within half the slack of its true score (so the slack covers both of a pair)."""
    rng = np.random.default_rng(7)
    rows = {"a": unit_rows(rng, 400, 250), "b": unit_rows(rng, 400, 250)}
    store = in_parts(rows, [100])
    query = {"a": rng.standard_normal(250), "b": -rng.standard_normal(250)}
    layout = exact._Layout.of(store, query, exact.ROW_NORM)
    scorer = exact._BlockScorer(store, layout)
    found = exact._Candidates(400, layout.slack)
    for start in range(0, 400, layout.block_rows):
        scorer.scan(start, found)
    assert len(found.rows) == 400
    norms = [float(np.linalg.norm(vector)) for vector in query.values()]
    scale = 2.0 ** round(np.log2(float(layout.query[0, 0]) / query["a"][0]))
    assert 0.5 <= sum(norms) * scale <= 1.0
    true = exact.exact_scores(store, query, found.rows) * scale
    assert np.abs(found.scores - true).max() <= layout.slack / 2
    assert layout.slack < 1e-4  # and it is no idle bound


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


def test_a_worker_that_comes_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker may take all blocks before another takes its first."""
    rng = np.random.default_rng(10)
    rows = {"a": unit_rows(rng, 300, 5)}
    query = {"a": rng.standard_normal(5)}
    monkeypatch.setattr(exact, "BLOCK_BYTES", 1)
    all_taken = threading.Barrier(2)
    init, scan = exact._BlockScorer.__init__, exact._BlockScorer.scan

    def late(self: exact._BlockScorer, store: StoredVectors, layout: exact._Layout) -> None:
        init(self, store, layout)
        if threading.current_thread().name.endswith("_1"):
            all_taken.wait(timeout=60)

    def first(self: exact._BlockScorer, start: int, found: exact._Candidates) -> None:
        scan(self, start, found)
        if start == 4 * exact.MIN_BLOCK_ROWS:
            all_taken.wait(timeout=60)

    monkeypatch.setattr(exact._BlockScorer, "__init__", late)
    monkeypatch.setattr(exact._BlockScorer, "scan", first)
    top = exact_top_k(in_parts(rows, []), query, 5, threads=2)
    np.testing.assert_array_equal(top.rows, brute_force(rows, query, 5)[0])


def test_more_hits_than_items_and_no_items() -> None:
    rng = np.random.default_rng(9)
    rows = {"a": unit_rows(rng, 3, 4)}
    assert len(exact_top_k(in_parts(rows, []), {"a": rng.standard_normal(4)}, 100).rows) == 3
    empty = exact_top_k(in_parts({"a": rows["a"][:0]}, []), {"a": rng.standard_normal(4)}, 100)
    assert empty.rows.shape == empty.scores.shape == (0,)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_damaged_vectors_are_told(value: float) -> None:
    rows = {"a": unit_rows(np.random.default_rng(11), 30, 4)}
    rows["a"][13] = value
    with pytest.raises(IndexDirectoryError, match=r"stored vectors are damaged .*build the index anew"):
        exact_top_k(in_parts(rows, [8]), {"a": np.ones(4)}, 30)
