"""The hub, played by a server on this machine that answers as the hub does."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from indexer.sources import Indexed, SourceError, open_source
from tests.fixtures.built_sources import build_index, cache_at, good, stored_pictures
from tests.fixtures.picture_folders import picture_bytes, tree
from tests.fixtures.picture_tables import write_hub_parquet
from tests.fixtures.web_server import Page, WebServer, web_server

COMMITS = {"one": "1" * 40, "two": "2" * 40}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    for _ in cache_at(tmp_path / "cache", monkeypatch):
        with web_server() as server:
            monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.address)
            monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
            monkeypatch.setattr(
                "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE",
                server.address + "/{repo_id}/resolve/{revision}/{filename}",
            )
            monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
            monkeypatch.setenv("HF_TOKEN", "hf_hushhushhush")
            yield server


def publish(hub: WebServer, repo: str, commit: str, files: dict[str, bytes], *, revision: str | None = None) -> None:
    """Put a data set's files on the server, at one commit."""
    api = f"/api/datasets/{repo}"
    info = {"id": repo, "sha": commit, "private": False, "disabled": False, "downloads": 0, "likes": 0, "tags": []}
    hub.pages[f"{api}/revision/{revision.replace('/', '%2F')}" if revision else api] = Page(json.dumps(info).encode())
    listing = [
        {"type": "file", "path": name, "size": len(body), "oid": f"{number:040d}"}
        for number, (name, body) in enumerate(files.items())
    ]
    hub.pages[f"{api}/tree/{commit}"] = Page(json.dumps(listing).encode())
    for number, (name, body) in enumerate(files.items()):
        hub.pages[f"/datasets/{repo}/resolve/{commit}/{name}"] = Page(body, version=f'"{number:040d}"', commit=commit)


def wikiart(tmp_path: Path, first: int = 0) -> dict[str, bytes]:
    files = {"README.md": b"# WikiArt", ".hidden/x.parquet": b"", "../x.parquet": b""}
    for shard in range(2):
        pictures = [picture_bytes(first + 10 * shard + row, format="JPEG") for row in range(3)]
        labels = {"style": (["Rococo", "Cubism"], [0, 1, 1])}
        path = write_hub_parquet(tmp_path / "made.parquet", pictures, labels=labels)
        files[f"data/train-0000{shard}-of-00002.parquet"] = path.read_bytes()
    return files


def test_wikiart_is_fetched_file_by_file_and_indexed(hub: WebServer, tmp_path: Path) -> None:
    publish(hub, "huggan/wikiart", COMMITS["one"], wikiart(tmp_path))
    source = open_source("wikiart", out=tmp_path / "index")
    shards = source.shards(Indexed())
    assert [shard.samples for shard in shards] == [3, 3]
    next(iter(source.read(shards[0])))
    fetched = sorted(path.name for path in (tmp_path / "cache").rglob("*.parquet"))
    assert fetched == ["train-00000-of-00002.parquet"]  # the other one only when its turn comes
    index = build_index("wikiart", tmp_path / "index")
    assert index.data_root == tmp_path / "cache/hub/huggan--wikiart@111111111111"
    assert stored_pictures(index) == {
        f"data/train-0000{shard}-of-00002/{row}": picture_bytes(10 * shard + row, format="JPEG")
        for shard in range(2)
        for row in range(3)
    }
    assert index.items(["style"])["style"].to_pylist() == ["Rococo", "Cubism", "Cubism"] * 2
    asked = len(hub.requests)
    before = tree(tmp_path / "index")
    build_index("wikiart", tmp_path / "index")
    assert (tree(tmp_path / "index"), len(hub.requests)) == (before, asked)  # without a network
    build_index(f"wikiart:{index.data_root}", tmp_path / "index")  # the fetched copy is a local copy
    assert tree(tmp_path / "index") == before


def test_an_index_goes_on_with_the_commit_it_was_made_from(hub: WebServer, tmp_path: Path) -> None:
    publish(hub, "huggan/wikiart", COMMITS["one"], wikiart(tmp_path))
    source = open_source("wikiart", out=tmp_path / "index")
    publish(hub, "huggan/wikiart", COMMITS["two"], wikiart(tmp_path, first=50))
    resumed = open_source("wikiart", out=tmp_path / "index", root=source.root)
    assert resumed.root == source.root
    assert next(one.data for one in good(resumed).values()) == picture_bytes(0, format="JPEG")
    assert open_source("wikiart", out=tmp_path / "new").root.name == f"huggan--wikiart@{COMMITS['two'][:12]}"


