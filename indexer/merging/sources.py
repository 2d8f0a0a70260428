"""Where the sources of merged indices go: which are one, what numbers they get, and what their keys begin with."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from indexer.directory import IndexDirectory
from indexer.merging.config import MergeError
from indexer.output_folder import GALLERY_FOLDER
from indexer.records import SourceRecord
from indexer.source_number import numbered, split_number
from indexer.sources.keys import is_prefix, plain_step

__all__ = ["PlacedSource", "Sources", "has_gallery", "place_slices", "place_sources"]


@dataclass(frozen=True)
class PlacedSource:
    """A source of one of the indices, and what becomes of its names.

    Attributes:
        old: What the index calls it: its number and its prefix.
        number: Its number in the new index.
        prefix: Its prefix in the new index.
    """

    old: tuple[int, str]
    number: int
    prefix: str

    @property
    def stays(self) -> bool:
        """Whether all names stay as they are."""
        return self.old == (self.number, self.prefix)

    def key(self, key: str) -> str:
        """Return the new key of an item or a ledger line."""
        rest = key.removeprefix(f"{self.old[1]}/") if self.old[1] else key
        return f"{self.prefix}/{rest}" if self.prefix else rest

    def name(self, name: str) -> str:
        """Return the new name of a file or a shard."""
        return numbered(self.number, split_number(name)[1])


@dataclass(frozen=True)
class Sources:
    """The sources of a new index.

    Attributes:
        records: What its manifest says.
        placed: For each index, where each of its sources went.
        shared: The numbers of those that several indices have.
    """

    records: tuple[SourceRecord, ...]
    placed: tuple[tuple[PlacedSource, ...], ...]
    shared: frozenset[int] = frozenset()


def has_gallery(index: IndexDirectory) -> bool:
    """Tell whether an index keeps pictures itself: those that were painted or fetched when it was built."""
    return index.path / GALLERY_FOLDER in index.data_roots


def place_slices(indices: Sequence[IndexDirectory], out: Path) -> Sources:
    """Return the sources of slices, which are those of each of them.

    Raises:
        MergeError: They are not the same.
    """
    first = indices[0]
    for other in indices[1:]:
        if _named_roots(other) != _named_roots(first):
            raise MergeError(
                f"{first.path} is a slice of {_described(first)}, and {other.path} one of {_described(other)}; only "
                "slices of the same data can be put together"
            )
    old = first.manifest.sources
    gallery = out.resolve() / GALLERY_FOLDER
    roots = [gallery if root == first.path / GALLERY_FOLDER else root for root in first.data_roots]
    records = [_record(source.kind, root, source.prefix, out) for source, root in zip(old, roots, strict=True)]
    placed = tuple(PlacedSource((n, source.prefix), n, source.prefix) for n, source in enumerate(old))
    return Sources(tuple(records), (placed,) * len(indices))


def _named_roots(index: IndexDirectory) -> list[tuple[str, str, Path | None]]:
    # A gallery lies in each slice, and is the same nevertheless.
    gallery = index.path / GALLERY_FOLDER
    roots = (None if root == gallery else root for root in index.data_roots)
    return [(one.kind, one.prefix, root) for one, root in zip(index.manifest.sources, roots, strict=True)]


def _described(index: IndexDirectory) -> str:
    return ", ".join(f"{one.kind}:{root}" for one, root in zip(index.manifest.sources, index.data_roots, strict=True))


def place_sources(indices: Sequence[IndexDirectory], out: Path, prefixes: Sequence[str]) -> Sources:
    """Lay the sources of indices behind each other; one that an earlier index has too is not repeated.

    Args:
        indices: The indices.
        out: The new index.
        prefixes: One for each index but the first, or none.

    Raises:
        MergeError: A prefix cannot be used, they are not as many as they must be, or a folder of one index lies inside
            a folder of another, so that its pictures would be there twice.
    """
    if prefixes and len(prefixes) != len(indices) - 1:
        raise MergeError(
            f"{len(prefixes)} prefixes were given for {len(indices) - 1} further indices; give --prefix once for each "
            "index but the first, or not at all"
        )
    wanted: dict[int, str] = dict(enumerate(prefixes, start=1))
    records: list[SourceRecord] = []
    known: dict[tuple[str, Path], int] = {}
    placed: list[tuple[PlacedSource, ...]] = []
    shared: set[int] = set()
    for position, index in enumerate(indices):
        places = []
        for old, (source, root) in enumerate(zip(index.manifest.sources, index.data_roots, strict=True)):
            number = known.get((source.kind, root))
            if number is None:
                if source.kind == "folder":
                    _refuse_overlap(index, root, indices[:position])
                number = known[source.kind, root] = len(records)
                prefix = source.prefix
                if position:
                    taken = _Taken(records, tuple(zip(indices, placed, strict=False)))
                    chosen = wanted.get(position) if old == 0 else None
                    prefix = taken.checked(chosen) if chosen is not None else taken.free(_name(index, old))
                records.append(_record(source.kind, root, prefix, out))
            else:
                shared.add(number)
            places.append(PlacedSource((old, source.prefix), number, records[number].prefix))
        placed.append(tuple(places))
    return Sources(tuple(records), tuple(placed), frozenset(shared))


def _refuse_overlap(index: IndexDirectory, root: Path, before: Sequence[IndexDirectory]) -> None:
    for other in before:
        for record, known in zip(other.manifest.sources, other.data_roots, strict=True):
            if record.kind == "folder" and (root.is_relative_to(known) or known.is_relative_to(root)):
                outer, whole = (known, other) if root.is_relative_to(known) else (root, index)
                raise MergeError(
                    f"{other.path} was made from folder:{known}, and {index.path} from folder:{root}, which holds some "
                    "of the same pictures, so that they would be there twice; leave out the index of the folder inside "
                    "the other. What the other lacks is indexed with: tpips-index build --data "
                    f"{shlex.quote(f'folder:{outer}')} --out {shlex.quote(str(whole.path))}"
                )


def _name(index: IndexDirectory, source: int) -> str:
    record, root = index.manifest.sources[source], index.data_roots[source]
    # A gallery is called the same in every index.
    own = index.path if root.is_relative_to(index.path) else root
    return record.prefix or plain_step(own.name) or record.kind


@dataclass(frozen=True)
class _Taken:
    """The prefixes that must not be used again: those of other sources, and what keys without any begin with."""

    records: Sequence[SourceRecord]
    before: tuple[tuple[IndexDirectory, tuple[PlacedSource, ...]], ...]

    def checked(self, prefix: str) -> str:
        """Return a prefix that a user has chosen."""
        if not is_prefix(prefix):
            raise MergeError(f"--prefix {prefix!r} must be a printable name without slashes around it, such as 'more'")
        if self._is_used(prefix):
            raise MergeError(f"--prefix {prefix!r} is what keys of an index before it begin with; give another one")
        return prefix

    def free(self, name: str) -> str:
        """Return a name, with a number if it is taken."""
        number = 1
        while self._is_used(name if number == 1 else f"{name}-{number}"):
            number += 1
        return name if number == 1 else f"{name}-{number}"

    def _is_used(self, prefix: str) -> bool:
        known = any(record.prefix == prefix for record in self.records)
        return known or any(pc.any(pc.starts_with(keys, f"{prefix}/")).as_py() for keys in self._bare_keys())

    def _bare_keys(self) -> Iterator[object]:
        for index, places in self.before:
            for part in index.manifest.parts:
                if not places[part.source].prefix:
                    yield index.part_items(part, ["key"])["key"]


def _record(kind: str, root: Path, prefix: str, out: Path) -> SourceRecord:
    relative = Path(os.path.relpath(root, out.resolve())).as_posix()
    try:
        relative.encode()
    except UnicodeEncodeError as error:
        raise MergeError(
            f"the way from {out} to {root} leads through a name that is not valid UTF-8, which an index cannot record; "
            "rename it and run again"
        ) from error
    return SourceRecord(kind, relative, prefix)
