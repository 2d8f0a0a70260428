"""What the server answers: the same as the local Searcher, and the items of the index."""

from __future__ import annotations

import base64
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from apps.server import ServerSettings, make_application
from apps.server.answer_models import BatchAnswer, HitsAnswer, IndexAnswer
from indexer import IndexDirectory
from indexer.output_folder import output_folder
from indexer.removal import remove_rows
from search import Searcher
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.server import ASPECTS, COUNT, HOSTILE_KEYS, KEYS, PICTURES, picture, write_gallery


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gallery(tmp_path_factory.mktemp("served") / "Картины")


@pytest.fixture(scope="module")
def local(gallery: Path) -> Searcher:
    return Searcher.open(gallery, model=StubEmbedder())


@pytest.fixture(scope="module")
def client(gallery: Path) -> Iterator[TestClient]:
    with TestClient(make_application(IndexDirectory.open(gallery), embedder=StubEmbedder())) as made:
        yield made


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


NEW = picture(100)

QUERIES: list[dict[str, Any]] = [
    {"terms": [{"key": KEYS[3], "aspect": "brushwork"}]},
    {
        "terms": [{"key": "猫", "aspect": "color palette", "weight": -0.4}, {"key": KEYS[20], "aspect": "overall"}],
        "k": 30,
    },
    {"terms": [{"key": KEYS[20], "aspect": "Color  Palette"}], "overall_penalty": 0.3, "offset": 4, "k": 3},
    {"terms": [{"key": KEYS[5], "aspect": "brushwork"}], "where": 'artist = "artist 1" and year > 1905', "k": 50},
    {"terms": [{"key": KEYS[5], "aspect": "brushwork"}], "min_score": 0.2, "dedupe": 0.98, "exact": True},
    {"terms": [{"key": KEYS[5], "aspect": "brushwork"}], "exclude_queries": False, "where": None, "dedupe": None},
]


def ask_locally(searcher: Searcher, query: dict[str, Any]) -> Any:
    options = {name: value for name, value in query.items() if name != "terms"}
    terms = [(term["key"], term["aspect"], term.get("weight", 1.0)) for term in query["terms"]]
    return json.loads(searcher.query(terms, **options).to_json())


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_gives_what_the_searcher_gives(client: TestClient, local: Searcher, query: dict[str, Any]) -> None:
    answer = client.post("/query", json=query)
    assert answer.status_code == 200
    assert answer.json() == ask_locally(local, query)  # to the last bit of every score
    # The model describes the answer, field by field.
    assert json.loads(HitsAnswer.model_validate_json(answer.text).model_dump_json()) == answer.json()


def test_a_batch_gives_what_each_query_gives(client: TestClient, local: Searcher) -> None:
    queries = [query["terms"] for query in QUERIES]
    answer = client.post("/query/batch", json={"queries": queries, "k": 4, "overall_penalty": 0.3})
    assert answer.status_code == 200
    each = [ask_locally(local, {"terms": terms, "k": 4, "overall_penalty": 0.3}) for terms in queries]
    assert answer.json()["answers"] == each
    assert len(BatchAnswer.model_validate_json(answer.text).answers) == len(queries)


def test_a_picture_may_come_in_base64_as_an_url_and_in_a_form(client: TestClient, local: Searcher) -> None:
    expected = local.similar(NEW, "brushwork", k=5, where="year > 1901", exact=True).to_record()
    options = {"aspect": "brushwork", "k": 5, "where": "year > 1901", "exact": True}
    for text in (base64_of(NEW), f"data:image/png;base64,{base64_of(NEW)}", f"data:;base64,{base64_of(NEW)}"):
        assert client.post("/similar", json={"picture": text, **options}).json() == expected
    form = {**options, "k": "5", "exact": "true"}
    assert client.post("/similar", data=form, files={"picture": ("../x.png", NEW, "text/html")}).json() == expected


def test_an_indexed_picture_sent_again_is_left_out(client: TestClient) -> None:
    query = {"terms": [{"picture": base64_of(PICTURES[4]), "aspect": "brushwork"}], "k": COUNT}
    keys = [hit["key"] for hit in client.post("/query", json=query).json()["hits"]]
    assert len(keys) == COUNT - 1
    assert KEYS[4] not in keys


def test_similar_takes_the_models_penalty(client: TestClient) -> None:
    asked = {"key": KEYS[9], "aspect": "brushwork"}
    assert client.post("/similar", json=asked).json()["overall_penalty"] == 0.25
    assert client.post("/similar", json={**asked, "overall_penalty": 0.0}).json()["overall_penalty"] == 0.0


def test_percentiles_are_the_hits_own(client: TestClient, local: Searcher) -> None:
    hits = local.query([(KEYS[3], "brushwork")])
    scores = [-2.0, hits[0].score, hits[4].score, 2.0]
    asked = {"terms": [{"key": KEYS[3], "aspect": "brushwork"}], "scores": scores}
    expected = [hits.percentile(score) for score in scores]
    assert client.post("/query/percentile", json=asked).json() == {"percentiles": expected}


