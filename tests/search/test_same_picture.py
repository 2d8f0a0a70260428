"""Which items count as a query's own image."""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from search import Searcher
from tests.fixtures.indices import StubEmbedder, write_index
from tests.search.conftest import ASPECTS, COUNT, png
from tpips_model.aspects import AspectLike
from tpips_model.images import ImageLike


@pytest.mark.parametrize("image_of", ["key", "file", "bytes", "pixels", "renamed copy"])
def test_queries_are_left_out(
    searcher: Searcher, gallery: Path, pictures: list[bytes], tmp_path: Path, image_of: str
) -> None:
    """Number 3 and its copy, number 7, are the query, however it is given."""
    shutil.copy(gallery / "gallery" / "000003.png", tmp_path / "another name.png")
    images: dict[str, ImageLike] = {
        "key": "picture 03",
        "file": gallery / "gallery" / "000003.png",
        "bytes": pictures[3],
        "pixels": np.asarray(Image.open(io.BytesIO(pictures[3]))),
        "renamed copy": str(tmp_path / "another name.png"),
    }
    image = images[image_of]
    for weight in (1.0, -1.0):
        left = searcher.query([(image, "brushwork", weight)], k=COUNT)
        assert sorted(hit.row for hit in left) == [row for row in range(COUNT) if row not in (3, 7)]
    first_two = searcher.query([(image, "brushwork")], k=2, exclude_queries=False)
    assert [hit.row for hit in first_two] == [3, 7]
    assert len(searcher.query([(image, "brushwork")], k=5)) == 5


def test_same_bytes_are_left_out_though_the_model_wavers(gallery: Path, pictures: list[bytes]) -> None:
    class Wavering(StubEmbedder):
        def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> NDArray[np.float32]:
            vectors = super().embed(images, aspects) + 0.01
            return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)

    searcher = Searcher.open(gallery, model=Wavering())
    assert not {3, 7} & {hit.row for hit in searcher.query([(pictures[3], "brushwork")], k=COUNT)}
    # Pixels have no bytes to compare.
    pixels = np.asarray(Image.open(io.BytesIO(pictures[3])))
    assert {3, 7} <= {hit.row for hit in searcher.query([(pixels, "brushwork")], k=COUNT)}


def test_a_picture_alike_by_the_aspect_alone_stays(tmp_path: Path) -> None:
    """Equal vectors under the asked aspect are what was searched for; they differ in overall."""
    rng = np.random.default_rng(0)
    overall = rng.standard_normal((6, 8)).astype(np.float32)
    overall /= np.linalg.norm(overall, axis=1, keepdims=True)
    palette = np.repeat(overall[:1], 6, axis=0)
    searcher = Searcher.open(write_index(tmp_path / "index", {"overall": overall, "palette": palette}))
    assert [hit.row for hit in searcher.query([("picture-000002", "palette")])] == [0, 1, 3, 4, 5]


def test_many_copies_of_the_query(tmp_path: Path) -> None:
    embedder = StubEmbedder()
    vectors = embedder.embed([*[png(1)] * 200, *(png(seed) for seed in range(2, 12))], ASPECTS)
    index = write_index(tmp_path / "index", {a: vectors[:, n] for n, a in enumerate(ASPECTS)}, rows_per_part=50)
    searcher = Searcher.open(index, model=embedder)
    assert sorted(hit.row for hit in searcher.query([(png(1), "brushwork")], k=4))[0] >= 200
    assert len(searcher.query([(png(1), "brushwork")], k=50)) == 10
