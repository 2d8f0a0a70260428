"""Requests that mean harm, or make no sense: each a 4xx with a reason, and the server lives on."""

from __future__ import annotations

import base64
import io
import json
import struct
import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from apps.server import ServerSettings, make_application
from apps.server.faults import MAX_MESSAGE
from indexer import IndexDirectory
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.pictures import png
from tests.fixtures.server import KEYS, picture, write_gallery

JSON = {"Content-Type": "application/json"}
TERM = json.dumps({"key": KEYS[20], "aspect": "brushwork"})
QUERY = f'{{"terms": [{TERM}], "k": 3}}'


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    index = IndexDirectory.open(write_gallery(tmp_path_factory.mktemp("hostile") / "index"))
    settings = ServerSettings(max_upload=12 << 20, max_pixels=1_000_000)
    # An exception that escapes is raised here, so that no test can take it for an answer.
    with TestClient(make_application(index, settings, embedder=StubEmbedder())) as made:
        yield made


def refused(client: TestClient, path: str, body: str | bytes, *, headers: dict[str, str] | None = None) -> str:
    """Send a body, check that it is refused as it should be, and return the kind of the fault."""
    answer = client.post(path, content=body, headers=JSON if headers is None else headers)
    assert 400 <= answer.status_code < 500, answer.text[:500]
    fault = answer.json()["error"]
    assert fault["message"]
    assert len(fault["message"]) <= MAX_MESSAGE + 1
    assert client.post("/query", content=QUERY, headers=JSON).status_code == 200
    return str(fault["kind"])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'{"terms": []}',
        b'{"terms": {}}',
        b"\xff\xfe{\x00}\x00",
        b'{"terms": [{"key": "\xc3\x28", "aspect": "brushwork"}]}',
        b'{"terms": [{"key": "\\ud800", "aspect": "brushwork"}]}',
        ("[" * 100_000).encode(),
        ('{"terms": ' * 50_000).encode(),
        f'{{"terms": [{TERM}], "k": {"9" * 5000}}}'.encode(),
        f'{{"terms": [{", ".join([TERM] * 65)}]}}'.encode(),
        f'{{"terms": [{TERM}], "terms2": 1}}'.encode(),
        *(
            f'{{"terms": [{TERM}], "{name}": {value}}}'.encode()
            for name, value in [
                ("k", "0"), ("k", "1001"), ("k", "1.5"), ("k", "true"), ("k", '"3"'), ("k", "null"), ("k", "-1"),
                ("offset", "-1"), ("offset", "1e300"), ("overall_penalty", "NaN"), ("overall_penalty", "Infinity"),
                ("overall_penalty", "1e999"), ("min_score", "-Infinity"), ("min_score", '"0"'), ("dedupe", "0"),
                ("dedupe", "1.01"), ("dedupe", "NaN"), ("exact", "1"), ("exclude_queries", "null"), ("where", "5"),
                ("nprobe", "0"),
            ]
        ),
        *(
            f'{{"terms": [{{"key": "{KEYS[20]}", "aspect": "brushwork", "weight": {weight}}}]}}'.encode()
            for weight in ("NaN", "-Infinity", "null", '"1"', "1e400", "true", "9" * 400)
        ),
        b'{"terms": [{"aspect": "brushwork"}]}',
        b'{"terms": [{"key": "a", "picture": "b", "aspect": "brushwork"}]}',
        b'{"terms": [{"key": null, "picture": null, "aspect": "brushwork"}]}',
        b'{"terms": [{"key": "a"}]}',
    ],
    ids=lambda body: repr(body[:60]),
)  # fmt: skip
def test_malformed_queries(client: TestClient, body: bytes) -> None:
    assert refused(client, "/query", body) == "request"


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"terms": [{"key": "nobody", "aspect": "brushwork"}]}, "key"),
        ({"terms": [{"key": "a\0b", "aspect": "brushwork"}]}, "key"),
        ({"terms": [{"key": KEYS[20], "aspect": "lighting"}]}, "aspect"),
        ({"terms": [{"key": KEYS[20], "aspect": "\x1b[31m"}]}, "aspect"),
        ({"terms": [{"key": KEYS[20], "aspect": "x" * 600}]}, "aspect"),
        ({"terms": [{"key": KEYS[20], "aspect": "brushwork", "weight": 0}]}, "query"),
        ({"terms": [{"key": KEYS[20], "aspect": "brushwork", "weight": 1e308}] * 3}, "query"),
        ({"overall_penalty": -1e308}, "query"),
        ({"where": "no such = 1"}, "query"),
        ({"where": 'import("os").system("true")'}, "query"),
        ({"where": "not " * 2000 + "year > 1"}, "query"),
        ({"where": "(" * 4000 + "year > 1"}, "query"),
        ({"where": "year > 'x'"}, "query"),
        ({"where": "\0"}, "query"),
        ({"where": "x" * 20_000}, "request"),
        ({"exact": False}, "query"),
    ],
    ids=str,
)  # fmt: skip
def test_queries_that_cannot_be_answered(client: TestClient, change: dict[str, object], kind: str) -> None:
    assert refused(client, "/query", json.dumps({**json.loads(QUERY), **change})) == kind


