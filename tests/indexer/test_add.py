from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from indexer.building.build import build
from indexer.building.build_config import BuildConfig, BuildError, BuildSummary
from indexer.command_line import app
from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.output_folder import output_folder
from indexer.removal import remove_rows
from indexer.thumbnails import index_thumbnail
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.picture_folders import content, write_pictures
from tests.fixtures.tars import write_tar
from tpips_model.images import to_rgb


def add(
    index: Path, data: object, *, new: bool = True, prefix: str | None = None, aspects: tuple[str, ...] = ()
) -> BuildSummary:
    config = BuildConfig(
        out=index, data=str(data), new_source=new, prefix=prefix, aspects=aspects, shard_size=4, progress=False
    )
    return build(config, embedder=StubEmbedder())


def assert_rows_are_the_pictures(index: IndexDirectory) -> None:
    rows = index.live_items().to_pylist()
    live = index.live_rows()
    for aspect in index.aspects:
        vectors = np.concatenate(index.vectors(aspect))
        vectors = vectors if live is None else vectors[live]
        expected = StubEmbedder().embed([to_rgb(index.item_bytes(row)) for row in rows], [aspect])[:, 0]
        np.testing.assert_allclose(vectors, expected, atol=2e-3)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    write_pictures(tmp_path / "data", 6)
    add(tmp_path / "index", tmp_path / "data", aspects=("brushwork",))
    return tmp_path / "index"


def test_pictures_of_the_same_names_from_another_folder_are_other_pictures(index: Path, tmp_path: Path) -> None:
    summary = add(index, write_pictures(tmp_path / "Más fotos", 5, first=3))
    assert (summary.images, summary.errors) == (5, 0)
    opened = IndexDirectory.open(index, verify=True)
    keys = opened.items(["key"])["key"].to_pylist()
    assert keys == [f"{n:04d}.png" for n in range(6)] + [f"Más fotos/{n:04d}.png" for n in range(3, 8)]
    assert [(s.kind, s.root, s.prefix) for s in opened.manifest.sources] == [
        ("folder", "../data", ""),
        ("folder", "../Más fotos", "Más fotos"),
    ]
    assert opened.data_roots == (tmp_path / "data", tmp_path / "Más fotos")
    assert [part.source for part in opened.manifest.parts] == [0, 0, 1, 1]
    assert_rows_are_the_pictures(opened)


def test_adding_or_building_again_finds_each_source_and_what_is_new_in_it(index: Path, tmp_path: Path) -> None:
    more = write_pictures(tmp_path / "more", 5)
    add(index, more)
    before = content(index)
    assert add(index, more).images == add(index, tmp_path / "data").images == add(index, more, new=False).images == 0
    assert content(index) == before
    write_pictures(more, 2, first=5)
    write_pictures(tmp_path / "data", 1, first=6)
    assert add(index, more, new=False).images == 2
    assert add(index, tmp_path / "data").images == 1
    opened = IndexDirectory.open(index, verify=True)
    assert opened.items(["key"])["key"].to_pylist()[-3:] == ["more/0005.png", "more/0006.png", "0006.png"]
    assert len(opened.manifest.sources) == 2
    assert_rows_are_the_pictures(opened)


def test_aspects_come_to_the_pictures_of_all_sources(index: Path, tmp_path: Path) -> None:
    add(index, write_pictures(tmp_path / "more", 5, first=20))
    config = BuildConfig(out=index, aspects=("lighting",), progress=False)
    assert [aspect.text for aspect in build(config, embedder=StubEmbedder()).aspects_added] == ["lighting"]
    assert_rows_are_the_pictures(IndexDirectory.open(index, verify=True))


def test_an_aspect_comes_to_an_index_whose_removed_pictures_are_gone(index: Path, tmp_path: Path) -> None:
    with output_folder(index) as opened:
        assert opened is not None
        remove_rows(opened, np.array([1, 5]))
    (tmp_path / "data/0001.png").unlink()
    (tmp_path / "data/0005.png").write_bytes(b"no picture any more")
    config = BuildConfig(out=index, data=str(tmp_path / "data"), aspects=("lighting",), progress=False)
    summary = build(config, embedder=StubEmbedder())
    assert (summary.images, summary.vanished, summary.changed, summary.total_images) == (0, 0, 0, 4)
    assert_rows_are_the_pictures(IndexDirectory.open(index, verify=True))


