from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from indexer import IndexDirectory
from indexer.building.build import build
from indexer.building.build_config import BuildConfig
from indexer.codes import make_codes
from indexer.output_folder import output_folder
from indexer.removal import remove_rows
from search import Searcher
from search.terms import QueryError
from tests.fixtures.indices import StubEmbedder, write_index
from tests.fixtures.picture_folders import write_pictures
from tpips_model.errors import ModelError

ASPECTS = ("overall", "brushwork", "lighting")


def unit(rows: int, seed: int) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((rows, 16)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def remove(index: Path, *rows: int) -> None:
    with output_folder(index) as opened:
        assert opened is not None
        remove_rows(opened, np.array(sorted(rows), np.int64))


@pytest.fixture
def index(tmp_path: Path) -> Path:
    vectors = {aspect: unit(300, seed) for seed, aspect in enumerate(ASPECTS)}
    metadata = [{"even": row % 2 == 0} for row in range(300)]
    return write_index(tmp_path / "index", vectors, metadata=metadata, codes=True)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("where", [None, "even"])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.95])
def test_removed_items_are_found_by_no_search(index: Path, exact: bool, where: str | None, share: float) -> None:
    where = "even = true" if where else None
    whole = Searcher.open(index)
    terms = [("picture-000007", "brushwork", 1.0), ("picture-000020", "lighting", -0.5)]
    before = whole.query(terms, 300, 0.3, exact=True, where=where)
    dead = set(np.random.default_rng(3).choice(np.r_[8:20, 21:300], int(share * 290), replace=False).tolist())
    remove(index, *dead)
    after = Searcher.open(index).query(terms, 300, 0.3, exact=exact, where=where)
    left = [(hit.key, hit.score, hit.row) for hit in before if hit.row not in dead]
    assert [(hit.key, hit.score, hit.row) for hit in after] == left
    assert not dead.intersection(hit.row for hit in after)
    assert len(Searcher.open(index)) == 300 - len(dead)
    best = before[0]
    assert after.percentile(before[-1].score - 1.0) <= after.percentile(best.score)


def test_dedupe_counts_no_removed_item(tmp_path: Path) -> None:
    vectors = unit(40, 1)
    vectors[10:20] = vectors[10]
    index = write_index(tmp_path / "index", {"overall": vectors, "brushwork": unit(40, 2)})
    remove(index, 10, 12)
    hits = Searcher.open(index).query([("picture-000000", "brushwork")], 40, dedupe=0.99)
    named = [key for hit in hits for key in (hit.key, *hit.duplicates)]
    assert sorted(named) == [f"picture-{row:06d}" for row in range(1, 40) if row not in (10, 12)]


def test_a_removed_key_is_no_query(index: Path) -> None:
    remove(index, 7)
    searcher = Searcher.open(index)
    assert "picture-000007" not in searcher.keys
    with pytest.raises(QueryError, match="picture-000007"):
        searcher.query([("picture-000007", "brushwork")])


def test_a_key_that_was_removed_and_came_back_is_the_new_item(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 6)
    config = BuildConfig(out=tmp_path / "index", data=str(data), aspects=("brushwork",), progress=False)
    build(config, embedder=StubEmbedder())
    with output_folder(tmp_path / "index") as opened:
        assert opened is not None
        remove_rows(opened, np.array([2]), again=True)
    (data / "0002.png").write_bytes((data / "0005.png").read_bytes())
    build(config, embedder=StubEmbedder())
    searcher = Searcher.open(tmp_path / "index", model=StubEmbedder())
    assert len(searcher) == 6
    assert searcher.keys.row("0002.png") == 6
    first = searcher.query([("0002.png", "brushwork")], 1, exclude_queries=False, where="key != '0002.png'")[0]
    assert (first.key, round(first.score, 3)) == ("0005.png", 1.0)


def test_refresh_sees_what_was_written_and_costs_nothing_otherwise(index: Path) -> None:
    searcher = Searcher.open(index)
    hits = searcher.query([("picture-000001", "brushwork")])
    opened = searcher.index
    assert not searcher.refresh()
    assert searcher.index is opened
    remove(index, hits[0].row)
    assert len(searcher) == 300
    assert [hit.key for hit in searcher.query([("picture-000001", "brushwork")])] == [hit.key for hit in hits]
    assert searcher.refresh()
    assert len(searcher) == 299
    now = searcher.query([("picture-000001", "brushwork")])
    assert [hit.key for hit in now][:9] == [hit.key for hit in hits][1:]


def test_an_old_searcher_reads_aspects_and_codes_it_had_not_read_before(index: Path) -> None:
    searcher, expected = Searcher.open(index), Searcher.open(index)
    wanted = [
        [hit.key for hit in expected.query([("picture-000001", aspect)], exact=exact)]
        for aspect in ASPECTS
        for exact in (True, False)
    ]
    remove(index, *range(50, 100))
    with output_folder(index) as opened:
        assert opened is not None
        make_codes(opened, opened.aspects, retrain=True, progress=False)
    found = [
        [hit.key for hit in searcher.query([("picture-000001", aspect)], exact=exact)]
        for aspect in ASPECTS
        for exact in (True, False)
    ]
    assert found == wanted


def test_a_model_given_by_hand_must_be_that_of_the_new_version(tmp_path: Path) -> None:
    vectors = {"overall": unit(10, 1)}
    index = write_index(tmp_path / "index", vectors)
    searcher = Searcher.open(index, model=StubEmbedder())
    write_index(index, vectors, fingerprint="other:2")
    with pytest.raises(ModelError, match="other:2"):
        searcher.refresh()
    assert searcher.index.manifest.model.fingerprint == "stub:1"
    assert len(searcher.query([("picture-000001", "overall")])) == 9


def test_twenty_adds_beside_queries_never_show_a_torn_state(tmp_path: Path) -> None:
    """Every answer is that of one version as a whole."""
    data = write_pictures(tmp_path / "data", 8)
    config = BuildConfig(
        out=tmp_path / "index", data=str(data), aspects=("brushwork",), shard_size=4, codes=True, progress=False
    )
    build(config, embedder=StubEmbedder())
    searcher = Searcher.open(tmp_path / "index", model=StubEmbedder())
    done = threading.Event()
    faults: list[BaseException] = []
    seen: set[int] = set()

    def ask() -> None:
        try:
            while not done.is_set():
                searcher.refresh()
                hits = searcher.query([("0003.png", "brushwork")], 1000, exclude_queries=False)
                assert next(hit.key for hit in hits if hit.score > 0.999) == "0003.png"
                assert len(hits) == hits.total
                assert len({hit.key for hit in hits}) == len(hits)
                seen.add(len(hits))
        except BaseException as error:
            faults.append(error)

    readers = [threading.Thread(target=ask) for _ in range(2)]
    for thread in readers:
        thread.start()
    for number in range(20):
        write_pictures(data, 5, first=8 + 5 * number)
        build(config, embedder=StubEmbedder())
        if number % 5 == 4:
            remove(tmp_path / "index", 8 + 5 * number)
    done.set()
    for thread in readers:
        thread.join()
    assert not faults
    searcher.refresh()
    assert len(searcher) == 8 + 100 - 4
    assert len(seen) > 1
    assert IndexDirectory.open(tmp_path / "index", verify=True).live_count == 104
