"""What a build would do, take and cost, told before it begins."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from indexer.engines.protocol import model_record
from indexer.engines.threads import cores
from indexer.manifest import Manifest
from indexer.planning.images import Count, bytes_to_fetch, images_by_shard
from indexer.planning.measure import Measured, Tokens, measured, seconds_to_embed, tokens_of
from indexer.planning.sample import SourceSample, take_sample
from indexer.planning.sizes import ExpectedShard, bytes_by_kind, expected_manifest, part_sizes
from indexer.planning.work import PlanConfig, PlannedWork, planned_model, planned_work
from indexer.sources import Sample, open_source
from indexer.verifying.pictures import sample_rows
from indexer.verifying.stored import StoredIndex
from tpips_model.aspects import Aspect
from tpips_model.counted import counted
from tpips_model.embedder import Embedder
from tpips_model.progress_bar import ProgressBar

__all__ = ["BuildPlan", "Speed", "plan_build"]

_HOUR = 3600.0
_PLACE = ("key", "file", "member", "offset", "size")


@dataclass(frozen=True)
class Speed:
    """How fast one worker is, measured on a sample.

    Attributes:
        read_seconds: What reading a picture takes; painting or fetching it, where that has to be done one by one.
        decode_seconds: What decoding it takes on one thread.
        embed_seconds: What embedding it takes under all aspects; ``None`` if nothing is new.
        again_seconds: What embedding it takes under the added aspects; ``None`` if none is added.
        images_per_s: How many images one worker indexes in a second: while pictures are embedded others are read and
            decoded, but decoded by the same processor cores.
    """

    read_seconds: float
    decode_seconds: float
    embed_seconds: float | None
    again_seconds: float | None
    images_per_s: float


@dataclass(frozen=True)
class BuildPlan:
    """What a build would do.

    Attributes:
        index: The index that is or would be there.
        source: Kind and folder of the pictures; ``None`` if only aspects are added.
        model: The model's name.
        dim: D.
        aspects: The aspects that the index will have.
        indexed: How many images the index has already.
        shards: How many shards are still to be indexed.
        images: How many images they have.
        added_aspects: Aspects under which images that are indexed already are embedded again.
        again: How many images that is.
        sample: How many pictures were looked at.
        refused: How many of them cannot be indexed.
        not_measured: Why no speed was measured; empty if it was.
        tokens: What a Qwen3-VL model sees of each new image, or of each one that is embedded again if none is new.
        total_tokens: Of all of them.
        speed: How fast one worker is.
        workers: Among how many workers the work is shared.
        hours: How long that takes.
        bytes: What the finished index takes on disk, by kind.
        total_bytes: All of it.
        new_bytes: What of it is not there yet.
        free_bytes: What is free on its disk.
        fetched_bytes: What has to be fetched first.
        warnings: What should be seen to first.
    """

    index: str
    source: str | None
    model: str
    dim: int
    aspects: tuple[str, ...]
    indexed: int
    shards: int
    images: Count
    added_aspects: tuple[str, ...]
    again: int
    sample: int
    refused: int
    not_measured: str
    tokens: Tokens | None
    total_tokens: int | None
    speed: Speed | None
    workers: int
    hours: float | None
    bytes: dict[str, int]
    total_bytes: int
    new_bytes: int
    free_bytes: int
    fetched_bytes: Count
    warnings: tuple[str, ...]


def plan_build(config: PlanConfig, *, embedder: Embedder | None = None) -> BuildPlan:
    """Tell what a build would do; nothing is written, and of the pictures only a sample is read.

    The model is loaded, and fetched if it is not there. Of a data set of the hub, the list of its files is kept in the
    cache folder.

    Args:
        config: What is planned.
        embedder: The model; by default ``load_embedder`` loads it.

    Raises:
        SourceError: There are no pictures where ``config.build.data`` says.
        IndexDirectoryError: The index is damaged.
        ModelError: The model is unknown, or is not the index's.
        BuildError: A build would be refused.
    """
    work = planned_work(config)
    embedder = planned_model(work) if embedder is None else embedder
    sample = _source_sample(work)
    found = _measured(work, sample, embedder)
    rows, estimated = images_by_shard(work.shards, sample)
    images = None if None in rows else sum(row or 0 for row in rows)
    tokens = tokens_of(embedder, found.pictures, work.aspects if work.shards else work.added)
    speed = _speed(work, sample, found, embedder)
    seen, refused = len(found.rows.keys), len(found.rows.errors)
    good = 1.0 - refused / max(seen, 1)
    shards = [_expected_shard(one.name, row or 0, good) for one, row in zip(work.shards, rows, strict=True)]
    kinds = bytes_by_kind(_expected(work, shards, found, embedder))
    total = sum(kinds.values())
    new = total - (sum(bytes_by_kind(work.before.manifest).values()) if work.before is not None else 0)
    free = shutil.disk_usage(_existing(config.build.out)).free
    return BuildPlan(
        index=str(config.build.out),
        source=_source(work),
        model=embedder.name,
        dim=embedder.dim,
        aspects=tuple(aspect.text for aspect in work.aspects),
        indexed=work.before.live_count if work.before is not None else 0,
        shards=len(work.shards),
        images=Count(images, estimated),
        added_aspects=tuple(aspect.text for aspect in work.added),
        again=work.again,
        sample=seen,
        refused=refused,
        not_measured=_why_not(work, sample, speed),
        tokens=tokens,
        total_tokens=_all_tokens(work, images, found, embedder),
        speed=speed,
        workers=config.build.workers or 1,
        hours=_hours(work, images, speed),
        bytes=kinds,
        total_bytes=total,
        new_bytes=new,
        free_bytes=free,
        fetched_bytes=bytes_to_fetch(work, sample),
        warnings=tuple(_warnings(work, images, new, free, refused)),
    )


def _source(work: PlannedWork) -> str | None:
    if work.opened is None:
        return None
    kind, root = work.opened.source.kind, work.opened.source.root
    return f"{kind}:{root}" if root.exists() else kind  # what is painted or fetched has no folder yet


def _source_sample(work: PlannedWork) -> SourceSample:
    build = work.config.build
    if work.opened is None or build.data is None or not work.shards:
        return SourceSample()
    # Opened again, so that what reading writes (painted or fetched pictures) goes where it is thrown away.
    with TemporaryDirectory() as folder:
        source = open_source(
            build.data, out=Path(folder), shard_size=build.shard_size, root=work.opened.source.root.resolve()
        )
        return take_sample(build.data, source, work.shards, work.sample)


def _measured(work: PlannedWork, sample: SourceSample, embedder: Embedder) -> Measured:
    samples = list(sample.samples)
    aspects: Sequence[Aspect] = work.aspects
    if not work.shards and work.before is not None and work.added:
        aspects = work.added
        samples = [
            Sample(**{name: row.item[name] for name in _PLACE}, data=work.before.item_bytes(row.item))
            for row in sample_rows(StoredIndex(work.before), work.sample)
        ]
    build = work.config.build
    with ProgressBar(total=len(samples), desc="sample", unit=" images", disable=not build.progress) as bar:
        return measured(
            samples,
            embedder,
            aspects,
            batch_size=build.batch_size,
            thumbnail_side=work.thumbnail_side,
            advance=bar.update,
        )


def _speed(work: PlannedWork, sample: SourceSample, found: Measured, embedder: Embedder) -> Speed | None:
    if found.embed_seconds is None:
        return None
    new, again = (found.embed_seconds, None) if work.shards else (None, found.embed_seconds)
    if work.shards:
        again = seconds_to_embed(embedder, found.pictures, work.added, batch_size=work.config.build.batch_size)
    read = sample.seconds_to_read
    return Speed(
        read, found.decode_seconds, new, again, 1.0 / _seconds(found.embed_seconds, found.decode_seconds, read)
    )


def _seconds(embed: float, decode: float, read: float) -> float:
    """Return what a picture takes: all is done at once, but decoding takes processor cores away from embedding."""
    return max(embed + decode / cores(), read)


def _why_not(work: PlannedWork, sample: SourceSample, speed: Speed | None) -> str:
    if speed is not None or not (work.shards or work.added):
        return ""
    return sample.missing or "no picture of the sample can be decoded"


def _hours(work: PlannedWork, images: int | None, speed: Speed | None) -> float | None:
    if not work.shards and not work.added:
        return 0.0
    if speed is None or images is None:
        return None
    new = _seconds(speed.embed_seconds or 0.0, speed.decode_seconds, speed.read_seconds)
    again = _seconds(speed.again_seconds or 0.0, speed.decode_seconds, 0.0)
    return (images * new + work.again * again) / (work.config.build.workers or 1) / _HOUR


def _all_tokens(work: PlannedWork, images: int | None, found: Measured, embedder: Embedder) -> int | None:
    total = 0.0
    for count, aspects in ((images, work.aspects), (work.again, work.added)):
        tokens = tokens_of(embedder, found.pictures, aspects)
        if tokens is None or count is None:
            return None
        total += count * tokens.per_image
    return round(total)


def _expected(work: PlannedWork, shards: Sequence[ExpectedShard], found: Measured, embedder: Embedder) -> Manifest:
    """Return the manifest that the build would end with."""
    if work.before is not None:
        sources = work.opened.records if work.opened is not None else work.before.manifest.sources
        manifest = replace(work.before.manifest, aspects=work.aspects, sources=sources)
    else:
        assert work.opened is not None
        manifest = Manifest(model_record(embedder), work.opened.records, work.aspects, ())
    return expected_manifest(manifest, shards, part_sizes(found.rows), codes=work.config.build.codes)


def _expected_shard(name: str, images: int, good: float) -> ExpectedShard:
    rows = round(images * good)
    return ExpectedShard(name, rows, images - rows)


def _existing(path: Path) -> Path:
    """Return the nearest folder above a path, or itself, that is there."""
    place = path.expanduser().absolute()
    return next(folder for folder in (place, *place.parents) if folder.is_dir())


def _warnings(work: PlannedWork, images: int | None, new: int, free: int, refused: int) -> list[str]:
    found = []
    if new > free:
        found.append(f"the index needs {new:,} bytes more, and {free:,} are free on its disk: give another --out")
    if images is None:
        found.append("how many images there are cannot be told without reading them; bytes are those of no images")
    if refused:
        found.append(
            f"{counted(refused, 'picture')} of the sample cannot be indexed; a build notes each with its reason"
        )
    if (work.config.build.workers or 1) > 1:
        found.append("the hours hold if every worker has as much of a machine, or a GPU, as this measurement had")
    return found
