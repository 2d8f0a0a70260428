"""Compacting an index: many small parts become few large ones, without the items that were removed."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from indexer.columns import concat_items
from indexer.compacting.parts import (
    KeptRows,
    array_kinds,
    items_schema,
    write_joined_arrays,
    write_joined_items,
    write_joined_ledgers,
    write_joined_thumbnails,
)
from indexer.directory import IndexDirectory
from indexer.durable import write_failure
from indexer.file_checks import removed_rows
from indexer.file_names import items_file, thumbnails_file
from indexer.index_changes import recorded
from indexer.manifest import IndexDirectoryError, Manifest, PartRecord
from indexer.output_folder import remove_leftovers
from indexer.readers import older_readers_gone
from indexer.stored_rows import PARQUET_FAULTS, open_parquet
from tpips_model.progress_bar import ProgressBar

__all__ = ["Compaction", "compact_parts", "part_groups"]

# What a file takes beyond its rows, and the manifest.
_SLACK_BYTES = 1 << 20

_Group = tuple[PartRecord, ...]


@dataclass(frozen=True)
class Compaction:
    """What one compaction did.

    Attributes:
        index: The index as it is now.
        replaced: How many parts were replaced.
        written: By how many.
        dropped: How many removed items are no longer stored.
        in_use: Whether files that are superseded are still there, for those who read an older version.
    """

    index: IndexDirectory
    replaced: int
    written: int
    dropped: int
    in_use: bool


def part_groups(manifest: Manifest, rows: int) -> list[_Group]:
    """Return the parts in groups that become, or are, one part each.

    Neighbours of one source that have the same kinds of files are put together as long as they have no more than
    ``rows`` items, removed ones left out. Groups of what is compacted are single parts.
    """
    groups: list[_Group] = []
    for part in manifest.parts:
        if groups and _belongs(manifest, groups[-1], part, rows):
            groups[-1] += (part,)
        else:
            groups.append((part,))
    return groups


def _belongs(manifest: Manifest, group: _Group, part: PartRecord, rows: int) -> bool:
    alike = _kinds(manifest, group[0]) == _kinds(manifest, part)
    return alike and sum(one.live for one in group) + part.live <= rows


def _kinds(manifest: Manifest, part: PartRecord) -> tuple[object, ...]:
    # A part that lacks an aspect has no vectors to be put among those of one that has it.
    return part.source, part.has_thumbnails, *(kind.name(0) for kind in array_kinds(manifest, part))


def compact_parts(index: IndexDirectory, *, rows: int, progress: bool = True) -> Compaction:
    """Put small parts together and drop removed items, one group of parts after the other.

    The caller holds the index's lock. What is finished is kept whenever it is stopped, and the finished index does not
    depend on how often it was. Row order, keys, scores and ledgers stay as they are; so do the names of the shards,
    which keep a build from reading them again.

    Args:
        index: The index.
        rows: How many items a part shall have at most; larger parts stay as they are.
        progress: Whether a progress bar is shown on standard error.

    Raises:
        IndexDirectoryError: A file is damaged or cannot be written, or the disk has no room for the next part.
    """
    groups = [group for group in part_groups(index.manifest, rows) if len(group) > 1 or group[0].removed]
    everything = _all_columns(index) if groups else None
    with ProgressBar(
        total=sum(part.live for group in groups for part in group),
        desc="compacting",
        unit=" images",
        disable=not progress,
    ) as bar:
        for group in groups:
            assert everything is not None
            index = _compacted(index, group, everything)
            remove_leftovers(index.path, index)
            bar.update(sum(part.live for part in group))
    return Compaction(
        index,
        replaced=sum(map(len, groups)),
        written=len(groups),
        dropped=sum(part.removed for group in groups for part in group),
        in_use=not older_readers_gone(index.path, index.manifest.epoch),
    )


def _compacted(index: IndexDirectory, group: _Group, everything: pa.Schema) -> IndexDirectory:
    _check_room(index, group)
    kept = [_kept(index, part) for part in group]
    for one in kept:
        one.check()
    manifest, out = index.manifest, index.path
    number = max(part.id for part in manifest.parts) + 1
    files = {
        **write_joined_items(out, number, kept, items_schema([_columns(index, part) for part in group], everything)),
        **write_joined_ledgers(out, number, kept),
        **write_joined_arrays(out, number, kept, array_kinds(manifest, group[0])),
    }
    if group[0].has_thumbnails:
        files |= write_joined_thumbnails(out, number, kept)
    new = PartRecord(
        id=number,
        shards=tuple(shard for part in group for shard in part.shards),
        rows=sum(part.live for part in group),
        errors=sum(part.errors for part in group),
        files=files,
    )
    place = manifest.parts.index(group[0])
    parts = (*manifest.parts[:place], new, *manifest.parts[place + len(group) :])
    return recorded(index, replace(manifest, parts=parts))


def _kept(index: IndexDirectory, part: PartRecord) -> KeptRows:
    if part.removal_file is None:
        return KeptRows(index, part, None)
    removed = removed_rows(index.path, part)
    return KeptRows(index, part, np.delete(np.arange(part.rows, dtype=np.int64), removed))


def _columns(index: IndexDirectory, part: PartRecord) -> pa.Schema:
    path = index.path / items_file(part.id)
    try:
        with open_parquet(path) as file:
            return file.schema_arrow
    except PARQUET_FAULTS as error:
        raise IndexDirectoryError(f"index file {path} is damaged ({error}); build the index anew") from error


def _all_columns(index: IndexDirectory) -> pa.Schema:
    return concat_items([_columns(index, part).empty_table() for part in index.manifest.parts]).schema


def _check_room(index: IndexDirectory, group: Sequence[PartRecord]) -> None:
    needed = _SLACK_BYTES
    for part in group:
        needed += part.live * sum(kind.row_bytes for kind in array_kinds(index.manifest, part))
        needed += part.files[part.ledger_file].bytes
        rowwise = [items_file(part.id), *([thumbnails_file(part.id)] if part.has_thumbnails else [])]
        needed += sum(math.ceil(part.files[name].bytes * part.live / max(part.rows, 1)) for name in rowwise)
    try:
        free = shutil.disk_usage(index.path).free
    except OSError as error:
        raise write_failure(index.path, error) from error
    if free < needed:
        raise IndexDirectoryError(
            f"the next part of {index.path} takes {needed:,} bytes beside the old ones, and its disk has {free:,} "
            "free; free some space, or give a smaller --rows, and run the same command again; what is finished is kept"
        )
