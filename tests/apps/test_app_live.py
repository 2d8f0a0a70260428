"""Words that are not indexed on the Compose page."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.first_pictures import first_html
from apps.page_style import plain
from apps.query_state import LOOKS, QueryState
from apps.resources import Resources
from indexer import IndexDirectory, IndexDirectoryError
from search import Searcher
from tests.apps.test_app_pages import compose, link, page, row, shown
from tests.fixtures.indices import StubEmbedder

pytestmark = pytest.mark.usefixtures("app_settings")


def test_words_that_are_not_indexed_are_answered_by_looking(app_gallery: Path) -> None:
    asked = (row(3), row(9, "mood of the sea"))
    session = compose(QueryState(rows=asked))
    terms = [(one.picture.name, one.aspect) for one in asked]
    expected = Searcher.open(app_gallery, model=StubEmbedder()).query(terms, 24, live=LOOKS[0])
    assert shown(session) == expected.keys
    total = len(Searcher.open(app_gallery, model=StubEmbedder()))
    said = f"“mood of the sea” is not indexed: all {total} pictures were looked at"
    assert any(plain(said) in caption.value for caption in session.caption)
    assert any("--aspect 'mood of the sea'" in code.value for code in session.code)


def test_more_pictures_are_looked_at_when_asked_for(app_gallery: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.query_state.LOOKS", (25, 30))
    monkeypatch.setattr("apps.screens.compose_live.LOOKS", (25, 30))
    session = compose(QueryState(rows=(row(3, "mood of the sea"),), look=25))
    total = len(Searcher.open(app_gallery, model=StubEmbedder()))
    assert any(f"the 25 likeliest of {total} pictures" in caption.value for caption in session.caption)
    session.button(key="look-30").click().run()
    assert link(session, "look") == ["30"]
    expected = Searcher.open(app_gallery, model=StubEmbedder()).similar(
        "picture 03.png", "mood of the sea", 24, live=30
    )
    assert shown(session) == expected.keys


def test_words_that_cannot_be_looked_at_leave_their_row_out(app_gallery: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> bytes:
        raise IndexDirectoryError("the disk is away")

    monkeypatch.setattr(IndexDirectory, "item_bytes", away)
    session = compose(QueryState(rows=(row(3), row(9, "mood of the moon"))))
    assert (
        shown(session)
        == Searcher.open(app_gallery, model=StubEmbedder()).query([("picture 03.png", "brushwork")], 24).keys
    )
    assert any("--aspect 'mood of the moon'" in info.value for info in session.info)
    assert any("the disk is away" in info.value for info in session.info)


def test_senses_has_a_row_for_words_of_ones_own(
    app_resources: Resources, app_gallery: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = page("senses", app_resources, picture="key:picture 04.png")
    own = ["calm of the trees", "rhythm of the dots"]
    session.multiselect(key="senses-words").set_value([*own, "Color  PALETTE", "Rhythm of the dots"]).run()
    assert not session.exception
    headings = [one.value for one in session.get("html") if "tpips-sense" in one.value]
    assert len(headings) == len(own) + len(app_resources.aspects)
    for words, heading in zip(own, headings, strict=False):
        assert words in heading
        assert f"“{words}” is not indexed: all 40 pictures were looked at" in heading
        assert any(f"--aspect '{words}'" in code.value for code in session.code)
    assert link(session, "sense") == [*own, "color palette"]
    again = page("senses", app_resources, picture="key:picture 04.png", sense="calm of the trees")
    assert again.multiselect(key="senses-words").value == ["calm of the trees"]
    session.multiselect(key="senses-words").set_value(["Color  PALETTE"]).run()
    assert len([one for one in session.get("html") if "tpips-sense" in one.value]) == len(app_resources.aspects)

    def away(*_: object) -> bytes:
        raise IndexDirectoryError("the disk is away")

    monkeypatch.setattr(IndexDirectory, "item_bytes", away)
    session.multiselect(key="senses-words").set_value(["calm of the moon"]).run()
    assert any("the disk is away" in info.value for info in session.info)
    assert len([one for one in session.get("html") if "tpips-sense" in one.value]) == len(app_resources.aspects)


def test_the_page_itself_does_not_wait_for_pictures_to_be_looked_at(app_resources: Resources) -> None:
    assert first_html(app_resources, QueryState(rows=(row(3),)).to_params())
    assert not first_html(app_resources, QueryState(rows=(row(3, "mood of the stars"),)).to_params())