def test_another_kind_of_source_can_be_added(index: Path, tmp_path: Path) -> None:
    pictures = write_pictures(tmp_path / "pictures", 3, first=30)
    tars = tmp_path / "tars"
    write_tar(tars / "0000.png.tar", [(path.name, path.read_bytes()) for path in sorted(pictures.iterdir())])
    add(index, f"webdataset:{tars}")
    opened = IndexDirectory.open(index, verify=True)
    assert opened.items(["key", "file"]).to_pylist()[-1] == {"key": "tars/0000.png/0032", "file": "//1/0000.png.tar"}
    assert_rows_are_the_pictures(opened)
    assert add(index, f"webdataset:{tars}").images == 0


def test_prefixes_are_chosen_and_never_twice_the_same(index: Path, tmp_path: Path) -> None:
    for place in ("a/photos", "b/photos", "c/photos"):
        add(index, write_pictures(tmp_path / place, 1))
    add(index, write_pictures(tmp_path / "d", 1), prefix="Nachlass 1912")
    prefixes = [source.prefix for source in IndexDirectory.open(index).manifest.sources]
    assert prefixes == ["", "photos", "photos-2", "photos-3", "Nachlass 1912"]
    data = write_pictures(tmp_path / "e", 1)
    with pytest.raises(BuildError, match="--prefix 'photos' is that of another source"):
        add(index, data, prefix="photos")
    for prefix in ("", "/x", "x/", "a\nb"):
        with pytest.raises(BuildError, match="must be a printable name"):
            add(index, data, prefix=prefix)


def test_build_alone_adds_no_source_and_says_how_to(index: Path, tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "more", 1)
    with pytest.raises(BuildError, match=r"made from folder:.*data, and not from folder:.*more; .*tpips-index add"):
        add(index, data, new=False)


@pytest.mark.parametrize("place", ["data/inner", "."])
def test_a_folder_within_or_around_a_source_would_double_its_pictures(index: Path, tmp_path: Path, place: str) -> None:
    write_pictures(tmp_path / "data/inner", 1)
    with pytest.raises(BuildError, match="holds some of the same pictures; give --data folder:"):
        add(index, tmp_path / place)


def test_moved_sources_are_found_by_their_prefixes(index: Path, tmp_path: Path) -> None:
    add(index, write_pictures(tmp_path / "more", 2, first=40))
    os.rename(tmp_path / "more", tmp_path / "elsewhere")
    os.rename(tmp_path / "data", tmp_path / "gone")
    moved = {"more": tmp_path / "elsewhere", "": tmp_path / "gone"}
    assert_rows_are_the_pictures(IndexDirectory.open(index, data_root=moved))
    with pytest.raises(IndexDirectoryError, match="has no source 'other' whose pictures could have moved"):
        IndexDirectory.open(index, data_root={"other": tmp_path})


def test_an_item_of_another_source_cannot_leave_its_root(index: Path, tmp_path: Path) -> None:
    add(index, write_pictures(tmp_path / "more", 2))
    opened = IndexDirectory.open(index)
    for file in ("//1/../data/0000.png", "//2/0000.png", "//1//etc/passwd", "//0/0000.png", "//1"):
        with pytest.raises(IndexDirectoryError, match="which is not inside"):
            opened.item_path({"key": "k", "file": file})


def test_the_command_gives_added_pictures_the_thumbnails_of_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.building.build.load_embedder", lambda name, **_: StubEmbedder())
    write_pictures(tmp_path / "data", 2)
    more = write_pictures(tmp_path / "more", 3)
    for name, thumbnails in (("small", 32), ("none", None)):
        config = BuildConfig(out=tmp_path / name, data=str(tmp_path / "data"), thumbnails=thumbnails, progress=False)
        build(config, embedder=StubEmbedder())
        ran = CliRunner().invoke(app, ["add", str(tmp_path / name), "--data", str(more), "--no-progress"])
        assert ran.exit_code == 0, ran.output
        opened = IndexDirectory.open(tmp_path / name, verify=True)
        assert [part.has_thumbnails for part in opened.manifest.parts] == [thumbnails is not None] * 2
        if thumbnails is not None:
            shown = [index_thumbnail(opened, row) for row in range(opened.rows)]
            assert [max(to_rgb(one).size) <= 32 for one in shown if one is not None] == [True] * 5
