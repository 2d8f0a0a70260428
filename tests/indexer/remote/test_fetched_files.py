"""Files fetched from servers: whole or not at all, resumed where they broke, and bounded."""

from __future__ import annotations

from pathlib import Path

import fsspec  # type: ignore[import-untyped]
import pytest

from indexer.sources import SourceError
from indexer.sources.remote import CloudFile, WebFile
from tests.fixtures.web_server import Page, WebServer
from tests.indexer.remote.conftest import BODY


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
