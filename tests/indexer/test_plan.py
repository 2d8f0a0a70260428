"""What ``tpips-index plan`` says beforehand is what a build then does."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner, Result

from indexer.building.build import build
from indexer.building.build_config import BuildConfig, BuildError
from indexer.commands.plan import plan as plan_command
from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.part import write_manifest
from indexer.planning.images import Count
from indexer.planning.plan import BuildPlan, plan_build
from indexer.planning.work import PlanConfig
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.picture_folders import picture_bytes, tree, write_pictures
from tpips_model import AspectLike, ImageLike, ModelError

WIDE = 256


class WideEmbedder(StubEmbedder):
    """Vectors as long as those of the bundled model."""

    dim = WIDE
    fingerprint = "wide:1"


def config(out: Path, data: object = None, **options: Any) -> BuildConfig:
    given = {"aspects": ("brushwork",), "shard_size": 50, "progress": False, **options}
    return BuildConfig(out=out, data=None if data is None else str(data), **given)


def planned(build_config: BuildConfig, *, sample: int | None = 32, embedder: Any = None) -> BuildPlan:
    return plan_build(PlanConfig(build_config, sample=sample), embedder=embedder or WideEmbedder())


def bytes_on_disk(index: Path) -> dict[str, int]:
    found = dict.fromkeys(("vectors", "codes", "items", "thumbnails", "other"), 0)
    for path in index.rglob("*"):
        name = path.relative_to(index).as_posix()
        if not path.is_file() or name.startswith(("gallery/", "lock", "readers/")):
            continue
        codes = name.endswith(("codes.npy", "quantizer.safetensors"))
        folder = "codes" if codes else name.partition("/")[0].replace("aspects", "vectors")
        found[folder if folder in found else "other"] += path.stat().st_size
    return found


def check_against_build(plan: BuildPlan, build_config: BuildConfig) -> None:
    """Build, and check counts for being equal and bytes for being within a tenth."""
    before = IndexDirectory.open(build_config.out).manifest if build_config.out.exists() else None
    summary = build(build_config, embedder=WideEmbedder())
    manifest = IndexDirectory.open(build_config.out).manifest
    assert plan.images.count == summary.images + summary.errors
    assert plan.shards == len(manifest.parts) - (len(before.parts) if before is not None else 0)
    assert plan.indexed == (before.live if before is not None else 0)
    found = bytes_on_disk(build_config.out)
    assert plan.total_bytes == pytest.approx(sum(found.values()), rel=0.1)
    for kind, size in found.items():
        assert plan.bytes[kind] == pytest.approx(size, rel=0.1, abs=600), kind


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = write_pictures(tmp_path / "data" / "first", 170)
    write_pictures(tmp_path / "data" / "second", 60, first=500)
    return folder.parent


def test_a_plan_of_a_folder_is_what_a_build_does(pictures: Path, tmp_path: Path) -> None:
    wanted = config(tmp_path / "index", pictures, codes=True)
    before = tree(tmp_path)
    plan = planned(dataclasses.replace(wanted, workers=4))
    assert tree(tmp_path) == before, "nothing is written"
    assert plan.images == Count(230)
    assert (plan.shards, plan.sample, plan.refused, plan.not_measured) == (5, 32, 0, "")
    assert (plan.tokens, plan.total_tokens, plan.fetched_bytes) == (None, None, Count(0))
    assert plan.speed is not None
    assert plan.hours is not None
    one = planned(wanted)
    assert one.speed is not None
    assert one.hours == pytest.approx(230 / one.speed.images_per_s / 3600, rel=1e-6)
    assert any("every worker has as much of a machine" in warning for warning in plan.warnings)
    check_against_build(plan, wanted)


def test_an_index_that_is_there_is_planned_from_where_it_is(pictures: Path, tmp_path: Path) -> None:
    first = config(tmp_path / "index", pictures)
    build(first, embedder=WideEmbedder())
    done = planned(first)
    assert (done.indexed, done.images, done.shards, done.new_bytes, done.hours) == (230, Count(0), 0, 0, 0.0)
    assert done.not_measured == ""
    write_pictures(pictures / "third", 120, first=900)
    more = config(tmp_path / "index", pictures, aspects=("lighting",))
    plan = planned(more)
    assert (plan.indexed, plan.images, plan.added_aspects, plan.again) == (230, Count(120), ("lighting",), 230)
    assert plan.aspects == ("overall", "brushwork", "lighting")
    assert plan.speed is not None
    assert plan.speed.again_seconds is not None
    assert plan.new_bytes > 230 * WIDE * 2 + 120 * 3 * WIDE * 2
    check_against_build(plan, more)


def test_aspects_alone_are_planned_from_the_pictures_that_are_indexed(pictures: Path, tmp_path: Path) -> None:
    build(config(tmp_path / "index", pictures), embedder=WideEmbedder())
    plan = planned(config(tmp_path / "index", aspects=("lighting", "mood")), sample=8)
    assert (plan.source, plan.images, plan.again, plan.sample) == (None, Count(0), 230, 8)
    assert plan.speed is not None
    assert plan.speed.embed_seconds is None
    assert plan.new_bytes == pytest.approx(2 * 230 * WIDE * 2, rel=0.1)


def test_pictures_of_another_source_are_planned_as_they_would_be_added(pictures: Path, tmp_path: Path) -> None:
    build(config(tmp_path / "index", pictures / "first"), embedder=WideEmbedder())
    added = config(tmp_path / "index", pictures / "second", new_source=True)
    plan = planned(added)
    assert (plan.indexed, plan.images, plan.sample) == (170, Count(60), 32)
    check_against_build(plan, added)
    with pytest.raises(BuildError, match="tpips-index add"):
        planned(config(tmp_path / "index", write_pictures(tmp_path / "other", 1)))


def test_thumbnails_are_counted_where_they_are_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(60):
        (folder / f"{number}.png").write_bytes(picture_bytes(number, width=90, height=60))
    wanted = config(tmp_path / "index", folder, thumbnails=48)
    plan = planned(wanted)
    check_against_build(plan, wanted)
    assert plan.bytes["thumbnails"] > 60 * 500
    write_pictures(folder, 10, first=2000)
    again = config(tmp_path / "index", folder)
    check_against_build(planned(again), again)  # new parts get them without being asked


def test_pictures_that_cannot_be_indexed_are_told_and_taken_off_the_bytes(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "data", 40)
    for number in range(0, 40, 2):
        (folder / f"{number:04d}.png").write_text("no picture")
    wanted = config(tmp_path / "index", folder)
    plan = planned(wanted, sample=40)
    assert (plan.images, plan.refused) == (Count(40), 20)
    assert any("20 pictures of the sample cannot be indexed" in warning for warning in plan.warnings)
    check_against_build(plan, wanted)
    for number in range(40):
        (folder / f"{number:04d}.png").write_text("no picture")
    nothing = planned(config(tmp_path / "other", folder))
    assert (nothing.speed, nothing.hours) == (None, None)
    assert nothing.not_measured == "no picture of the sample can be decoded"


def test_a_full_disk_is_told_before_it_is_full(pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 1000

    monkeypatch.setattr("indexer.planning.plan.shutil.disk_usage", lambda place: Usage if place == tmp_path else 1 / 0)
    plan = planned(config(tmp_path / "deep" / "index", pictures))
    assert plan.free_bytes == 1000
    assert "bytes more, and 1,000 are free on its disk: give another --out" in plan.warnings[0]


def test_what_a_build_would_refuse_is_refused(pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.planning.work.load_embedder", lambda name, **_: WideEmbedder())
    build(config(tmp_path / "index", pictures / "second"), embedder=WideEmbedder())
    index = IndexDirectory.open(tmp_path / "index")
    model = dataclasses.replace(index.manifest.model, fingerprint="wide:older")
    write_manifest(index.path, dataclasses.replace(index.manifest, model=model))
    with pytest.raises(ModelError, match=r"a build would be refused: the index .*fingerprint wide:older"):
        plan_build(PlanConfig(config(tmp_path / "index", pictures / "second")))
    with pytest.raises(BuildError, match="sample must be at least 1"):
        PlanConfig(config(tmp_path / "index"), sample=0)
    with pytest.raises(BuildError, match="there is no index at"):
        planned(config(tmp_path / "none"))


def test_tokens_are_those_that_the_model_sees(tmp_path: Path) -> None:
    from tests.fixtures.qwen import make_backbone
    from tpips_model.qwen.backbone_loading import load_backbone
    from tpips_model.qwen.chat import late_prefix
    from tpips_model.qwen.late_fusion import LateFusion

    model = LateFusion(load_backbone(make_backbone(tmp_path / "backbone"), device="cpu", max_pixels=128 * 128))
    folder = tmp_path / "data"
    folder.mkdir()
    for number, size in enumerate([(64, 64), (200, 100), (300, 200)]):
        pixels = np.random.default_rng(number).integers(0, 255, (*size, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    plan = planned(config(tmp_path / "index", folder, aspects=("lighting", "color palette")), embedder=model)
    assert plan.tokens is not None
    grids = [model.backbone.preprocess(folder / f"{number}.png").tokens for number in range(3)]
    assert plan.tokens.vision == pytest.approx(sum(grids) / 3)
    suffixes = model._suffixes(["overall", "lighting", "color palette"])
    assert plan.tokens.text == len(late_prefix(model.backbone.chat, 0)) + sum(map(len, suffixes))
    assert plan.total_tokens == sum(grids) + 3 * plan.tokens.text


def command(*arguments: object) -> Result:
    app = typer.Typer()
    app.command()(plan_command)
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "160"})


def test_the_command_prints_a_table_or_json(pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.planning.work.load_embedder", lambda name, **_: WideEmbedder())
    monkeypatch.chdir(tmp_path)
    before = tree(tmp_path)
    told = command("--data", pictures, "--aspect", "brushwork", "--sample", 6, "--workers", 2, "--thumbnails", 64)
    assert told.exit_code == 0, told.output
    for words in (
        "230 images in 1 shard",
        "stub, 256 dimensions",
        "images/s a worker",
        "with 2 workers",
        "free on its disk",
        "thumbnails",
        "note: the hours hold",
    ):
        assert words in told.stdout, words
    record = json.loads(command("--data", pictures, "--json", "--no-progress", "--sample", 4).stdout)
    assert record["images"] == {"count": 230, "estimated": False}
    assert record["speed"]["images_per_s"] > 0
    assert record["total_bytes"] == sum(record["bytes"].values())
    assert tree(tmp_path) == before


class Counting(WideEmbedder):
    """Counts the pictures that it embeds."""

    def __init__(self) -> None:
        self.embedded = 0

    def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> np.ndarray:
        self.embedded += len(images)
        return super().embed(images, aspects)


@pytest.mark.parametrize(("count", "sample"), [(2, 2), (40, 4), (41, 5), (230, 23), (400, 32)])
def test_to_plan_a_few_pictures_fewer_are_embedded_than_there_are(tmp_path: Path, count: int, sample: int) -> None:
    folder = write_pictures(tmp_path / "data", count)
    embedder = Counting()
    plan = planned(config(tmp_path / "index", folder), sample=None, embedder=embedder)
    assert (plan.images, plan.sample) == (Count(count), sample)
    assert embedder.embedded == 2 * sample, "once to warm up, and once timed"
    assert plan.hours is not None
    assert planned(config(tmp_path / "index", folder), sample=3).sample == min(3, count)


def test_fewer_are_embedded_again_to_plan_an_aspect_of_a_few(pictures: Path, tmp_path: Path) -> None:
    build(config(tmp_path / "index", pictures / "second"), embedder=WideEmbedder())
    plan = planned(config(tmp_path / "index", aspects=("lighting",)), sample=None)
    assert (plan.again, plan.sample) == (60, 6)


def test_an_add_is_planned_from_the_index_that_it_takes(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.planning.work.load_embedder", lambda name, **_: WideEmbedder())
    index = tmp_path / "index"
    build(config(index, pictures / "first", thumbnails=32), embedder=WideEmbedder())
    before = tree(tmp_path)
    record = json.loads(command(index, "--data", pictures / "second", "--json", "--no-progress").stdout)
    assert tree(tmp_path) == before
    assert (record["indexed"], record["images"]["count"], record["sample"]) == (170, 60, 6)
    assert (record["index"], record["aspects"]) == (str(index), ["overall", "brushwork"])
    assert record["bytes"]["thumbnails"] > 0
    added = config(index, pictures / "second", aspects=(), new_source=True, shard_size=256)
    build(added, embedder=WideEmbedder())
    now = IndexDirectory.open(index)
    assert (now.live_count, len(now.manifest.parts)) == (230, 4 + record["shards"])
    assert record["total_bytes"] == pytest.approx(sum(bytes_on_disk(index).values()), rel=0.1)
    told = command(index, "--data", pictures / "second", "--no-progress").stdout
    assert "0 images in 0 shards" in told, "it has been added"


def test_an_add_is_planned_for_an_index_that_is_there(pictures: Path, tmp_path: Path) -> None:
    none = command(tmp_path / "none", "--data", pictures)
    assert isinstance(none.exception, IndexDirectoryError)
    assert "does not exist" in str(none.exception)
    both = command(tmp_path / "none", "--data", pictures, "--out", tmp_path / "other")
    assert both.exit_code == 2
    assert "not both" in both.output
