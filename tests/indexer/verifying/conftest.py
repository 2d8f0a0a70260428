"""An index with everything that an index can have, made once, and copies of it to be damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.fixtures.damaged_indices import write_full_index


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_full_index(tmp_path_factory.mktemp("home"))


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "home"))


@pytest.fixture
def index(home: Path) -> Path:
    return home / "index"
