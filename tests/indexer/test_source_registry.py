from __future__ import annotations

from pathlib import Path

import pytest

from indexer.sources import SOURCES, Indexed, SourceError, open_source
from indexer.sources.file_kinds import describe_file
from tests.fixtures.picture_folders import picture_bytes, write_pictures
from tests.fixtures.picture_tables import write_csv, write_hub_parquet
from tests.fixtures.tars import write_tar


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TPIPS_CACHE", str(tmp_path / "cache"))
    write_hub_parquet(tmp_path / "rows/data/a.parquet", [picture_bytes(1)])
    write_csv(tmp_path / "lists/a.csv", [["path"], ["x.png"]])
    monkeypatch.setenv("HOME", str(tmp_path))
    write_pictures(tmp_path / "photos/2024", 2)
    write_pictures(tmp_path / "C:/odd", 1)
    write_tar(tmp_path / "shards/0.tar", [("a.png", picture_bytes(1))])
    write_tar(tmp_path / "shards/1.tar", [("a.png", picture_bytes(1))])
    (tmp_path / "shards/notes.txt").write_text("x")
    return tmp_path


@pytest.mark.parametrize(
    ("data", "kind", "root"),
    [
        ("photos", "folder", "photos"),
        ("folder:photos/2024", "folder", "photos/2024"),
        ("folder:~/photos", "folder", "photos"),
        ("~/photos", "folder", "photos"),
        ("C:", "folder", "C:"),
        ("shards", "webdataset", "shards"),
        ("shards/0.tar", "webdataset", "shards"),
        ("shards/*.tar", "webdataset", "shards"),
        ("webdataset:~/shards/{0..1}.tar", "webdataset", "shards"),
        ("shards/{0..1}.tar", "webdataset", "shards"),
        ("folder:shards", "folder", "shards"),
        ("rows", "parquet", "rows/data"),
        ("rows/data/a.parquet", "parquet", "rows/data"),
        ("rows/*/?.parquet", "parquet", "rows/data"),
        ("parquet:rows/**/*.parquet?image=image", "parquet", "rows/data"),
        ("wikiart:rows", "wikiart", "rows/data"),
        ("lists/a.csv", "csv", "lists"),
        ("lists/a.csv?root=photos", "csv", "photos"),
        ("csv:lists/a.csv?root=photos", "csv", "photos"),
        ("https://me:pass@h.org/s/{0..1}.tar?sig=1", "webdataset", "cache/remote/https-h.org/s"),
        ("openimages?split=test", "openimages", "cache/openimages"),
    ],
)
def test_data_names_a_source_or_is_guessed(place: Path, data: str, kind: str, root: str) -> None:
    source = open_source(data, out=place / "index")
    assert (source.kind, source.root) == (kind, (place / root).resolve())


def test_a_folder_of_pictures_with_a_tar_among_them_is_a_folder(place: Path) -> None:
    write_tar(place / "photos/backup.tar", [])
    assert open_source("photos", out=place / "index").kind == "folder"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("nowhere", "--data nowhere does not exist; give a folder of pictures, tar shards, or 'demo'"),
        ("data.parquet", "none of the 1 files can be read; .* it looks like a parquet file"),
        ("data.csv", r"data\.csv has a header row and nothing else"),
        ("data.zip", "is a file that looks like a zip archive; expected is a folder of pictures"),
        ("photos/2024/0000.png", "looks like a PNG picture; give the folder that holds it"),
        ("webdataset:data.parquet", "is no tar: it looks like a parquet file"),
        ("data.tar.gz", "is no tar: it looks like gzip-compressed data"),
        ("data.tar.zst", "is compressed in a way that is not unpacked here"),
        ("tables", "none of the 2 files can be read"),
        ("texts", "holds no pictures and no tar shards, but 1 × .txt; give a folder"),
        ("empty", "holds no pictures and no tar shards, but nothing"),
        ("folder:", "does not say where the pictures are; give folder:PATH"),
        ("folder", "does not say where the pictures are; give folder:PATH"),
        ("webdataset:", "does not say where the pictures are; give webdataset:PATTERN"),
        ("demo:300", "'demo' takes nothing behind its colon, but '300' was given"),
        ("wikiart:empty", "is no copy of WikiArt"),
        ("openimages", "say which part of Open Images to fetch"),
        ("openimages:empty", "lacks the table that says how its pictures must be turned"),
        ("openimages?parts=2", "unknown option 'parts' behind ''; openimages takes split=…, tables=…"),
        ("parquet:", "does not say where the pictures are; give parquet:PATTERN"),
        ("csv:", "does not say where the pictures are; give csv:FILE"),
        ("hf:", "does not say where the pictures are; give hf:ID"),
        ("https://h/x.zip?sig=1", "--data https://h/x.zip does not say what lies there; give webdataset:ADDRESS"),
        ("lmdb:x", "unknown kind 'lmdb'; known kinds: folder, webdataset, demo, wikiart, openimages, parquet, csv, hf"),
        ("shards/{0..2}.tar", "1 of the 3 shards of .* do not exist"),
        (" ", "--data is empty; give folder:PATH"),
    ],
)
def test_what_is_no_source_is_an_error_that_says_what_to_give(place: Path, data: str, message: str) -> None:
    (place / "data.parquet").write_bytes(b"PAR1")
    (place / "data.csv").write_text("key,url\n")
    (place / "data.zip").write_bytes(b"PK\x03\x04")
    (place / "data.tar.gz").write_bytes(b"\x1f\x8b")
    (place / "data.tar.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    (place / "empty").mkdir()
    (place / "texts").mkdir()
    (place / "texts/a.txt").write_text("x")
    (place / "tables/deep").mkdir(parents=True)
    for name in ("a.parquet", "deep/b.parquet"):
        (place / "tables" / name).write_bytes(b"PAR1")
    with pytest.raises(SourceError, match=message):
        open_source(data, out=place / "index").shards(Indexed())


def test_kinds_are_the_ones_documented() -> None:
    assert list(SOURCES) == ["folder", "webdataset", "demo", "wikiart", "openimages", "parquet", "csv", "hf"]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89HDF\r\n", "an HDF5 file"),
        (b"SQLite format 3\0", "an SQLite database"),
        ("é".encode() * 400, "plain text"),
        (b"<html>", "an HTML or XML page, perhaps of a failed download"),
        (bytes(range(128, 256)) * 5, "binary data of an unknown kind"),
    ],
)
def test_files_are_described_by_their_bytes(tmp_path: Path, data: bytes, kind: str) -> None:
    (tmp_path / "x.jpg").write_bytes(data)
    assert describe_file(tmp_path / "x.jpg") == kind


def test_a_tar_and_what_cannot_be_read_are_described(tmp_path: Path) -> None:
    assert describe_file(write_tar(tmp_path / "x.bin", [("a", b"1")])) == "a tar archive"
    assert describe_file(tmp_path / "none") == "unreadable (No such file or directory)"
