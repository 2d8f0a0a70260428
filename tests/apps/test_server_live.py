"""Words that are not indexed, over HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from numpy.typing import NDArray

from apps.server import ServerSettings, make_application
from apps.server.answer_models import HitsAnswer
from indexer import IndexDirectory
from indexer.building.build import build
from indexer.building.build_config import BuildConfig
from search import Searcher
from search.client import Client
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.server import COUNT, KEYS, PICTURES, live, write_gallery
from tpips_model.aspects import AspectLike
from tpips_model.images import ImageLike

WORDS = "mood of the sea"
TERMS = [{"key": KEYS[20], "aspect": WORDS}, {"key": KEYS[21], "aspect": "brushwork", "weight": -0.5}]


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gallery(tmp_path_factory.mktemp("live") / "index")


def client_of(gallery: Path, **settings: Any) -> TestClient:
    embedder = settings.pop("embedder", StubEmbedder())
    return TestClient(make_application(IndexDirectory.open(gallery), ServerSettings(**settings), embedder=embedder))


@pytest.fixture(scope="module")
def client(gallery: Path) -> Iterator[TestClient]:
    with client_of(gallery, max_live=25) as made:
        yield made


def test_a_query_by_words_gives_what_the_searcher_gives(client: TestClient, gallery: Path) -> None:
    local = Searcher.open(gallery, model=StubEmbedder())
    answer = client.post("/query", json={"terms": TERMS, "live": 20, "overall_penalty": 0.2})
    assert answer.status_code == 200
    terms = [(KEYS[20], WORDS, 1.0), (KEYS[21], "brushwork", -0.5)]
    assert answer.json() == local.query(terms, live=20, overall_penalty=0.2).to_record()
    assert answer.json()["live"] == {"aspects": [WORDS], "of": COUNT, "unreadable": 0}
    assert HitsAnswer.model_validate(answer.json())
    form = {"aspect": WORDS, "live": "20", "k": "3"}
    similar = client.post("/similar", data=form, files={"picture": ("a.png", PICTURES[20])})
    assert similar.json()["hits"] == local.similar(PICTURES[20], WORDS, 3, live=20).to_record()["hits"]


def test_without_leave_words_are_refused(client: TestClient) -> None:
    refused = client.post("/query", json={"terms": TERMS})
    assert refused.status_code == 422
    assert refused.json()["error"]["kind"] == "aspect"
    assert "not indexed" in refused.json()["error"]["message"]


def test_what_one_request_may_have_looked_at_is_told_and_kept(client: TestClient) -> None:
    assert client.get("/index").json()["limits"]["live"] == 25
    for path, body in (
        ("/query", {"terms": TERMS, "live": 26}),
        ("/query/batch", {"queries": [TERMS, TERMS], "live": 13}),
        ("/query/percentile", {"terms": TERMS, "live": 26, "scores": [0.1]}),
    ):
        refused = client.post(path, json=body)
        assert refused.status_code == 422
        assert "looks at 25 items a request at most" in refused.json()["error"]["message"]
    assert client.post("/query/batch", json={"queries": [TERMS, TERMS], "live": 12}).status_code == 200
    # Words that are indexed need no look, however many are allowed.
    assert client.post("/query", json={"terms": TERMS[1:], "live": 9000}).status_code == 200


@pytest.mark.parametrize("number", [0, -3, 10_001, 2.5, "20", True])
def test_live_is_a_number_of_items(client: TestClient, number: object) -> None:
    assert client.post("/query", json={"terms": TERMS, "live": number}).status_code == 422


def test_a_server_may_allow_no_words(gallery: Path) -> None:
    with client_of(gallery, max_live=0) as strict:
        refused = strict.post("/query", json={"terms": TERMS, "live": 5})
    assert refused.status_code == 422
    assert "indexed aspects only" in refused.json()["error"]["message"]


class SlowEmbedder(StubEmbedder):
    """Takes its time, and counts what it has embedded."""

    embedded = 0

    def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> NDArray[np.float32]:
        """Return what the stub gives, after a while."""
        time.sleep(0.05)
        self.embedded += len(images)
        return super().embed(images, aspects)


def test_a_look_that_takes_too_long_is_ended(gallery: Path) -> None:
    embedder = SlowEmbedder()
    with client_of(gallery, live_seconds=0.02, embedder=embedder) as slow:
        refused = slow.post("/query", json={"terms": TERMS, "live": COUNT})
        assert refused.status_code == 503
        assert "Retry-After" in refused.headers
        deadline = time.monotonic() + 20.0
        while 'tpips_requests_held{work="live"} 0.0' not in slow.get("/metrics").text:
            assert time.monotonic() < deadline, "the thread went on with work that nobody waits for"
            time.sleep(0.02)
    assert embedder.embedded < COUNT


def test_the_client_asks_by_words(gallery: Path) -> None:
    local = Searcher.open(gallery, model=StubEmbedder())
    app = make_application(IndexDirectory.open(gallery), embedder=StubEmbedder())
    with live(app) as address, Client(address) as remote:
        found = remote.query([(KEYS[20], WORDS)], k=5, live=20)
        expected = local.query([(KEYS[20], WORDS)], k=5, live=20)
        assert found.to_record() == expected.to_record()
        assert found.live == expected.live
        assert found.percentile(found[2].score) == expected.percentile(expected[2].score)
        assert remote.similar(PICTURES[3], WORDS, live=20).keys == local.similar(PICTURES[3], WORDS, live=20).keys
        batch = remote.query_batch([[(KEYS[20], WORDS)], [(KEYS[3], "brushwork")]], live=20)
        assert [hits.live is None for hits in batch] == [False, True]


def test_only_queries_by_words_that_are_not_indexed_count(client: TestClient) -> None:
    indexed = [{"key": KEYS[3], "aspect": "brushwork"}]
    body = {"queries": [indexed] * 5 + [TERMS], "live": 25}
    answers = client.post("/query/batch", json=body).json()["answers"]
    assert [answer["live"] is None for answer in answers] == [True] * 5 + [False]


def test_no_message_names_a_path_of_any_source(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.png").write_bytes(PICTURES[len(name)])
    for name, new in (("first", False), ("second", True)):
        config = BuildConfig(
            out=tmp_path / "index",
            data=f"folder:{tmp_path / name}",
            new_source=new,
            aspects=("brushwork",),
            progress=False,
        )
        build(config, embedder=StubEmbedder())
    (tmp_path / "second").rename(tmp_path / "away")
    with client_of(tmp_path / "index") as served:
        key = "second/second.png"
        refused = served.post("/query", json={"terms": [{"key": key, "aspect": WORDS}], "live": 2})
    assert refused.status_code == 422
    assert "DATA/second.png" in refused.json()["error"]["message"]
    assert str(tmp_path) not in refused.text
