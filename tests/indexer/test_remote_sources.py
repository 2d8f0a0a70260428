"""Files fetched from servers: whole or not at all, resumed, bounded, and without secrets in what is kept or said."""

from __future__ import annotations

import importlib
import logging
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec  # type: ignore[import-untyped]
import pytest

from indexer.sources import Indexed, SourceError, open_source
from indexer.sources.remote import CloudFile, WebFile
from indexer.sources.urls import local_name, redacted, without_secrets
from indexer.sources.web import WebAnswer, fetch, open_web
from indexer.sources.web_request import FetchError, RequestGuard
from tests.fixtures.built_sources import build_index, cache_at, everything, good, stored_pictures
from tests.fixtures.picture_folders import picture_bytes, tree
from tests.fixtures.picture_tables import write_hub_parquet, write_tar_gz
from tests.fixtures.tars import write_tar
from tests.fixtures.web_server import Page, WebServer, web_server

BODY = random.Random(0).randbytes(3_000_000)


@pytest.fixture
def server() -> Iterator[WebServer]:
    with web_server() as served:
        yield served


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from cache_at(tmp_path / "cache", monkeypatch)


def fetched(server: WebServer, path: Path, page: Page) -> bytes:
    server.pages["/x.bin"] = page
    WebFile(f"{server.address}/x.bin").fetch(path)
    assert sorted(one.name for one in path.parent.iterdir()) == [path.name]
    return path.read_bytes()


def test_a_broken_connection_is_gone_on_with_where_it_broke(server: WebServer, tmp_path: Path) -> None:
    assert fetched(server, tmp_path / "d/x", Page(BODY, cuts=[1_000_000, 500_000])) == BODY
    asked = server.ranges("/x.bin")
    assert asked[0] is None
    starts = [int((one or "bytes=0-").removeprefix("bytes=").rstrip("-")) for one in asked]
    assert starts == sorted(starts)
    assert 0 < starts[1] <= 1_000_000 < starts[2] <= 1_500_000


