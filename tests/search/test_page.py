from __future__ import annotations

import io
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from indexer.commands.thumbnails import add_thumbnails
from indexer.file_names import thumbnails_file
from indexer.output_folder import output_folder
from search import Hits, Searcher
from search.page import render_fragment, render_page, write_page
from tests.fixtures.indices import StubEmbedder, write_index
from tests.search.conftest import png
from tpips_model.errors import TpipsError

EVIL = """<script>alert("1")</script>' onerror=x & {{ 7*7 }}"""
VOID = {"meta", "img", "br", "link"}


class Elements(HTMLParser):
    """Collects elements, and checks that they are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


@pytest.fixture
def hits(searcher: Searcher) -> Hits:
    return searcher.query([("picture 01", "brushwork"), (png(50), "color palette", -0.5)], k=6, overall_penalty=0.3)


def test_page_is_whole_and_needs_nothing_else(hits: Hits) -> None:
    page = render_page(hits)
    elements = Elements(page)
    images = elements.of("img")
    assert len(images) == 6 + 2
    for image in images:
        assert (image["src"] or "").startswith("data:image/jpeg;base64,")
        assert image["alt"]
    assert [image["alt"] for image in images[:3]] == [
        "Query picture 1: picture 01",
        f"Query picture 2: {hits.terms[1].label}",
        f"Result 1: {hits[0].key}",
    ]
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in elements.found}
    assert not re.search(r"https?://|@import|url\(", page)
    text = " ".join(elements.text)
    for hit in hits:
        assert hit.key in text
        assert f"{hit.score:.3f}".replace("-", "−") in text
    assert "unlike this by" in text


def test_thumbnails_are_small(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.effect_noise((2000, 1000), 50).convert("RGB").save(buffer, "JPEG", quality=95)
    vectors = np.eye(2, 4, dtype=np.float32)
    index = write_index(tmp_path / "index", {"overall": vectors}, pictures=[buffer.getvalue()] * 2)
    page = render_page(Searcher.open(index).query([("picture-000000", "overall")], exclude_queries=False))
    assert len(page) < len(buffer.getvalue())
    assert {(image["width"], image["height"]) for image in Elements(page).of("img")} == {("440", "220")}


def test_bars_show_the_contributions(hits: Hits) -> None:
    styles = [attributes["style"] or "" for attributes in Elements(render_page(hits)).of("i")]
    bars = [tuple(map(float, re.findall(r"[\d.]+(?=%)", style))) for style in styles]
    values = [value for hit in hits for value in hit.contributions]
    assert len(bars) == len(values) == 12
    low, high = min(0.0, *values), max(0.0, *values)
    for (left, width), value in zip(bars, values, strict=True):
        assert left == pytest.approx(100 * (min(value, 0) - low) / (high - low), abs=0.01)
        assert width == pytest.approx(100 * abs(value) / (high - low), abs=0.01)


def test_what_users_wrote_is_escaped(tmp_path: Path) -> None:
    embedder = StubEmbedder()
    pictures = [png(1), png(2)]
    vectors = embedder.embed(pictures, ["overall", EVIL])
    index = write_index(
        tmp_path / "index",
        {"overall": vectors[:, 0], EVIL: vectors[:, 1]},
        keys=[EVIL, f"{EVIL}.jpg"],
        metadata=[{EVIL: EVIL}, {EVIL: EVIL}],
        pictures=pictures,
    )
    hits = Searcher.open(index).query([(EVIL, EVIL)], exclude_queries=False)
    for html in (render_page(hits, title=EVIL), render_fragment(hits)):
        elements = Elements(html)
        assert elements.of("script") == []
        assert not any("onerror" in attributes for _, attributes in elements.found)
        assert EVIL in "".join(elements.text)
        assert "49" not in elements.text


def test_vanished_picture_leaves_a_place(tmp_path: Path) -> None:
    vectors = np.eye(3, dtype=np.float32)
    hits = Searcher.open(write_index(tmp_path / "index", {"overall": vectors})).query([("picture-000000", "overall")])
    elements = Elements(render_page(hits))
    assert elements.of("img") == []
    faults = [attributes for attributes in elements.of("span") if attributes.get("class") == "fault"]
    assert len(faults) == 3
    assert "000001.png" in (faults[1]["title"] or "")


def test_thumbnails_of_the_index_stand_in_for_pictures_that_are_away(tmp_path: Path) -> None:
    pictures = [png(number) for number in range(4)]
    index = write_index(tmp_path / "index", {"overall": np.eye(4, dtype=np.float32)}, pictures=pictures)
    with output_folder(index) as opened:
        assert opened is not None
        add_thumbnails(opened, 32, progress=False)
    hits = Searcher.open(index).query([("picture-000000", "overall")])
    assert "cannot be read where" not in summary(hits)
    (index / "gallery").rename(tmp_path / "elsewhere")
    away = Searcher.open(index).query([("picture-000000", "overall")])
    elements = Elements(render_page(away))
    assert [image["alt"] for image in elements.of("img")][1:] == [f"Result {hit.rank}: {hit.key}" for hit in away]
    assert "cannot be read where" not in summary(away)
    (index / thumbnails_file(0)).write_bytes(b"\0" * (index / thumbnails_file(0)).stat().st_size)
    assert "3 pictures cannot be read where they were when indexed" in summary(away)


def test_no_results(hits: Hits) -> None:
    assert "No results among 30 pictures." in " ".join(Elements(render_page(hits[:0])).text)


def summary(hits: Hits) -> str:
    return " ".join(" ".join(Elements(render_fragment(hits)).text).split())


def test_summary_tells_what_was_chosen_from(searcher: Searcher) -> None:
    term = [("picture 01", "brushwork")]
    assert "The best 4 of 30 pictures. Pictures that" in summary(searcher.query(term, 4, dedupe=0.9))
    second = searcher.query(term, 4, where="year >= 1910 and width < 9", offset=4, min_score=-0.5)
    assert (
        "Results 5 to 8 of 20 pictures where year >= 1910 and width < 9 (30 in all), with a score of at least −0.5."
        in summary(second)
    )
    images = Elements(render_page(second)).of("img")
    assert [image["alt"] for image in images[1:]] == [f"Result {hit.rank}: {hit.key}" for hit in second]
    assert "No further results among 30 pictures." in summary(searcher.query(term, offset=30))
    assert "No results among 0 pictures where year < 0 (30 in all)." in summary(searcher.query(term, where="year < 0"))


def test_near_duplicates_are_named(searcher: Searcher) -> None:
    hits = searcher.query([("picture 01", "brushwork")], k=30, dedupe=1.0)
    (both,) = [hit for hit in hits if hit.row in (3, 7)]
    assert both.duplicates == ("picture 07",)
    assert f"{both.key}" in summary(hits)
    assert "and 1 alike picture 07" in summary(hits)


def test_fragment_is_what_a_notebook_shows(hits: Hits) -> None:
    fragment = hits._repr_html_()
    assert fragment == render_fragment(hits)
    assert {"html", "body", "head"}.isdisjoint({tag for tag, _ in Elements(fragment).found})


def test_write_page(hits: Hits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "é.html"
    write_page(hits, target)
    assert target.read_text(encoding="utf-8") == render_page(hits)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = target.read_bytes()
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(TpipsError, match=r"cannot write the page .*: No space left on device; give a file"):
        write_page(hits[:1], target)
    assert target.read_bytes() == before
    assert os.listdir(tmp_path) == ["é.html"]


def test_write_page_without_a_folder(hits: Hits, tmp_path: Path) -> None:
    with pytest.raises(TpipsError, match="No such file or directory; give a file in an existing"):
        write_page(hits, tmp_path / "no" / "page.html")


@pytest.mark.parametrize("name", ["", ".", "/", "file/page.html", "loop/page.html", "nul\0.html", "x" * 300])
def test_write_page_where_no_file_can_be(
    hits: Hits, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(TpipsError, match=r"cannot write the page .*; give a file in an existing"):
        write_page(hits[:1], name)
    assert sorted(os.listdir(tmp_path)) == ["file", "loop"]


def test_write_page_with_a_long_name(hits: Hits, tmp_path: Path) -> None:
    write_page(hits[:1], tmp_path / ("x" * 250))
    assert os.listdir(tmp_path) == ["x" * 250]
