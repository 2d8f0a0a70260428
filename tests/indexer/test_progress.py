from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tqdm import tqdm
from typer.testing import CliRunner

from indexer.building.build import build
from indexer.building.build_config import BuildConfig, BuildError
from indexer.building.progress import BuildProgress
from indexer.command_line import app
from indexer.directory import IndexDirectory
from indexer.sources import Shard
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.picture_folders import write_pictures
from tests.fixtures.worker_embedders import Noted


@pytest.fixture
def bar() -> Iterator[tqdm]:
    with tqdm(file=io.StringIO()) as shown:
        yield shown


def test_the_total_is_estimated_from_the_bytes_of_all_shards_that_are_read(bar: tqdm) -> None:
    shards = [Shard(name, size=1000) for name in "abcd"]
    progress = BuildProgress(bar, shards)
    for read in (100, 200, 300, 400, 500):
        progress.advance("a", read)
        progress.advance("b", read)
    assert (bar.n, bar.total) == (10, 40)
    progress.advance("a", None)  # of a picture that has no place
    progress.advance("a", 1000, count=4)
    assert (bar.n, bar.total) == (15, 40)
    for shard in shards[:2]:
        progress.end(shard)
    progress.advance("c", 500, count=5)
    assert (bar.n, bar.total) == (20, 32)


def test_what_is_begun_anew_is_counted_once(bar: tqdm) -> None:
    progress = BuildProgress(bar, [Shard("a", samples=4), Shard("b", samples=4)])
    progress.advance("a", None, count=3)
    progress.advance("b", None)
    progress.restart("a")
    assert bar.n == 1
    progress.restart("a")
    progress.advance("a", None, count=4)
    assert bar.n == 5


def test_several_workers_show_what_takes_longest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tpips_model.progress_bar.LINE_SECONDS", 0.1)
    data = write_pictures(tmp_path / "data", 24)
    (tmp_path / "pids").mkdir()
    config = BuildConfig(out=tmp_path / "index", data=str(data), shard_size=12, batch_size=1, workers=2)
    build(config, embedder=Noted(tmp_path / "pids", 0.1))
    shown = capsys.readouterr().err
    assert re.search(r"indexing: .*24/24 .* images/s, longest: files-0000[01] \d s", shown)
    assert len(set(re.findall(r"(\d+)/24 \[", shown))) > 4  # a picture at a time and not a shard


def test_the_command_takes_workers_slices_and_thumbnails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.building.build.load_embedder", stub)
    data = write_pictures(tmp_path / "data", 9)
    command = ["build", "--data", str(data), "--out", str(tmp_path / "index"), "--shard-size", "2", "--no-progress"]
    ran = CliRunner().invoke(app, [*command, "--workers", "2", "--shard-slice", "2/2", "--thumbnails", "64"])
    assert ran.exit_code == 0, ran.output
    manifest = IndexDirectory.open(tmp_path / "index").manifest
    assert (manifest.slice, manifest.thumbnail_side) == ((2, 2), 64)
    assert all(part.has_thumbnails for part in manifest.parts)
    for given in ("2", "2/", "a/b", "1/2/3", "-1/2"):
        ran = CliRunner().invoke(app, [*command, f"--shard-slice={given}"])
        assert f"--shard-slice {given!r} is no slice; give I/N, such as 2/8" in str(ran.exception)


def stub(name: str, **options: object) -> StubEmbedder:
    """What the workers load instead of a model."""
    return StubEmbedder()


def test_thumbnails_of_another_size_are_made_by_their_own_command(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 3)

    def run(thumbnails: int | None) -> None:
        config = BuildConfig(out=tmp_path / "index", data=str(data), progress=False, thumbnails=thumbnails)
        build(config, embedder=StubEmbedder())

    run(64)
    write_pictures(data, 2, first=3)
    run(None)  # new pictures get those that the index has
    index = IndexDirectory.open(tmp_path / "index")
    assert [part.has_thumbnails for part in index.manifest.parts] == [True, True]
    with pytest.raises(
        BuildError, match=r"has thumbnails of 64 pixels; make others with: tpips-index thumbnails .* 128"
    ):
        run(128)
