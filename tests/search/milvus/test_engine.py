"""Candidates by field, their exact scores and the proof, against a Milvus made of numpy that holds halves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from indexer.records import ModelRecord
from search.exact import exact_top_k
from search.milvus import engine as milvus_engine
from search.milvus.connection import MilvusConnection
from search.milvus.engine import MilvusEngine
from search.milvus.facts import CollectionFacts
from search.milvus.selection import MilvusRows
from search.milvus.vectors import MilvusVectors
from search.vectors import StoredVectors
from tests.search.conftest import unit
from tpips_model.aspects import Aspect

ASPECTS = ("overall", "brushwork", "color palette")
DIM = 24


@dataclass
class NumpyMilvus:
    """What the engine and its store ask of a connection; ``missed`` rows are found by no search, as HNSW may do."""

    arrays: dict[str, NDArray[np.float16]]
    missed: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    asked: list[tuple[str, int]] = field(default_factory=list)
    fetched: int = 0

    def search(
        self, name: str, vectors: Sequence[NDArray[Any]], limit: int, *, expression: str, options: dict[str, int]
    ) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        self.asked.append((name, limit))
        kept = np.setdiff1d(self._rows(expression), self.missed)
        found = []
        for vector in vectors:
            assert vector.dtype == np.float16
            scores = self.arrays[name][kept].astype(np.float32) @ vector.astype(np.float32)
            best = np.argsort(-scores)[:limit]
            found.append((kept[best], scores[best].astype(np.float64)))
        return found

    def by_row(self, rows: NDArray[np.int64], fields: Sequence[str]) -> dict[int, dict[str, Any]]:
        self.fetched += len(rows)
        return {row: {name: self.arrays[name][row].tobytes() for name in fields} for row in rows.tolist()}

    def rows(self, expression: str, fields: Sequence[str], *, limit: int) -> list[dict[str, Any]]:
        found = self.by_row(self._rows(expression), fields)
        return [{"row": row, **record} for row, record in found.items()][::-1]

    def _rows(self, expression: str) -> NDArray[np.int64]:
        rows = np.arange(len(next(iter(self.arrays.values()))))
        for sign, number in re.findall(r"row (>=|<) (\d+)", expression):
            rows = rows[rows >= int(number)] if sign == ">=" else rows[rows < int(number)]
        return rows


def made(milvus: NumpyMilvus, kind: str = "FLAT") -> MilvusEngine:
    facts = CollectionFacts(
        model=ModelRecord("stub", "stub:1", DIM, "{aspect}", 0.0),
        sources=(),
        aspects=tuple((Aspect(text), f"v_{Aspect(text).slug}") for text in ASPECTS),
        columns=(),
        count=len(milvus.arrays["v_overall"]),
        content="",
        batch_rows=1,
    )
    connection = cast(MilvusConnection, milvus)
    types = dict.fromkeys(milvus.arrays, kind)
    return MilvusEngine(connection, facts, MilvusVectors(connection, facts), index_types=types, halves=True)


def halves(count: int, seed: int, *, alike: float = 1.0) -> dict[str, NDArray[np.float16]]:
    rng = np.random.default_rng(seed)
    shared = alike * rng.standard_normal((count, DIM))
    return {
        f"v_{Aspect(text).slug}": unit(shared + rng.standard_normal((count, DIM))).astype(np.float16)
        for text in ASPECTS
    }


def store(arrays: dict[str, NDArray[np.float16]]) -> StoredVectors:
    return StoredVectors.of_arrays({text: [arrays[f"v_{Aspect(text).slug}"]] for text in ASPECTS})


def queries(count: int, seed: int) -> list[dict[str, NDArray[np.float64]]]:
    rng = np.random.default_rng(seed)
    made_ = []
    for _ in range(count):
        slugs = rng.choice([Aspect(text).slug for text in ASPECTS], rng.integers(1, 4), replace=False)
        weights = rng.choice([-1.0, -0.3, 0.5, 1.0], len(slugs)) * 10.0 ** rng.integers(-30, 30)
        made_.append(
            {str(slug): w * unit(rng.standard_normal((1, DIM)))[0] for slug, w in zip(slugs, weights, strict=True)}
        )
    return made_


@pytest.mark.parametrize("selected", [None, MilvusRows("row >= 700", 300)])
@pytest.mark.parametrize("deepest", [1 << 14, 24])
def test_what_is_called_exact_is(monkeypatch: pytest.MonkeyPatch, selected: MilvusRows | None, deepest: int) -> None:
    monkeypatch.setattr(milvus_engine, "FIRST_DEPTH", 16)
    monkeypatch.setattr(milvus_engine, "MAX_HITS", deepest)
    arrays = halves(1000, seed=1)
    engine, exact = made(NumpyMilvus(arrays)), 0
    asked = queries(60, seed=2)
    rows = None if selected is None else np.arange(700, 1000)
    for query, found in zip(asked, engine.top_k_batch(asked, 3, rows=selected), strict=True):
        expected = exact_top_k(store(arrays), query, 3, rows=rows)
        exact += found.exact
        if found.exact:
            assert found.rows.tolist() == expected.rows.tolist()
            assert found.scores.tolist() == expected.scores.tolist()
        read = engine.top_k(query, 3, rows=selected, exact=True)
        assert read.exact
        assert (read.rows.tolist(), read.scores.tolist()) == (expected.rows.tolist(), expected.scores.tolist())
    assert exact == 60 if deepest > 1000 else 0 < exact < 60


def test_rows_of_one_score_come_in_order() -> None:
    arrays = {name: np.repeat(rows, 40, axis=0) for name, rows in halves(10, seed=3).items()}
    for query in queries(10, seed=4):
        found, expected = made(NumpyMilvus(arrays)).top_k(query, 25), exact_top_k(store(arrays), query, 25)
        assert found.exact
        assert found.rows.tolist() == expected.rows.tolist()


def test_only_candidates_that_may_belong_are_fetched() -> None:
    arrays = halves(4000, seed=5, alike=3.0)
    milvus = NumpyMilvus(arrays)
    query = {"overall": np.asarray(arrays["v_overall"][7], np.float64), "brushwork": np.eye(DIM)[0]}
    found = made(milvus).top_k(query, 5)
    assert found.exact
    assert found.rescored == milvus.fetched <= sum(limit for _, limit in milvus.asked) / 2


def test_an_index_that_misses_rows_proves_nothing() -> None:
    arrays = halves(500, seed=6)
    best = exact_top_k(store(arrays), queries(1, seed=7)[0], 1).rows
    engine = made(NumpyMilvus(arrays, missed=best), kind="HNSW")
    query = queries(1, seed=7)[0]
    found, read = engine.top_k(query, 4), engine.top_k(query, 4, exact=True)
    assert not found.exact
    assert best[0] not in found.rows
    assert read.exact
    assert read.rows.tolist() == exact_top_k(store(arrays), query, 4).rows.tolist()


def test_fields_are_searched_for_all_queries_together_and_deeper_for_the_unproven_alone() -> None:
    milvus = NumpyMilvus(halves(3000, seed=8))
    found = made(milvus).top_k_batch(queries(20, seed=9), 2)
    assert all(ranking.exact for ranking in found)
    assert len(milvus.asked) <= 3 * len({limit for _, limit in milvus.asked})


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_scores_exceed_what_comes_back_by_the_slack_at_most(dtype: type) -> None:
    rng = np.random.default_rng(10)
    rows = unit(rng.standard_normal((200, 512))).astype(np.float16)
    for _ in range(50):
        size = 10.0 ** rng.integers(-200, 200)
        vector = unit(rng.standard_normal((1, 512)))[0] * size
        sent = milvus_engine._SentVector.of(vector, np.dtype(dtype))
        back = np.ldexp((rows.astype(np.float32) @ sent.vector.astype(np.float32)).astype(np.float64), sent.exponent)
        true = rows.astype(np.float64) @ vector
        assert (np.abs(true - back) <= sent.slack).all()
        assert sent.slack <= (1e-3 if dtype is np.float16 else 1e-4) * size
