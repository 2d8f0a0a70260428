"""Where a collection is: addresses that are read, refused, and not answered."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from indexer import IndexDirectoryError
from search import Searcher
from search.milvus.address import MilvusAddress, MilvusError


def test_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("search.milvus.connection.CONNECT_SECONDS", 0.5)
    monkeypatch.setenv("MILVUS_TOKEN", "root:secret")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        with pytest.raises(MilvusError, match=f"connecting failed at milvus://127.0.0.1:{port}/pictures: ") as caught:
            Searcher.open(f"milvus://127.0.0.1:{port}/pictures")
    assert "secret" not in str(caught.value)


def test_a_data_root_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(IndexDirectoryError, match="'away' is no folder"):
        Searcher.open(f"milvus:{tmp_path / 'vectors.db'}/pictures", data_root="away")


@pytest.mark.parametrize(
    ("text", "uri", "shown"),
    [
        ("milvus://h/c", "http://h:19530", "milvus://h:19530/c"),
        ("milvus://h:1/c?tls=true&db=x", "https://h:1", "milvus://h:1/c?db=x&tls=true"),
        ("milvus://[::1]/c", "http://[::1]:19530", "milvus://[::1]:19530/c"),
        ("milvus:///a/b.db/c", "/a/b.db", "milvus:/a/b.db/c"),
        ("milvus:/a/b.db/c", "/a/b.db", "milvus:/a/b.db/c"),
    ],
)
def test_addresses(text: str, uri: str, shown: str) -> None:
    parsed = MilvusAddress.parse(text)
    assert (parsed.uri, parsed.collection, str(parsed)) == (uri, "c", shown)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("milvus://user:secret@h/c", "no user, password or token in it, .*MILVUS_TOKEN"),
        ("milvus://h/c?token=secret", "no user, password or token in it"),
        ("milvus:vectors/c", r"names no file whose name ends with \.db"),
        ("milvus://vectors.db/c", "for a file write milvus:vectors.db/c"),
        ("milvus://h", "'' cannot be the name of a collection"),
        ("milvus://h/a-b", "'a-b' cannot be the name of a collection"),
        ("milvus://h:port/c", "the Milvus address cannot be read"),
        ("milvus://h/c?tls=yes", "must be true or false"),
    ],
)
def test_addresses_that_are_none(text: str, message: str) -> None:
    with pytest.raises(MilvusError, match=message) as caught:
        MilvusAddress.parse(text)
    assert "secret" not in str(caught.value)
