"""What a server sent wrongly once is not kept: the next run fetches it anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.sources import SourceError, open_source
from tests.fixtures.built_sources import build_index, everything, good
from tests.fixtures.picture_folders import picture_bytes
from tests.fixtures.picture_tables import write_hub_parquet, write_tar_gz
from tests.fixtures.tars import write_tar
from tests.fixtures.web_server import Page, WebServer


@pytest.mark.parametrize("name", ["a.tar", "a.tgz", "a.parquet"])
@pytest.mark.parametrize("wrong", ["page", "nothing", "short"])
def test_what_a_server_sent_wrongly_is_fetched_anew(
    server: WebServer, cache: Path, tmp_path: Path, name: str, wrong: str
) -> None:
    write = {"a.tar": write_tar, "a.tgz": write_tar_gz}.get(name)
    pictures = [("a.png", picture_bytes(1)), ("b.png", picture_bytes(2))]
    made = write(tmp_path / name, pictures) if write else write_hub_parquet(tmp_path / name, [p for _, p in pictures])
    body = made.read_bytes()
    sent = {
        "page": Page(b"<html>".ljust(99_999), ranges=False),
        "nothing": Page(b"", ranges=False),
        "short": Page(body, ranges=False, claims=10),
    }
    server.pages[f"/{name}"] = sent[wrong]
    # A small parquet file is looked at before anything is kept.
    said = ".*is removed, so that the next run fetches it anew" if write or wrong == "page" else ""
    with pytest.raises(SourceError, match=f"(is no tar|is no parquet){said}"):
        build_index(f"{server.address}/{name}", tmp_path / "index")
    assert [path for path in cache.rglob("a.*") if path.suffix != ".lock"] == []
    server.pages[f"/{name}"] = Page(body, ranges=False)
    assert build_index(f"{server.address}/{name}", tmp_path / "index").rows == 2


def test_a_useless_file_in_the_cache_is_removed_and_own_files_are_not(
    server: WebServer, cache: Path, tmp_path: Path
) -> None:
    body = write_tar(tmp_path / "0.tar", [("a.png", picture_bytes(1))]).read_bytes()
    server.pages["/0.tar"] = Page(body)
    good(open_source(f"{server.address}/0.tar", out=tmp_path))
    for wrong in (b"<html>", b"", body[:600]):
        (kept,) = cache.rglob("0.tar")
        kept.write_bytes(wrong)
        with pytest.raises(SourceError, match="is removed, so that the next run fetches it anew"):
            everything(open_source(f"{server.address}/0.tar", out=tmp_path))
        assert len(good(open_source(f"{server.address}/0.tar", out=tmp_path))) == 1
    (tmp_path / "0.tar").write_bytes(b"<html>")
    with pytest.raises(SourceError, match="is no tar: it looks like an HTML"):
        open_source(str(tmp_path / "0.tar"), out=tmp_path)
    assert (tmp_path / "0.tar").exists()