@pytest.mark.parametrize("key", HOSTILE_KEYS)
def test_any_key_names_its_item_and_picture(client: TestClient, local: Searcher, key: str) -> None:
    path = f"/items/{quote(key, safe='') if key.strip('.') else key.replace('.', '%2E')}"
    row = KEYS.index(key)
    item = client.get(path).json()
    assert (item["key"], item["row"], item["size"]) == (key, row, len(PICTURES[row]))
    assert item["metadata"] == {"artist": f"artist {row % 3}", "year": 1900 + row, "share": None if row % 2 else 0.5}
    found = client.get(f"{path}/image")
    assert found.content == PICTURES[row]
    assert "set-cookie" not in found.headers
    assert found.headers["content-type"] == "image/png"
    assert found.headers["x-content-type-options"] == "nosniff"


def test_slashes_of_a_key_may_stay_slashes(client: TestClient) -> None:
    assert client.get("/items/a/b.png").json()["key"] == "a/b.png"
    assert client.get("/items/a/b.png/image").content == PICTURES[KEYS.index("a/b.png")]
    assert client.get("/items/a%2Fb.png%2Fimage").json()["key"] == "a/b.png/image"
    assert client.get("/items/a/b.png/image/image").content == PICTURES[KEYS.index("a/b.png/image")]
    assert client.get("/items/a%252Fb.png").json()["key"] == "a%2Fb.png"


def test_thumbnails_are_jpegs_of_the_size(client: TestClient) -> None:
    answer = client.get("/items/image/image", params={"size": 16})
    assert answer.headers["content-type"] == "image/jpeg"
    assert Image.open(io.BytesIO(answer.content)).size == (16, 12)


def test_keys_come_in_pages(client: TestClient) -> None:
    pages = [client.get("/items", params={"offset": start, "limit": 13}).json() for start in (0, 13, 26, 39)]
    assert [key for page in pages for key in page["keys"]] == list(KEYS)
    assert {page["total"] for page in pages} == {COUNT}


def test_index_tells_what_can_be_asked(client: TestClient, local: Searcher) -> None:
    found = IndexAnswer.model_validate_json(client.get("/index").text)
    assert found.items == COUNT
    assert tuple(aspect.aspect for aspect in found.aspects) == ASPECTS
    assert {column.name: column.type for column in found.columns} == {c.name: str(c.type) for c in local.columns}
    assert found.model.fingerprint == "stub:1"


def test_metrics_count_by_route_and_never_by_path(client: TestClient) -> None:
    client.get("/items/secret-key")
    client.request("BREW", "/no/such/route")
    text = client.get("/metrics").text
    assert 'tpips_requests_total{method="GET",route="/items/{key}",status="404"}' in text
    assert 'tpips_requests_total{method="other",route="none",status="404"}' in text
    assert 'tpips_requests_held{work="search"} 0.0' in text
    assert f"tpips_index_items {COUNT:.1f}" in text
    assert "secret-key" not in text


def test_health_and_readiness(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json() == {"status": "ready"}


def test_a_picture_that_is_gone_or_none_is_no_server_error(gallery: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(gallery, moved)
    (moved / "gallery" / "000020.png").unlink()
    page = b"<html><script>alert(1)</script>".ljust(len(PICTURES[21]), b"x")
    (moved / "gallery" / "000021.png").write_bytes(page)
    with TestClient(make_application(IndexDirectory.open(moved), embedder=StubEmbedder())) as client:
        gone = client.get("/items/picture 20/image")
        assert (gone.status_code, gone.json()["error"]["kind"]) == (404, "picture")
        assert str(tmp_path) not in gone.text
        other = client.get("/items/picture 21/image")
        assert other.content == page
        assert other.headers["content-type"] == "application/octet-stream"
        assert "sandbox" in other.headers["content-security-policy"]
        assert client.get("/items/picture 21/image?size=64").status_code == 422


def test_a_removed_item_is_nowhere(gallery: Path, tmp_path: Path) -> None:
    thinned = tmp_path / "thinned"
    shutil.copytree(gallery, thinned)
    with output_folder(thinned) as opened:
        assert opened is not None
        remove_rows(opened, np.array([0, 20], np.int64))
    left = [key for row, key in enumerate(KEYS) if row not in (0, 20)]
    with TestClient(make_application(IndexDirectory.open(thinned), embedder=StubEmbedder())) as client:
        pages = [client.get("/items", params={"offset": start, "limit": 20}).json() for start in (0, 20)]
        assert [key for page in pages for key in page["keys"]] == left
        assert {page["total"] for page in pages} == {client.get("/index").json()["items"]} == {COUNT - 2}
        assert f"tpips_index_items {COUNT - 2:.1f}" in client.get("/metrics").text
        for answer in (
            client.get("/items/picture 20"),
            client.get("/items/picture 20/image"),
            client.post("/similar", json={"key": "picture 20", "aspect": "brushwork"}),
        ):
            assert (answer.status_code, answer.json()["error"]["kind"]) == (404, "key")
        found = client.post("/similar", json={"key": "picture 21", "aspect": "brushwork", "k": COUNT}).json()
        assert sorted(hit["key"] for hit in found["hits"]) == sorted(set(left) - {"picture 21"})


def test_only_named_sites_may_ask_from_a_browser(gallery: Path) -> None:
    index = IndexDirectory.open(gallery)
    for origins, expected in (((), None), (("https://good.example",), "https://good.example")):
        app = make_application(index, ServerSettings(cors_origins=origins), embedder=StubEmbedder())
        with TestClient(app) as client:
            answer = client.get("/index", headers={"Origin": "https://good.example"})
            assert answer.headers.get("access-control-allow-origin") == expected
            answer = client.get("/index", headers={"Origin": "https://evil.example"})
            assert "access-control-allow-origin" not in answer.headers