def test_huge_text_is_refused_without_being_repeated(client: TestClient) -> None:
    ten_megabytes = "x" * 10_000_000
    for field in ("key", "aspect"):
        term = {"key": KEYS[20], "aspect": "brushwork", field: ten_megabytes}
        assert refused(client, "/query", json.dumps({"terms": [term]})) == "request"
    # As much base64 is no picture, and more than the bound is too much.
    assert refused(client, "/similar", json.dumps({"picture": ten_megabytes, "aspect": "brushwork"})) == "image"
    assert refused(client, "/query", b" " * (18 << 20)) == "size"


def test_many_tiny_values_are_refused_before_they_are_read(client: TestClient) -> None:
    for value in ("[]", "{}", '{"a":1}', '"a":1'):
        body = '{"terms":[' + ",".join([value] * 200_000) + "]}"
        answer = client.post("/query", content=body, headers=JSON)
        assert answer.status_code == 422
        assert "too many values" in answer.json()["error"]["message"]
    faults = ",".join(f'"k{number}":1' for number in range(1000))
    assert refused(client, "/query", f'{{"terms": [{TERM}], {faults}}}') == "request"


def test_the_largest_batch_is_not_too_many_values(client: TestClient) -> None:
    terms = [{"key": KEYS[number % 20], "aspect": "brushwork", "weight": 0.5} for number in range(64)]
    answer = client.post("/query/batch", json={"queries": [terms] * 64, "k": 1})
    assert answer.status_code == 200
    assert len(answer.json()["answers"]) == 64


def test_a_batch_is_bounded_as_a_whole(client: TestClient) -> None:
    queries = [json.loads(QUERY)["terms"]] * 20
    assert refused(client, "/query/batch", json.dumps({"queries": queries, "k": 1000})) == "request"
    assert refused(client, "/query/batch", json.dumps({"queries": queries * 4})) == "request"
    assert client.post("/query/batch", json={"queries": []}).json() == {"answers": []}


