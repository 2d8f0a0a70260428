"""The client against a live server: as a Searcher, in what it gives and in what it raises."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.compute as pc
import pytest
from PIL import Image

from apps.server import ServerSettings, make_application
from apps.server.request_models import PageRequest
from indexer import IndexDirectory, IndexDirectoryError
from search import Searcher, Term
from search.client import Client, RemoteError
from search.hits import Hits
from search.terms import QueryError
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.server import ASPECTS, COUNT, HOSTILE_KEYS, KEYS, PICTURES, live, picture, write_gallery
from tpips_model.errors import AspectError, ImageError, TpipsError

API_KEY = "a-key-for-the-client-tests"
NEW = picture(100)


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gallery(tmp_path_factory.mktemp("client") / "index")


@pytest.fixture(scope="module")
def local(gallery: Path) -> Searcher:
    return Searcher.open(gallery, model=StubEmbedder())


@pytest.fixture(scope="module")
def address(gallery: Path) -> Iterator[str]:
    app = make_application(IndexDirectory.open(gallery), ServerSettings(api_key=API_KEY), embedder=StubEmbedder())
    with live(app) as found:
        yield found


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[Client]:
    with Client(address, API_KEY) as made:
        yield made


@pytest.mark.parametrize(
    ("terms", "options"),
    [
        ([(KEYS[20], "brushwork")], {}),
        ([(key, "color palette", 0.1 * number) for number, key in enumerate(HOSTILE_KEYS, 1)], {"k": 7}),
        ([Term(KEYS[3], "Color  Palette", -1)], {"overall_penalty": 0.3, "offset": 2, "exact": True}),
        ([(KEYS[4], "brushwork")], {"where": "artist contains '1'", "min_score": -0.5, "dedupe": 0.98}),
        ([(NEW, "brushwork"), (KEYS[4], "overall", 0.5)], {"exclude_queries": False}),
        ([(PICTURES[6], "brushwork")], {"k": COUNT}),
    ],
)
def test_it_gives_what_the_searcher_gives(
    client: Client, local: Searcher, terms: list[Any], options: dict[str, Any]
) -> None:
    hits, expected = client.query(terms, **options), local.query(terms, **options)
    assert isinstance(hits, Hits)
    assert hits.to_json() == expected.to_json()
    assert repr(hits) == repr(expected)
    assert [hit.contributions for hit in hits] == [hit.contributions for hit in expected]
    assert client.query_batch([terms, terms[:1]], **options)[0].to_json() == expected.to_json()


def test_similar_takes_the_servers_penalty(client: Client, local: Searcher) -> None:
    for image in (KEYS[20], NEW):
        assert client.similar(image, "brushwork", 5).to_json() == local.similar(image, "brushwork", 5).to_json()
    assert client.similar(KEYS[20], "brushwork", overall_penalty=0.0).overall_penalty == 0.0


def test_every_form_of_picture_may_be_sent(client: Client, local: Searcher, tmp_path: Path) -> None:
    file = tmp_path / "été.png"
    file.write_bytes(NEW)
    opened = Image.open(file)
    array = np.asarray(opened.convert("RGB"))
    for image in (str(file), file, NEW, opened, array):
        assert client.query([(image, "brushwork")]).to_json() == local.query([(image, "brushwork")]).to_json()


def test_a_name_is_a_key_before_it_is_a_file(
    client: Client, local: Searcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("picture 20", "other"):
        (tmp_path / name).write_bytes(NEW)
        assert client.query([(name, "brushwork")]).to_json() == local.query([(name, "brushwork")]).to_json()


def test_hits_fetch_their_pictures_and_percentiles(client: Client, local: Searcher) -> None:
    terms = [(KEYS[0], "brushwork"), (NEW, "color palette")]
    hits, expected = client.query(terms, where="year > 1904"), local.query(terms, where="year > 1904")
    assert hits.percentile(hits[3].score) == expected.percentile(hits[3].score) > 0
    assert hits[:4].percentile(hits[3].score) == expected.percentile(hits[3].score)
    assert hits[2:].keys == expected[2:].keys
    assert hits.image(0).tobytes() == expected.image(0).tobytes()
    assert [term.image().tobytes() for term in hits.terms] == [term.image().tobytes() for term in expected.terms]
    # JSON has no NaN: a metadata column that is not a number is missing.
    assert hits._repr_html_() == expected._repr_html_().replace("<dt>share</dt><dd>nan</dd>\n", "")
    assert hits.to_pandas().equals(expected.to_pandas())


@pytest.mark.parametrize("key", HOSTILE_KEYS)
def test_any_key_names_its_picture(client: Client, key: str) -> None:
    assert client.item_bytes(key) == PICTURES[KEYS.index(key)]


def test_it_tells_what_can_be_asked(client: Client) -> None:
    assert len(client) == COUNT
    assert tuple(map(str, client.aspects)) == ASPECTS
    assert client.keys(offset=2, limit=3) == list(KEYS[2:5])
    assert API_KEY not in repr(client)


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda one: one.query([("nobody", "brushwork")]), QueryError),
        (lambda one: one.query([("\ud800", "brushwork")]), QueryError),
        (lambda one: one.query([(Path("nobody.png"), "brushwork")]), QueryError),
        (lambda one: one.query([(KEYS[3], "lighting")]), AspectError),
        (lambda one: one.query([(KEYS[3], "")]), AspectError),
        (lambda one: one.query([(b"no picture", "brushwork")]), ImageError),
        (lambda one: one.query([(KEYS[3], "brushwork")], where="no such = 1"), QueryError),
        (lambda one: one.query([(KEYS[3], "brushwork")], where="\ud800"), QueryError),
        (lambda one: one.query([(KEYS[3], "brushwork")], exact=False), QueryError),
        (lambda one: one.query([(KEYS[3], "brushwork")], k=0), QueryError),
        (lambda one: one.query([(KEYS[3], "brushwork")], overall_penalty=float("nan")), QueryError),
        (lambda one: one.query([]), QueryError),
        (lambda one: one.query_batch([[(KEYS[3], "brushwork")], [("nobody",)]]), QueryError),
        (lambda one: one.query_batch("ab"), QueryError),
        (lambda one: one.similar(None, "brushwork"), QueryError),
    ],
)
def test_it_raises_what_the_searcher_raises(
    client: Client, local: Searcher, ask: Callable[[Any], Any], error: type[TpipsError]
) -> None:
    for one in (local, client):
        with pytest.raises(error, match=r"\w") as caught:
            ask(one)
        assert type(caught.value) is error


def test_what_a_server_cannot_be_sent_or_asked_is_said(client: Client, address: str) -> None:
    with pytest.raises(QueryError, match="filter as text"):
        client.query([(KEYS[3], "brushwork")], where=pc.field("year") > 1900)
    with pytest.raises(QueryError, match="less than or equal to 1000"):
        client.query([(KEYS[3], "brushwork")], k=10_000)
    with Client(address) as nobody, pytest.raises(RemoteError, match="API key is missing or wrong"):
        nobody.query([(KEYS[3], "brushwork")])
    for url in ("ftp://x", "localhost:8600", "", "http://"):
        with pytest.raises(RemoteError, match="no address of a server"):
            Client(url)


def test_the_arguments_are_the_searchers_own() -> None:
    for name in ("query", "query_batch", "similar"):
        ours, theirs = inspect.signature(getattr(Client, name)), inspect.signature(getattr(Searcher, name))
        assert ours.parameters == theirs.parameters
    assert set(PageRequest.model_fields) <= set(inspect.signature(Searcher.query).parameters)


def test_ten_at_once_get_their_own(client: Client, address: str, local: Searcher) -> None:
    def ask(number: int) -> bool:
        image: Any = KEYS[number] if number % 3 else picture(200 + number)
        terms = [(image, ASPECTS[1 + number % 2]), (KEYS[(number + 5) % COUNT], "overall", 0.3)]
        with Client(address, API_KEY) as own:
            answers = [own.query(terms, 5 + number % 4).to_json() for _ in range(2)]
        return set(answers) == {local.query(terms, 5 + number % 4).to_json()}

    with ThreadPoolExecutor(10) as pool:
        assert all(pool.map(ask, range(10)))


class Flaky(BaseHTTPRequestHandler):
    """Answers 503 or drops the connection at first, then what it holds."""

    faults: ClassVar[list[str]]
    answer: ClassVar[bytes] = b'{"keys": ["a"]}'
    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "drop":
            self.close_connection = True
            return
        self.send_response(503 if fault else 200)
        if fault:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def flaky() -> Iterator[tuple[str, type[Flaky]]]:
    class Handler(Flaky):
        faults: ClassVar[list[str]] = []

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", Handler
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_busy_or_broken_server_is_asked_again(flaky: tuple[str, type[Flaky]]) -> None:
    url, handler = flaky
    handler.faults = ["busy", "drop", "busy"]
    with Client(url, retries=3) as client:
        assert client.keys() == ["a"]
    assert handler.asked == 4


def test_in_the_end_it_is_given_up(flaky: tuple[str, type[Flaky]]) -> None:
    url, handler = flaky
    handler.faults = ["busy"] * 9
    with Client(url, retries=1) as client, pytest.raises(RemoteError, match="503"):
        client.keys()
    assert handler.asked == 2
    with Client("http://127.0.0.1:1", retries=0) as client, pytest.raises(RemoteError, match="is the server up"):
        client.keys()


@pytest.mark.parametrize("answer", [b"", b"<html>", b"[]", b"{}", b'"x"', b'{"keys": 1', b"\xff\xfe"])
def test_what_is_no_server_of_ours_is_said(flaky: tuple[str, type[Flaky]], answer: bytes) -> None:
    url, handler = flaky
    handler.answer = answer
    with Client(url, retries=0) as client, pytest.raises(RemoteError, match="not as a tpips-serve does"):
        client.keys()


def test_a_picture_that_is_gone_is_the_same_error(local: Searcher, tmp_path: Path) -> None:
    moved = write_gallery(tmp_path / "index")
    (moved / "gallery" / "000020.png").unlink()
    with (
        live(make_application(IndexDirectory.open(moved), embedder=StubEmbedder())) as url,
        Client(url) as client,
        pytest.raises(IndexDirectoryError, match="cannot be read where it was"),
    ):
        client.item_bytes("picture 20")


def test_importing_loads_no_web_library() -> None:
    program = "import sys, search, search.client; print({'httpx', 'fastapi', 'uvicorn', 'pydantic'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