def test_a_killed_program_goes_on_where_it_was(server: WebServer, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/x.partial").write_bytes(BODY[:999_999])
    (tmp_path / "d/x.version").write_text('"1"')
    assert fetched(server, tmp_path / "d/x", Page(BODY)) == BODY
    assert server.ranges("/x.bin") == ["bytes=999999-"]


@pytest.mark.parametrize("page", [Page(BODY, version='"2"'), Page(BODY, ranges=False), Page(BODY, version='W/"1"')])
def test_another_version_or_a_server_without_ranges_starts_anew(server: WebServer, tmp_path: Path, page: Page) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/x.partial").write_bytes(b"?" * 999_999)
    (tmp_path / "d/x.version").write_text('"1"')
    assert fetched(server, tmp_path / "d/x", page) == BODY


def test_what_came_without_a_version_is_not_gone_on_with(server: WebServer, tmp_path: Path) -> None:
    assert fetched(server, tmp_path / "d/x", Page(BODY, version=None, cuts=[1_000_000])) == BODY
    assert server.ranges("/x.bin") == [None, None]


def test_failures_that_pass_are_tried_again_and_others_are_not(server: WebServer, tmp_path: Path) -> None:
    assert fetched(server, tmp_path / "d/x", Page(BODY, failures=[503, 429, 500])) == BODY
    for failures, message, tries in (([404] * 9, "answered 404 Not Found", 1), ([503] * 9, "answered 503", 4)):
        server.requests.clear()
        with pytest.raises(SourceError, match=f"cannot fetch .*: it {message}.*Run the same command again"):
            fetched(server, tmp_path / "e/x", Page(BODY, failures=failures))
        assert len(server.requests) == tries
    with pytest.raises(SourceError, match="cannot be reached"):
        WebFile("http://127.0.0.1:9/x.bin").fetch(tmp_path / "f/x")


def test_a_body_that_never_comes_whole_is_an_error_and_no_file(server: WebServer, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"broke off: .*; what has come is kept"):
        fetched(server, tmp_path / "d/x", Page(BODY, version=None, cuts=[10, 1000] * 99))
    assert not (tmp_path / "d/x").exists()
    assert len(server.requests) == 6


def test_sizes_are_bounded_and_the_disk_is_asked_first(
    server: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.sources.download.MAX_SHARD_BYTES", 1000)
    with pytest.raises(SourceError, match="has 3,000,000 bytes; at most 1,000 are fetched"):
        fetched(server, tmp_path / "d/x", Page(BODY))
    with pytest.raises(SourceError, match="sent more bytes than it has"):
        fetched(server, tmp_path / "d/x", Page(BODY, unsized=True))
    monkeypatch.setattr("indexer.sources.download.MAX_SHARD_BYTES", 1 << 60)
    monkeypatch.setattr("indexer.sources.download._SPARE_BYTES", 1 << 60)
    with pytest.raises(SourceError, match=r"needs 3,000,000 bytes in .* are free; make room, or set TPIPS_CACHE"):
        fetched(server, tmp_path / "e/x", Page(BODY))


def test_small_files_are_bounded_in_size_and_time(server: WebServer) -> None:
    server.pages["/a"] = Page(BODY)
    server.pages["/b"] = Page(BODY, unsized=True)
    server.pages["/slow"] = Page(BODY, pause=0.05)
    server.pages["/short"] = Page(b"abc", claims=1000)
    with pytest.raises(FetchError, match="has 3,000,000 bytes; at most 9 are"):
        fetch(f"{server.address}/a", max_bytes=9, seconds=9, private=True)
    with pytest.raises(FetchError, match="has more than 9 bytes"):
        fetch(f"{server.address}/b", max_bytes=9, seconds=9, private=True)
    with pytest.raises(FetchError, match="took too long"):
        fetch(f"{server.address}/slow", max_bytes=1 << 30, seconds=0.3, private=True)
    with pytest.raises(FetchError, match="broke off"):
        fetch(f"{server.address}/short", max_bytes=9999, seconds=9, private=True)
    assert server.ranges("/short") == [None] * 4
    assert fetch(f"{server.address}/a", max_bytes=1 << 30, seconds=9, private=True) == BODY


def test_where_a_request_may_lead(server: WebServer) -> None:
    server.pages["/file"] = Page(redirect="file:///etc/passwd")
    server.pages["/ftp"] = Page(redirect="ftp://127.0.0.1/x")
    server.pages["/loop"] = Page(redirect="/loop")
    server.pages["/good"] = Page(redirect="/x?a=1")
    server.pages["/x"] = Page(b"here")
    for name in ("file", "ftp", "loop"):
        with pytest.raises(FetchError, match="redirect"):
            fetch(f"{server.address}/{name}", max_bytes=9, seconds=9, private=True)
    assert fetch(f"{server.address}/good", max_bytes=9, seconds=9, private=True) == b"here"
    before = len(server.requests)
    for url in (f"{server.address}/x", server.address.replace("127.0.0.1", "localhost") + "/x"):
        with pytest.raises(FetchError, match="leads to this machine or a private network"):
            fetch(url, max_bytes=9, seconds=9, private=False)
    assert len(server.requests) == before  # nothing was sent
    for url in ("file:///etc/passwd", "ftp://x/y", "http://", "x"):
        with pytest.raises(FetchError, match="is no http or https address"):
            fetch(url, max_bytes=9, seconds=9, private=True)
    with pytest.raises(FetchError, match="is no address"):
        fetch("http://[bad/x", max_bytes=9, seconds=9, private=True)


def test_a_connection_made_after_the_time_is_closed(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    host, port = server.address.removeprefix("http://").split(":")
    with RequestGuard(server.address, private=True, seconds=0) as guard:
        for way in (guard.connect, guard.proxied):
            with pytest.raises(FetchError, match="took too long"):
                way((host, int(port)), 9)
        with socket.create_connection((host, int(port))) as late:
            with pytest.raises(FetchError, match="took too long"):
                guard.connected(late, 9)
            assert late.fileno() == -1
    connect, made = socket.create_connection, []

    def slow(*arguments: Any, **keywords: Any) -> socket.socket:  # as where the name takes long to be looked up
        made.append(connect(*arguments, **keywords))
        threading.Event().wait(0.1)
        return made[-1]

    monkeypatch.setattr(socket, "create_connection", slow)
    with pytest.raises(FetchError, match="took too long"):
        fetch(f"{server.address}/x", max_bytes=9, seconds=0.05, private=True)
    assert [one.fileno() for one in made] == [-1]
    assert server.requests == []


def test_the_time_is_looked_at_with_every_chunk() -> None:
    endless = SimpleNamespace(read1=lambda count: b"x" * count, length=None)
    answer = WebAnswer(0, None, None, endless, RequestGuard("http://h/", private=True, seconds=0))
    with pytest.raises(FetchError, match="took too long"):
        answer.read(9)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_private_hosts_are_not_connected_to_and_ports_not_told_apart(scheme: str) -> None:
    told = set()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        for port in (listening.getsockname()[1], 9):
            with pytest.raises(FetchError, match="leads to this machine or a private network") as caught:
                fetch(f"{scheme}://127.0.0.1:{port}/x", max_bytes=9, seconds=9, private=False)
            told.add(str(caught.value))
        with pytest.raises(BlockingIOError, match="unavailable"):
            listening.accept()
    assert len(told) == 1


def resolving(monkeypatch: pytest.MonkeyPatch, addresses: list[str], port: int) -> list[str]:
    """Let each name have these addresses, and each address lead to a port here; return what is connected to."""
    connect, asked = socket.create_connection, []

    def lead_here(address: tuple[str, int], *arguments: Any) -> socket.socket:
        asked.append(address[0])
        if address[0].startswith("2606:"):
            raise OSError("no route")
        with monkeypatch.context() as real:
            real.setattr(socket, "getaddrinfo", lookup)
            return connect(("127.0.0.1", port), *arguments)

    lookup = socket.getaddrinfo
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 0)) for one in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(socket, "create_connection", lead_here)
    return asked


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "::",
        "fe80::1%eth0",
        "fd00::1",
        "fec0::1",
        "ff0e::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::808:808",
        "2002:7f00:1::",
        "2002:a00:1::1",
        "2001::1",
        "2001:0:808:808::1",
    ],
)
def test_private_addresses_of_every_spelling_are_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = resolving(monkeypatch, ["93.184.216.34", address], 9)
    with pytest.raises(FetchError, match="leads to this machine or a private network"):
        fetch("http://pictures.example/x", max_bytes=9, seconds=9, private=False)
    assert asked == []


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "2a00::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
)
def test_what_is_connected_to_is_the_address_that_was_looked_at(
    server: WebServer, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.pages["/x"] = Page(b"here")
    asked = resolving(monkeypatch, ["2606:4700::1", address], int(server.address.rpartition(":")[2]))
    assert fetch("http://pictures.example/x", max_bytes=9, seconds=9, private=False) == b"here"
    assert asked == ["2606:4700::1", address]


@pytest.mark.parametrize(("scheme", "name"), [("http", b"Host: pictures.example\r\n"), ("https", b"pictures.example")])
def test_the_host_keeps_its_name_and_a_silent_one_is_left(
    scheme: str, name: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        asked = resolving(monkeypatch, ["93.184.216.34"], silent.getsockname()[1])
        with pytest.raises(FetchError, match="took too long"):
            fetch(f"{scheme}://pictures.example/x", max_bytes=9, seconds=0.2, private=False)
        connection, _ = silent.accept()
        with connection:
            assert name in connection.recv(9999)
    assert asked == ["93.184.216.34"]


def test_behind_a_proxy_it_is_the_proxy_that_is_connected_to(
    server: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.pages["/x"] = Page(b"here")
    monkeypatch.setenv("http_proxy", server.address)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert fetch("http://pictures.example/x", max_bytes=9, seconds=9, private=False) == b"here"


@pytest.mark.parametrize("address", ["http://x\r\nHost: y/", "http://h/\0", "http://h/?a\x7f"])
def test_control_characters_are_refused(address: str) -> None:
    with pytest.raises(FetchError, match="holds a control character"):
        fetch(address, max_bytes=9, seconds=9, private=True)


def test_a_password_goes_to_its_host_alone(server: WebServer) -> None:
    server.pages["/x"] = Page(b"here")
    with web_server() as other:
        server.pages["/away"] = Page(redirect=f"{other.address}/x")
        other.pages["/x"] = Page(b"there")
        url = server.address.replace("http://", "http://me:se%20cret@")
        assert fetch(f"{url}/away", max_bytes=9, seconds=9, private=True) == b"there"
        assert server.requests[0][2] == "Basic bWU6c2UgY3JldA=="
        assert other.requests[0][2] is None


def test_addresses_of_any_spelling_are_asked_for(server: WebServer) -> None:
    server.pages["/caf%C3%A9%20x/100%25.png"] = Page(b"here")
    with open_web(f"{server.address}/café x/100%25.png", private=True) as answer:
        assert answer.read(99) == b"here"


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


def test_an_object_is_gone_on_with_where_it_broke(tmp_path: Path) -> None:
    store = fsspec.filesystem("memory")
    store.pipe_file("/bucket/x.bin", BODY)
    try:
        (tmp_path / "x.partial").write_bytes(BODY[:1000] + b"?" * 1000)
        (tmp_path / "x.version").write_text(str(store.checksum("/bucket/x.bin")))
        CloudFile("memory://bucket/x.bin").fetch(tmp_path / "x")
        assert (tmp_path / "x").read_bytes() == BODY[:1000] + b"?" * 1000 + BODY[2000:]
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
