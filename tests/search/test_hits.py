from __future__ import annotations

import builtins
import json
from pathlib import Path

import numpy as np
import pandas
import pytest

from indexer.columns import Scalar
from search import Hit, Hits, Searcher
from tests.fixtures.indices import StubEmbedder, write_index


@pytest.fixture
def hits(searcher: Searcher) -> Hits:
    return searcher.query(
        [("picture 01", "brushwork"), ("picture 02", "color palette", -0.5)], k=4, overall_penalty=0.3
    )


def test_sequence(hits: Hits) -> None:
    assert len(hits) == len(list(hits)) == 4
    assert isinstance(hits[0], Hit)
    assert hits[-1] is hits[3]
    tail = hits[1:3]
    assert isinstance(tail, Hits)
    assert tail.keys == hits.keys[1:3]
    assert (tail.terms, tail.overall_penalty, tail.total) == (hits.terms, 0.3, 30)
    assert repr(hits) == "<Hits: 4 of 30 items for 1 × picture 01 by brushwork + -0.5 × picture 02 by color palette>"


def test_json_gives_back_what_the_hits_are(hits: Hits) -> None:
    record = json.loads(hits.to_json(indent=1))
    assert record["terms"] == [
        {"image": "picture 01", "aspect": "brushwork", "weight": 1.0},
        {"image": "picture 02", "aspect": "color palette", "weight": -0.5},
    ]
    assert (record["overall_penalty"], record["total"]) == (0.3, 30)
    for rank, (entry, hit) in enumerate(zip(record["hits"], hits, strict=True), start=1):
        assert entry == {
            "rank": rank,
            "key": hit.key,
            "score": hit.score,
            "row": hit.row,
            "contributions": list(hit.contributions),
            "duplicates": [],
            "metadata": dict(hit.metadata),
        }


def test_json_of_metadata_that_json_lacks(tmp_path: Path) -> None:
    vectors = np.eye(3, dtype=np.float32)
    metadata: list[dict[str, Scalar]] = [
        {"a": float("nan"), "b": None},
        {"a": float("inf"), "b": "é"},
        {"a": 1.5, "b": "x"},
    ]
    searcher = Searcher.open(write_index(tmp_path / "index", {"overall": vectors}, metadata=metadata))
    found = searcher.query([("picture-000002", "overall")], exclude_queries=False)
    values = {entry["row"]: entry["metadata"] for entry in json.loads(found.to_json())["hits"]}
    assert values == {0: {"a": None, "b": None}, 1: {"a": None, "b": "é"}, 2: {"a": 1.5, "b": "x"}}


def test_pandas(hits: Hits) -> None:
    table = hits.to_pandas()
    assert list(table.columns) == [
        "rank", "key", "score", "row", "contribution_1", "contribution_2", "artist", "year",
    ]  # fmt: skip
    assert table["key"].tolist() == hits.keys
    np.testing.assert_allclose(table["contribution_1"] + table["contribution_2"], table["score"], atol=1e-12)
    assert list(hits[:0].to_pandas().columns)[:4] == ["rank", "key", "score", "row"]


def test_pandas_keeps_metadata_of_a_taken_name(tmp_path: Path) -> None:
    vectors = np.eye(2, dtype=np.float32)
    index = write_index(tmp_path / "index", {"overall": vectors}, metadata=[{"score": 7}, {"score": 8}])
    table = Searcher.open(index).query([("picture-000000", "overall")]).to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert (table["score"][0], table["metadata_score"][0]) == (0.0, 8)


def test_without_pandas(hits: Hits, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: object) -> object:
        if name == "pandas":
            raise ImportError(name)
        return real(name, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="pip install pandas"):
        hits.to_pandas()


def test_images(hits: Hits) -> None:
    assert hits.image(0).mode == "RGB"
    assert hits.image(0).size == (32, 24)
    np.testing.assert_array_equal(np.asarray(hits.image(2)), np.asarray(hits[2].image()))
    np.testing.assert_allclose(
        StubEmbedder().embed([hits.terms[0].image()], ["brushwork"])[0, 0],
        hits.terms[0].source.vectors["brushwork"],
        atol=1e-3,
    )


def test_percentile(searcher: Searcher) -> None:
    hits = searcher.query([("picture 01", "brushwork")], k=30, exclude_queries=False)
    for hit in hits:
        lower = sum(other.score < hit.score for other in hits)  # a tie is not lower
        assert hits.percentile(hit.score) == pytest.approx(100 * lower / 30)
    assert hits.percentile(-2.0) == 0.0
    assert hits[:1].percentile(2.0) == 100.0


def test_percentile_of_a_large_index_goes_by_a_sample(searcher: Searcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("search.answer_hits.SAMPLE", 4)
    hits = searcher.query([("picture 01", "brushwork")], k=30, exclude_queries=False)
    sampled = sorted(hit.score for hit in hits if hit.row in (0, 9, 19, 29))
    assert [hits.percentile(score) for score in sampled] == [0.0, 25.0, 50.0, 75.0]
