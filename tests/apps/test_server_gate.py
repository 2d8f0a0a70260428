"""Who may ask, how much at once, and that nothing of the machine shows."""

from __future__ import annotations

import asyncio
import base64
import logging
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from numpy.typing import NDArray
from PIL import Image

from apps.server import ServerSettings, make_application
from apps.server.faults import RefusedError
from apps.server.gate import OPEN_PATHS, Gate
from apps.server.lanes import Lane
from indexer import IndexDirectory
from search import Searcher
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.pictures import encoded
from tests.fixtures.server import KEYS, picture, write_gallery
from tpips_model.aspects import AspectLike
from tpips_model.errors import ModelError
from tpips_model.images import ImageLike

KEY = "correct-horse-battery-staple"
QUERY = {"terms": [{"key": KEYS[20], "aspect": "brushwork"}]}
UPLOAD = {"picture": base64.b64encode(picture(7)).decode(), "aspect": "brushwork"}


class GatedEmbedder(StubEmbedder):
    """Waits until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.go = threading.Event()

    def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> NDArray[np.float32]:
        self.entered.set()
        assert self.go.wait(30.0)
        return super().embed(images, aspects)


class MissingEmbedder(StubEmbedder):
    def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> NDArray[np.float32]:
        raise ModelError("the model 'stub' is not there; ask for it")


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> IndexDirectory:
    return IndexDirectory.open(write_gallery(tmp_path_factory.mktemp("gate") / "index"))


@contextmanager
def served(index: IndexDirectory, embedder: StubEmbedder | None = None, **settings: Any) -> Iterator[TestClient]:
    app = make_application(index, ServerSettings(**settings), embedder=embedder or StubEmbedder())
    with TestClient(app) as client:
        yield client


def fault_of(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["kind"]


def test_without_the_key_nothing_of_the_index_is_told(index: IndexDirectory, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with served(index, api_key=KEY) as client:
        paths = client.get("/openapi.json").json()["paths"]
        asked = [(method, path) for path, operations in paths.items() for method in operations]
        assert len(asked) == 11
        for method, path in asked:
            headers: dict[str, str]
            for headers in ({}, {"Authorization": f"Bearer {KEY}x"}, {"Authorization": KEY}, {"X-API-Key": KEY}):
                answer = client.request(method, path.replace("{key}", "x"), headers=headers)
                if path in OPEN_PATHS:
                    assert answer.status_code == 200
                else:
                    assert fault_of(answer) == (401, "api_key")
                    assert answer.headers["www-authenticate"] == "Bearer"
        assert fault_of(client.get("/no/such/route")) == (401, "api_key")
        assert fault_of(client.get("/index", headers={"Authorization": "Bearer clé".encode("latin-1")})) == (
            401,
            "api_key",
        )
        right = {"Authorization": f"bearer {KEY}"}
        assert client.post("/query", json=QUERY, headers=right).status_code == 200
        assert client.get("/metrics", headers=right).status_code == 200
    assert KEY not in caplog.text
    assert KEY not in repr(ServerSettings(api_key=KEY))


def test_only_known_names_are_answered_to(index: IndexDirectory) -> None:
    with served(index, allowed_hosts=("localhost", "[::1]")) as client:
        for host, status in (("localhost", 200), ("LOCALHOST:8600", 200), ("[::1]:8600", 200), ("evil.example", 400)):
            assert client.get("/health", headers={"Host": host}).status_code == status
        assert fault_of(client.get("/health", headers={"Host": "localhost.evil.example:80"})) == (400, "host")


def test_no_client_reads_a_file_of_the_server(index: IndexDirectory, tmp_path: Path) -> None:
    secret = tmp_path / "secret.png"
    secret.write_bytes(picture(5))
    with served(index) as client:
        for path in (str(secret), f"file://{secret}"):
            terms = [{"key": path, "aspect": "brushwork"}]
            assert fault_of(client.post("/query", json={"terms": terms})) == (404, "key")
            assert fault_of(client.post("/query/batch", json={"queries": [terms]})) == (404, "key")
            assert fault_of(client.post("/similar", json=terms[0])) == (404, "key")
            assert fault_of(client.post("/similar", json={"picture": path, "aspect": "brushwork"})) == (422, "image")
            assert client.get(f"/items/{path}/image").status_code == 404


def test_messages_name_no_place_of_the_server(index: IndexDirectory) -> None:
    with served(index) as client:
        aspect = client.post("/similar", json={"key": KEYS[20], "aspect": "lighting"})
        assert fault_of(aspect) == (422, "aspect")
        assert "--out INDEX" in aspect.json()["error"]["message"]
        codes = client.post("/similar", json={"key": KEYS[20], "aspect": "brushwork", "exact": False})
        assert fault_of(codes) == (422, "query")
        for answer in (aspect, codes):
            assert str(index.path.parent) not in answer.text


def test_a_query_by_key_does_not_wait_for_the_model(index: IndexDirectory) -> None:
    embedder = GatedEmbedder()
    with served(index, embedder) as client, ThreadPoolExecutor(2) as pool:
        try:
            slow = [pool.submit(client.post, "/similar", json=UPLOAD) for _ in range(2)]
            assert embedder.entered.wait(30.0)
            assert client.post("/query", json=QUERY).status_code == 200
            assert not any(answer.done() for answer in slow)
        finally:
            embedder.go.set()
        assert [answer.result().status_code for answer in slow] == [200, 200]


def test_a_full_queue_refuses_at_once(index: IndexDirectory) -> None:
    embedder = GatedEmbedder()
    with served(index, embedder, waiting=0) as client, ThreadPoolExecutor(1) as pool:
        try:
            first = pool.submit(client.post, "/similar", json=UPLOAD)
            assert embedder.entered.wait(30.0)
            refused = client.post("/similar", json=UPLOAD)
            assert fault_of(refused) == (503, "busy")
            assert int(refused.headers["retry-after"]) >= 1
        finally:
            embedder.go.set()
        assert first.result().status_code == 200
        assert client.post("/similar", json=UPLOAD).status_code == 200


def test_what_takes_too_long_is_given_up_but_keeps_its_thread(index: IndexDirectory) -> None:
    embedder = GatedEmbedder()
    with served(index, embedder, waiting=0, embed_seconds=0.05) as client:
        try:
            assert fault_of(client.post("/similar", json=UPLOAD)) == (503, "busy")
            # The first is still at it: a time limit must not let work pile up.
            again = client.post("/similar", json=UPLOAD)
            assert "run or wait already" in again.json()["error"]["message"]
        finally:
            embedder.go.set()


def test_a_model_that_cannot_be_had_leaves_queries_by_key(index: IndexDirectory) -> None:
    with served(index, MissingEmbedder(), preload=True) as client:
        assert fault_of(client.post("/similar", json=UPLOAD)) == (501, "model")
        assert fault_of(client.get("/ready")) == (503, "busy")
        assert client.post("/query", json=QUERY).status_code == 200


def test_ready_comes_after_the_model(index: IndexDirectory) -> None:
    embedder = GatedEmbedder()
    with served(index, embedder, preload=True) as client:
        try:
            assert embedder.entered.wait(30.0)
            assert fault_of(client.get("/ready")) == (503, "busy")
            assert client.get("/health").status_code == 200
            assert client.post("/query", json=QUERY).status_code == 200
        finally:
            embedder.go.set()
        # The picture waits for the model's thread, so that loading is over once it is answered.
        assert client.post("/similar", json=UPLOAD).status_code == 200
        assert client.get("/ready").status_code == 200


def test_no_upload_is_written_to_disk(index: IndexDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def rollover(_: object) -> None:
        raise AssertionError("an upload was about to be written to disk")

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", rollover)
    noise = np.random.default_rng(0).integers(0, 256, (800, 800, 3), dtype=np.uint8)

    large = encoded(Image.fromarray(noise), "PNG")
    assert len(large) > 1 << 20
    with served(index) as client:
        answer = client.post("/similar", data={"aspect": "brushwork"}, files={"picture": ("x.png", large)})
        assert answer.status_code == 200


class Sender:
    """A client that sends a body in pieces and counts how many were taken."""

    def __init__(self, chunk: bytes, *, pause: float = 0.0) -> None:
        self.taken = 0
        self._chunk = chunk
        self._pause = pause

    async def __call__(self) -> dict[str, Any]:
        await asyncio.sleep(self._pause)
        self.taken += 1
        return {"type": "http.request", "body": self._chunk, "more_body": True}


def post_endless(sender: Sender, settings: ServerSettings, index: IndexDirectory) -> tuple[int, str]:
    app = make_application(index, settings, embedder=StubEmbedder())
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/query", "raw_path": b"/query", "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"content-length", b"2")], "http_version": "1.1",
        "scheme": "http", "server": ("localhost", 80), "client": ("127.0.0.1", 1), "root_path": "",
    }  # fmt: skip
    asyncio.run(app(scope, sender, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:]).decode()


def test_a_body_is_counted_whatever_length_it_claims(index: IndexDirectory) -> None:
    settings = ServerSettings(max_upload=1 << 20)
    sender = Sender(b" " * (1 << 18))
    status, text = post_endless(sender, settings, index)
    assert status == 413
    assert '"size"' in text
    assert sender.taken == settings.max_body // (1 << 18) + 1


def test_all_bodies_together_are_bounded(index: IndexDirectory) -> None:
    status, text = post_endless(Sender(b" " * (1 << 16)), ServerSettings(max_held=1 << 17), index)
    assert status == 503
    assert "too many uploads" in text


def test_a_body_that_dribbles_is_given_up(index: IndexDirectory) -> None:
    status, text = post_endless(Sender(b" ", pause=0.01), ServerSettings(body_seconds=0.05), index)
    assert status == 408
    assert '"time"' in text


def test_what_a_body_held_is_given_back() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        raise RuntimeError("whatever happens")

    gate = Gate(app, ServerSettings(max_held=100))

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"x" * 60, "more_body": False}

    async def send(_: Any) -> None:
        raise AssertionError("nothing is sent")

    for _ in range(3):
        with pytest.raises(RuntimeError, match="whatever happens"):
            asyncio.run(gate({"type": "http", "path": "/", "headers": []}, receive, send))


def test_a_closed_lane_refuses() -> None:
    lane = Lane("test", threads=1, waiting=0, seconds=1.0)
    lane.close()
    for _ in range(2):
        with pytest.raises(RefusedError, match="shutting down"):
            asyncio.run(lane.run(lambda: 1))


def test_an_unexpected_fault_is_told_without_its_inside(index: IndexDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def query(*_: object, **__: object) -> None:
        raise RuntimeError("secret inside")

    app = make_application(index, embedder=StubEmbedder())
    with TestClient(app, raise_server_exceptions=False) as client:
        monkeypatch.setattr(Searcher, "query", query)
        answer = client.post("/query", json=QUERY)
        assert fault_of(answer) == (500, "internal")
        assert "secret" not in answer.text
