"""Reading an index directory, and checking it before anything in it is believed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer.columns import ERROR_SCHEMA, LedgerLine, concat_items
from indexer.file_checks import check_file, check_part, mapped_array, read_parquet, removed_rows
from indexer.file_names import items_file, vectors_file
from indexer.given_path import resolved_path
from indexer.item_files import DataRoot, check_given_roots, data_roots, item_bytes, item_path
from indexer.manifest import IndexDirectoryError, Manifest, PartRecord
from indexer.manifest_file import MANIFEST_FILE, manifest_version, read_manifest
from indexer.readers import EpochLock
from tpips_model.aspects import Aspect, AspectLike

__all__ = ["MANIFEST_FILE", "IndexDirectory", "IndexDirectoryError", "read_manifest"]


class IndexDirectory:
    """An index opened for reading; what it reads stays there for as long as it lives, whatever is written meanwhile.

    Attributes:
        path: The index directory, absolute.
        manifest: What it holds.
        data_roots: The folders that items' ``file`` is relative to, one for each of the manifest's sources, absolute.
        version: Differs whenever the manifest has been written anew.

    Examples:
        >>> index = IndexDirectory.open("index")  # doctest: +SKIP
        >>> index.live_count, [aspect.text for aspect in index.aspects]  # doctest: +SKIP
        (360, ['overall', 'brushwork'])
    """

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        roots: tuple[Path, ...],
        *,
        lock: EpochLock | None = None,
        version: tuple[int, ...] = (),
        given_root: DataRoot | None = None,
    ) -> None:
        self.path = path
        self.manifest = manifest
        self.data_roots = roots
        self.version = version
        self._lock = lock
        self._given_root = given_root

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        data_root: DataRoot | None = None,
        verify: bool = False,
        known: IndexDirectory | None = None,
        hold: bool = True,
    ) -> IndexDirectory:
        """Open an index and check it against its manifest.

        Args:
            path: The index directory.
            data_root: Where the pictures are now, if not where the manifest says; for an index of several sources also
                a mapping from their prefixes. It must be there, while the manifest's folder may be away.
            verify: Also compute every file's checksum, which reads the whole index.
            known: The same index as it was opened before; what has not changed since is not checked again.
            hold: Whether files that a writer supersedes stay for as long as this object lives. A writer does not hold
                what it is about to delete.

        Raises:
            IndexDirectoryError: There is no index, it is of a newer format version, or a file is missing, truncated
                or holds another number of rows than the manifest says; or ``data_root`` is no folder.
        """
        folder = resolved_path(path, what="the index", kind=IndexDirectoryError)
        while True:
            version, manifest = manifest_version(folder), read_manifest(folder)
            lock = EpochLock.take(folder, manifest.epoch) if hold else None
            # Its files may have been deleted before the lock was taken, but not if this is still the epoch.
            if manifest_version(folder) == version or read_manifest(folder).epoch == manifest.epoch:
                break
        checked = set() if known is None else {id(part) for part in known.manifest.parts}
        if known is not None:
            manifest = manifest.sharing(known.manifest)
        for name, record in manifest.files.items():
            check_file(folder / name, record, verify=verify)
        for part in manifest.parts:
            if id(part) not in checked:
                for name, record in part.files.items():
                    check_file(folder / name, record, verify=verify)
                check_part(folder, part, manifest)
        roots = data_roots(folder, manifest.sources, data_root)
        if known is None:  # an index that is open stays so when its pictures are taken away
            check_given_roots(data_root)
        return cls(folder, manifest, roots, lock=lock, version=version, given_root=data_root)

    @classmethod
    def open_unchecked(cls, path: str | os.PathLike[str]) -> IndexDirectory:
        """Open an index by its manifest alone, to mend it; its other files may be damaged or missing.

        Raises:
            IndexDirectoryError: There is no index, or it is of a newer format version.
        """
        folder = resolved_path(path, what="the index", kind=IndexDirectoryError)
        manifest = read_manifest(folder)
        return cls(folder, manifest, data_roots(folder, manifest.sources, None))

    @property
    def data_root(self) -> Path:
        """The first source's data root."""
        return self.data_roots[0]

    def reopened(self) -> IndexDirectory:
        """Return the index as it is now; what has not changed is not checked again.

        Raises:
            IndexDirectoryError: It is gone, or damaged.
        """
        return IndexDirectory.open(self.path, data_root=self._given_root, known=self)

    def has_changed(self) -> bool:
        """Tell, at the cost of a look at one file, whether the index has been written to since it was opened."""
        return manifest_version(self.path) != self.version

    @property
    def rows(self) -> int:
        """N, the number of stored items, removed ones included."""
        return sum(part.rows for part in self.manifest.parts)

    @property
    def live_count(self) -> int:
        """How many items there are that are not removed."""
        return self.manifest.live

    @cached_property
    def removed_rows(self) -> NDArray[np.int64]:
        """The rows of removed items, int64, ascending.

        Raises:
            IndexDirectoryError: A file that says so is damaged.
        """
        found, first = [np.empty(0, np.int64)], 0
        for part in self.manifest.parts:
            if part.removal_file is not None:
                found.append(removed_rows(self.path, part) + first)
            first += part.rows
        return np.concatenate(found)

    @cached_property
    def _live_rows(self) -> NDArray[np.int64]:
        return np.delete(np.arange(self.rows, dtype=np.int64), self.removed_rows)

    def live_rows(self) -> NDArray[np.int64] | None:
        """Return the rows of all items that are not removed, int64, ascending; ``None`` if none is removed.

        Raises:
            IndexDirectoryError: A file that says so is damaged.
        """
        return None if self.live_count == self.rows else self._live_rows

    @property
    def dim(self) -> int:
        """D, the length of a vector."""
        return self.manifest.model.dim

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """The aspects that can be queried: those under which every part has its vectors."""
        return self.manifest.complete_aspects

    def indexed_aspect(self, aspect: AspectLike) -> Aspect:
        """Return the one of ``aspects`` that words mean.

        Raises:
            IndexDirectoryError: The aspect is not indexed, or not for all parts.
        """
        wanted = Aspect.of(aspect)
        for known in self.aspects:
            if known.slug == wanted.slug:
                return known
        names = ", ".join(repr(known.text) for known in self.aspects) or "none"
        raise IndexDirectoryError(f"aspect {wanted.text!r} is not indexed in {self.path}; indexed aspects: {names}")

    def vectors(self, aspect: AspectLike) -> list[NDArray[np.float16]]:
        """Return the vectors under one aspect, memory-mapped.

        Args:
            aspect: One of ``aspects``; words that give the same slug mean the same aspect.

        Returns:
            One float16 (rows of the part, D) per part, in row order, unit rows.

        Raises:
            IndexDirectoryError: The aspect is not indexed, or not for all parts.
        """
        wanted = self.indexed_aspect(aspect)
        return [self.part_vectors(part, wanted) for part in self.manifest.parts]

    def part_vectors(self, part: PartRecord, aspect: Aspect) -> NDArray[np.float16]:
        """Return the vectors of one part that has them, as ``vectors`` does for all."""
        return mapped_array(self.path / vectors_file(aspect, part.id), (part.rows, self.dim), np.float16)

    @property
    def coded_aspects(self) -> tuple[Aspect, ...]:
        """Those of ``aspects`` that have codes for every item (``IndexCodes``), to be searched approximately."""
        return self.manifest.coded_aspects

    def items(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the items of all parts in row order.

        Args:
            columns: The columns to read; ``None`` reads all, metadata too. A name that no part has is left out.

        Raises:
            IndexDirectoryError: A part cannot be read.
        """
        table = concat_items([self.part_items(part, columns) for part in self.manifest.parts])
        return table if columns is None else table.select([name for name in columns if name in table.column_names])

    def live_items(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return what ``items`` does, without the removed ones."""
        table, rows = self.items(columns), self.live_rows()
        return table if rows is None else table.take(pa.array(rows, pa.int64()))

    def part_items(self, part: PartRecord, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the items of one part, as ``items`` does for all."""
        return read_parquet(self.path / items_file(part.id), columns)

    def errors(self) -> pa.Table:
        """Return the error ledger of all parts: columns ``key`` and ``reason``."""
        tables = [read_parquet(self.path / part.ledger_file, None) for part in self.manifest.parts]
        return pa.concat_tables(tables) if tables else ERROR_SCHEMA.empty_table()

    def part_errors(self, part: PartRecord) -> list[LedgerLine]:
        """Return the lines of one part's error ledger."""
        return [
            LedgerLine(**line) for line in read_parquet(self.path / part.ledger_file, ERROR_SCHEMA.names).to_pylist()
        ]

    def item_path(self, row: Mapping[str, Any]) -> Path:
        """Return the file that holds an item's bytes (a picture, or the tar that holds it), inside its data root.

        Raises:
            IndexDirectoryError: The item's ``file`` leads outside its data root, or in circles.
        """
        return item_path(self.data_roots, row)

    def item_bytes(self, row: Mapping[str, Any]) -> bytes:
        """Return the bytes of one item's picture file: the original ones, with its turning noted where it has one.

        Args:
            row: The item's columns ``key``, ``file``, ``member``, ``offset`` and ``size``.

        Raises:
            IndexDirectoryError: The picture has vanished, changed its size, is too large, or is not inside the data
                root.
        """
        return item_bytes(self.data_roots, row)
