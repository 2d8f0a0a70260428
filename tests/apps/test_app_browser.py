"""The Compose page in a real browser: its tasks, links, ten sessions at once, and that nothing goes elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from apps.query_state import PictureRef, QueryRow, QueryState
from search import Searcher
from tests.fixtures.app_browser import DESKTOP, PATIENCE, PHONE, go, keep, linked, query, results, watched_page
from tests.fixtures.app_gallery import picture


def test_the_answer_is_there_before_the_app_is(page: Page, address: str, tmp_path: Path, app_gallery: Path) -> None:
    page.route("**/static/js/**", lambda route: route.abort())
    page.goto(linked(address, query(3)))
    first = page.locator("#tpips-first .wall > li img")
    expect(first).to_have_count(24)
    page.wait_for_function(
        "document.querySelector('#tpips-first').shadowRoot.querySelector('.wall img').naturalWidth > 0"
    )
    keep(page, tmp_path, "first")
    sources = [image.get_attribute("src") for image in first.all()]
    page.unroute_all()
    go(page, linked(address, query(3)))
    results(page)
    assert [image.get_attribute("src") for image in page.locator(".wall > li img").all()] == sources


def test_from_the_first_page_to_a_composition(page: Page, address: str, tmp_path: Path) -> None:
    go(page, address)
    page.locator(".wall > li").first.click()
    page.get_by_role("button", name="brushwork").first.click()
    first = results(page)
    assert len(first) == 24
    page.locator(".wall > li").nth(4).click()
    page.locator("dialog").get_by_role("group", name="Add it to the query").get_by_text("color palette").click()
    expect(page.get_by_text("since the last change")).to_be_visible()
    page.wait_for_url(re.compile(r"aspect=brushwork&aspect=color"))
    second = results(page)
    assert second != first
    assert page.locator(".mark.new").count() == len(set(second) - set(first))
    keep(page, tmp_path, "composition")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".wall > li").nth(3)).to_have_attribute("data-key", first[3])
    assert results(page) == first


@pytest.mark.slow
class TestCompose:
    def test_a_link_reproduces_the_query_and_the_back_button_goes_back(
        self, page: Page, address: str, app_gallery: Path
    ) -> None:
        searcher = Searcher.open(app_gallery)
        go(page, linked(address, query(3)))
        assert results(page) == searcher.similar("picture 03.png", "brushwork", 24).keys
        before = page.url
        page.locator(".wall > li").nth(1).click()
        page.locator("dialog").get_by_text("row 1 (brushwork)").click()
        expect(page.get_by_text("since the last change")).to_be_visible()
        page.wait_for_url(lambda url: url != before)
        changed, after = results(page), page.url
        page.go_back()
        expect(page.locator(".wall > li").first).to_have_attribute(
            "data-key", searcher.similar("picture 03.png", "brushwork", 1).keys[0]
        )
        page.goto("about:blank")
        go(page, after)
        assert results(page) == changed

    def test_an_upload_becomes_a_row_and_a_broken_one_is_told(self, page: Page, address: str) -> None:
        go(page, address)
        page.locator("input[type=file]").first.set_input_files(
            {"name": "mine.png", "mimeType": "image/png", "buffer": picture(77)}
        )
        assert len(results(page)) == 24
        assert "image=upload" in page.url
        torn = {"name": "torn.png", "mimeType": "image/png", "buffer": picture(78)[:90]}
        page.locator("[class*=st-key-card-add] input[type=file]").set_input_files(torn)
        expect(page.get_by_text("torn.png could not be opened")).to_be_visible()

    def test_words_that_are_typed_are_looked_at(self, page: Page, address: str, tmp_path: Path) -> None:
        go(page, linked(address, query(3)))
        by_brushwork = results(page)
        page.get_by_role("combobox").first.fill("mood of the sea")
        page.keyboard.press("Enter")
        expect(page.get_by_text("“mood of the sea” is not indexed")).to_be_visible()
        page.wait_for_url(re.compile("aspect=mood"))
        assert results(page) != by_brushwork
        keep(page, tmp_path, "words")

    @pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
    def test_a_picture_by_camera_becomes_a_row(
        self, browser: Browser, address: str, size: dict[str, int], tmp_path: Path
    ) -> None:
        with watched_page(browser, size) as page:
            go(page, address)
            page.get_by_role("button", name="Camera").click()
            page.wait_for_function("document.querySelector('video')?.videoWidth > 0")  # there is something to take
            page.get_by_role("button", name="Take Photo").click()
            assert len(results(page)) == 24
            assert "image=upload" in page.url
            taken = page.locator("[class*=st-key-card-0] img.tpips-picture")
            expect(taken).to_have_attribute("alt", "Picture of row 1: picture by camera")
            page.wait_for_function("document.querySelector('[class*=st-key-card-0] img').naturalWidth > 0")
            # As many pixels as the camera gives, not as few as the page shows of it.
            whole = str(taken.get_attribute("src")).replace("size=360", "size=1280")
            pixels = page.evaluate(
                "(src) => fetch(src).then((r) => r.blob()).then(createImageBitmap).then((b) => b.height)", whole
            )
            assert pixels == 720
            keep(page, tmp_path, "camera")

    def test_a_whole_query_by_keyboard(self, page: Page, address: str) -> None:
        go(page, linked(address, query(3)))
        results(page)
        page.locator(".wall > li button").first.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        second = page.locator("dialog h2").inner_text()
        page.keyboard.press("ArrowRight")
        assert page.locator("dialog h2").inner_text() != second
        page.keyboard.press("Escape")
        expect(page.locator("dialog")).not_to_be_visible()
        slider = page.get_by_role("slider").first
        slider.focus()
        for _ in range(25):
            page.keyboard.press("ArrowLeft")
        page.wait_for_url(re.compile(r"weight=-0\.25"))

    def test_every_picture_has_a_text_and_a_hostile_key_stays_text(self, page: Page, address: str) -> None:
        go(page, linked(address, query(3)))
        results(page)
        assert page.evaluate("[...document.querySelectorAll('img')].filter(i => !i.alt).length") == 0
        # The page's own check is that nothing was asked of elsewhere.
        outside = "![](http://elsewhere.invalid/a.png)"
        hostile = ("<img src=x onerror=alert(1)>", f"` {outside} `", outside)
        state = QueryState(rows=tuple(QueryRow(PictureRef("key", key), "overall") for key in hostile))
        state = state.adding(QueryRow(PictureRef("key", "picture 01.png"), f"<b>bold</b> {outside}"))
        state = state.adding(QueryRow(PictureRef("key", "picture 01.png"), f"` {outside} `"))
        go(page, linked(address, state))
        # The words are no aspects of the index: they are asked for all the same, and named beside the answer.
        results(page)
        expect(page.get_by_text("no picture").first).to_be_visible()
        page.wait_for_load_state("networkidle")
        assert page.locator("img[src=x], [data-testid=stMarkdownContainer] :is(img, b)").count() == 0

    def test_export(self, page: Page, address: str, tmp_path: Path) -> None:
        go(page, linked(address, query(3)))
        keys = results(page)
        page.get_by_role("button", name="Export this page").click()
        for label, check in (
            ("Table (CSV)", lambda data: data.decode().splitlines()[1].split(",")[1] == keys[0]),
            ("Contact sheet (PNG)", lambda data: data.startswith(b"\x89PNG")),
            ("Pictures (ZIP)", lambda data: data.startswith(b"PK")),
        ):
            with page.expect_download() as download:
                page.get_by_role("button", name=label).click()
            assert check(Path(download.value.path()).read_bytes())

    def test_ten_sessions_at_once(self, browser: Browser, address: str, app_gallery: Path) -> None:
        searcher = Searcher.open(app_gallery)
        windows = [browser.new_context().new_page() for _ in range(10)]
        for number, window in enumerate(windows):
            window.set_default_timeout(PATIENCE)
            window.goto(linked(address, query(number)), wait_until="commit")
        for number, window in enumerate(windows):
            assert results(window) == searcher.similar(f"picture {number:02d}.png", "brushwork", 24).keys
            window.context.close()

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
    def test_fits_every_window(
        self, browser: Browser, address: str, scheme: str, size: dict[str, int], tmp_path: Path
    ) -> None:
        context = browser.new_context(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
        window = context.new_page()
        window.set_default_timeout(PATIENCE)
        window.goto(linked(address, query(3).adding(QueryRow(PictureRef("key", "picture 09.png"), "overall"))))
        results(window)
        keep(window, tmp_path, "compose")
        beyond = "[document.documentElement, document.querySelector('.stMain')].map(e => e.scrollWidth - e.clientWidth)"
        assert max(window.evaluate(beyond)) <= 1
        dark = window.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", dark)[:3])) < 200) == (scheme == "dark")
        context.close()
