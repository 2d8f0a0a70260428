"""Writing the parts of a merged index: files that stay as they are, copied or linked, and those that change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from indexer.columns import ITEM_SCHEMA, LedgerLine
from indexer.compacting.files import streamed_file
from indexer.compacting.parts import KeptRows, array_kinds, write_joined_arrays, write_joined_thumbnails
from indexer.directory import IndexDirectory
from indexer.durable import make_folder
from indexer.file_checks import check_file
from indexer.file_names import errors_file, items_file, thumbnails_file
from indexer.manifest import Manifest
from indexer.merging.config import MergeError
from indexer.merging.items import Sifted, with_repeats
from indexer.merging.sources import PlacedSource
from indexer.part import write_items, write_ledger
from indexer.records import FileRecord, IndexDirectoryError, PartRecord
from tpips_model.durable_files import flush_to_disk

__all__ = ["PlannedPart", "copied", "copied_gallery"]

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class PlannedPart:
    """A part of the new index.

    Attributes:
        number: Its id.
        index: The index that it comes from.
        part: The part that it comes from.
        source: Its source.
        shards: The new names of its shards.
        sifted: Which of its items are taken.
        manifest: What the new index's manifest says, without parts.
    """

    number: int
    index: IndexDirectory
    part: PartRecord
    source: PlacedSource
    shards: tuple[str, ...]
    sifted: Sifted
    manifest: Manifest

    @property
    def kept(self) -> KeptRows:
        """The rows that are taken."""
        return KeptRows(self.index, self.part, self.sifted.rows)

    @cached_property
    def _names(self) -> dict[str, str]:
        """The names of all its files, and of what they are made of."""
        part, number = self.part, self.number
        names = {items_file(number): items_file(part.id), errors_file(number): part.ledger_file}
        names |= {kind.name(number): kind.name(part.id) for kind in array_kinds(self.manifest, part)}
        if self.manifest.thumbnail_side is not None and part.has_thumbnails:
            names[thumbnails_file(number)] = thumbnails_file(part.id)
        return names

    @cached_property
    def _changed(self) -> frozenset[str]:
        """The names of those files that do not stay as they are."""
        items, ledger = items_file(self.number), errors_file(self.number)
        changed = set() if self.sifted.rows is None else self._names.keys() - {ledger}
        changed |= set() if self.source.stays else {items, ledger}
        return frozenset(changed | ({ledger} if self.sifted.repeats else set()))

    def is_written(self, found: PartRecord) -> bool:
        """Tell whether a part that is there already is this one."""
        return (
            (found.id, found.shards, found.rows) == (self.number, self.shards, self.kept.count)
            and found.errors == self.part.errors + len(self.sifted.repeats)
            and found.removed == 0
            and found.files.keys() == self._names.keys()
            and all(found.files[n] == self.part.files[old] for n, old in self._names.items() if n not in self._changed)
        )

    def write(self, out: Path, *, link: bool) -> PartRecord:
        """Write the part's files; until a manifest names them, they count for nothing.

        Args:
            out: The new index.
            link: Whether files that stay as they are become hard links instead of copies.

        Raises:
            IndexDirectoryError: A file of the index is damaged, or one cannot be written.
            MergeError: A file cannot be linked.
        """
        number, files = self.number, {}
        for name, old in self._names.items():
            source, record = self.index.path / old, self.part.files[old]
            if name in self._changed:
                check_file(source, record, verify=True)  # so that no damaged one is given a new checksum
            else:
                files[name] = copied(source, out / name, record, link=link)
        if errors_file(number) in self._changed:
            files |= write_ledger(out, number, self._ledger())
        if items_file(number) in self._changed:
            files[items_file(number)] = write_items(out, number, self._items())
        if self.sifted.rows is not None:
            files |= write_joined_arrays(out, number, [self.kept], array_kinds(self.manifest, self.part))
        if thumbnails_file(number) in self._changed:
            files |= write_joined_thumbnails(out, number, [self.kept])
        errors = self.part.errors + len(self.sifted.repeats)
        return PartRecord(number, self.shards, self.kept.count, errors, files)

    def _ledger(self) -> list[LedgerLine]:
        lines = [LedgerLine(self.source.key(line.key), line.reason) for line in self.index.part_errors(self.part)]
        return with_repeats(lines, self.sifted)

    def _items(self) -> pa.Table:
        table = self.kept.items()
        for name, change in (("key", self.source.key), ("file", self.source.name)):
            values = pa.array(map(change, table[name].to_pylist()), pa.string())
            table = table.set_column(table.column_names.index(name), ITEM_SCHEMA.field(name), values)
        if self.sifted.rows is None:
            return table
        # As a build, which makes no column of nothing.
        return table.drop_columns([n for n in table.column_names[len(ITEM_SCHEMA) :] if _is_empty(table[n])])


def _is_empty(column: pa.ChunkedArray) -> bool:
    return column.null_count == len(column)


def copied(source: Path, target: Path, record: FileRecord, *, link: bool = False) -> FileRecord:
    """Copy a file of an index, and check meanwhile that it is the one that the manifest names; or link it.

    Raises:
        IndexDirectoryError: It is damaged, or cannot be written.
        MergeError: It cannot be linked.
    """
    if link and not source.is_symlink():
        make_folder(target.parent)
        try:
            os.link(source, target)
            flush_to_disk(target.parent)
        except OSError as error:
            raise MergeError(
                f"cannot link {target} to {source}: {error.strerror or error}; leave out --link, so that it is copied"
            ) from error
        return record
    with streamed_file(target) as file:
        for block in _blocks(source):
            file.write(block)
        if file.record != record:
            check_file(source, record, verify=True)
            raise IndexDirectoryError(f"index file {source} changed while it was copied; run the same command again")
    return record


def copied_gallery(source: Path, target: Path) -> None:
    """Copy the pictures that an index keeps itself to where another one keeps its own.

    Raises:
        MergeError: Another picture of the same name is there already.
        IndexDirectoryError: A picture cannot be read or written.
    """
    for path in sorted(source.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        place = target / path.relative_to(source)
        if not place.exists():
            with streamed_file(place) as file:
                for block in _blocks(path):
                    file.write(block)
        elif any(one != two for one, two in zip(_padded(path), _padded(place), strict=False)):
            raise MergeError(f"{path} and {place} are different pictures of one name; nothing was put together")


def _padded(path: Path) -> Iterator[bytes]:
    yield from _blocks(path)
    yield b""  # so that one that begins like another, and ends earlier, is another


def _blocks(path: Path) -> Iterator[bytes]:
    try:
        with open(path, "rb") as stream:
            while block := stream.read(_BLOCK_BYTES):
                yield block
    except OSError as error:
        raise IndexDirectoryError(f"cannot read {path}: {error.strerror or error}; see to it and run again") from error
