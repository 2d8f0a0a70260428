"""A server answers from the newest version of its index, and goes on with the last good one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from apps.server import make_application
from indexer import IndexDirectory
from indexer.output_folder import output_folder
from indexer.removal import remove_rows
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.server import COUNT, KEYS, write_gallery


@pytest.fixture
def gallery(tmp_path: Path) -> Path:
    return write_gallery(tmp_path / "index")


@pytest.fixture
def client(gallery: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setattr("apps.server.following.SECONDS_BETWEEN", 0.05)
    with TestClient(make_application(IndexDirectory.open(gallery), embedder=StubEmbedder())) as made:
        yield made


def wait_for(happened: Callable[[], bool]) -> None:
    for _ in range(1200):
        if happened():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen within a minute")


def items(client: TestClient) -> int:
    return int(client.get("/index").json()["items"])


def test_what_is_removed_is_gone_without_a_restart(client: TestClient, gallery: Path) -> None:
    asked = {"key": KEYS[20], "aspect": "brushwork", "k": COUNT}
    assert items(client) == COUNT
    before = [hit["key"] for hit in client.post("/similar", json=asked).json()["hits"]]
    with output_folder(gallery) as index:
        assert index is not None
        remove_rows(index, np.array([3, 4]))
    wait_for(lambda: items(client) == COUNT - 2)
    after = [hit["key"] for hit in client.post("/similar", json=asked).json()["hits"]]
    assert after == [key for key in before if key not in (KEYS[3], KEYS[4])]
    assert client.get(f"/items/{KEYS[3]}").status_code == 404
    assert f"tpips_index_items {COUNT - 2}.0" in client.get("/metrics").text


def test_a_damaged_version_is_told_once_and_the_last_one_serves(
    client: TestClient, gallery: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = gallery / "manifest.json"
    whole = manifest.read_text(encoding="utf-8")
    told = "cannot be used, and the last version goes on serving"
    with caplog.at_level(logging.ERROR):
        manifest.write_text("{", encoding="utf-8")
        wait_for(lambda: told in caplog.text)
        time.sleep(0.3)
    assert caplog.text.count(told) == 1
    assert items(client) == COUNT
    manifest.write_text(whole, encoding="utf-8")
    with output_folder(gallery) as index:
        assert index is not None
        remove_rows(index, np.array([5]))
    wait_for(lambda: items(client) == COUNT - 1)
