from __future__ import annotations

from pathlib import Path

import pytest

from indexer.directory import IndexDirectoryError
from indexer.durable import write_durably
from tests.fixtures.picture_folders import tree, write_pictures
from tests.indexer.test_build import Counting, interrupt_at, run


@pytest.mark.parametrize("name", ["items", "errors", "aspects", "aspects/foo", "aspects/lighting", "gallery"])
@pytest.mark.parametrize("finished", [True, False], ids=["an index", "one begun"])
def test_a_folder_of_an_index_that_is_a_link_is_refused_and_nothing_is_touched(
    tmp_path: Path, name: str, finished: bool
) -> None:
    data = write_pictures(tmp_path / "data", 2)
    out, elsewhere = tmp_path / "index", tmp_path / "elsewhere"
    if finished:
        run(out, data)
    else:
        out.mkdir()
        (out / "lock").touch()
    if (out / name).exists():
        (out / name).rename(elsewhere)
    elsewhere.mkdir(exist_ok=True)
    for file in ("part-00007.npy", "part-00007.parquet", "mine.tmp"):
        (elsewhere / file).write_text("mine")
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).symlink_to(elsewhere)
    before = tree(tmp_path)
    with pytest.raises(IndexDirectoryError, match=f"{name} is a link, and a build writes into no folder that is one"):
        run(out, data, "lighting")
    assert tree(tmp_path) == before


def test_an_output_folder_may_be_a_link_itself(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "index").symlink_to("disk")
    assert run(tmp_path / "index", write_pictures(tmp_path / "data", 2)).images == 2


def test_a_link_in_a_temporary_files_place_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "file.tmp").symlink_to("mine")
    write_durably(tmp_path / "file", b"new")
    assert tree(tmp_path) == {"mine": b"mine", "file": b"new"}


def test_a_fault_of_any_kind_leaves_nothing_of_a_build_that_came_to_nothing(tmp_path: Path) -> None:
    def fail(call: int) -> None:
        raise ZeroDivisionError("a bug of ours")

    data = write_pictures(tmp_path / "data", 2)
    with pytest.raises(ZeroDivisionError, match="a bug of ours"):
        run(tmp_path / "index", data, embedder=Counting(fail))
    assert not (tmp_path / "index").exists()
    with pytest.raises(KeyboardInterrupt, match="stopped by the test"):
        run(tmp_path / "index", data, embedder=interrupt_at(0))
    assert (tmp_path / "index").exists()