def bomb() -> bytes:
    """Return a PNG of 30,000 × 30,000 pixels in a megabyte."""
    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 0, 0, 0, 0)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixels = zlib.compress(bytes(30_001 * 3000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def large_gif() -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (4000, 4000)).save(buffer, "GIF")
    return buffer.getvalue()


BAD_PICTURES = {
    "bomb": bomb(),
    "many pixels, few bytes": large_gif(),
    "just over the bound": png(1001, 1000),
    "truncated": picture(1)[:-200],
    "a head alone": picture(1)[:20],
    "text": b"<html><script>alert(1)</script></html>",
    "svg": b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>',
    "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
    "zeros": bytes(1000),
    "noise": np.random.default_rng(0).bytes(5000),
}


@pytest.mark.parametrize("name", BAD_PICTURES)
def test_bad_pictures(client: TestClient, name: str) -> None:
    data = BAD_PICTURES[name]
    text = base64.b64encode(data).decode()
    assert refused(client, "/similar", json.dumps({"picture": text, "aspect": "brushwork"})) == "image"
    answer = client.post("/similar", data={"aspect": "brushwork"}, files={"picture": ("a.png", data)})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (422, "image")


@pytest.mark.parametrize(
    "text",
    ["", "!", "data:image/png,abc", "data:text/html;base64,", "https://example.org/a.png", "é", "QUJD\n", "=" * 9],
)
def test_pictures_that_are_no_base64(client: TestClient, text: str) -> None:
    assert refused(client, "/similar", json.dumps({"picture": text, "aspect": "brushwork"})) == "image"


def test_a_file_over_the_bound_is_too_large(client: TestClient) -> None:
    data = b"x" * ((12 << 20) + 1)
    answer = client.post("/similar", data={"aspect": "brushwork"}, files={"picture": ("a.png", data)})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (413, "size")


def form(*parts: bytes, boundary: bytes = b"b") -> bytes:
    return b"".join(b"--" + boundary + b"\r\n" + part + b"\r\n" for part in parts) + b"--" + boundary + b"--\r\n"


FILE = b'Content-Disposition: form-data; name="picture"; filename="a.png"\r\n\r\n' + picture(1)
ASPECT = b'Content-Disposition: form-data; name="aspect"\r\n\r\nbrushwork'


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("multipart/form-data", form(FILE, ASPECT)),
        ("multipart/form-data; boundary=other", form(FILE, ASPECT)),
        ("multipart/form-data; boundary=b", b""),
        ("multipart/form-data; boundary=b", form(FILE, ASPECT)[:-30]),
        ("multipart/form-data; boundary=b", form(FILE)),
        ("multipart/form-data; boundary=b", form(ASPECT)),
        ("multipart/form-data; boundary=b", form(FILE, FILE, ASPECT)),
        ("multipart/form-data; boundary=b", form(FILE, ASPECT, ASPECT)),
        ("multipart/form-data; boundary=b", form(FILE.replace(b'"picture"', b'"aspect"'))),
        ("multipart/form-data; boundary=b", form(FILE.replace(b'; filename="a.png"', b""), ASPECT)),
        ("multipart/form-data; boundary=b", form(FILE, ASPECT, ASPECT.replace(b"aspect", b"\xff\xfe"))),
        ("multipart/form-data; boundary=b", form(FILE, b"no header at all")),
        ("multipart/form-data; boundary=b", form(*[ASPECT] * 1000)),
        ("multipart/form-data; boundary=" + "b" * 300, form(FILE, ASPECT, boundary=b"b" * 300)),
        ("application/x-www-form-urlencoded", b"key=a&aspect=brushwork"),
        ("text/plain", QUERY.encode()),
        ("application/jsonp", QUERY.encode()),
        ("", QUERY.encode()),
    ],
    ids=repr,
)
def test_bad_forms_and_types(client: TestClient, content_type: str, body: bytes) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    refused(client, "/similar", body, headers=headers)


@pytest.mark.parametrize(
    "path",
    [
        "/items/../../etc/passwd",
        "/items/%2e%2e%2f%2e%2e%2fetc%2fpasswd2/image",
        "/items/%00",
        "/items/%ff%fe",
        "/items/",
        "/items//image",
        "/items/nobody%0d%0aSet-Cookie:%20a=b/image",
        "/items/x?size=64",
        "/items/image/image?size=0",
        "/items/image/image?size=100000",
        "/items/image/image?size=64%00",
        "/items?offset=-1",
        "/items?limit=99999999999999999999999",
        "/items/" + "x" * 60_000,
        "/nope",
        "/docs",
        "//query",
        "/QUERY",
    ],
)
def test_bad_addresses(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert 400 <= answer.status_code < 500
    assert answer.json()["error"]["message"]
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(("method", "path"), [("PUT", "/query"), ("DELETE", "/items/image"), ("GET", "/similar")])
def test_wrong_methods(client: TestClient, method: str, path: str) -> None:
    answer = client.request(method, path)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (405, "method")
    assert answer.headers["allow"]
