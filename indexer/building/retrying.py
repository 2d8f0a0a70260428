"""Reading again what could not be indexed: the ledger's lines become items, or lines with their reason of now."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from indexer.building.indexed_keys import IndexedKeys, live_keys
from indexer.building.shard_rows import ShardRows
from indexer.directory import IndexDirectory
from indexer.manifest import Manifest, PartRecord
from indexer.part import with_ledger
from indexer.removal import REMOVED
from indexer.source_number import numbered, split_number
from indexer.sources import BadSample, Indexed, Sample, Shard, Source

__all__ = ["FailedLines", "RetriedSource"]

# No source has shards of such names, so that one that is read again is never taken for the first reading.
_RETRIED = re.compile(r"retried-(\d+) (.*)", re.DOTALL)
# Runs of files, which bear no file's name; and what follows the name of a table or archive of which a shard is a piece.
_FILE_RUN = re.compile(r"[a-z]+-\d{5,}")
_PIECE = re.compile(r"(\[[^\]]*\])?(~[a-z0-9]+)?$")


class RetriedSource:
    """A source whose shards are read again, for those of their samples that are not indexed.

    Args:
        source: The source.
    """

    def __init__(self, source: Source) -> None:
        self.kind = source.kind
        self.root: Path = source.root
        self._source = source

    def shards(self, indexed: Indexed) -> list[Shard]:
        """Return what ``source`` does."""
        return self._source.shards(indexed)

    def read(self, shard: Shard) -> Iterator[Sample | BadSample]:
        """Give the samples of a shard that ``FailedLines.shards`` gave, without those that need no second reading.

        A repeat of an item's key that no ledger tells of, as one that lay behind a tar's early end, is given.
        """
        first, known, noted = shard.content
        met: set[str] = set()
        for sample in self._source.read(first):
            passed = sample.key in noted or (isinstance(sample, Sample) and sample.key not in met)
            if not (sample.key in known and passed):
                yield sample
            met.add(sample.key)


@dataclass(frozen=True)
class FailedLines:
    """The lines of an index's ledger that say of a picture of one source, or of a whole shard, that it is not indexed.

    Attributes:
        source: The number of the source.
        by_part: The keys of such lines, by the part in whose ledger they are.
        first_names: By part as well, the names under which its shards were read first.
        known: The keys that need no second reading, of items and of removed ones, by the shard they came from.
        noted: Those of them that a ledger tells something of.
    """

    source: int
    by_part: Mapping[int, frozenset[str]]
    first_names: Mapping[int, frozenset[str]]
    known: Mapping[str, frozenset[str]]
    noted: frozenset[str]

    @classmethod
    def of(cls, index: IndexDirectory, source: int) -> FailedLines:
        """Find them.

        Raises:
            IndexDirectoryError: A part cannot be read.
        """
        parts = [part for part in index.manifest.parts if part.source == source]
        ledgers = {part.id: index.part_errors(part) for part in parts if part.errors}
        candidates = {line.key for lines in ledgers.values() for line in lines if line.reason != REMOVED}
        # A line about an item tells what it lacks, or of another picture of its key; neither is a picture to be had.
        indexed = {key for part in parts for key in live_keys(index, part) if key in candidates}
        removed = {line.key for lines in ledgers.values() for line in lines if line.reason == REMOVED}
        keys = {number: frozenset(line.key for line in lines) - indexed - removed for number, lines in ledgers.items()}
        by_part = {number: failed for number, failed in keys.items() if failed}
        first_names = {part.id: frozenset(map(_first_name, part.shards)) for part in parts if part.id in by_part}
        again = frozenset[str]().union(*first_names.values())
        known = dict.fromkeys(again, frozenset(removed))
        for part in parts:
            names = again.intersection(map(_first_name, part.shards))
            own = frozenset(live_keys(index, part)) if names else frozenset()
            known.update({name: known[name] | own for name in names})
        return cls(source, by_part, first_names, known, frozenset(indexed | removed))

    @cached_property
    def keys(self) -> frozenset[str]:
        """The keys of all lines."""
        return frozenset[str]().union(*self.by_part.values())

    def shards(self, source: Source, index: IndexDirectory) -> list[Shard]:
        """Return the shards to be read again, under new names.

        Args:
            source: The source, whose shards bear its number.
            index: The index, which holds whatever else the source has.
        """
        names = [shard for part in index.manifest.parts for shard in part.shards]
        others = frozenset(name for name in names if _first_name(name) not in self.known)
        found = source.shards(Indexed(keys=frozenset(IndexedKeys(index, self.source)) - self.keys, shards=others))
        before = sum(_first_name(name) != name for name in names)
        everything = frozenset[str]().union(*self.known.values())
        shards = []
        for number, first in enumerate(found, start=before + 1):
            name = numbered(self.source, f"retried-{number:05d} {split_number(first.name)[1]}")
            shards.append(
                replace(first, name=name, content=(first, self.known.get(first.name, everything), self.noted))
            )
        return shards

    def covered_by(self, source: Source) -> frozenset[str]:
        """Return the keys of lines about what the source names; those about other files are not its to settle."""
        files = {_file_of(shard.name) for shard in source.shards(Indexed())}
        covered = {
            shard for shard in self.known if _FILE_RUN.fullmatch(split_number(shard)[1]) or _file_of(shard) in files
        }
        return frozenset[str]().union(
            *(keys for part, keys in self.by_part.items() if covered.intersection(self.first_names[part]))
        )

    def unknown(self, rows: ShardRows) -> ShardRows:
        """Return what a new part shall hold of a shard that was read again: items, and lines that no ledger had."""
        return replace(rows, errors=[line for line in rows.errors if line.key not in self.keys])

    def settled(self, out: Path, manifest: Manifest, *, rows: ShardRows) -> Manifest:
        """Rewrite the ledgers by what reading a shard again gave, and return the manifest that names them.

        Raises:
            IndexDirectoryError: A file cannot be written.
        """
        reasons = {line.key: line.reason for line in rows.errors}
        return self._rewritten(out, manifest, mended=frozenset(item.key for item in rows.items), reasons=reasons)

    def dropped(self, out: Path, manifest: Manifest, *, keys: frozenset[str]) -> Manifest:
        """Take lines away, which are about what is no longer there, and return the manifest that names the ledgers."""
        return self._rewritten(out, manifest, mended=keys, reasons={})

    def _rewritten(
        self, out: Path, manifest: Manifest, *, mended: frozenset[str], reasons: Mapping[str, str]
    ) -> Manifest:
        index = IndexDirectory(out, manifest, ())
        parts = tuple(self._part(index, part, mended, reasons) for part in manifest.parts)
        if all(new is old for new, old in zip(parts, manifest.parts, strict=True)):
            return manifest
        return replace(manifest, parts=parts, epoch=manifest.epoch + 1)

    def _part(
        self, index: IndexDirectory, part: PartRecord, mended: frozenset[str], reasons: Mapping[str, str]
    ) -> PartRecord:
        failed = self.by_part.get(part.id, frozenset())
        if failed.isdisjoint(mended) and failed.isdisjoint(reasons):
            return part
        before = index.part_errors(part)
        lines = [
            replace(line, reason=reasons.get(line.key, line.reason)) if line.key in failed else line
            for line in before
            if not (line.key in failed and line.key in mended)
        ]
        if lines == before:
            return part
        return with_ledger(index.path, part, lines)


def _first_name(shard: str) -> str:
    """Return the name under which a shard was read first."""
    source, name = split_number(shard)
    match = _RETRIED.fullmatch(name)
    return numbered(source, match[2]) if match else shard


def _file_of(shard: str) -> str:
    return _PIECE.sub("", shard)
