from __future__ import annotations

from pathlib import Path

import pytest

from indexer.building.build import build
from indexer.building.build_config import BuildConfig, BuildError
from indexer.directory import IndexDirectory
from indexer.merging.config import MergeConfig
from indexer.merging.merge import merge_indices
from tests.fixtures.indices import StubEmbedder
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


@pytest.mark.parametrize("number", [1, 2, 3])
def test_more_slices_than_shards_are_refused_in_every_slice(tmp_path: Path, number: int) -> None:
    for tar in range(2):
        write_tar(tmp_path / f"data/{tar}.tar", [("a.png", picture_bytes(tar))])
    with pytest.raises(
        BuildError,
        match=r"data has 2 shards, too few for 3 slices: .* Give --shard-slice I/2 at most, or more and smaller",
    ):
        run(tmp_path / "slice", tmp_path / "data", shard_slice=(number, 3))
    assert not (tmp_path / "slice").exists()
    for one in (1, 2):
        run(tmp_path / f"slice-{one}", tmp_path / "data", shard_slice=(one, 2))
        assert shard_names(tmp_path / f"slice-{one}") == [f"{one - 1}.tar"]


def test_of_a_small_folder_the_shard_size_is_named_that_gives_enough_slices(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 10)

    def build_slice(number: int, count: int, size: int) -> None:
        out = tmp_path / str(number)
        config = BuildConfig(out=out, data=str(data), shard_slice=(number, count), shard_size=size, progress=False)
        build(config, embedder=StubEmbedder())

    with pytest.raises(BuildError, match=r"has 1 shard, too few for 4 .* such as --shard-size 2 for every slice"):
        build_slice(2, 4, 256)
    with pytest.raises(BuildError, match=r"--shard-slice I/1 at most, or I/10 with --shard-size 1"):
        build_slice(1, 11, 256)
    for number in range(1, 5):
        build_slice(number, 4, 2)
    slices = tuple(tmp_path / str(number) for number in range(1, 5))
    assert merge_indices(MergeConfig(slices, tmp_path / "all", progress=False)).images == 10


@pytest.mark.parametrize("wanted", [(0, 4), (5, 4), (1, 0), (-1, 3)])
def test_a_slice_is_one_of_its_number(tmp_path: Path, wanted: tuple[int, int]) -> None:
    with pytest.raises(BuildError, match=f"--shard-slice {wanted[0]}/{wanted[1]} is none of {wanted[1]} slices"):
        BuildConfig(out=tmp_path, shard_slice=wanted)
