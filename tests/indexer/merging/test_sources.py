"""Where the sources of merged indices go, what their keys begin with, and that each picture is there once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from indexer.columns import Item, LedgerLine
from indexer.directory import IndexDirectory
from indexer.manifest import Manifest, ModelRecord, SourceRecord
from indexer.merging.config import MergeError
from indexer.output_folder import output_folder
from indexer.part import write_manifest, write_part
from indexer.removal import remove_rows
from indexer.verifying.vector_check import check_vectors
from tests.fixtures.merges import build_from, folder_data, run, unit_rows
from tests.fixtures.picture_folders import picture_bytes, tree, write_pictures
from tpips_model.aspects import OVERALL


def test_other_folders_become_further_sources_as_with_add(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [f"folder:{write_pictures(tmp_path / name, 9, first=first)}" for name, first in (("one", 0), ("two", 5))]
    (tmp_path / "two/0006.png").write_text("bad")
    added = build_from(folders[0], tmp_path / "added")
    build_from(folders[1], added, new_source=True)
    indices = [build_from(data, tmp_path / f"index-{n}") for n, data in enumerate(folders)]
    run(*indices, "--out", tmp_path / "new")
    assert tree(tmp_path / "new") == tree(added)
    new = IndexDirectory.open(tmp_path / "new", verify=True)
    check_vectors(new)
    assert {row["key"]: new.item_bytes(row) for row in new.items().to_pylist()} == {
        **{f"{number:04d}.png": picture_bytes(number) for number in range(9)},
        **{f"two/{number:04d}.png": picture_bytes(number) for number in range(5, 14) if number != 6},
    }
    assert f"{tmp_path / 'new'} holds 17 images" in capsys.readouterr().out


def test_sources_of_sources_find_their_places(tmp_path: Path) -> None:
    one, two, three = (f"folder:{write_pictures(tmp_path / name, 3)}" for name in ("one", "two", "three"))
    (tmp_path / "two/bad.png").write_text("bad")
    first = build_from(one, tmp_path / "first")
    build_from(two, first, new_source=True)
    second = build_from(three, tmp_path / "second")
    build_from(one, second, new_source=True)
    (tmp_path / "more").mkdir()
    write_pictures(tmp_path / "more/two", 2, first=7)
    build_from(f"folder:{tmp_path / 'more/two'}", second, new_source=True)
    run(first, second, "--out", tmp_path / "new")
    new = IndexDirectory.open(tmp_path / "new", verify=True)
    check_vectors(new)
    assert [(source.root, source.prefix) for source in new.manifest.sources] == [
        ("../one", ""),
        ("../two", "two"),
        ("../three", "three"),
        ("../more/two", "two-2"),
    ]
    expected = {
        **{f"{n:04d}.png": picture_bytes(n) for n in range(3)},
        **{f"{name}/{n:04d}.png": picture_bytes(n) for name in ("two", "three") for n in range(3)},
        **{f"two-2/{n:04d}.png": picture_bytes(n) for n in (7, 8)},
    }
    assert {row["key"]: new.item_bytes(row) for row in new.items().to_pylist()} == expected
    lines = {line["key"]: line["reason"] for line in new.errors().to_pylist()}
    assert sorted(lines) == ["0000.png", "0001.png", "0002.png", "two/bad.png"]
    assert lines["0001.png"] == "0001.png is a picture of an earlier index too, whose item is kept"
    names = [shard for part in new.manifest.parts for shard in part.shards]
    assert names == ["files-00000", "//1/files-00000", "//2/files-00000", "files-00000#2", "//3/files-00000"]
    for data in (one, two, three, f"folder:{tmp_path / 'more/two'}"):
        build_from(data, tmp_path / "new")
    assert IndexDirectory.open(tmp_path / "new").rows == len(expected)


def test_one_folder_indexed_twice_is_one_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_pictures(tmp_path / "data", 6)
    early = build_from(f"folder:{data}", tmp_path / "early")
    write_pictures(data, 10)
    late = build_from(f"folder:{data}", tmp_path / "late", shard_size=5)
    with output_folder(early) as opened:
        assert opened is not None
        remove_rows(opened, np.array([1]))
    run(early, late, "--out", tmp_path / "new")
    assert "5 images were there already" in capsys.readouterr().out
    new = IndexDirectory.open(tmp_path / "new", verify=True)
    # What was removed from one and not from the other is in the new one.
    assert sorted(new.items(["key"])["key"].to_pylist()) == [f"{number:04d}.png" for number in range(10)]
    assert len(new.manifest.sources) == 1
    write_pictures(data, 12)
    build_from(f"folder:{data}", tmp_path / "new")
    assert IndexDirectory.open(tmp_path / "new").rows == 12


@pytest.mark.parametrize("inner_first", [False, True])
def test_folders_inside_each_other_are_refused(tmp_path: Path, inner_first: bool) -> None:
    pictures = write_pictures(tmp_path / "my pictures", 2)
    write_pictures(pictures / "cats", 3)
    write_pictures(tmp_path / "my pictures of dogs", 3)
    other = build_from(f"folder:{tmp_path / 'my pictures of dogs'}", tmp_path / "other")
    whole = build_from(f"folder:{pictures}", tmp_path / "whole")
    inner = build_from(f"folder:{pictures / 'cats'}", tmp_path / "inner")
    build_from(f"folder:{write_pictures(tmp_path / 'more', 1)}", inner, new_source=True)
    with pytest.raises(
        MergeError, match=r"holds some of the same pictures, .*leave out the index of the folder"
    ) as told:
        run(*((inner, other, whole) if inner_first else (whole, other, inner)), "--out", tmp_path / "new")
    assert str(told.value).endswith(f"tpips-index build --data 'folder:{pictures}' --out {whole}")
    assert not (tmp_path / "new").exists()
    run(whole, other, "--out", tmp_path / "new")
    assert IndexDirectory.open(tmp_path / "new").rows == 8


def test_prefixes_are_unique_and_never_what_keys_begin_with(tmp_path: Path) -> None:
    pictures = write_pictures(tmp_path / "pictures", 1)
    write_pictures(pictures / "cats", 2)
    write_pictures(tmp_path / "x/cats", 3)
    write_pictures(tmp_path / "y/cats", 4)
    one, two, three = (
        build_from(f"folder:{tmp_path / data}", tmp_path / f"index-{n}")
        for n, data in enumerate(("pictures", "x/cats", "y/cats"))
    )
    run(one, two, three, "--out", tmp_path / "new")
    new = IndexDirectory.open(tmp_path / "new")
    assert [source.prefix for source in new.manifest.sources] == ["", "cats-2", "cats-3"]
    assert (new.rows, new.errors().num_rows) == (10, 0)
    run(one, two, three, "--out", tmp_path / "named", "--prefix", "dogs", "--prefix", "new cats")
    assert [source.prefix for source in IndexDirectory.open(tmp_path / "named").manifest.sources] == [
        "",
        "dogs",
        "new cats",
    ]
    for prefixes, match in (
        (["a"], "1 prefixes were given for 2 further indices"),
        (["a", "a"], "--prefix 'a' is what keys of an index before it begin with"),
        (["cats", "a"], "--prefix 'cats' is what keys of an index before it begin with"),
        (["a", "/b"], "--prefix '/b' must be a printable name"),
        (["a", ""], "--prefix '' must be a printable name"),
    ):
        options = [option for prefix in prefixes for option in ("--prefix", prefix)]
        with pytest.raises(MergeError, match=match):
            run(one, two, three, "--out", tmp_path / "refused", *options)
    assert not (tmp_path / "refused").exists()


def test_items_whose_pictures_nobody_knows_are_never_one(tmp_path: Path) -> None:
    paths = []
    for name in ("one", "two"):
        path = tmp_path / name
        items = [Item(f"{name}-{row}", "", None, None, 0, 0, 0) for row in range(3)]
        items.append(Item("both", "", None, None, 0, 0, 0))
        vectors = {OVERALL: unit_rows(4, 1)}
        part = write_part(path, 0, shard="x", items=items, errors=(), vectors=vectors)
        model = ModelRecord("stub", "stub:1", 16, "similar by {aspect}", 0.0)
        write_manifest(path, Manifest(model, (SourceRecord("embeddings", "../pictures"),), (OVERALL,), (part,)))
        paths.append(path)
    run(*paths, "--out", tmp_path / "new")
    new = IndexDirectory.open(tmp_path / "new", verify=True)
    assert new.items(["key"])["key"].to_pylist() == ["one-0", "one-1", "one-2", "both", "two-0", "two-1", "two-2"]
    assert new.errors().to_pylist() == [{"key": "both", "reason": " has the key of an earlier picture, which is kept"}]


def test_parts_of_all_kinds_in_a_merge_of_merges(tmp_path: Path) -> None:
    data = folder_data(tmp_path)
    names = [build_from(data, tmp_path / name) for name in ("a", "b", "c")]
    run(names[0], names[1], "--out", tmp_path / "ab")
    run(tmp_path / "ab", names[2], "--out", tmp_path / "abc")
    new = IndexDirectory.open(tmp_path / "abc", verify=True)
    assert new.rows == 22
    shards = [shard for part in new.manifest.parts for shard in part.shards]
    assert len(set(shards)) == len(shards) == 18
    assert shards[::6] == ["files-00000", "files-00000#2", "files-00000#3"]
    reasons = [line["reason"] for line in new.errors().to_pylist()]
    assert sum("of an earlier index too" in reason for reason in reasons) == 44
    assert LedgerLine("0005.png", reasons[0]) in new.part_errors(new.manifest.parts[1])
