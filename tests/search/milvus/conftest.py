"""An index whose items are alike under several aspects, the same pushed to Milvus Lite, and questions to both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from indexer import IndexDirectory
from search import Hits
from search.milvus.address import MilvusAddress
from search.milvus.connection import MilvusConnection
from search.milvus.push import PushedIndex, push_index
from tests.fixtures.indices import write_index
from tests.search.conftest import ASPECTS, unit

COUNT = 300
Terms = list[tuple[str, str, float]]


@dataclass(frozen=True)
class Query:
    """A query, and the items that its filter keeps."""

    terms: Terms
    penalty: float
    where: str | None
    kept: NDArray[np.int64]


def metadata(row: int) -> dict[str, Any]:
    return {"artist": f"artist {row % 3}", "year": None if row % 7 == 0 else 1900 + row, "été": bool(row % 2)}


def push(index: Path, address: str, **options: Any) -> PushedIndex:
    return push_index(IndexDirectory.open(index), MilvusAddress.parse(address), progress=False, **options)


def connection(address: str) -> MilvusConnection:
    return MilvusConnection.open(MilvusAddress.parse(address))


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Items that are alike under several aspects, some of them near-duplicates and some of the same vectors."""
    rng = np.random.default_rng(7)
    shared = rng.standard_normal((COUNT, 16))
    vectors = {aspect: unit(shared + 0.7 * rng.standard_normal((COUNT, 16))).astype(np.float32) for aspect in ASPECTS}
    for aspect in ASPECTS:
        vectors[aspect][200:230] = unit(vectors[aspect][170:200] + 0.02 * rng.standard_normal((30, 16)))
        vectors[aspect][240:245] = vectors[aspect][100]
    return write_index(
        tmp_path_factory.mktemp("milvus") / "index",
        vectors,
        rows_per_part=70,
        metadata=[metadata(row) for row in range(COUNT)],
        recommended_overall_penalty=0.25,
    )


@pytest.fixture(scope="session")
def address(index: Path) -> str:
    there = f"milvus:{index.parent / 'vectors.db'}/pictures"
    assert push(index, there) == PushedIndex(COUNT, COUNT, "FLAT")
    return there


def random_queries(count: int, seed: int) -> list[Query]:
    rng = np.random.default_rng(seed)
    wheres = {
        None: lambda row: True,
        'not (year < 2000 or artist = "artist 1")': lambda row: (
            row["year"] is not None and row["year"] >= 2000 and row["artist"] != "artist 1"
        ),
        "year is null and `été`": lambda row: row["year"] is None and row["été"],
        "year > 3000": lambda row: False,
    }
    queries = []
    for number in range(count):
        where = list(wheres)[number % len(wheres)]
        terms: Terms = [
            (f"picture-{rng.integers(COUNT):06d}", str(rng.choice(ASPECTS)), float(rng.choice([1.0, 0.4, -0.7, -1.0])))
            for _ in range(rng.integers(1, 4))
        ]
        kept = np.array([row for row in range(COUNT) if wheres[where](metadata(row))], np.int64)
        queries.append(Query(terms, float(rng.choice([0.0, 0.3])), where, kept))
    return queries


def answered(hits: Hits) -> list[tuple[Any, ...]]:
    return [(hit.rank, hit.key, hit.score, hit.contributions, hit.row, hit.metadata, hit.duplicates) for hit in hits]
