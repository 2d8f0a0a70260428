"""The sources of an index: which of them a build reads, and how a new one is told apart from the others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from indexer.building.build_config import BuildConfig, BuildError
from indexer.building.indexed_keys import IndexedKeys
from indexer.building.shard_slice import slice_shards
from indexer.directory import IndexDirectory
from indexer.manifest import PartRecord, SourceRecord
from indexer.sources import Indexed, Shard, Source, open_source
from indexer.sources.keys import is_prefix, plain_step
from indexer.sources.numbered import NumberedSource

__all__ = ["OpenedSource", "open_index_source", "stored_root"]


@dataclass(frozen=True)
class OpenedSource:
    """A source that a build reads, its number among the index's sources, and all of these, itself included."""

    source: Source
    number: int
    records: tuple[SourceRecord, ...]

    def missing_shards(
        self, before: IndexDirectory | None, parts: Sequence[PartRecord], shard_slice: tuple[int, int] | None
    ) -> list[Shard]:
        """Return what is still to be indexed of the source, or of one slice of it, in order.

        Args:
            before: The index as it was, if there was one.
            parts: The parts that it has now.
            shard_slice: (i, n), or ``None`` for all.

        Raises:
            SourceError: There are no pictures at all.
            BuildError: The slice has no shard.
        """
        names = frozenset(shard for part in parts for shard in part.shards)
        if shard_slice is not None:
            return slice_shards(self.source, shard_slice, names)
        keys = IndexedKeys(before, self.number) if before is not None else frozenset[str]()
        return self.source.shards(Indexed(keys=keys, shards=names))


def open_index_source(config: BuildConfig, out: Path, before: IndexDirectory | None) -> OpenedSource | None:
    """Open what ``config.data`` names: a source of the index, or the first or a further one.

    Returns:
        ``None`` if no data are named.

    Raises:
        SourceError: There are no pictures where ``config.data`` says.
        BuildError: They are of no source of the index and no new one is asked for, or it cannot be recorded.
    """
    if config.data is None:
        return None
    if before is None:
        source = open_source(config.data, out=out, shard_size=config.shard_size)
        return OpenedSource(source, 0, (_record(source, out, ""),))
    records = before.manifest.sources
    for number, (record, root) in enumerate(zip(records, before.data_roots, strict=True)):
        source = open_source(config.data, out=out, shard_size=config.shard_size, root=root)
        if (record.kind, root) == (source.kind, source.root.resolve()):
            return OpenedSource(NumberedSource(source, number=number, prefix=record.prefix), number, records)
        if source.kind == "folder":  # which takes no notice of a root
            _refuse_overlap(record, root, source)
    source = open_source(config.data, out=out, shard_size=config.shard_size)
    if not config.new_source:
        record = records[0]
        raise BuildError(
            f"the index {before.path} was made from {record.kind}:{before.data_root}, and not from "
            f"{source.kind}:{source.root}; give the same --data, add these pictures to it with tpips-index add, say "
            "with tpips-index moved that these are its pictures in another place, or build another index with "
            "another --out"
        )
    prefix = _prefix(config.prefix, source, records)
    added = NumberedSource(source, number=len(records), prefix=prefix)
    return OpenedSource(added, len(records), (*records, _record(source, out, prefix)))


def _refuse_overlap(record: SourceRecord, root: Path, source: Source) -> None:
    inner = source.root.resolve()
    if record.kind == "folder" and (inner.is_relative_to(root) or root.is_relative_to(inner)):
        raise BuildError(
            f"the index was made from folder:{root}, and not from folder:{source.root}, which holds some of the same "
            f"pictures; give --data folder:{root}, or build another index with another --out"
        )


def _prefix(wanted: str | None, source: Source, records: tuple[SourceRecord, ...]) -> str:
    taken = {record.prefix for record in records}
    if wanted is not None:
        if not is_prefix(wanted):
            raise BuildError(f"--prefix {wanted!r} must be a printable name without slashes around it, such as 'more'")
        if wanted in taken:
            raise BuildError(f"--prefix {wanted!r} is that of another source of the index; give another one")
        return wanted
    name = plain_step(source.root.resolve().name) or source.kind
    names = (f"{name}-{number}" if number > 1 else name for number in range(1, len(taken) + 2))
    return next(one for one in names if one not in taken)


def _record(source: Source, out: Path, prefix: str) -> SourceRecord:
    return SourceRecord(source.kind, stored_root(source.root, out), prefix)


def stored_root(folder: Path, out: Path) -> str:
    """Return a data root as an index records it: relative to the index.

    Raises:
        BuildError: Its name is not valid UTF-8.
    """
    try:
        root = Path(os.path.relpath(folder.resolve(), out.resolve()))
    except ValueError:  # on another drive, where no relative path leads
        root = folder.resolve()
    try:
        root.as_posix().encode()
    except UnicodeEncodeError as error:
        raise BuildError(
            f"the folder {root.as_posix()!r} has a name that is not valid UTF-8, which an index cannot record; rename "
            "it and run again"
        ) from error
    return root.as_posix()
