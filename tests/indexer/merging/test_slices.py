"""Merged slices are, byte for byte, the index of one build."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from indexer.columns import Item
from indexer.directory import IndexDirectory
from indexer.file_names import vectors_file
from indexer.merging.config import MergeError
from indexer.output_folder import output_folder
from indexer.part import write_manifest, write_part
from indexer.removal import remove_rows
from tests.fixtures.indices import write_index
from tests.fixtures.merges import build_from, csv_data, folder_data, run, slices, tar_data
from tests.fixtures.picture_folders import content, picture_bytes, tree, write_pictures
from tpips_model.aspects import OVERALL

DATA = {"folder": folder_data, "tars": tar_data, "csv": csv_data}


@pytest.mark.parametrize("kind", DATA)
def test_slices_become_what_one_build_gives(tmp_path: Path, kind: str) -> None:
    data = DATA[kind](tmp_path)
    whole = build_from(data, tmp_path / "whole", thumbnails=32)
    parts = slices(data, tmp_path / "slices", 3, thumbnails=32)
    before = [tree(one) for one in parts]
    run(parts[2], parts[0], parts[1], "--out", tmp_path / "new")
    assert tree(tmp_path / "new") == tree(whole)
    assert [tree(one) for one in parts] == before
    build_from(data, tmp_path / "new")
    assert content(tmp_path / "new") == content(whole)


def test_keys_that_two_slices_have_become_ledger_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(*slices(tar_data(tmp_path), tmp_path, 3), "--out", tmp_path / "new")
    assert "2 images were there already and are left out; which: tpips-index info --errors" in capsys.readouterr().out
    new = IndexDirectory.open(tmp_path / "new", verify=True)
    assert new.items(["key"])["key"].to_pylist() == ["a/b/c", "a/b/d", "a/b/x", "a/b/y", "e/z"]
    assert [(line["key"], line["reason"].split(":")[0][:40]) for line in new.errors().to_pylist()] == [
        ("a/b/x", "indexed, but without its side file"),
        ("a/b/c", "a/b.tar"),
        ("a/b/c", "a/b.tar"),
        ("a/b/y", "indexed, but without its side file"),
        ("a/b/d", "a/b.tar"),
        ("a/b/d", "indexed, but without its side file"),
    ]


def test_slices_with_many_shards_each_and_more_slices(tmp_path: Path) -> None:
    data = folder_data(tmp_path)
    whole = build_from(data, tmp_path / "whole", shard_size=1)
    run(*slices(data, tmp_path, 5, shard_size=1), "--out", tmp_path / "new")
    assert tree(tmp_path / "new") == tree(whole)


def test_pictures_that_slices_keep_themselves_go_with_them(tmp_path: Path) -> None:
    paths = []
    for number in (1, 2):
        path = tmp_path / f"slice-{number}"
        write_index(path, {"overall": np.eye(4, 8, dtype=np.float32)}, rows_per_part=4)
        index = IndexDirectory.open(path)
        pictures = range(4 * (number - 1), 4 * number)
        items = [Item(f"{n}", f"{n}.png", None, None, len(picture_bytes(n)), 12, 8) for n in pictures]
        (path / "gallery").mkdir()
        for n in pictures:
            (path / f"gallery/{n}.png").write_bytes(picture_bytes(n))
        vectors = {OVERALL: np.eye(4, 8, dtype=np.float32)}
        part = write_part(path, 0, shard=f"gallery-{number}", items=items, errors=(), vectors=vectors)
        write_manifest(path, replace(index.manifest, parts=(part,), slice=(number, 2)))
        paths.append(path)
    run(*paths, "--out", tmp_path / "new")
    for path in paths:
        shutil.rmtree(path)
    new = IndexDirectory.open(tmp_path / "new", verify=True)
    assert new.manifest.source.root == "gallery"
    assert [new.item_bytes(row) for row in new.items().to_pylist()] == [picture_bytes(n) for n in range(8)]


def test_slices_that_are_not_those_of_one_build_are_refused(tmp_path: Path) -> None:
    data = folder_data(tmp_path)
    one, two, three = slices(data, tmp_path, 3)
    out = tmp_path / "new"
    with pytest.raises(MergeError, match=r"of 3 slices 2 are missing: 1/3, 3/3; give them too"):
        run(two, "--out", out)
    copy = shutil.copytree(two, tmp_path / "copy")
    with pytest.raises(MergeError, match=r"slice-2 and .*copy are both slice 2/3; give one"):
        run(one, two, copy, three, "--out", out)
    whole = build_from(data, tmp_path / "whole")
    with pytest.raises(MergeError, match=r"slice-1 is slice 1/3 of its data, and .*whole is no slice"):
        run(whole, one, two, three, "--out", out)
    other = build_from(data, tmp_path / "other", shard_slice=(2, 2))
    with pytest.raises(MergeError, match=r"slice-1 is one of 3 slices, and .*other one of 2"):
        run(one, other, "--out", out)
    with pytest.raises(MergeError, match=r"--prefix is for indices of different pictures"):
        run(one, two, three, "--out", out, "--prefix", "a", "--prefix", "b")
    moved = build_from(f"folder:{write_pictures(tmp_path / 'elsewhere', 12)}", tmp_path / "moved", shard_slice=(2, 3))
    with pytest.raises(MergeError, match=r"a slice of folder:.*data, and .*moved one of folder:.*elsewhere"):
        run(one, moved, three, "--out", out)
    finer = build_from(data, tmp_path / "finer", shard_slice=(2, 3), shard_size=2)
    with pytest.raises(MergeError, match=r"both hold the shard 'files-0000\d', so they are slices of different"):
        run(one, finer, three, "--out", out)
    assert not out.exists()


def test_links_are_the_same_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = folder_data(tmp_path)
    parts = slices(data, tmp_path, 2)
    before = [tree(one) for one in parts]
    run(*parts, "--out", tmp_path / "copied")
    run(*parts, "--out", tmp_path / "linked", "--link")
    assert tree(tmp_path / "linked") == tree(tmp_path / "copied")
    name = vectors_file(OVERALL, 0)
    assert (tmp_path / "linked" / name).samefile(parts[0] / name)
    assert not (tmp_path / "copied" / name).samefile(parts[0] / name)
    with output_folder(tmp_path / "linked") as opened:
        assert opened is not None
        remove_rows(opened, np.array([0, 7]))
    assert [tree(one) for one in parts] == before

    def refused(*paths: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refused)
    with pytest.raises(MergeError, match=r"cannot link .*Invalid cross-device link; leave out --link"):
        run(*parts, "--out", tmp_path / "refused", "--link")
    assert not (tmp_path / "refused").exists()
