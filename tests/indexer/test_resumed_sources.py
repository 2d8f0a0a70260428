"""A build that is stopped again and again ends with the index of one that never was, whatever it reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from indexer.building.build import build
from indexer.building.build_config import BuildConfig
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.picture_folders import picture_bytes, tree, write_pictures
from tests.fixtures.picture_tables import (
    IMAGE,
    write_artgan,
    write_csv,
    write_openimages_tables,
    write_tar_gz,
)
from tpips_model.aspects import AspectLike
from tpips_model.images import ImageLike

COUNT = 11
# Two pictures of one key, one that is none, and one whose row names nothing.
PICTURES = [b"no picture" if number == 4 else picture_bytes(number, format="JPEG") for number in range(COUNT)]
KEYS = [f"k{number - (number == 7)}" for number in range(COUNT - 1)] + [""]


class Interrupted(StubEmbedder):
    """A model whose program is stopped at every third batch."""

    def __init__(self) -> None:
        self.calls = 0

    def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> NDArray[np.float32]:
        self.calls += 1
        if self.calls == 3:
            raise KeyboardInterrupt
        return super().embed(images, aspects)


def parquet(root: Path) -> str:
    cells = [{"bytes": data, "path": None} for data in PICTURES]
    pq.write_table(pa.table({"image": pa.array(cells, IMAGE), "id": KEYS}), root / "a.parquet", row_group_size=2)
    return f"parquet:{root}/a.parquet?key=id"


def table(root: Path) -> str:
    write_pictures(root, COUNT)
    rows = [[f"{number:04d}.png", key] for number, key in enumerate(KEYS)]
    return f"csv:{write_csv(root / 'a.csv', [['path', 'id'], *rows, ['0000.png']])}?key=id"


def packed_tars(root: Path) -> str:
    for number in range(4):
        write_tar_gz(
            root / f"{number}.tar.gz", [(f"{key}.jpg", data) for key, data in zip(KEYS, PICTURES, strict=True)]
        )
    return f"webdataset:{root}/{{0..3}}.tar.gz"


def artgan(root: Path) -> str:
    return f"wikiart:{write_artgan(root)}"


def openimages(root: Path) -> str:
    names = [f"0{number:x}{'0' * 14}" for number in range(COUNT)]
    write_openimages_tables(root, dict.fromkeys(names[:-1], "90.0"))
    write_tar_gz(root / "train_0.tar.gz", [(f"{name}.jpg", data) for name, data in zip(names, PICTURES, strict=True)])
    return f"openimages:{root}"


@pytest.mark.parametrize("layout", [parquet, table, packed_tars, artgan, openimages])
def test_a_stopped_build_ends_like_any_other(tmp_path: Path, layout: Callable[[Path], str]) -> None:
    (tmp_path / "data").mkdir()
    config = BuildConfig(out=tmp_path / "whole", data=layout(tmp_path / "data"), shard_size=2, progress=False)
    build(config, embedder=StubEmbedder())
    stopped = BuildConfig(out=tmp_path / "stopped", data=config.data, shard_size=2, progress=False)
    stops = 0
    while True:
        try:
            build(stopped, embedder=Interrupted())
            break
        except KeyboardInterrupt:
            stops += 1
    assert stops >= 1
    assert tree(tmp_path / "stopped") == tree(tmp_path / "whole")
