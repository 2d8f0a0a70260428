"""Which item has which key, also once items have been removed and their keys given anew; and what a row's record is."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer import IndexDirectory
from indexer.output_folder import output_folder
from indexer.removal import remove_rows
from search import Searcher
from search import items as items_module
from search import keys as keys_module
from search.items import Items
from search.keys import Keys
from tests.fixtures.indices import write_index

SURROGATE = "\ud800"


def made(stored: list[str], live: list[int] | None = None) -> Keys:
    rows = None if live is None else np.array(live, np.int64)
    half = len(stored) // 2
    return Keys(pa.chunked_array([stored[:half], stored[half:]], pa.string()), live=rows)


@settings(max_examples=60, deadline=None)
@given(
    stored=st.lists(st.sampled_from(["a", "b", "c/ä", "猫", "d" * 40]), max_size=12),
    wish=st.lists(st.booleans(), min_size=12, max_size=12),
    scans=st.sampled_from([0, 1000]),
)
def test_a_key_is_the_live_row_that_has_it(stored: list[str], wish: list[bool], scans: int) -> None:
    """Scanned or by the table, whichever row of several with the key is the one that is not removed."""
    live: list[int] = []
    for row, key in enumerate(stored):
        if wish[row] and key not in {stored[other] for other in live}:
            live.append(row)
    expected = {stored[row]: row for row in live}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys_module, "SCANS_BEFORE_TABLE", scans)
        keys = made(stored, live)
        for key in [*dict.fromkeys(stored), "absent", SURROGATE, ""]:
            assert keys.row(key) == expected.get(key)
            assert (key in keys) == (key in expected)
    assert list(keys) == [stored[row] for row in live]
    assert len(keys) == len(live)
    assert [keys[row] for row in range(len(stored))] == stored == keys[:]
    assert all(near in expected for key in stored for near in keys.near(key))


def test_the_table_is_made_after_some_scans_and_says_the_same() -> None:
    stored = [f"picture {number}" for number in range(500)]
    keys = made(stored)
    rounds = [[keys.row(key) for key in [*stored[::50], "absent"]] for _ in range(20)]
    assert keys._table is not None
    assert all(found == [*range(0, 500, 50), None] for found in rounds)


def test_keys_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_module, "SCANS_BEFORE_TABLE", 0)
    monkeypatch.setattr(keys_module, "hash", lambda key: len(key), raising=False)
    keys = made(["aa", "b", "cc", "dd"], [1, 2, 3])
    assert [keys.row(key) for key in ("aa", "b", "cc", "dd", "ee", "fff")] == [None, 1, 2, 3, None, None]


def test_threads_that_ask_while_the_table_is_made_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_module, "SCANS_BEFORE_TABLE", 0)
    keys = made([f"picture {number}" for number in range(100)])
    entered, go = threading.Event(), threading.Event()
    page = keys.page

    def slow(offset: int, limit: int) -> list[str]:
        entered.set()
        assert go.wait(30.0)
        return page(offset, limit)

    monkeypatch.setattr(keys, "page", slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(keys.row, "picture 7")
        assert entered.wait(30.0)
        assert keys.row("picture 8") == 8
        go.set()
        assert first.result() == 7


def test_pages_pass_over_removed_keys() -> None:
    keys = made(["a", "b", "c", "d", "e"], [0, 2, 4])
    assert [keys.page(0, 2), keys.page(2, 2), keys.page(3, 2), keys.page(9, 1)] == [["a", "c"], ["e"], [], []]
    assert made(["a", "b"]).page(1, 5) == ["b"]
    assert made(["a", "b"]).page(5, 5) == []


def test_no_removed_key_is_suggested() -> None:
    keys = made(["cat 1.jpg", "cat 2.jpg", "dog.jpg"], [1, 2])
    assert keys.near("elsewhere/cat.png") == ["cat 2.jpg"]
    assert keys.near("dogg") == ["dog.jpg"]
    assert keys.near("cat 11.jpg") == ["cat 2.jpg"]  # spelt alike; the nearest is removed


@pytest.fixture
def index(tmp_path: Path) -> Path:
    vectors = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    metadata = [{"year": 1900 + row} for row in range(40)]
    return write_index(tmp_path / "index", {"overall": vectors}, metadata=metadata, rows_per_part=16)


def test_a_removed_item_has_no_key_and_keeps_its_row(index: Path) -> None:
    with output_folder(index) as opened:
        assert opened is not None
        remove_rows(opened, np.array([0, 20], np.int64))
    searcher = Searcher.open(index)
    assert "picture-000000" not in searcher.keys
    assert searcher.keys.row("picture-000020") is None
    assert searcher.keys.row("picture-000021") == 21
    assert searcher.keys[20] == "picture-000020"
    assert len(searcher.keys) == len(searcher) == 38
    assert list(searcher.keys) == [f"picture-{row:06d}" for row in range(40) if row not in (0, 20)]


@pytest.mark.parametrize("room", [0, 3 << 10, 32 << 20])
def test_records_are_the_same_however_many_are_kept(index: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(items_module, "KEPT_BYTES", room)
    opened = IndexDirectory.open(index)
    items, stored = Items(opened), opened.items().to_pylist()
    rng = np.random.default_rng(1)
    for _ in range(30):
        rows = rng.integers(0, 40, rng.integers(0, 9))
        assert items.records(rows) == [stored[row] for row in rows]
    assert len(items._kept) <= items._room <= room >> 10


def test_what_a_caller_does_to_a_hit_shows_in_no_other(index: Path) -> None:
    searcher = Searcher.open(index)
    first = searcher.query([("picture-000003", "overall")], k=5)
    expected = first.to_json()
    for hit in first:
        hit.metadata["year"] = 0  # type: ignore[index]
        hit.record["file"] = "elsewhere"  # type: ignore[index]
    assert searcher.query([("picture-000003", "overall")], k=5).to_json() == expected
    assert "elsewhere" not in {hit.record["file"] for hit in searcher.query([("picture-000003", "overall")], k=5)}
