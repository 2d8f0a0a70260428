"""Inverted lists: made from the stored vectors, kept as the index grows, and one clear error where they are damaged."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from indexer import lists as lists_module
from indexer import vector_blocks
from indexer.clustering import Clustering, list_dtype
from indexer.codes import remove_codes
from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.index_codes import IndexCodes
from indexer.lists import lists_for, lists_to_make, make_lists, remove_lists
from tests.fixtures.indices import write_index
from tests.fixtures.picture_folders import content, write_pictures
from tests.indexer.test_build import run
from tests.indexer.test_directory import resized, rewrite_manifest, unit_rows

ASPECTS = ("overall", "brushwork")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    vectors = {text: unit_rows(70, seed=number) for number, text in enumerate(ASPECTS)}
    return write_index(tmp_path / "index", vectors, rows_per_part=30, codes=True)


def make(path: Path, count: int, *, anew: bool = False) -> IndexDirectory:
    return make_lists(IndexDirectory.open(path), count, anew=anew, progress=False)


def stored(index: IndexDirectory) -> dict[str, NDArray[np.float32]]:
    return {aspect.slug: np.concatenate(index.vectors(aspect)).astype(np.float32) for aspect in index.aspects}


def nearest(index: IndexDirectory) -> NDArray[np.int64]:
    clustering = IndexCodes(index).clustering()
    points = np.sum([vectors @ clustering.projections[slug] for slug, vectors in stored(index).items()], axis=0)
    return np.argmin(((points[:, None] - clustering.centers) ** 2).sum(axis=2), axis=1)


def test_every_item_is_in_the_list_of_the_nearest_center(index: Path) -> None:
    made = make(index, 6)
    opened = IndexDirectory.open(index, verify=True)
    assert opened.manifest == made.manifest
    assert opened.manifest.list_count == 6
    lists = IndexCodes(opened).lists()
    assert [(type(part), part.shape, part.dtype) for part in lists] == [
        (np.memmap, (rows,), np.uint16) for rows in (30, 30, 10)
    ]
    np.testing.assert_array_equal(np.concatenate(lists), nearest(opened))
    assert len(np.unique(np.concatenate(lists))) > 3


def test_items_that_belong_together_under_all_aspects_share_a_list(tmp_path: Path) -> None:
    """Eight groups that no aspect alone can tell apart."""
    group = np.random.default_rng(0).integers(8, size=200)
    corners = np.eye(8, dtype=np.float32)
    vectors = {"overall": corners[group // 2], "brushwork": corners[group % 2], "mood": corners[group * 0]}
    path = write_index(tmp_path / "index", vectors, codes=True)
    numbers = np.concatenate(IndexCodes(make(path, 8)).lists())
    assert len({(a, b) for a, b in zip(group.tolist(), numbers.tolist(), strict=True)}) == 8


def test_projections_are_orthonormal_and_no_wider_than_needed(index: Path) -> None:
    projections = IndexCodes(make(index, 6)).clustering().projections
    assert [matrix.shape for matrix in projections.values()] == [(8, 16), (8, 16)]
    whole = np.concatenate(list(projections.values()))
    np.testing.assert_allclose(whole.T @ whole, np.eye(16), atol=1e-5)


def test_making_twice_changes_nothing_and_blocks_give_what_all_at_once_gives(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(index, tmp_path / "blocks")
    make(index, 6)
    before = {path: path.stat().st_mtime_ns for path in index.rglob("*")}
    make(index, 6)
    make(index, 6, anew=True)
    assert before == {path: path.stat().st_mtime_ns for path in index.rglob("*")}
    monkeypatch.setattr(vector_blocks, "BLOCK_VALUES", 7 * 8)
    make(tmp_path / "blocks", 6)
    assert content(tmp_path / "blocks") == content(index)


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_what_was_stopped_goes_on_to_the_same_index(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    shutil.copytree(index, tmp_path / "whole")
    make(tmp_path / "whole", 6)
    whole_assign = Clustering.assign
    done: list[int] = []

    def assign(self: Clustering, vectors: Mapping[str, NDArray[np.float32]]) -> NDArray[np.uint16]:
        if len(done) == calls:
            raise KeyboardInterrupt("stopped by the test")
        done.append(1)
        return whole_assign(self, vectors)

    with monkeypatch.context() as patch:
        patch.setattr(Clustering, "assign", assign)
        with pytest.raises(KeyboardInterrupt, match="stopped by the test"):
            make(index, 6)
    begun = IndexDirectory.open(index, verify=True)
    assert (begun.manifest.list_count, sum(part.has_lists for part in begun.manifest.parts)) == (0, calls)
    make(index, 6)
    assert content(index) == content(tmp_path / "whole")


def test_another_number_of_lists_replaces_them_and_removing_gives_the_index_of_before(
    index: Path, tmp_path: Path
) -> None:
    before = content(index)
    shutil.copytree(index, tmp_path / "five")
    make(tmp_path / "five", 5)
    make(index, 6)
    make(index, 5)
    assert content(index) == content(tmp_path / "five")
    remove_lists(remove_lists(IndexDirectory.open(index)))
    assert content(index) == before


@pytest.mark.parametrize("rows", [1, 2, 5, 40])
@pytest.mark.parametrize("same", [False, True])
def test_few_and_identical_vectors(tmp_path: Path, rows: int, same: bool) -> None:
    vectors = unit_rows(rows)[[0] * rows if same else slice(None)]
    path = write_index(tmp_path / "i", {"overall": vectors}, rows_per_part=3, codes=True)
    for count in {1, rows}:
        numbers = np.concatenate(IndexCodes(make(path, count)).lists())
        assert len(numbers) == rows
        assert int(numbers.max()) < count
        assert len(np.unique(numbers)) == (1 if same else count)


def test_codes_must_be_there_first(index: Path) -> None:
    remove_codes(IndexDirectory.open(index), IndexDirectory.open(index).aspects)
    with pytest.raises(IndexDirectoryError, match="has no codes, which lists need; make them first: tpips-index codes"):
        make(index, 3)


def test_damaged_vectors_are_not_clustered(index: Path) -> None:
    name = index / "aspects/overall/part-00001.npy"
    vectors = np.load(name, allow_pickle=False)
    vectors[7] = np.nan
    np.save(name, vectors)
    with pytest.raises(IndexDirectoryError, match=r"vectors under 'overall' in .* are damaged"):
        make(index, 3)


def test_how_many_lists_an_index_gets(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = IndexDirectory.open(index).manifest
    assert [lists_for(rows) for rows in (1, 100, 10**7, 10**12)] == [4, 32, 8192, 1 << 20]
    assert [lists_to_make(manifest, wanted=wanted) for wanted in (None, 3, 1000)] == [0, 3, 70]
    listed = make(index, 6).manifest
    assert [lists_to_make(listed, wanted=None, anew=anew) for anew in (False, True)] == [6, 6]
    monkeypatch.setattr(lists_module, "LISTS_FROM_ROWS", 70)
    assert [lists_to_make(listed, wanted=None, anew=anew) for anew in (False, True)] == [6, 32]
    assert lists_to_make(manifest, wanted=None) == 32
    remove_codes(IndexDirectory.open(index), IndexDirectory.open(index).aspects)
    assert lists_to_make(IndexDirectory.open(index).manifest, wanted=None) == 6  # completed, not made
    assert [list_dtype(count).name for count in (1 << 16, (1 << 16) + 1)] == ["uint16", "uint32"]


NAMES = ("lists/part-00001.npy", "lists/clustering.safetensors")


@pytest.mark.parametrize("name", NAMES)
def test_damaged_lists_are_refused_when_opened(index: Path, name: str) -> None:
    make(index, 6)
    data = (index / name).read_bytes()
    (index / name).write_bytes(data[:-1])
    with pytest.raises(IndexDirectoryError, match=f"{name} has .* bytes instead of .*codes --lists 0, then"):
        IndexDirectory.open(index)
    (index / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(IndexDirectoryError, match=f"{name} does not have the checksum .*codes --lists 0, then"):
        IndexDirectory.open(index, verify=True)
    (index / name).unlink()
    with pytest.raises(IndexDirectoryError, match=f"{name} is missing .*codes --lists 0, then"):
        IndexDirectory.open(index)


@pytest.mark.parametrize("array", [np.zeros(30, np.uint32), np.zeros(29, np.uint16), np.zeros((30, 1), np.uint16)])
def test_lists_of_another_shape_or_type_are_refused(index: Path, array: NDArray[np.uint16]) -> None:
    make(index, 6)
    name = "lists/part-00001.npy"
    np.save(index / name, array)
    rewrite_manifest(index, lambda record: resized(record, name, (index / name).stat().st_size))
    with pytest.raises(IndexDirectoryError, match=r"should hold uint16 \(30,\) in C order"):
        IndexDirectory.open(index)


def test_a_clustering_of_other_vectors_is_refused(index: Path) -> None:
    clustering = IndexCodes(make(index, 6)).clustering()
    path = index / "lists/clustering.safetensors"
    for wrong in (
        Clustering(clustering.projections, clustering.centers[:5]),
        Clustering(clustering.projections, np.full_like(clustering.centers, np.nan)),
        Clustering({slug: matrix[:7] for slug, matrix in clustering.projections.items()}, clustering.centers),
        Clustering({}, clustering.centers),
    ):
        path.write_bytes(wrong.to_bytes())
        with pytest.raises(IndexDirectoryError, match="is no clustering into 6 lists of vectors of 8 dimensions"):
            Clustering.read(path, dim=8, lists=6)
    path.write_bytes(clustering.to_bytes()[:100])
    with pytest.raises(IndexDirectoryError, match="is no clustering"):
        Clustering.read(path, dim=8, lists=6)
    with pytest.raises(IndexDirectoryError, match=r"does not have|has .* bytes instead"):
        IndexCodes(IndexDirectory.open_unchecked(index)).clustering()


def test_who_has_no_lists_is_told(index: Path) -> None:
    with pytest.raises(IndexDirectoryError, match=r"has no lists; make them with: tpips-index codes .*index --lists N"):
        IndexCodes(IndexDirectory.open(index)).clustering()


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"count": -1}, '"count" is -1'),
        ({"count": 0}, "there are 0 lists"),
        ({"count": 1 << 31}, "there are 2147483648 lists"),
        ({"count": 6, "clustering": {"bytes": 1, "sha256": "x"}}, "has the checksum 'x'"),
        ([], '"lists" should be dict'),
    ],
)
def test_a_manifest_of_damaged_lists_is_refused(index: Path, lists: object, message: str) -> None:
    make(index, 6)
    rewrite_manifest(index, lambda record: record.update(lists=lists))
    with pytest.raises(IndexDirectoryError, match=message):
        IndexDirectory.open(index)


def test_parts_may_have_lists_only_where_there_is_a_clustering(index: Path) -> None:
    make(index, 6)
    rewrite_manifest(index, lambda record: record.pop("lists"))
    with pytest.raises(IndexDirectoryError, match=r"name the file 'lists/part-00000\.npy', which no part may have"):
        IndexDirectory.open(index)


def test_a_build_keeps_lists_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, out = write_pictures(tmp_path / "data", 6), tmp_path / "index"
    run(out, data, "brushwork", codes=True)
    make(out, 3)
    before = content(out)
    write_pictures(data / "more", 3, first=20)
    run(out, data, codes=False)
    assert IndexDirectory.open(out, verify=True).manifest.list_count == 0
    run(out, data)
    run(out, None, "lighting")
    after = content(out)
    assert {name for name in before if after[name] != before[name]} == {"manifest.json"}
    opened = IndexDirectory.open(out, verify=True)
    assert opened.manifest.list_count == 3
    assert set(IndexCodes(opened).clustering().projections) == {"overall", "brushwork"}
    remove_lists(opened)
    monkeypatch.setattr(lists_module, "LISTS_FROM_ROWS", 9)
    run(out, None)
    assert IndexDirectory.open(out, verify=True).manifest.list_count == 8
