from __future__ import annotations

import fcntl
import os
from pathlib import Path

import numpy as np
import pytest

from indexer.building.build import build
from indexer.building.build_config import BuildConfig
from indexer.codes import make_codes
from indexer.compacting.compaction import compact_parts
from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.output_folder import output_folder
from indexer.removal import REMOVED, remove_rows
from tests.fixtures.indices import StubEmbedder, write_index
from tests.fixtures.picture_folders import tree, write_pictures


@pytest.fixture
def index(tmp_path: Path) -> Path:
    vectors = np.random.default_rng(1).standard_normal((100, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return write_index(tmp_path / "index", {"overall": vectors, "brushwork": vectors[::-1]}, rows_per_part=30)


def remove(index: Path, *rows: int, again: bool = False) -> IndexDirectory:
    with output_folder(index) as opened:
        assert opened is not None
        return remove_rows(opened, np.array(rows, np.int64), again=again)


def test_removed_rows_are_stored_and_count_for_nothing(index: Path) -> None:
    remove(index, 0, 29, 30, 99)
    opened = IndexDirectory.open(index, verify=True)
    assert (opened.rows, opened.live_count) == (100, 96)
    assert opened.removed_rows.tolist() == [0, 29, 30, 99]
    live = opened.live_rows()
    assert live is not None
    assert live.tolist() == sorted({*range(100)} - {0, 29, 30, 99})
    assert opened.live_items(["key"])["key"].to_pylist() == [f"picture-{row:06d}" for row in live.tolist()]
    assert len(opened.items()) == 100


def test_nothing_removed_is_said_so(index: Path) -> None:
    before = tree(index)
    remove(index)
    assert tree(index) == before | {"lock": b""}
    opened = IndexDirectory.open(index)
    assert opened.live_rows() is None
    assert len(opened.live_items()) == opened.live_count == 100


def test_removing_again_adds_up_and_the_ledger_tells_each_once(index: Path) -> None:
    remove(index, 5, 40)
    remove(index, 5, 6)
    before = tree(index)
    remove(index, 5, 6, 40)
    assert tree(index) == before
    opened = IndexDirectory.open(index, verify=True)
    assert opened.removed_rows.tolist() == [5, 6, 40]
    assert opened.errors().to_pylist() == [{"key": f"picture-{row:06d}", "reason": REMOVED} for row in (5, 6, 40)]
    assert [part.errors for part in opened.manifest.parts] == [2, 1, 0, 0]


def test_what_may_come_back_is_not_in_the_ledger(index: Path) -> None:
    assert remove(index, 5, again=True).errors().num_rows == 0


def test_all_of_a_part_and_of_the_index_can_be_removed(index: Path) -> None:
    remove(index, *range(30))
    assert IndexDirectory.open(index).live_count == 70
    remove(index, *range(100))
    opened = IndexDirectory.open(index, verify=True)
    assert opened.live_count == 0
    assert len(opened.live_items()) == 0


def test_who_reads_keeps_the_files_of_before_and_the_next_writer_frees_them(index: Path) -> None:
    before = IndexDirectory.open(index)
    assert before.manifest.epoch == 0
    remove(index, 3)
    remove(index, 4)
    assert before.errors().num_rows == 0  # reads ledgers that the manifest no longer names
    assert before.live_rows() is None
    middle = IndexDirectory.open(index)
    assert (middle.manifest.epoch, middle.removed_rows.tolist()) == (2, [3, 4])
    names = set(tree(index))
    assert {"errors/part-00000.parquet", "errors/part-00000.1.parquet", "removed/part-00000.1.npy"} <= names
    del before
    remove(index, 5)
    remove(index, 6)  # finds nobody at epoch 0 or 1, but still somebody at 2
    assert {"errors/part-00000.2.parquet", "errors/part-00000.3.parquet"} <= set(tree(index))
    assert middle.errors().num_rows == 2
    del middle
    with output_folder(index):
        pass
    names = {name for name in tree(index) if name.startswith(("errors/part-00000", "removed/", "readers/"))}
    assert names == {"errors/part-00000.4.parquet", "removed/part-00000.4.npy", "readers/4"}
    IndexDirectory.open(index, verify=True)


def test_a_reader_that_comes_too_late_for_an_epoch_takes_the_next(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between reading the manifest and locking its epoch, a writer supersedes and frees everything of it."""
    real = fcntl.flock
    happened = []

    def flock(descriptor: int, operation: int) -> None:
        if operation == fcntl.LOCK_SH and not happened:
            happened.append(True)
            remove(index, 7)
            remove(index, 8)
        real(descriptor, operation)

    with output_folder(index):
        pass
    write = IndexDirectory.open(index, hold=False).manifest
    monkeypatch.setattr("indexer.readers.fcntl.flock", flock)
    opened = IndexDirectory.open(index)
    assert happened
    assert (write.epoch, opened.manifest.epoch) == (0, 2)
    assert opened.removed_rows.tolist() == [7, 8]
    assert opened.errors().num_rows == 2


def test_an_index_without_lock_files_can_be_read(index: Path) -> None:
    for path in (index / "readers").iterdir():
        path.unlink()
    (index / "readers").rmdir()
    assert IndexDirectory.open(index).rows == 100
    remove(index, 1)
    assert IndexDirectory.open(index).live_count == 99


@pytest.mark.parametrize("rows", [[1, 1], [2, 1], [1, 30]], ids=["twice", "descending", "beyond the part"])
def test_damaged_tombstones_are_an_error(index: Path, rows: list[int]) -> None:
    remove(index, 1, 2)
    path = index / "removed/part-00000.2.npy"
    np.save(path.with_suffix(".tmp.npy"), np.array(rows, "<u4"))
    os.replace(path.with_suffix(".tmp.npy"), path)
    with pytest.raises(IndexDirectoryError, match="no ascending rows of its part"):
        IndexDirectory.open(index).live_rows()


def test_codes_made_anew_begin_an_epoch_and_adding_does_not(index: Path) -> None:
    def make(retrain: bool) -> int:
        with output_folder(index) as opened:
            assert opened is not None
            return make_codes(opened, opened.aspects, retrain=retrain, progress=False).manifest.epoch

    assert make(False) == 0
    assert make(True) == 0  # the same vectors give the same codes
    remove(index, 1)
    assert make(False) == 1


def test_an_emptied_and_compacted_index_can_be_built_on(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 5)
    config = BuildConfig(out=tmp_path / "index", data=str(data), progress=False)
    build(config, embedder=StubEmbedder())
    remove(tmp_path / "index", *range(5))
    with output_folder(tmp_path / "index") as opened:
        assert opened is not None
        compact_parts(opened, rows=1000, progress=False)
    assert build(config, embedder=StubEmbedder()).total_images == 0
    write_pictures(data, 1, first=9)
    assert build(config, embedder=StubEmbedder()).total_images == 1
    assert IndexDirectory.open(tmp_path / "index", verify=True).live_items(["key"])["key"].to_pylist() == ["0009.png"]
