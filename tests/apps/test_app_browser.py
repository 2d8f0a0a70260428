"""The app in a real browser: each page's main task, links, ten sessions at once, and that nothing goes elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from apps.query_state import PictureRef, QueryRow, QueryState
from search import Searcher
from tests.fixtures.app_gallery import picture
from train.judgements import load_judgements

ROOT = Path(__file__).resolve().parent.parent.parent
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Generous, since a loaded machine draws slowly; nothing waits longer than it must.
PATIENCE = 120_000
DESKTOP, PHONE = {"width": 1360, "height": 860}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def votes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("annotated") / "votes"


@pytest.fixture(scope="module")
def address(app_gallery: Path, votes: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the app runs, started by its own command."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "tests.fixtures.app_server", str(app_gallery), "--no-browser"]
    log = tmp_path_factory.mktemp("log") / "app.txt"
    with open(log, "wb") as stream:
        running = subprocess.Popen(
            [*command, "--port", str(port), "--votes", str(votes)], cwd=ROOT, stdout=stream, stderr=stream
        )
    try:
        _wait_until_it_answers(f"http://127.0.0.1:{port}/_stcore/health", running, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait(30)


def _wait_until_it_answers(address: str, running: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        assert running.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(log.read_text())


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None and not os.environ.get("CI"):
        pytest.skip("no browser: apt-get install chromium, or set CHROMIUM to one; in CI this is a failure")
    assert chromium, "CI needs a browser: apt-get install chromium, or set CHROMIUM to one"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A window that notes what is asked of other machines, and errors of the page's own scripts."""
    window = browser.new_page(viewport=DESKTOP)  # type: ignore[arg-type]
    window.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    outside: list[str] = []
    faults: list[str] = []
    window.on("request", lambda request: outside.append(request.url) if _is_outside(request.url) else None)
    window.on("pageerror", lambda error: faults.append(str(error)))
    yield window
    window.close()
    assert outside == []
    assert faults == []


def _is_outside(url: str) -> bool:
    return not url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:"))


def go(page: Page, address: str) -> None:
    """Open a page, and wait until the app has taken the place of the first pictures."""
    page.goto(address)
    page.wait_for_function("!document.getElementById('tpips-first')")


def results(page: Page) -> list[str]:
    """Return the keys on the wall, once it is drawn."""
    page.wait_for_function("!document.getElementById('tpips-first')")
    page.wait_for_selector(".wall > li .rank")
    # For a moment the pictures to begin with may stand there still.
    expect(page.locator(".wall > li:not(:has(.rank))")).to_have_count(0)
    keys: list[str] = page.locator(".wall > li").evaluate_all("items => items.map(item => item.dataset.key)")
    return keys


def query(number: int, aspect: str = "brushwork") -> QueryState:
    return QueryState(rows=(QueryRow(PictureRef("key", f"picture {number:02d}.png"), aspect),))


def linked(address: str, state: QueryState) -> str:
    return f"{address}/?{urlencode(state.to_params(), doseq=True)}"


def keep(page: Page, folder: Path, name: str) -> None:
    """Keep a screenshot among the test's artefacts."""
    page.screenshot(path=folder / f"{name}.png")


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
        expect(page.get_by_text("not been looked at for").first).to_be_visible()
        expect(page.get_by_text("no picture").first).to_be_visible()
        page.wait_for_load_state("networkidle")
        assert page.locator("img[src=x], .stAlert img, .stAlert b").count() == 0

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


@pytest.mark.slow
class TestOtherPages:
    def test_senses_leads_to_compose(self, page: Page, address: str, tmp_path: Path) -> None:
        go(page, f"{address}/senses?{urlencode({'picture': 'key:picture 04.png'})}")
        expect(page.locator(".strip")).to_have_count(3 + 1)  # one to choose from
        keep(page, tmp_path, "senses")
        page.locator(".strip").nth(1).locator("li").first.click()
        page.locator("dialog[open]").get_by_role("group", name="Find more").get_by_text("color palette").click()
        page.wait_for_url(re.compile(r"aspect=color"))
        assert len(results(page)) == 24

    def test_compare_takes_a_candidate(self, page: Page, address: str, tmp_path: Path) -> None:
        go(page, f"{address}/compare")
        expect(page.locator(".gauges tbody tr")).to_have_count(3)
        before = page.locator(".gauges thead th").count()
        page.get_by_role("button", name="Add a candidate").click()
        page.locator(".strip li button").last.click()
        expect(page.locator(".gauges thead th")).to_have_count(before + 1)
        page.keyboard.press("Escape")
        keep(page, tmp_path, "compare")

    def test_index_map_shows_neighbours(self, page: Page, address: str, tmp_path: Path) -> None:
        go(page, f"{address}/index")
        page.wait_for_selector(".map .spot")
        page.locator(".map").focus()
        pictures, dots = page.locator(".map .spot:not(.dot)"), page.locator(".map .spot.dot")
        expect(page.locator(".map .spot")).to_have_count(40)
        before = pictures.count()
        for key in ("+", "+", "+", "+", "ArrowLeft", "ArrowDown"):
            page.keyboard.press(key)
        page.wait_for_timeout(100)
        assert (pictures.count() >= before, pictures.count() + dots.count()) == (True, 40)
        page.locator(".map .spot >> visible=true").last.click(force=True)
        expect(page.get_by_text("Nearest to")).to_be_visible()
        expect(page.get_by_text("broken.jpg")).to_be_visible()
        keep(page, tmp_path, "index")

    def test_video_is_scrubbed(self, page: Page, address: str, tmp_path: Path) -> None:
        go(page, f"{address}/video")
        page.get_by_role("button", name="Try an example").click()
        chart = page.get_by_role("slider", name="Frame")
        chart.focus()
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        expect(chart).to_have_attribute("aria-valuetext", "frame 3")
        page.get_by_role("button", name="Compare with this frame instead").click()
        expect(page.get_by_text("Reference: frame 3")).to_be_visible()
        keep(page, tmp_path, "video")

    def test_annotate_by_keyboard_and_by_dragging(self, page: Page, address: str, votes: Path, tmp_path: Path) -> None:
        go(page, f"{address}/annotate")
        page.get_by_label("Your name").fill("Ana")
        page.get_by_label("Your name").press("Enter")
        for number in range(4):
            page.wait_for_selector(".chips .place")
            expect(page.get_by_text(f"{number} of ")).to_be_visible()
            expect(page.locator(".tray .chip")).to_have_count(3)
            page.evaluate("document.activeElement.blur()")
            if number == 1:
                page.locator(".tray .chip").first.drag_to(page.locator(".place").nth(1))
                expect(page.locator(".tray .chip")).to_have_count(2)
            for _ in range(3 - (number == 1)):
                page.keyboard.press("2")
            keep(page, tmp_path, f"annotate-{number}")
            page.keyboard.press("Enter")
        expect(page.get_by_text("4 of ")).to_be_visible()
        read = load_judgements(f"votes:{votes / 'votes-odd-one-out.jsonl'}", allow_refusals=True)
        assert not read.refusals
