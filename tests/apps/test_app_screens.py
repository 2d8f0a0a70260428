"""The pages beside Compose in a real browser: each one's main task, on a phone, by keyboard, in dark and light."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.fixtures.app_browser import DESKTOP, PHONE, go, keep, results, watched_page
from tests.fixtures.app_readability import faint_texts, nameless
from train.judgements import load_judgements


def annotate(page: Page, address: str, name: str) -> None:
    """Begin a sitting on the Annotate page."""
    go(page, f"{address}/annotate")
    page.get_by_label("Your name").fill(name)
    page.get_by_label("Your name").press("Enter")
    page.wait_for_selector(".chips .place img")


@pytest.mark.slow
class TestOtherPages:
    def test_senses_leads_to_compose(self, page: Page, address: str, tmp_path: Path) -> None:
        go(page, f"{address}/senses?{urlencode({'picture': 'key:picture 04.png'})}")
        expect(page.locator(".strip")).to_have_count(3)
        strip = page.locator(".strip").first
        strip.hover()
        page.locator(".roll.right").first.click()
        page.wait_for_function("(list) => list.scrollLeft > 100", arg=strip.element_handle())
        expect(page.locator(".roll.left").first).to_be_visible()
        keep(page, tmp_path, "senses")
        strip.locator("li").last.click()
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
        gone = page.locator(".gauges thead th img").last.get_attribute("src")
        page.get_by_role("button", name="Take away").click()
        page.locator(f'.strip li button:has(img[src="{gone}"])').click()
        expect(page.locator(".gauges thead th")).to_have_count(before)
        expect(page.locator(f'.gauges img[src="{gone}"]')).to_have_count(0)

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
        expect(chart).not_to_have_attribute("aria-valuetext", "frame 0")
        page.keyboard.press("Home")
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        expect(chart).to_have_attribute("aria-valuetext", "frame 3")
        page.get_by_role("button", name="Compare with this frame instead").click()
        expect(page.get_by_text("Reference: frame 3")).to_be_visible()
        keep(page, tmp_path, "video")

    def test_annotate_by_keyboard_and_by_dragging(self, page: Page, address: str, votes: Path, tmp_path: Path) -> None:
        annotate(page, address, "Ana")
        for number in range(4):
            page.wait_for_selector(".chips .place")
            expect(page.get_by_text(f"{number} of ")).to_be_visible()
            expect(page.locator(".tray .chip")).to_have_count(3)
            page.evaluate("document.activeElement.blur()")
            if number == 2:  # which has the focus then, and would take Enter
                page.get_by_role("button", name="Ana").click()
                page.keyboard.press("Escape")
                expect(page.get_by_test_id("stPopoverBody")).to_have_count(0)
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

    def test_annotate_by_tab_and_enter(self, page: Page, address: str, votes: Path) -> None:
        annotate(page, address, "Tab")
        page.locator(".tray .chip").last.focus()
        page.keyboard.press("Tab")
        place = page.locator(".place").first
        expect(place).to_be_focused()
        assert place.evaluate("node => getComputedStyle(node).outlineWidth") == "3px"
        for _ in range(3):
            page.keyboard.press("Enter")  # the place keeps the focus; when all are placed, Save has it
        expect(page.locator(".save")).to_be_focused()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # takes back, and does not save
        expect(page.locator(".tray .chip")).to_have_count(1)
        assert not any(vote["session"] == "Tab/1" for vote in saved(votes))


def saved(votes: Path) -> list[dict[str, str]]:
    path = votes / "votes-odd-one-out.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def inside(part: Locator, size: dict[str, int]) -> bool:
    box = part.bounding_box()
    assert box is not None
    right, bottom = box["x"] + box["width"], box["y"] + box["height"]
    return min(box["x"], box["y"]) >= 0 and right <= size["width"] and bottom <= size["height"]


@pytest.mark.slow
class TestOnAPhone:
    @pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
    def test_an_item_to_annotate_is_seen_whole(
        self, browser: Browser, address: str, size: dict[str, int], tmp_path: Path
    ) -> None:
        with watched_page(browser, size) as page:
            annotate(page, address, f"whole {size['width']}")
            for kind, chips in (("Most different of three", 3), ("Closer of two", 2)):
                page.get_by_role("button", name="whole").click()
                page.get_by_role("radio", name=kind).click()
                page.keyboard.press("Escape")
                expect(page.locator(".tray .chip")).to_have_count(chips)
                page.wait_for_timeout(300)  # what stands above has found its height
                for placed in range(chips + 1):
                    parts = [*page.locator(".place").all(), *page.locator(".chip").all(), page.locator(".none")]
                    parts += page.locator(".row button").all()
                    assert len(parts) == 3 + chips + 1 + 3
                    assert all(inside(part, size) for part in parts)
                    if placed < chips:
                        page.locator("button.place").first.click()
                keep(page, tmp_path, f"annotate-{chips}")
                for place in page.locator(".place").all():
                    box = place.bounding_box()
                    assert box is not None
                    assert min(box["width"], box["height"]) > 100

    def test_the_pages_are_in_reach(self, browser: Browser, address: str, tmp_path: Path) -> None:
        with watched_page(browser, PHONE) as page:
            go(page, f"{address}/senses")
            links = page.locator(".st-key-pages a")
            expect(links).to_have_count(6)
            assert all(inside(link, PHONE) for link in links.all())
            links.get_by_text("Index").click()
            page.wait_for_url(re.compile("/index"))
            page.wait_for_selector(".map .spot")
            keep(page, tmp_path, "phone-index")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_can_be_read(browser: Browser, address: str, scheme: str, tmp_path: Path) -> None:
    with watched_page(browser, scheme=scheme) as page:
        for name, shown in (
            ("senses", ".strip img"),
            ("compare", ".gauges tbody tr"),
            ("video", ".scrub svg"),
            ("annotate", ".place img"),
            ("index", ".map .spot"),
        ):
            if name == "annotate":
                annotate(page, address, "reader")
            else:
                go(page, f"{address}/{name}")
            if name == "video":
                page.get_by_role("button", name="Try an example").click()
            page.wait_for_selector(shown)
            expect(page.locator("[data-testid=stStatusWidget]")).to_have_count(0)
            keep(page, tmp_path, name)
            assert (name, faint_texts(page), nameless(page)) == (name, [], [])
