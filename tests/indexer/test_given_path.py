from __future__ import annotations

from pathlib import Path

import pytest

from indexer.building.build import build
from indexer.building.build_config import BuildConfig, BuildError
from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.given_path import given_path, resolved_path
from indexer.sources import SourceError
from tests.fixtures.picture_folders import tree, write_pictures
from tests.fixtures.tars import write_tar
from tests.indexer.test_build import run
from tpips_model import ModelError
from tpips_model.qwen.model_files import find_model_files

LONG = "x" * 300
# A path and why it cannot be used.
BAD = [(LONG, "File name too long"), ("~nosuchuser/x", "home directory"), ("a\0b", "null")]


@pytest.mark.parametrize(("path", "reason"), BAD)
def test_a_path_that_none_can_be_is_refused_whatever_it_is_for(tmp_path: Path, path: str, reason: str) -> None:
    data = write_pictures(tmp_path / "data", 1)
    with pytest.raises(IndexDirectoryError, match=rf"the output folder '.*{reason}.*; give another path"):
        run(Path(path), data)
    for given in (path, f"folder:{path}"):
        with pytest.raises(SourceError, match=rf"(--data|the folder) '.*{reason}.*; give another path"):
            run(tmp_path / "index", given)
    assert not (tmp_path / "index").exists()


def test_a_link_that_goes_in_circles_is_refused(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(IndexDirectoryError, match=r"the output folder .*circle.*symbolic links"):
        run(tmp_path / "circle", write_pictures(tmp_path / "data", 1))
    with pytest.raises(SourceError, match=r"--data .*circle.*symbolic links"):
        run(tmp_path / "index", tmp_path / "circle")


def test_any_other_path_is_expanded_and_need_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "file").write_text("x")
    for name in ("none", "file", "file/under"):
        assert given_path(f"~/{name}", what="it", kind=SourceError) == tmp_path / name
        assert resolved_path(tmp_path / name, what="it", kind=SourceError) == tmp_path.resolve() / name


def test_a_pattern_may_be_longer_than_a_path(tmp_path: Path) -> None:
    names = [f"{number:03d}" for number in range(100)]
    for name in names:
        write_tar(tmp_path / f"{name}.tar", {})
    with pytest.raises(BuildError, match="could be indexed: 100 × the tar holds no pictures"):
        run(tmp_path / "index", f"{tmp_path}/{{{','.join(names)}}}.tar")


@pytest.mark.parametrize("path", ["a\0b", LONG])
def test_opening_an_index_at_no_possible_path_is_an_error(tmp_path: Path, path: str) -> None:
    with pytest.raises(IndexDirectoryError, match=r"(cannot be used: .*null|File name too long)"):
        IndexDirectory.open(tmp_path / path)


def test_a_data_root_that_none_can_be_is_an_error(tmp_path: Path) -> None:
    run(tmp_path / "index", write_pictures(tmp_path / "data", 1))
    with pytest.raises(IndexDirectoryError, match=r"the data root 'a.x00b' cannot be used"):
        IndexDirectory.open(tmp_path / "index", data_root="a\0b")


@pytest.mark.parametrize("name", [LONG, f"{LONG}/x", "~nosuchuser/x", "a\0b"])
def test_a_model_at_no_possible_path_is_an_error(name: str) -> None:
    with pytest.raises(ModelError, match=r"hub id of the form 'owner/name'"):
        find_model_files(name)


def test_a_data_root_that_is_not_utf8_is_refused_before_anything_is_embedded(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "caf\udce9", 2)
    # The model's name would be refused next, had the folder's not been refused first.
    with pytest.raises(BuildError, match=r"has a name that is not valid UTF-8.*; rename it and run again"):
        build(BuildConfig(out=tmp_path / "index", data=str(data), model="nope", progress=False))
    assert not (tmp_path / "index").exists()
    assert len(tree(data)) == 2
