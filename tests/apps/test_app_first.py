"""The first pictures inside the page that a browser asks for, before any script of the app has run."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

import apps.first_pictures
from apps.app_server import shared_resources
from apps.app_settings import AppSettings
from apps.query_state import PictureRef, QueryRow, QueryState
from apps.screens.compose import SAMPLE
from search import Searcher, Term
from tests.apps.test_app_pages import row
from tests.fixtures.app_client import app_client
from tests.fixtures.app_gallery import picture


@pytest.fixture(scope="module")
def settings(app_gallery: Path) -> AppSettings:
    return AppSettings.of(app_gallery)


@pytest.fixture(scope="module")
def client(settings: AppSettings) -> Iterator[TestClient]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apps.first_pictures, "SECONDS", 30.0)
        with app_client(settings) as opened:
            yield opened


def asked(state: QueryState) -> str:
    return f"/?{urlencode(state.to_params(), doseq=True)}"


def tiles(text: str) -> list[str]:
    """Return the addresses of the pictures on the wall."""
    return [html.unescape(src) for src in re.findall(r'class="tile"><img src="([^"]*)"', text)]


def test_they_are_the_answer_to_the_link(client: TestClient, settings: AppSettings) -> None:
    state = QueryState(rows=(row(3), row(9, "color palette", -0.5)), penalty=0.2, where='style = "Cubism"')
    terms = [Term("picture 03.png", "brushwork"), Term("picture 09.png", "color palette", -0.5)]
    expected = Searcher.open(settings.index).query(terms, 24, 0.2, where='style = "Cubism"')
    answer = client.get(asked(state))
    found = tiles(answer.text)
    assert [int(re.match(r"/picture/(\d+)", src)[1]) for src in found] == [hit.row for hit in expected]  # type: ignore[index]
    assert client.get(found[0]).headers["content-type"] == "image/jpeg"
    assert answer.text.count("</body>") == 1
    assert int(answer.headers["content-length"]) == len(answer.content)


def test_the_start_page_has_its_sample(client: TestClient, settings: AppSettings) -> None:
    view = shared_resources(settings).view
    found = [int(src.split("/")[2].partition("?")[0]) for src in tiles(client.get("/").text)]
    assert found == view.sample_rows(SAMPLE)


def test_the_page_by_its_name_is_the_page(client: TestClient) -> None:
    state = QueryState(rows=(row(3), row(9, "color palette", -0.5)))
    by_name = client.get(f"/compose{asked(state)[1:]}")
    assert by_name.url.path == "/"
    assert by_name.text == client.get(asked(state)).text


def test_a_browser_that_has_the_bare_page_gets_the_pictures_all_the_same(client: TestClient) -> None:
    bare = client.get("/senses")
    assert "tpips-first" not in bare.text
    answer = client.get(asked(QueryState(rows=(row(3),))), headers={"if-none-match": bare.headers["etag"]})
    assert answer.status_code == 200
    assert len(tiles(answer.text)) == 24
    assert answer.headers["cache-control"] == "no-store"
    assert not {"etag", "last-modified"} & set(answer.headers)
    assert bare.text.split("</body>")[0] in answer.text  # nothing else is changed


def test_what_a_link_says_stays_text(client: TestClient) -> None:
    evil = "<script>alert(1)</script>"
    rows = (
        row(3),
        QueryRow(PictureRef("key", evil), evil),
        QueryRow(PictureRef("key", f'" onerror={evil}'), "overall"),
    )
    text = client.get(asked(QueryState(rows=rows))).text
    assert len(tiles(text)) == 24
    assert evil not in text
    assert "onerror" not in text


@pytest.mark.parametrize(
    "state",
    [
        QueryState(rows=(QueryRow(PictureRef("key", "gone"), "brushwork"),)),
        QueryState(rows=(row(3),), where="year >="),
        QueryState(rows=(row(3),), where="year > 3000"),
        QueryState(rows=(row(3, weight=0.0),)),
        QueryState(rows=(row(3, "mood of the sea"),)),
    ],
)
def test_what_cannot_be_answered_gets_the_bare_page(client: TestClient, state: QueryState) -> None:
    answer = client.get(asked(state))
    assert answer.status_code == 200
    assert "tpips-first" not in answer.text
    assert '<div id="root">' in answer.text


def test_a_picture_of_ones_own_is_left_to_the_page(client: TestClient, settings: AppSettings) -> None:
    digest = shared_resources(settings).uploads.add(picture(77), "mine.png")
    state = QueryState(rows=(row(3), QueryRow(PictureRef("upload", digest), "overall")))
    assert "tpips-first" not in client.get(asked(state)).text


def test_nobody_waits_long_for_them(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps.first_pictures, "SECONDS", 0.01)

    def slowly(*_: Any) -> str:
        time.sleep(0.3)
        return "<b>late</b>"

    monkeypatch.setattr(apps.first_pictures, "first_html", slowly)
    answer = client.get(asked(QueryState(rows=(row(3),))))
    assert answer.status_code == 200
    assert "late" not in answer.text


@pytest.mark.parametrize("query", ["image=%ff%fe&aspect=%00", "&&&=", "a=b&" * 2000, "image=key:x&weight=nan"])
def test_odd_links_are_answered(client: TestClient, query: str) -> None:
    assert client.get(f"/?{query}").status_code == 200
