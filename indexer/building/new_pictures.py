"""Indexing the shards that an index lacks, and those again in which something could not be indexed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from indexer.building.build_config import BuildError
from indexer.building.build_work import BuildWork
from indexer.building.commits import Commits
from indexer.building.indexed_keys import item_keys
from indexer.building.ledger_reasons import LedgerReasons
from indexer.building.progress import BuildProgress
from indexer.building.retrying import FailedLines, RetriedSource
from indexer.building.shard_rows import ShardJob, ShardRows
from indexer.directory import IndexDirectory
from indexer.engines import Engine
from indexer.file_checks import read_parquet
from indexer.file_names import items_file
from indexer.manifest import Manifest
from indexer.output_folder import remove_leftovers
from indexer.part import write_part
from indexer.sources import Shard

__all__ = ["index_new_pictures", "retry_failed"]


def index_new_pictures(work: BuildWork, engine: Engine, manifest: Manifest, before: IndexDirectory | None) -> Manifest:
    """Make parts of the shards that are not indexed yet.

    Returns:
        What the index holds then.

    Raises:
        BuildError: No picture could be indexed, and there is no index yet.
        TpipsError: A shard cannot be read, or a part cannot be written; those before it are kept.
    """
    if work.opened is None:
        return manifest
    config, source = work.config, work.opened.source
    shards = work.opened.missing_shards(before, manifest.parts, config.shard_slice)
    job = ShardJob(source, work.aspects, config.batch_size, manifest.thumbnail_side)
    reasons = LedgerReasons()
    first = _next_part(manifest)
    with (
        BuildProgress.over(shards, label="indexing", shown=config.progress and bool(shards)) as progress,
        work.commits(manifest) as commits,
    ):
        taken = item_keys(before, _written(work.out, commits))
        with closing(engine.run(job, shards, taken=taken, progress=progress)) as results:
            for part, (shard, result) in enumerate(zip(shards, results, strict=True), start=first):
                rows = cast(ShardRows, result)
                commits.add(partial(_with_part, work.out, part=part, shard=shard, rows=rows))
                taken.add([item.key for item in rows.items], part)
                reasons.note(rows.errors)
    manifest = commits.manifest
    if before is None and not any(part.rows for part in manifest.parts):
        why = reasons.describe() or f"as a source of kind {source.kind} it has no rows and no pictures"
        raise BuildError(f"no picture of {source.root} could be indexed: {why}. Nothing was written")
    return manifest


def retry_failed(work: BuildWork, engine: Engine, before: IndexDirectory) -> tuple[Manifest, int]:
    """Read again what the ledger says could not be indexed, in shards of the build's source.

    Args:
        work: What the build is about.
        engine: Embeds.
        before: The index, which holds whatever else the source has.

    Returns:
        What the index holds then, and how many keys have left the ledger.

    Raises:
        TpipsError: As ``index_new_pictures``.
    """
    assert work.opened is not None
    failed = FailedLines.of(before, work.opened.number)
    if not failed.keys:
        return before.manifest, 0
    source, config = work.opened.source, work.config
    shards = failed.shards(source, before)
    covered = failed.covered_by(source)
    job = ShardJob(RetriedSource(source), work.aspects, config.batch_size, before.manifest.thumbnail_side)
    part = _next_part(before.manifest)
    seen: set[str] = set()
    left: set[str] = set()
    with (
        BuildProgress.over(shards, label="trying again", shown=config.progress and bool(shards)) as progress,
        work.commits(before.manifest) as commits,
    ):
        taken = item_keys(before, _written(work.out, commits))
        with closing(engine.run(job, shards, taken=taken, progress=progress)) as results:
            for shard, result in zip(shards, results, strict=True):
                rows = cast(ShardRows, result)
                commits.add(partial(failed.settled, work.out, rows=rows))
                rest = failed.unknown(rows)
                if rest.items or rest.errors:
                    commits.add(partial(_with_part, work.out, part=part, shard=shard, rows=rest))
                    taken.add([item.key for item in rest.items], part)
                    part += 1
                seen.update(rows.keys)
                left.update(line.key for line in rows.errors)
        commits.add(partial(failed.dropped, work.out, keys=covered - seen))
    remove_leftovers(work.out, IndexDirectory(work.out, commits.manifest, ()))
    return commits.manifest, len((failed.keys & (seen | covered)) - left)


def _written(out: Path, commits: Commits) -> Callable[[int], list[str]]:
    """Return what gives the keys of a part that this build writes."""

    def keys_of(part: int) -> list[str]:
        commits.finish()
        keys: list[str] = read_parquet(out / items_file(part), ["key"])["key"].to_pylist()
        return keys

    return keys_of


def _next_part(manifest: Manifest) -> int:
    return max((part.id for part in manifest.parts), default=-1) + 1


def _with_part(out: Path, manifest: Manifest, *, part: int, shard: Shard, rows: ShardRows) -> Manifest:
    record = write_part(
        out,
        part,
        shard=shard.name,
        items=rows.items,
        errors=rows.errors,
        vectors=rows.vectors,
        thumbnails=rows.thumbnails,
    )
    return replace(manifest, parts=(*manifest.parts, record))
