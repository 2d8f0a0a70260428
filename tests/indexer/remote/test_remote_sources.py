"""Sources out of remote files: indexed and found again, unpacked once, and without secrets in what is kept or said."""

from __future__ import annotations

import importlib
import logging
from pathlib import Path

import fsspec  # type: ignore[import-untyped]
import pytest

from indexer.sources import Indexed, SourceError, open_source
from indexer.sources.remote import CloudFile, WebFile
from indexer.sources.urls import local_name, redacted, without_secrets
from tests.fixtures.built_sources import build_index, everything, good, stored_pictures
from tests.fixtures.picture_folders import picture_bytes, tree
from tests.fixtures.picture_tables import write_hub_parquet, write_tar_gz
from tests.fixtures.tars import write_tar
from tests.fixtures.web_server import Page, WebServer


def test_remote_tars_are_indexed_and_found_again(server: WebServer, cache: Path, tmp_path: Path) -> None:
    for number in range(3):
        tar = write_tar(
            tmp_path / "made" / f"{number}.tar", [(f"{n}.png", picture_bytes(10 * number + n)) for n in (1, 2)]
        )
        server.pages[f"/s/{number}.tar"] = Page(tar.read_bytes(), failures=[503] if number == 1 else [])
    data = f"webdataset:{server.address.replace('//', '//me:secret@')}/s/{{0..2}}.tar?X-Amz-Signature=51ca7e"
    index = build_index(data, tmp_path / "index")
    assert stored_pictures(index) == {f"{a}/{b}": picture_bytes(10 * a + b) for a in range(3) for b in (1, 2)}
    server.pages.clear()
    assert build_index(data, tmp_path / "index").rows == 6  # nothing is asked for again
    for path, content in {**tree(tmp_path / "index"), **tree(cache)}.items():
        assert b"secret" not in content, path
        assert b"51ca7e" not in content, path


