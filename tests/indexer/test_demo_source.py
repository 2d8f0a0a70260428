"""The demo source: the same files whatever happened before, and metadata that tells what they show."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import pytest
from PIL import Image

from indexer.gallery import FACTORS, FORMATS, gallery
from indexer.manifest import IndexDirectoryError
from indexer.sources.demo import DemoSource
from indexer.sources.registry import open_source
from indexer.sources.source import BadSample, Indexed, Sample, SourceError
from tests.fixtures.rights import as_nobody


def samples_of(source: DemoSource, indexed: Indexed = Indexed()) -> list[Sample]:  # noqa: B008
    samples = [sample for shard in source.shards(indexed) for sample in source.read(shard)]
    assert all(isinstance(sample, Sample) for sample in samples)
    return samples  # type: ignore[return-value]


def files_of(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.iterdir()}


def test_samples_are_the_files_and_the_factors(tmp_path: Path) -> None:
    samples = samples_of(DemoSource(tmp_path / "gallery", count=6))
    assert files_of(tmp_path / "gallery") == {sample.file: sample.data for sample in samples}
    for number, (sample, painting) in enumerate(zip(samples, gallery(count=6), strict=True)):
        assert sample.metadata == {factor: getattr(painting, factor) for factor in FACTORS}
        assert sample.key == sample.file
        assert sample.key.startswith(f"{number:04d}-{painting.subject.replace(' ', '-')}-{painting.palette}-")
        assert (sample.member, sample.offset, sample.size) == (None, None, len(sample.data))
        with Image.open(io.BytesIO(sample.data)) as image:
            assert image.size == FORMATS[painting.format]
            assert not image.getexif()


def test_the_same_gallery_has_the_same_bytes(tmp_path: Path) -> None:
    one, two = (samples_of(DemoSource(tmp_path / name, count=5, seed=2)) for name in "ab")
    assert one == two
    assert samples_of(DemoSource(tmp_path / "c", count=5, seed=3)) != one


@pytest.mark.parametrize("shard_size", [1, 4, 11, 12])
def test_shard_size(tmp_path: Path, shard_size: int) -> None:
    shards = DemoSource(tmp_path, count=11, shard_size=shard_size).shards(Indexed())
    assert [shard.samples for shard in shards] == [min(shard_size, 11 - at) for at in range(0, 11, shard_size)]
    assert len({shard.name for shard in shards}) == len(shards)
    keys = [key for shard in shards for key, _ in shard.content]
    assert keys == [key for shard in DemoSource(tmp_path, count=11).shards(Indexed()) for key, _ in shard.content]


def test_nothing_is_painted_before_it_is_read(tmp_path: Path) -> None:
    source = DemoSource(tmp_path / "gallery", count=4)
    source.shards(Indexed())
    assert not (tmp_path / "gallery").exists()
    next(iter(source.read(source.shards(Indexed())[0])))
    assert len(files_of(tmp_path / "gallery")) == 1


def test_indexed_pictures_are_passed_over_and_names_stay_apart(tmp_path: Path) -> None:
    source = DemoSource(tmp_path, count=6, shard_size=2)
    first, *others = source.shards(Indexed())
    done = Indexed(keys=frozenset(key for key, _ in first.content), shards=frozenset({first.name}))
    assert source.shards(done) == others
    resized = DemoSource(tmp_path, count=6, shard_size=4).shards(done)
    assert [shard.samples for shard in resized] == [4]
    assert first.name not in {shard.name for shard in resized}


def test_an_interrupted_painter_goes_on(tmp_path: Path) -> None:
    whole = samples_of(DemoSource(tmp_path / "whole", count=6))
    half = DemoSource(tmp_path / "half", count=6)
    reading = half.read(half.shards(Indexed())[0])
    for _ in range(3):
        next(reading)
    reading.close()
    kept = tmp_path / "half" / whole[0].file
    (tmp_path / "half" / f"{whole[3].file}.tmp").write_bytes(whole[3].data[:100])  # killed while writing
    before = kept.stat()
    assert samples_of(half) == whole
    assert files_of(tmp_path / "half") == files_of(tmp_path / "whole")
    assert (kept.stat().st_mtime_ns, kept.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def test_an_unreadable_picture_is_a_line_for_the_ledger(tmp_path: Path) -> None:
    source = DemoSource(tmp_path, count=3)
    key = source.shards(Indexed())[0].content[1][0]
    (tmp_path / key).touch()
    found = [one for shard in source.shards(Indexed()) for one in source.read(shard)]
    assert [isinstance(one, BadSample) or not one.data for one in found] == [False, True, False]
    assert found[1].key == key


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    source = DemoSource(tmp_path / "taken", count=1)
    with pytest.raises(IndexDirectoryError, match="taken"):
        samples_of(source)


def test_a_folder_that_cannot_be_written() -> None:
    # Not in tmp_path, whose parents nobody but their owner may enter.
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o555)
        with as_nobody(), pytest.raises(IndexDirectoryError, match="must be writable"):
            samples_of(DemoSource(Path(name) / "gallery", count=1))


def test_no_pictures_asked_for(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="at least one"):
        DemoSource(tmp_path, count=0)


def test_the_registry_hands_on_folder_and_shard_size(tmp_path: Path) -> None:
    source = open_source("demo", out=tmp_path, shard_size=100)
    assert source.root == (tmp_path / "gallery").absolute()
    assert [shard.samples for shard in source.shards(Indexed())] == [100, 100, 40]
