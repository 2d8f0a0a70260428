"""A small index, and what sessions of the app share, for the tests of the app."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from apps.app_settings import AppSettings
from apps.resources import Resources, open_resources
from tests.fixtures.app_gallery import write_app_gallery
from tests.fixtures.indices import StubEmbedder
from tpips_model.loading import BUNDLED_MODELS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="session")
def app_gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index made by the stub embedder, in a folder of a non-ASCII name."""
    return write_app_gallery(tmp_path_factory.mktemp("app") / "Галерея – été")


@pytest.fixture
def app_settings(app_gallery: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AppSettings:
    """The app's settings, also in the environment; the model that made the index can be loaded."""
    monkeypatch.setitem(BUNDLED_MODELS, StubEmbedder.name, "tests.fixtures.indices:StubEmbedder")
    settings = AppSettings.of(app_gallery, votes=tmp_path / "votes")
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)
    return settings


@pytest.fixture
def app_resources(app_settings: AppSettings) -> Resources:
    """What all sessions share, of this test alone."""
    return open_resources(app_settings)


@pytest.fixture(scope="session")
def votes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the app that runs keeps its votes."""
    return tmp_path_factory.mktemp("annotated") / "votes"


@pytest.fixture(scope="session")
def address(app_gallery: Path, votes: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the app runs, started by its own command."""
    from tests.fixtures.app_browser import running_app

    with running_app(app_gallery, votes, tmp_path_factory.mktemp("log") / "app.txt") as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real browser, with a camera that shows a test picture."""
    from tests.fixtures.app_browser import opened_browser

    with opened_browser() as opened:
        yield opened


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A window that must ask nothing of other machines, and whose scripts must not fail."""
    from tests.fixtures.app_browser import watched_page

    with watched_page(browser) as window:
        yield window
