"""A source that is sent to another process gives there what it gives here."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest

from indexer.sources import Indexed, Source, open_source
from indexer.sources.numbered import NumberedSource
from tests.fixtures.built_sources import everything
from tests.fixtures.picture_folders import picture_bytes, write_pictures
from tests.fixtures.picture_tables import (
    write_artgan,
    write_csv,
    write_hub_parquet,
    write_openimages_tables,
    write_tar_gz,
)
from tests.fixtures.tars import write_tar


def folder(path: Path) -> str:
    return f"folder:{write_pictures(path / 'data', 3)}"


def webdataset(path: Path) -> str:
    write_tar(path / "0.tar", [("a.png", picture_bytes(0)), ("a.json", b'{"n": 1}'), ("b.png", b"bad")])
    return f"webdataset:{path}/0.tar"


def packed(path: Path) -> str:
    return f"webdataset:{write_tar_gz(path / '0.tar.gz', [('a.png', picture_bytes(0))])}"


def parquet(path: Path) -> str:
    write_hub_parquet(path / "a.parquet", [picture_bytes(0), None, picture_bytes(1)], labels={"k": (["x"], [0, 0, 0])})
    return f"parquet:{path}/a.parquet"


def csv(path: Path) -> str:
    write_pictures(path / "data", 2)
    write_csv(path / "data/list.csv", [["file", "n"], ["0000.png", 1], ["0001.png", 2], ["gone.png", 3]])
    return f"csv:{path}/data/list.csv?image=file"


def artgan(path: Path) -> str:
    return f"wikiart:{write_artgan(path / 'wikiart')}"


def openimages(path: Path) -> str:
    write_tar_gz(path / "train_0.tar.gz", [(f"train_0/{one}.jpg", picture_bytes(0, format="JPEG")) for one in "ab"])
    write_openimages_tables(path, {"a": "0.0", "b": "90.0"})
    return f"openimages:{path}?split=train"


@pytest.mark.parametrize("make", [folder, webdataset, packed, parquet, csv, artgan, openimages])
def test_it_gives_the_same(tmp_path: Path, make: Callable[[Path], str]) -> None:
    def opened() -> Source:
        source = open_source(data, out=tmp_path / "index", shard_size=2)
        return NumberedSource(source, number=1, prefix="more")

    data = make(tmp_path)
    expected = everything(opened())
    assert len(expected) >= 1
    # Sent when it has been asked for its shards, as a build does, each of which is sent by itself.
    source = opened()
    shards = source.shards(Indexed())
    sent, *sent_shards = (ForkingPickler.loads(ForkingPickler.dumps(one)) for one in (source, *shards))
    assert [sample for shard in sent_shards for sample in sent.read(shard)] == expected
