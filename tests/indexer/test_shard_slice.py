from __future__ import annotations

from pathlib import Path

import pytest

from indexer.building.build_config import BuildConfig, BuildError
from indexer.directory import IndexDirectory
from tests.fixtures.picture_folders import picture_bytes, tree, write_pictures
from tests.fixtures.tars import write_tar
from tests.indexer.test_build import interrupt_at, run


def shard_names(index: Path) -> list[str]:
    return [name for part in IndexDirectory.open(index).manifest.parts for name in part.shards]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_slices_are_the_whole_cut_into_runs(tmp_path: Path, count: int) -> None:
    data = write_pictures(tmp_path / "data", 19)
    run(tmp_path / "whole", data)
    whole = IndexDirectory.open(tmp_path / "whole")
    keys: list[str] = []
    names: list[str] = []
    for number in range(1, count + 1):
        out = tmp_path / f"slice-{number}"
        run(out, data, shard_slice=(number, count))
        index = IndexDirectory.open(out)
        assert index.manifest.slice == (number, count)
        keys += index.items()["key"].to_pylist()
        names += shard_names(out)
    assert keys == whole.items()["key"].to_pylist()
    assert names == shard_names(tmp_path / "whole")


def test_a_slice_that_was_stopped_goes_on_as_that_slice(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 40)
    run(tmp_path / "whole", data, shard_slice=(2, 2))
    for call in (1, 3):
        with pytest.raises(KeyboardInterrupt, match="stopped by the test"):
            run(tmp_path / "index", data, shard_slice=(2, 2), embedder=interrupt_at(call))
    run(tmp_path / "index", data, shard_slice=(2, 2))
    assert tree(tmp_path / "index") == tree(tmp_path / "whole")
    assert run(tmp_path / "index", data, shard_slice=(2, 2)).parts == 0


def test_a_slice_gets_more_aspects_by_itself(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 9)
    run(tmp_path / "index", data, shard_slice=(1, 2))
    assert run(tmp_path / "index", None, "lighting").aspects_added
    assert IndexDirectory.open(tmp_path / "index").manifest.slice == (1, 2)


def test_an_index_is_gone_on_with_as_what_it_was_begun_as(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 9)
    run(tmp_path / "slice", data, shard_slice=(1, 2))
    run(tmp_path / "whole", data)
    with pytest.raises(BuildError, match=r"is slice 1/2 of its data; give --shard-slice 1/2 to go on with it, or put"):
        run(tmp_path / "slice", data, shard_slice=(2, 2))
    with pytest.raises(BuildError, match=r"is slice 1/2 of its data"):
        run(tmp_path / "slice", data)
    with pytest.raises(BuildError, match=r"was not begun as slice 1/2 but as a whole; leave out --shard-slice"):
        run(tmp_path / "whole", data, shard_slice=(1, 2))


def test_more_slices_than_shards_leave_some_without(tmp_path: Path) -> None:
    for number in range(2):
        write_tar(tmp_path / f"data/{number}.tar", [("a.png", picture_bytes(number))])
    found = []
    with pytest.raises(BuildError, match=r"slice 1/3 of .* is empty, for there are 2 shards in all; give at most"):
        run(tmp_path / "slice-1", tmp_path / "data", shard_slice=(1, 3))
    assert not (tmp_path / "slice-1").exists()
    for number in (2, 3):
        run(tmp_path / f"slice-{number}", tmp_path / "data", shard_slice=(number, 3))
        found += shard_names(tmp_path / f"slice-{number}")
    assert found == ["0.tar", "1.tar"]


@pytest.mark.parametrize("wanted", [(0, 4), (5, 4), (1, 0), (-1, 3)])
def test_a_slice_is_one_of_its_number(tmp_path: Path, wanted: tuple[int, int]) -> None:
    with pytest.raises(BuildError, match=f"--shard-slice {wanted[0]}/{wanted[1]} is none of {wanted[1]} slices"):
        BuildConfig(out=tmp_path, shard_slice=wanted)
