"""What a plan counts, estimates and reads of each kind of source, and what it leaves alone."""

from __future__ import annotations

import csv
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.building.build import build
from indexer.planning.images import Count
from indexer.sources import Indexed, open_source
from tests.fixtures.built_sources import cache_at
from tests.fixtures.picture_folders import picture_bytes, tree
from tests.fixtures.tars import write_tar
from tests.fixtures.web_server import Page, WebServer, web_server
from tests.indexer.test_hub_source import COMMITS, hub, publish, wikiart
from tests.indexer.test_plan import WideEmbedder, bytes_on_disk, check_against_build, config, planned

__all__ = ["hub"]  # a fixture, which pytest finds by its name


def test_images_of_plain_tars_are_estimated_by_their_bytes(tmp_path: Path) -> None:
    for number in range(8):
        members = [(f"{row}.png", picture_bytes(1000 * number + row, width=90, height=30)) for row in range(40)]
        write_tar(tmp_path / "shards" / f"{number}.tar", members)
    wanted = config(tmp_path / "index", tmp_path / "shards")
    plan = planned(wanted, sample=16)
    assert plan.images.estimated
    assert plan.images.count == pytest.approx(320, rel=0.1)
    assert (plan.shards, plan.sample) == (8, 16)
    whole = planned(config(tmp_path / "index", tmp_path / "shards" / "0.tar"), sample=64)
    assert whole.images == Count(40), "a shard that is read to its end is counted"
    build(wanted, embedder=WideEmbedder())
    assert plan.total_bytes == pytest.approx(sum(bytes_on_disk(tmp_path / "index").values()), rel=0.1)


@pytest.mark.parametrize("ending", ["tar.gz", "tar.xz"])
def test_packed_tars_are_not_unpacked(tmp_path: Path, ending: str) -> None:
    for number in range(2):
        path = tmp_path / "shards" / f"{number}.{ending}"
        path.parent.mkdir(exist_ok=True)
        with tarfile.open(path, f"w:{ending[4:]}") as archive:
            for row in range(30):
                data = picture_bytes(100 * number + row, width=60, height=60)
                info = tarfile.TarInfo(f"{row}.png")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
    before = tree(tmp_path)
    plan = planned(config(tmp_path / "index", tmp_path / "shards"), sample=16)
    assert tree(tmp_path) == before
    assert plan.sample == 16
    assert plan.images.estimated
    assert plan.images.count == pytest.approx(60, rel=0.35)  # compressed streams are read ahead
    assert planned(config(tmp_path / "index", tmp_path / "shards"), sample=64).images == Count(60)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    for _ in cache_at(tmp_path / "cache", monkeypatch):
        with web_server() as server:
            yield server


def test_of_remote_tars_only_the_sample_is_fetched(server: WebServer, tmp_path: Path) -> None:
    members = [(f"{row}.png", picture_bytes(row, width=100, height=100)) for row in range(60)]
    data = write_tar(tmp_path / "x.tar", members).read_bytes()
    for number in range(3):
        server.pages[f"/{number}.tar"] = Page(data)
    wanted = config(tmp_path / "index", f"webdataset:{server.address}/{{0..2}}.tar")
    plan = planned(wanted, sample=6)
    assert not (tmp_path / "cache").exists()
    assert plan.sample == 6
    assert plan.images.estimated
    assert plan.images.count == pytest.approx(180, rel=0.2)
    assert plan.fetched_bytes == Count(3 * len(data), estimated=True)


def test_tables_are_counted_and_what_they_name_is_not_kept(server: WebServer, tmp_path: Path) -> None:
    with open(tmp_path / "list.csv", "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["url", "artist"])
        for number in range(25):
            server.pages[f"/{number}.png"] = Page(picture_bytes(number))
            writer.writerow([f"{server.address}/{number}.png", f"artist {number % 3}"])
    wanted = config(tmp_path / "index", f"csv:{tmp_path / 'list.csv'}?private=yes", shard_size=10)
    before = tree(tmp_path)
    plan = planned(wanted, sample=5)
    assert tree(tmp_path) == before
    assert (plan.images, plan.shards, plan.sample) == (Count(25), 3, 5)
    check_against_build(plan, wanted)


def test_what_the_hub_has_is_counted_and_not_fetched(hub: WebServer, tmp_path: Path) -> None:
    files = wikiart(tmp_path)
    publish(hub, "huggan/wikiart", COMMITS["one"], files)
    first, second = (len(files[name]) for name in sorted(files) if name.startswith("data/"))
    wanted = config(tmp_path / "index", "wikiart")
    plan = planned(wanted)
    assert list((tmp_path / "cache").rglob("*.parquet")) == []
    assert (plan.images, plan.sample, plan.fetched_bytes) == (Count(6), 0, Count(first + second))
    assert (plan.speed, plan.hours) == (None, None)
    assert "are not on this machine yet" in plan.not_measured
    source = open_source("wikiart", out=tmp_path / "index")
    next(iter(source.read(source.shards(Indexed())[0])))
    plan = planned(wanted)
    assert (plan.images, plan.sample, plan.fetched_bytes) == (Count(6), 3, Count(second))
    assert plan.hours is not None
    check_against_build(plan, wanted)


def test_the_demo_is_planned_without_being_painted(tmp_path: Path) -> None:
    plan = planned(config(tmp_path / "index", "demo"), sample=1)
    assert (plan.images, plan.sample, plan.source) == (Count(240), 1, "demo")
    assert list(tmp_path.iterdir()) == []
