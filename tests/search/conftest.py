"""Small indices that the tests of the search room share."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from search import Searcher
from tests.fixtures.indices import StubEmbedder, write_index

ASPECTS = ("overall", "brushwork", "color palette")
COUNT = 30


def png(seed: int) -> bytes:
    """Return a small picture of random patches."""
    pixels = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).resize((32, 24)).save(buffer, "PNG")
    return buffer.getvalue()


def unit(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the rows at unit length."""
    rows = np.asarray(vectors, np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="session")
def pictures() -> list[bytes]:
    """The pictures of ``gallery``; number 7 is a copy of number 3."""
    made = [png(seed) for seed in range(COUNT)]
    made[7] = made[3]
    return made


@pytest.fixture(scope="session")
def gallery(tmp_path_factory: pytest.TempPathFactory, pictures: list[bytes]) -> Path:
    """An index of ``pictures`` under ``ASPECTS`` made by the stub embedder, in a folder of a non-ASCII name."""
    vectors = StubEmbedder().embed(pictures, ASPECTS)
    return write_index(
        tmp_path_factory.mktemp("gallery") / "Картины – été",
        {aspect: vectors[:, column] for column, aspect in enumerate(ASPECTS)},
        rows_per_part=8,
        pictures=pictures,
        keys=[f"picture {number:02d}" for number in range(COUNT)],
        metadata=[{"artist": f"artist {number % 3}", "year": 1900 + number} for number in range(COUNT)],
        recommended_overall_penalty=0.25,
    )


@pytest.fixture
def searcher(gallery: Path) -> Searcher:
    return Searcher.open(gallery, model=StubEmbedder())