def test_secrets_are_neither_logged_nor_said(
    server: WebServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    base = server.address.replace("//", "//me:hush@")
    server.pages["/bad.parquet"] = Page(b"x" * 100)
    for data in (
        f"webdataset:{base}/none.tar?sig=hush",
        f"parquet:{base}/bad.parquet?token=hush",
        f"parquet:{base}/none.parquet?token=hush&image=x",
        f"{base}/none.zip?token=hush",
        f"webdataset:{base}/{{0..?sig=hush",
        f"webdataset:{base}/*.tar?sig=hush",
        "parquet:nosuch://me:hush@bucket/x.parquet",
        f"{base}/x.tar?sig=hush\0",
        "webdataset:http://me:hush@[::1/x.tar",
    ):
        with pytest.raises(SourceError, match=r"\w") as caught:
            everything(open_source(data, out=tmp_path / "index"))
        assert "hush" not in str(caught.value)
    assert "hush" not in caplog.text + "".join(capfd.readouterr())
    assert "hush" not in repr(WebFile(f"{base}/x?sig=hush", {"Authorization": "hush"}))
    assert "hush" not in repr(CloudFile("s3://me:hush@b/x"))


def test_parquet_footers_are_read_without_the_rest(server: WebServer, tmp_path: Path, cache: Path) -> None:
    pictures = [picture_bytes(number, width=200, height=200) for number in range(4)]
    body = write_hub_parquet(tmp_path / "a.parquet", pictures).read_bytes()
    server.pages["/a.parquet"] = Page(body)
    source = open_source(f"parquet:{server.address}/a.parquet", out=tmp_path, shard_size=2)
    assert [shard.samples for shard in source.shards(Indexed())] == [2, 2]
    assert all(asked == "bytes=-65536" for asked in server.ranges("/a.parquet"))
    assert not list(cache.rglob("*.parquet"))
    assert [one.data for one in good(source).values()] == pictures
    server.pages["/b.parquet"] = Page(body, ranges=False)
    assert len(good(open_source(f"{server.address}/b.parquet", out=tmp_path))) == 4
    # A footer that is longer than the first look.
    server.pages["/c.parquet"] = Page(
        write_hub_parquet(tmp_path / "c.parquet", pictures, labels={"n": (["w" * 99_999], [0] * 4)}).read_bytes()
    )
    assert len(open_source(f"{server.address}/c.parquet", out=tmp_path).shards(Indexed())) == 1
    assert len(server.ranges("/c.parquet")) == 4


def test_object_stores_are_read_through_fsspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = fsspec.filesystem("memory")
    for number in range(2):
        tar = write_tar(tmp_path / f"{number}.tar", [("a.png", picture_bytes(number))])
        store.pipe_file(f"/bucket/{number}.tar", tar.read_bytes())
    store.pipe_file("/bucket/p.parquet", write_hub_parquet(tmp_path / "p.parquet", [picture_bytes(3)]).read_bytes())
    try:
        index = build_index("webdataset:memory://bucket/*.tar", tmp_path / "index")
        assert stored_pictures(index) == {"0/a": picture_bytes(0), "1/a": picture_bytes(1)}
        assert [one.data for one in good(open_source("memory://bucket/p.parquet", out=tmp_path)).values()] == [
            picture_bytes(3)
        ]
        for place, message in (
            ("memory://bucket/none*.tar", "names no files"),
            ("memory://bucket/none.tar", "does not exist; look at its spelling"),
            ("file:///etc/x.tar", "is of a kind that cannot be read"),
            ("local:///etc/x.tar", "is of a kind that cannot be read"),
            ("simplecache::memory://bucket/0.tar", "do not exist, the first is simplecache"),
            ("nosuch://bucket/0.tar", "is of a kind that cannot be read"),
        ):
            with pytest.raises(SourceError, match=message):
                everything(open_source(f"webdataset:{place}", out=tmp_path))
        known = importlib.import_module("fsspec.registry").known_implementations
        monkeypatch.setitem(known, "s3", {"class": "no_s3.X", "err": "Install s3fs"})
        with pytest.raises(SourceError, match="Install s3fs; install the package it names with pip"):
            open_source("webdataset:s3://bucket/*.tar", out=tmp_path)
    finally:
        store.rm("/bucket", recursive=True)


def test_compressed_tars_are_unpacked_once(server: WebServer, cache: Path, tmp_path: Path) -> None:
    members = [("a.png", picture_bytes(1)), ("a.txt", b"hi"), ("b.png", picture_bytes(2))]
    (tmp_path / "local").mkdir()
    packed = write_tar_gz(tmp_path / "local/0.tar.gz", members)
    index = build_index(f"webdataset:{packed}", tmp_path / "index")
    assert stored_pictures(index) == {"0/a": picture_bytes(1), "0/b": picture_bytes(2)}
    assert sorted(path.name for path in (tmp_path / "local").glob("0.tar*")) == ["0.tar", "0.tar.gz", "0.tar.lock"]
    assert list(good(open_source(f"webdataset:{tmp_path}/local", out=tmp_path))) == ["0/a", "0/b"]  # one, not two
    server.pages["/0.tgz"] = Page(packed.read_bytes())
    assert list(good(open_source(f"{server.address}/0.tgz", out=tmp_path))) == ["0/a", "0/b"]
    assert [path.name for path in cache.rglob("0.t*") if path.suffix != ".lock"] == ["0.tar"]


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.999])
def test_an_archive_cut_short_gives_what_it_has_and_a_line(tmp_path: Path, keep: float) -> None:
    whole = write_tar_gz(tmp_path / "w.tar.gz", [(f"{n}.png", picture_bytes(n, width=40)) for n in range(6)])
    (tmp_path / "0.tar.gz").write_bytes(whole.read_bytes()[: int(whole.stat().st_size * keep)])
    found = everything(open_source(f"webdataset:{tmp_path}/0.tar.gz", out=tmp_path / "index"))
    reasons = {one.key: one.reason for one in found if not hasattr(one, "data")}
    assert any("0.tar.gz is damaged or cut short" in getattr(one, "reason", "") for one in found)
    assert reasons.keys() <= {"0.tar"} | {f"0/{n}" for n in range(6)}
    good_keys = [one.key for one in found if hasattr(one, "data")]
    assert good_keys == [f"0/{n}" for n in range(len(good_keys))]
    assert len(good_keys) >= int(6 * keep) - 1


def test_names_of_addresses_stay_inside_and_apart() -> None:
    names = [
        local_name(url)
        for url in (
            "https://h/a/b.tar",
            "https://h/../../etc/passwd",
            "https://h/%2e%2e/x",
            "https://h/a?id=1",
            "https://h/a?id=2",
            "https://h/a?id=2&X-Amz-Signature=9&Expires=3",
            "https://h/" + "a" * 999 + ".tar",
            "http://h/",
            "s3://h/a/b.tar",
            "s3://h/a\nb\\c:d.tar",
        )
    ]
    assert names[0] == "https-h/a/b.tar"
    assert names[1] == "https-h/__/__/etc/passwd"
    assert names[4] == names[5] != names[3]
    assert local_name("https://h/a?se=1&sp=r&sig=x&id=2") == local_name("https://h/a?id=2&se=3&sig=y") == names[4]
    assert local_name("https://h/a?se=1") != local_name(
        "https://h/a?se=2"
    )  # no signature: it may be a picture's number
    assert all(name.isprintable() and ".." not in name.split("/") and len(name) < 200 for name in names)
    assert len(set(names)) == len(names) - 1
    assert names[6].endswith(".tar")
    assert redacted("s3://me:p@ss@bucket/a?x=1#y") == "s3://bucket/a"
    assert without_secrets("no https://a:b@h/x?t=1 (t=1)", "https://a:b@h/x?t=1") == "no https://h/x (…)"
