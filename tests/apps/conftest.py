"""A small index, and what sessions of the app share, for the tests of the app."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.app_settings import AppSettings
from apps.resources import Resources, open_resources
from tests.fixtures.app_gallery import write_app_gallery
from tests.fixtures.indices import StubEmbedder
from tpips_model.loading import BUNDLED_MODELS


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
