"""Merged slices are the index of one build; merged indices hold what each of them holds, once."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from indexer.building.build import build
from indexer.building.build_config import BuildConfig
from indexer.columns import Item, LedgerLine
from indexer.commands.merge import merge
from indexer.commands.thumbnails import add_thumbnails
from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.file_names import vectors_file
from indexer.index_changes import recorded
from indexer.lists import make_lists
from indexer.manifest import Manifest, ModelRecord, SourceRecord
from indexer.merging.config import MergeError
from indexer.output_folder import output_folder
from indexer.part import write_manifest, write_part
from indexer.removal import remove_rows
from indexer.thumbnails import index_thumbnail
from indexer.verifying.vector_check import check_vectors
from search import Searcher
from tests.fixtures.indices import StubEmbedder, write_index
from tests.fixtures.picture_folders import content, picture_bytes, tree, write_pictures
from tests.fixtures.picture_tables import write_csv
from tests.fixtures.tars import write_tar
from tpips_model.aspects import OVERALL, Aspect
from tpips_model.errors import AspectError


def build_from(data: str, out: Path, **more: Any) -> Path:
    config = BuildConfig(out=out, data=data, progress=False, **{"aspects": ("brushwork",), "shard_size": 4, **more})
    build(config, embedder=StubEmbedder())
    return out


def run(*arguments: object) -> None:
    app = typer.Typer()
    app.command()(merge)
    app([*map(str, arguments), "--no-progress"], standalone_mode=False)


def slices(data: str, folder: Path, count: int, **more: Any) -> list[Path]:
    return [
        build_from(data, folder / f"slice-{number}", shard_slice=(number, count), **more)
        for number in range(1, count + 1)
    ]


def folder_data(folder: Path) -> str:
    write_pictures(folder / "data", 23)
    (folder / "data" / "0005.png").write_text("bad")
    return f"folder:{folder / 'data'}"


def tar_data(folder: Path) -> str:
    """Shards of which two give one key, one of them before and one behind what else its ledger tells."""
    side, bad = b'{"year": 1900}', b'{"year":'
    write_tar(folder / "tars/a.tar", [("b/c.png", picture_bytes(1)), ("b/d.png", picture_bytes(2)), ("b/d.json", side)])
    write_tar(
        folder / "tars/a/b.tar",
        [
            ("x.png", picture_bytes(3)),
            ("x.json", bad),
            ("c.png", picture_bytes(4)),
            ("c.json", b'{"artist": "nobody else"}'),
            ("c.jpg", picture_bytes(5, format="JPEG")),
            ("y.png", picture_bytes(6)),
            ("y.json", bad),
            ("d.png", picture_bytes(7)),
            ("d.json", bad),
        ],
    )
    write_tar(folder / "tars/e.tar", [("z.png", picture_bytes(8)), ("z.json", side)])
    return f"webdataset:{folder / 'tars'}/{{a,a/b,e}}.tar"


def csv_data(folder: Path) -> str:
    """A table of which rows of several shards have one key; two rows name one picture."""
    write_pictures(folder / "table", 12)
    rows: list[list[object]] = [["file", "id", "year"]]
    for number in range(20):
        rows.append([f"{number % 12:04d}.png", f"k{number % 17 if number != 6 else 5}", 1900 + number])
    write_csv(folder / "table/list.csv", rows)
    return f"csv:{folder / 'table/list.csv'}?image=file&key=id"


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


def test_removed_rows_are_left_out_and_do_not_come_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = f"folder:{write_pictures(tmp_path / 'data', 10)}"
    parts = slices(data, tmp_path, 2, thumbnails=32)
    with output_folder(parts[1]) as opened:
        assert opened is not None
        remove_rows(opened, np.arange(1, 5))
    run(*parts, "--out", tmp_path / "new")
    assert "4 removed images are left out" in capsys.readouterr().out
    build_from(data, tmp_path / "new")
    new = IndexDirectory.open(tmp_path / "new", verify=True)
    check_vectors(new)
    assert (new.rows, new.live_count) == (6, 6)
    whole = IndexDirectory.open(build_from(data, tmp_path / "whole", thumbnails=32))
    rows = [whole.items(["key"])["key"].to_pylist().index(key) for key in new.items(["key"])["key"].to_pylist()]
    for aspect in whole.aspects:
        assert np.concatenate(new.vectors(aspect)).tobytes() == np.concatenate(whole.vectors(aspect))[rows].tobytes()
    assert [index_thumbnail(new, row) for row in range(6)] == [index_thumbnail(whole, row) for row in rows]


def unit_rows(count: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((count, 16)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def write_named(path: Path, seed: int = 1, *, count: int = 30, **more: Any) -> Path:
    vectors = {"overall": unit_rows(count, seed), "brushwork": unit_rows(count, seed + 1)}
    return write_index(path, vectors, **{"rows_per_part": 8, **more})


def test_a_searcher_finds_what_the_indices_hold(tmp_path: Path) -> None:
    paths = [write_named(tmp_path / name, seed) for seed, name in enumerate("abc")]
    run(*paths, "--out", tmp_path / "new")
    new = Searcher.open(tmp_path / "new")
    assert len(new) == 90
    # A key of the first index asks for the same vector in all of them.
    key, found = "picture-000003", []
    vector = IndexDirectory.open(paths[0]).vectors("brushwork")[0][3].astype(np.float64)
    for prefix, path in zip(("", "b/", "c/"), paths, strict=True):
        rows = np.concatenate(IndexDirectory.open(path).vectors("brushwork")).astype(np.float64)
        names = IndexDirectory.open(path).items(["key"])["key"].to_pylist()
        found += [(score, prefix + name) for score, name in zip(rows @ vector, names, strict=True)]
    best = [name for _, name in sorted(found, reverse=True) if name != key]
    assert [hit.key for hit in new.query([(key, "brushwork")], k=20)] == best[:20]


def test_codes_lists_and_thumbnails_of_one_make_are_kept(tmp_path: Path) -> None:
    one = write_named(tmp_path / "one", codes=True, pictures=[picture_bytes(n) for n in range(30)])
    with output_folder(one) as opened:
        assert opened is not None
        opened = make_lists(opened, 3, progress=False)
        add_thumbnails(opened, 32, progress=False)
    two = shutil.copytree(one, tmp_path / "two")
    run(one, two, "--out", tmp_path / "new")
    old, new = IndexDirectory.open(one), IndexDirectory.open(tmp_path / "new", verify=True)
    check_vectors(new)
    assert new.coded_aspects == old.coded_aspects == old.aspects
    assert new.list_count == 3
    assert np.array_equal(np.concatenate(new.codes("overall")), np.concatenate([*old.codes("overall")] * 2))
    assert np.array_equal(np.concatenate(new.lists()), np.concatenate([*old.lists()] * 2))
    assert [index_thumbnail(new, row) for row in (0, 30, 59)] == [index_thumbnail(old, row) for row in (0, 0, 29)]
    query: list[Any] = [("two/picture-000007", "overall"), ("picture-000001", "brushwork", -0.5)]
    exact, by_codes = (Searcher.open(tmp_path / "new").query(query, k=9, exact=exact) for exact in (True, False))
    assert [(hit.key, hit.score) for hit in exact] == [(hit.key, hit.score) for hit in by_codes]


def test_what_differs_is_left_out_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pictures = [picture_bytes(n) for n in range(30)]
    one = write_named(tmp_path / "one", 1, codes=True, pictures=pictures)
    two = write_named(tmp_path / "two", 5, codes=True, pictures=pictures)
    for path, side in ((one, 32), (two, 40)):
        with output_folder(path) as opened:
            assert opened is not None
            opened = make_lists(opened, 3, progress=False)
            add_thumbnails(opened, side, progress=False)
    run(one, two, "--out", tmp_path / "new")
    said = capsys.readouterr().out
    assert f"the indices' codes and lists differ; make new ones: tpips-index codes {tmp_path / 'new'}\n" in said
    assert f"thumbnails differ; make new ones: tpips-index thumbnails {tmp_path / 'new'}\n" in said
    assert f"pictures lie in {one / 'gallery'}, {two / 'gallery'}; keep" in said
    new = IndexDirectory.open(tmp_path / "new", verify=True)
    assert (new.coded_aspects, new.list_count, new.manifest.thumbnail_side) == ((), 0, None)
    assert new.manifest.files == {}
    assert new.item_bytes(new.items().to_pylist()[31]) == picture_bytes(1)


def test_aspects_must_be_common_or_chosen(tmp_path: Path) -> None:
    one = write_index(tmp_path / "one", {"overall": unit_rows(9, 1), "line": unit_rows(9, 2), "pose": unit_rows(9, 3)})
    two = write_index(tmp_path / "two", {"pose": unit_rows(9, 4), "overall": unit_rows(9, 5), "a b": unit_rows(9, 6)})
    out = tmp_path / "new"
    with pytest.raises(MergeError, match="the indices do not have the same aspects") as caught:
        run(one, two, "--out", out)
    assert str(caught.value) == (
        f"the indices do not have the same aspects: {one} lacks 'a b' (add with: tpips-index build --out {one} "
        f"--aspect 'a b'); {two} lacks 'line' (add with: tpips-index build --out {two} --aspect line); or choose with "
        "--aspect from those that all have: 'overall', 'pose'"
    )
    with pytest.raises(MergeError, match=r"two lacks 'line' \(add with"):
        run(one, two, "--out", out, "--aspect", "line")
    with pytest.raises(MergeError, match=r"one lacks 'x' .*two lacks 'x'"):
        run(one, two, "--out", out, "--aspect", "x")
    run(one, two, "--out", out, "--aspect", "Pose")
    new = IndexDirectory.open(out, verify=True)
    assert [aspect.text for aspect in new.aspects] == ["overall", "pose"]
    assert np.array_equal(np.concatenate(new.vectors("pose"))[9:], IndexDirectory.open(two).vectors("pose")[0])
    assert not (out / "aspects/line").exists()
    other = write_index(tmp_path / "other", {"overall": unit_rows(9, 1), "LINE": unit_rows(9, 2)})
    with pytest.raises(AspectError, match="'line' and 'LINE' would share the name 'line'"):
        run(one, other, "--out", tmp_path / "next")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"fingerprint": "stub:2"}, r"one was made by the model 'stub' \(fingerprint stub:1.*two by .*stub:2"),
        ({"dim": 8}, r"16 dimensions\), and .*8 dimensions\); only indices of one model can be merged"),
        ({"prompt_template": "by {aspect}"}, r"template 'similar by \{aspect\}', and .*two with 'by \{aspect\}'"),
    ],
)
def test_other_models_are_refused(tmp_path: Path, change: dict[str, Any], match: str) -> None:
    one, two = write_named(tmp_path / "one"), write_named(tmp_path / "two")
    manifest = IndexDirectory.open(two).manifest
    parts = () if "dim" in change else manifest.parts
    write_manifest(two, replace(manifest, model=replace(manifest.model, **change), parts=parts))
    with pytest.raises(MergeError, match=match):
        run(one, two, "--out", tmp_path / "new")
    assert not (tmp_path / "new").exists()


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


def test_places_that_cannot_be_are_refused(tmp_path: Path) -> None:
    one, two = write_named(tmp_path / "one"), write_named(tmp_path / "two", 3)
    with pytest.raises(MergeError, match="there is nothing to merge with"):
        run(one, "--out", tmp_path / "new")
    with pytest.raises(MergeError, match=r"two is given twice"):
        run(one, two, tmp_path / "." / "two", "--out", tmp_path / "new")
    with pytest.raises(MergeError, match="is one of the indices, which are only read"):
        run(one, two, "--out", two)
    with pytest.raises(IndexDirectoryError, match="does not exist"):
        run(one, tmp_path / "none", "--out", tmp_path / "new")
    other = write_named(tmp_path / "other")
    before = content(other)
    with pytest.raises(MergeError, match=r"other holds an index that this merge has not begun"):
        run(one, two, "--out", other)
    assert {**content(other), "lock": b""} == {**before, "lock": b""}
    assert not (tmp_path / "new").exists()


def test_again_does_nothing_and_another_merge_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = write_named(tmp_path / "one"), write_named(tmp_path / "two", 3)
    out = tmp_path / "new"
    run(one, two, "--out", out)
    before = tree(out)
    capsys.readouterr()
    run(one, two, "--out", out)
    assert tree(out) == before
    assert "nothing was missing\n" in capsys.readouterr().out
    with pytest.raises(MergeError, match="that this merge has not begun"):
        run(two, one, "--out", out)
    with output_folder(two) as opened:
        assert opened is not None
        remove_rows(opened, np.array([29]))
    with pytest.raises(MergeError, match="that this merge has not begun"):
        run(one, two, "--out", out)
    with output_folder(two) as opened:
        assert opened is not None
        recorded(opened, replace(opened.manifest, parts=opened.manifest.parts[:-1]))
    with pytest.raises(MergeError, match="that this merge has not begun"):
        run(one, two, "--out", out)
    assert tree(out) == before


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


@pytest.mark.parametrize("removed", [False, True])
def test_a_damaged_file_is_named_and_not_taken_over(tmp_path: Path, removed: bool) -> None:
    one, two = write_named(tmp_path / "one"), write_named(tmp_path / "two", 3)
    with output_folder(two) as opened:
        assert opened is not None
        remove_rows(opened, np.array([9] if removed else [], np.int64))
    path = two / vectors_file(Aspect("brushwork"), 1)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(IndexDirectoryError, match=r"two/aspects/brushwork/part-00001\.npy does not have the checksum"):
        run(one, two, "--out", tmp_path / "new")
    begun = IndexDirectory.open(tmp_path / "new", verify=True)
    assert len(begun.manifest.parts) == 5
    data[-1] ^= 1
    path.write_bytes(data)
    run(one, two, "--out", tmp_path / "new")
    assert IndexDirectory.open(tmp_path / "new", verify=True).rows == 60 - removed


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_between_every_two_steps(tmp_path: Path, stride: int) -> None:
    indices = [write_named(tmp_path / name, seed, count=4, rows_per_part=2) for seed, name in enumerate("ab")]
    with output_folder(indices[1]) as opened:
        assert opened is not None
        remove_rows(opened, np.array([2]))
    work = tmp_path / "work"
    work.mkdir()
    command = [sys.executable, "-m", "tests.fixtures.kill_living", "merge", str(stride), str(work)]
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    ran = subprocess.run(
        [*command, *map(str, indices)], capture_output=True, text=True, check=True, env={**os.environ, **one_thread}
    )
    found = json.loads(ran.stdout)
    assert (found["bad"], found["same"]) == ([], True)
    # Four parts of four files, each with its manifest.
    assert found["moments"] >= 4 * (4 + 1) * 6


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