def test_any_data_set_with_splits_columns_and_keys(hub: WebServer, tmp_path: Path) -> None:
    table = pa.table({"left": [picture_bytes(1)], "other": [b"x"], "id": ["a"]})
    pq.write_table(table, tmp_path / "x.parquet")
    body = (tmp_path / "x.parquet").read_bytes()
    names = ("data/train-00000.parquet", "data/test-00000.parquet", "other/training/0000.parquet")
    publish(hub, "me/pets", COMMITS["one"], dict.fromkeys(names, body))
    assert list(good(open_source("hf:me/pets?split=test&image=left&key=id", out=tmp_path))) == ["a"]
    assert list(good(open_source("hf:me/pets?split=train&image=left", out=tmp_path))) == ["data/train-00000/0"]
    with pytest.raises(SourceError, match="has no parquet files of split 'val', but 'test', 'train', 'training'"):
        open_source("hf:me/pets?split=val", out=tmp_path)
    with pytest.raises(SourceError, match=r"several may hold pictures; say which with \?image=COLUMN"):
        open_source("hf:me/pets", out=tmp_path)


def test_data_sets_in_other_forms_are_taken_as_the_hub_converted_them(hub: WebServer, tmp_path: Path) -> None:
    publish(hub, "me/loose", COMMITS["one"], {"a.jpg": picture_bytes(0)})
    with pytest.raises(SourceError, match="has no parquet files on the hub, and the hub has made none of it"):
        open_source("hf:me/loose", out=tmp_path)
    body = write_hub_parquet(tmp_path / "x.parquet", [picture_bytes(0)]).read_bytes()
    converted = {"default/train/0000.parquet": body}
    publish(hub, "me/loose", COMMITS["two"], converted, revision="refs/convert/parquet")
    assert list(good(open_source("hf:me/loose?split=train", out=tmp_path))) == ["default/train/0000/0"]


def test_without_a_network_one_error_names_a_local_copy(hub: WebServer, tmp_path: Path) -> None:
    hub.pages["/api/datasets/huggan/wikiart"] = Page(failures=[500] * 50)
    with pytest.raises(SourceError, match=r"the hub answered 500.*or give a local copy with --data wikiart:PATH"):
        open_source("wikiart", out=tmp_path)


def test_a_hub_that_cannot_be_reached(hub: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(SourceError, match=r"no answer from the hub \(.*\)\. .* local copy with --data wikiart:PATH"):
        open_source("wikiart", out=tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(SourceError, match="no answer from the hub"):
        open_source("wikiart", out=tmp_path)


def test_data_sets_that_are_not_there(hub: WebServer, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"the hub has no data set 'me/none', or not for you; .* hf auth login"):
        open_source("hf:me/none", out=tmp_path)
    for place in ("a/b/c", "../etc", "a b/c", "x" * 300, "-/-"):
        with pytest.raises(SourceError, match="is no data set's id"):
            open_source(f"hf:{place}", out=tmp_path)
    with pytest.raises(SourceError, match="does not say where the pictures are; give hf:ID"):
        open_source("hf", out=tmp_path)


def test_a_file_that_comes_short_is_fetched_again(hub: WebServer, tmp_path: Path) -> None:
    files = wikiart(tmp_path)
    publish(hub, "huggan/wikiart", COMMITS["one"], files)
    name = f"/datasets/huggan/wikiart/resolve/{COMMITS['one']}/data/train-00000-of-00002.parquet"
    source = open_source("wikiart", out=tmp_path / "index")
    shards = source.shards(Indexed())
    hub.pages[name].cuts = [len(hub.pages[name].body) // 2]
    assert len(list(source.read(shards[0]))) == 3
    assert hub.pages[name].cuts == []


def test_the_token_is_neither_kept_nor_said(
    hub: WebServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    publish(hub, "huggan/wikiart", COMMITS["one"], wikiart(tmp_path))
    with web_server() as elsewhere:
        name = f"/datasets/huggan/wikiart/resolve/{COMMITS['one']}/data/train-00001-of-00002.parquet"
        elsewhere.pages["/blob"] = hub.pages[name]
        hub.pages[name] = Page(
            redirect=f"{elsewhere.address}/blob", commit=COMMITS["one"], size=len(elsewhere.pages["/blob"].body)
        )
        build_index("wikiart", tmp_path / "index")
        assert any(authorization for _, _, authorization in hub.requests)
        assert not any(authorization for _, _, authorization in elsewhere.requests)
    for folder in ("index", "cache"):
        for path, content in tree(tmp_path / folder).items():
            assert b"hushhush" not in content, path
    assert "hushhush" not in caplog.text + "".join(capfd.readouterr())
