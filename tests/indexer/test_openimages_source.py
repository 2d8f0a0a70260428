from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from indexer.building.build import build
from indexer.building.build_config import BuildConfig
from indexer.sources import BadSample, Indexed, Sample, SourceError, open_source
from indexer.sources.openimages_tables import OpenImagesTables, image_number, table_kind
from indexer.turned_jpeg import turned
from tests.fixtures.built_sources import bad, build_index, cache_at, everything, good, stored_pictures
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.picture_folders import tree
from tests.fixtures.picture_tables import write_openimages_tables, write_tar_gz
from tests.fixtures.pictures import QUARTERS, encoded, pixels
from tests.fixtures.tars import write_tar
from tests.fixtures.web_server import Page, web_server

JPEG = encoded(Image.fromarray(QUARTERS), "JPEG", quality=95)
# Ids whose second digits differ, and what the table says of turning them.
ROTATIONS = {
    "000002b66c9c498e": "0.0",
    "0100000000000001": "90.0",
    "0f00000000000002": "180.0",
    "0200000000000003": "270.0",
    "0300000000000004": "",
}
MEMBERS = [(f"train_0/{name}.jpg", JPEG) for name in ROTATIONS]


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_a_turned_jpeg_is_shown_turned_whatever_it_said_itself(degrees: int) -> None:
    expected = np.rot90(pixels(JPEG), degrees // 90)
    exif = Image.Exif()
    exif[0x0112] = 6
    for data in (JPEG, encoded(Image.fromarray(QUARTERS), "JPEG", quality=95, exif=exif)):
        shown = pixels(turned(data, degrees))
        assert shown.shape == expected.shape
        assert np.array_equal(shown, expected)
    png = encoded(Image.fromarray(QUARTERS), "PNG")
    assert turned(png, degrees) == png


def copy(root: Path, *, tree: bool = False, packed: bool = False) -> Path:
    write_openimages_tables(root / "csv", ROTATIONS)
    if tree:
        for name, data in MEMBERS:
            path = root / name.replace("train_0", "train")
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_bytes(data)
    elif packed:
        write_tar_gz(root / "train_0.tar.gz", MEMBERS)
    else:
        write_tar(root / "train_0.tar", MEMBERS)
    return root


@pytest.mark.parametrize("layout", ["tree", "tar", "packed"])
def test_every_layout_gives_the_same_pictures_turned_and_described(tmp_path: Path, layout: str) -> None:
    copy(tmp_path / "data", tree=layout == "tree", packed=layout == "packed")
    index = build_index(f"openimages:{tmp_path}/data", tmp_path / "index")
    assert index.data_root == tmp_path / "data"
    pictures = stored_pictures(index)
    assert pictures.keys() == {f"train/{name}.jpg" for name in ROTATIONS}
    for name, rotation in ROTATIONS.items():
        shown = np.rot90(pixels(JPEG), int(float(rotation or 0)) // 90)
        assert np.array_equal(pixels(pictures[f"train/{name}.jpg"]), shown)
    rows = {row["key"]: row for row in index.items().to_pylist()}
    first, second = rows["train/000002b66c9c498e.jpg"], rows["train/0100000000000001.jpg"]
    assert {
        name: first[name] for name in ("split", "license", "author", "title", "landing_url", "rotation", "labels")
    } == {
        "split": "train",
        "license": "https://by/2.0/",
        "author": "Zoë",
        "title": 'A "cat", 000002b66c9c498e',
        "landing_url": "https://x/000002b66c9c498e",
        "rotation": 0,
        "labels": "Cat; Box, large",
    }
    assert (first["width"], first["height"]) == (second["height"], second["width"]) == QUARTERS.shape[1::-1]
    assert (second["labels"], second["rotation"]) == ("Cat", 90)
    again = BuildConfig(out=tmp_path / "index", aspects=("lighting",), progress=False)
    assert build(again, embedder=StubEmbedder()).changed == 0
    assert rows["train/0300000000000004.jpg"]["rotation"] is None
    # The vector is that of the picture as it is shown.
    part = next(
        iter(
            index.manifest.parts[number]
            for number in range(len(index.manifest.parts))
            if index.manifest.parts[number].rows
        )
    )
    keys = index.part_items(part, ["key"])["key"].to_pylist()
    aspect = next(one for one in index.aspects if one.text == "brushwork")
    expected = StubEmbedder().embed([pictures[key] for key in keys], [aspect])[:, 0]
    assert np.allclose(np.asarray(index.part_vectors(part, aspect), np.float32), expected, atol=2e-3)


def test_archives_are_cut_into_shards_that_are_known_beforehand(tmp_path: Path) -> None:
    copy(tmp_path, packed=True)
    source = open_source(f"openimages:{tmp_path}", out=tmp_path / "index")
    shards = source.shards(Indexed())
    assert [shard.name for shard in shards] == [f"train_0.tar[{digit}]" for digit in "0123456789abcdef"]
    assert not (tmp_path / "train_0.tar").exists()
    assert [len(list(source.read(shard))) for shard in shards] == [1, 1, 1, 1, *[0] * 11, 1]
    done = Indexed(shards=frozenset(shard.name for shard in shards[:14]))
    assert [shard.name for shard in source.shards(done)] == ["train_0.tar[e]", "train_0.tar[f]"]


def test_an_interrupted_build_gives_the_same_index(tmp_path: Path) -> None:
    copy(tmp_path / "data")
    whole = build_index(f"openimages:{tmp_path}/data", tmp_path / "whole")
    source = open_source(f"openimages:{tmp_path}/data", out=tmp_path / "x", root=whole.data_root)
    assert source.shards(Indexed(shards=frozenset(part.shards[0] for part in whole.manifest.parts))) == []
    before = tree(tmp_path / "whole")
    build_index(f"openimages:{tmp_path}/data", tmp_path / "whole")
    assert tree(tmp_path / "whole") == before


def test_what_is_wrong_with_an_archive_is_said_once(tmp_path: Path) -> None:
    copy(tmp_path, packed=True)
    members = [*MEMBERS, ("x/no id.jpg", JPEG), ("again/000002b66c9c498e.jpg", JPEG), ("notes.txt", b"x")]
    data = write_tar_gz(tmp_path / "train_0.tar.gz", members).read_bytes()
    (tmp_path / "train_0.tar.gz").write_bytes(data[:-20])
    found = everything(open_source(f"openimages:{tmp_path}", out=tmp_path / "index"))
    reasons = [(one.key, one.reason) for one in found if isinstance(one, BadSample)]
    assert [key for key, _ in reasons] == ["train_0.tar[0]", "train_0.tar"] or len(reasons) == 3
    assert "1 pictures stand in no table, such as 'train/no id.jpg'" in reasons[0][1]
    assert "train_0.tar.gz is damaged or cut short" in reasons[1][1]
    assert [one.key for one in found if isinstance(one, Sample)].count("train/000002b66c9c498e.jpg") == 2


def test_tables_are_told_by_their_first_lines_and_damage_in_them_is_small(tmp_path: Path) -> None:
    write_openimages_tables(tmp_path, ROTATIONS, header=False)
    kinds = {path.name: table_kind(path) for path in tmp_path.iterdir()}
    assert sorted(kinds.values(), key=str) == ["classes", "images", "labels"]
    (tmp_path / "boxes.csv").write_text("ImageID,Source,LabelName,Confidence,XMin,XMax\n")
    assert table_kind(tmp_path / "boxes.csv") is None
    assert table_kind(tmp_path) is None
    images = next(path for path in tmp_path.iterdir() if table_kind(path) == "images")
    lines = images.read_bytes().split(b"\n")
    bad_author = lines[1].replace("Zoë".encode(), b"Zo\xeb").replace(b"0.0", b"45.0")
    images.write_bytes(b"\n".join([lines[0], bad_author, b"short,row", b"no id" + lines[2][16:], *lines[3:]]))
    tables = OpenImagesTables([images], [], [])
    record = tables.record(int("000002b66c9c498e", 16))
    assert record is not None
    assert (record.turn, record.metadata["author"]) == (0, "Zo�")
    assert tables.record(int("0100000000000001", 16)) is None
    assert tables.record(int("ffffffffffffffff", 16)) is None
    (upside_down,) = (tables.record(int(one, 16)) for one in ROTATIONS if ROTATIONS[one] == "180.0")
    assert upside_down is not None
    assert upside_down.turn == 180
    assert [image_number(name) for name in ("0" * 15 + "g", "0" * 17, "+" + "0" * 15, "é" * 16)] == [None] * 4


def test_copies_that_lack_something_are_errors_that_say_what(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist; give a copy of Open Images"):
        open_source(f"openimages:{tmp_path}/none", out=tmp_path / "index")
    write_tar(tmp_path / "data/test.tar", [("0000000000000000.jpg", JPEG)])
    with pytest.raises(SourceError, match=r"lacks the table that says how .* must be turned, .*\?tables=no behind"):
        open_source(f"openimages:{tmp_path}/data", out=tmp_path / "index")
    found = good(open_source(f"openimages:{tmp_path}/data?tables=no", out=tmp_path / "index"))
    assert {key: dict(one.metadata) for key, one in found.items()} == {"test/0000000000000000.jpg": {"split": "test"}}
    with pytest.raises(SourceError, match=r"holds no archive of split 'train', but test\.tar"):
        open_source(f"openimages:{tmp_path}/data?tables=no&split=train", out=tmp_path / "index")
    (tmp_path / "data/train").mkdir()
    (tmp_path / "data/train/a.jpg").write_bytes(JPEG)
    with pytest.raises(SourceError, match=r"holds both archives \(test\.tar\) and loose pictures \(train/a\.jpg\)"):
        open_source(f"openimages:{tmp_path}/data?tables=no", out=tmp_path / "index")
    (tmp_path / "data/test.tar").unlink()
    with pytest.raises(SourceError, match="holds loose pictures; instead of split=train give the folder"):
        open_source(f"openimages:{tmp_path}/data?tables=no&split=train", out=tmp_path / "index")
    with pytest.raises(SourceError, match=r"say which part of Open Images to fetch .*validation: 41,620, 12 GB"):
        open_source("openimages", out=tmp_path / "index")
    with pytest.raises(SourceError, match="say which part of Open Images"):
        open_source("openimages?split=all", out=tmp_path / "index")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from cache_at(tmp_path / "cache", monkeypatch)


def test_a_split_is_fetched_with_its_tables(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy(tmp_path / "there", packed=True)
    tables = {path.name: path.read_bytes() for path in (tmp_path / "there/csv").iterdir()}
    body = (tmp_path / "there/train_0.tar.gz").read_bytes()
    with web_server() as server:
        monkeypatch.setattr("indexer.sources.openimages.ARCHIVES_ADDRESS", f"{server.address}/tar")
        monkeypatch.setattr("indexer.sources.openimages.TABLES_ADDRESS", server.address)
        server.pages["/tar/validation.tar.gz"] = Page(body, cuts=[len(body) // 2])
        for place, name in (
            ("2018_04/validation/validation-images-with-rotation.csv", "train-images-boxable-with-rotation.csv"),
            (
                "v5/validation-annotations-human-imagelabels-boxable.csv",
                "train-annotations-human-imagelabels-boxable.csv",
            ),
            ("v7/oidv7-class-descriptions.csv", "class-descriptions-boxable.csv"),
        ):
            server.pages[f"/{place}"] = Page(tables[name])
        index = build_index("openimages?split=validation", tmp_path / "index")
        assert stored_pictures(index).keys() == {f"validation/{name}.jpg" for name in ROTATIONS}
        assert index.items(["rotation"])["rotation"].to_pylist().count(90) == 1
        assert [path.name for path in cache.rglob("*.tar*") if path.suffix != ".lock"] == ["validation.tar"]
        asked = len(server.requests)
        build_index("openimages?split=validation", tmp_path / "index")
        assert len(server.requests) == asked
        with pytest.raises(SourceError, match=r"cannot fetch .*/test-images-with-rotation\.csv: it answered 404"):
            everything(open_source("openimages?split=test", out=tmp_path / "other"))


def test_a_picture_that_is_none_is_a_line(tmp_path: Path) -> None:
    copy(tmp_path / "data")
    write_tar(tmp_path / "data/train_0.tar", [("000002b66c9c498e.jpg", b"text"), *MEMBERS[1:], (MEMBERS[1][0], b"")])
    index = build_index(f"openimages:{tmp_path}/data", tmp_path / "index")
    assert index.rows == 4
    assert {row["key"] for row in index.errors().to_pylist()} == {
        "train/000002b66c9c498e.jpg",
        "train/0100000000000001.jpg",
    }
    assert bad(open_source(f"openimages:{tmp_path}/data", out=tmp_path)) == {}
    assert Image.open(io.BytesIO(JPEG)).size == QUARTERS.shape[1::-1]
