"""Merged indices hold what each of them holds, and what does not fit together is refused or said."""

from __future__ import annotations

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

from indexer.commands.thumbnails import add_thumbnails
from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.file_names import vectors_file
from indexer.index_changes import recorded
from indexer.index_codes import IndexCodes
from indexer.lists import make_lists
from indexer.merging.config import MergeError
from indexer.output_folder import output_folder
from indexer.part import write_manifest
from indexer.removal import remove_rows
from indexer.thumbnails import index_thumbnail
from indexer.verifying.vector_check import check_vectors
from search import Searcher
from tests.fixtures.indices import write_index
from tests.fixtures.merges import build_from, run, slices, unit_rows, write_named
from tests.fixtures.picture_folders import content, picture_bytes, tree, write_pictures
from tpips_model.aspects import Aspect
from tpips_model.errors import AspectError


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
    new_codes, old_codes = IndexCodes(new), IndexCodes(old)
    assert new.coded_aspects == old.coded_aspects == old.aspects
    assert new.manifest.list_count == 3
    assert np.array_equal(np.concatenate(new_codes.codes("overall")), np.concatenate([*old_codes.codes("overall")] * 2))
    assert np.array_equal(np.concatenate(new_codes.lists()), np.concatenate([*old_codes.lists()] * 2))
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
    assert (new.coded_aspects, new.manifest.list_count, new.manifest.thumbnail_side) == ((), 0, None)
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
    assert (found["bad"], found["unlike"], found["same"]) == ([], [], True)
    # Four parts of four files, each with its manifest.
    assert found["moments"] >= 4 * (4 + 1) * 6
