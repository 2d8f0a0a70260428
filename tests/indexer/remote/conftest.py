"""A server of pages, and a cache of what is fetched."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.built_sources import cache_at
from tests.fixtures.web_server import WebServer, web_server

BODY = random.Random(0).randbytes(3_000_000)


@pytest.fixture
def server() -> Iterator[WebServer]:
    with web_server() as served:
        yield served


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from cache_at(tmp_path / "cache", monkeypatch)
