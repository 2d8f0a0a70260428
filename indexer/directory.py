"""Reading an index directory, and checking it before anything in it is believed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from indexer.columns import ERROR_SCHEMA, ITEM_SCHEMA, concat_items
from indexer.given_path import resolved_path
from indexer.manifest import (
    FileRecord,
    IndexDirectoryError,
    Manifest,
    PartRecord,
    errors_file,
    items_file,
    vectors_file,
)
from indexer.stored_bytes import PictureReadError, read_stored
from tpips_model.aspects import Aspect, AspectLike

__all__ = ["MANIFEST_FILE", "IndexDirectory", "IndexDirectoryError", "read_manifest"]

MANIFEST_FILE = "manifest.json"
_MAX_MANIFEST_BYTES = 1 << 30


class IndexDirectory:
    """An index opened for reading.

    Attributes:
        path: The index directory, absolute.
        manifest: What it holds.
        data_root: The folder that items' ``file`` is relative to, absolute.

    Examples:
        >>> index = IndexDirectory.open("index")  # doctest: +SKIP
        >>> index.rows, [aspect.text for aspect in index.aspects]  # doctest: +SKIP
        (360, ['overall', 'brushwork'])
    """

    def __init__(self, path: Path, manifest: Manifest, data_root: Path) -> None:
        self.path = path
        self.manifest = manifest
        self.data_root = data_root

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, data_root: str | os.PathLike[str] | None = None, verify: bool = False
    ) -> IndexDirectory:
        """Open an index and check it against its manifest.

        Args:
            path: The index directory.
            data_root: Where the pictures are now, if not where the manifest says.
            verify: Also compute every file's checksum, which reads the whole index.

        Raises:
            IndexDirectoryError: There is no index, it is of a newer format version, or a file is missing, truncated
                or holds another number of rows than the manifest says.
        """
        folder = resolved_path(path, what="the index", kind=IndexDirectoryError)
        manifest = read_manifest(folder)
        for part in manifest.parts:
            for name, record in part.files.items():
                _check_file(folder / name, record, verify=verify)
            _check_rows(folder, part, manifest)
        root = data_root if data_root is not None else folder / manifest.source.root
        return cls(folder, manifest, resolved_path(root, what="the data root", kind=IndexDirectoryError))

    @property
    def rows(self) -> int:
        """N, the number of items."""
        return sum(part.rows for part in self.manifest.parts)

    @property
    def dim(self) -> int:
        """D, the length of a vector."""
        return self.manifest.model.dim

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """The aspects that can be queried: those under which every part has its vectors."""
        return self.manifest.complete_aspects

    def vectors(self, aspect: AspectLike) -> list[NDArray[np.float16]]:
        """Return the vectors under one aspect, memory-mapped.

        Args:
            aspect: One of ``aspects``; words that give the same slug mean the same aspect.

        Returns:
            One float16 (rows of the part, D) per part, in row order, unit rows.

        Raises:
            IndexDirectoryError: The aspect is not indexed, or not for all parts.
        """
        wanted = Aspect.of(aspect)
        if wanted.slug not in {known.slug for known in self.aspects}:
            known = ", ".join(repr(aspect.text) for aspect in self.aspects) or "none"
            raise IndexDirectoryError(f"aspect {wanted.text!r} is not indexed in {self.path}; indexed aspects: {known}")
        return [
            # A file without rows has nothing to map.
            np.load(self.path / vectors_file(wanted, part.id), mmap_mode="r", allow_pickle=False)
            if part.rows
            else np.empty((0, self.dim), np.float16)
            for part in self.manifest.parts
        ]

    def items(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the items of all parts in row order.

        Args:
            columns: The columns to read; ``None`` reads all, metadata too. A name that no part has is left out.

        Raises:
            IndexDirectoryError: A part cannot be read.
        """
        table = concat_items([self.part_items(part, columns) for part in self.manifest.parts])
        return table if columns is None else table.select([name for name in columns if name in table.column_names])

    def part_items(self, part: PartRecord, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the items of one part, as ``items`` does for all."""
        return _read_parquet(self.path / items_file(part.id), columns)

    def errors(self) -> pa.Table:
        """Return the error ledger of all parts: columns ``key`` and ``reason``."""
        tables = [_read_parquet(self.path / errors_file(part.id), None) for part in self.manifest.parts]
        return pa.concat_tables(tables) if tables else ERROR_SCHEMA.empty_table()

    def item_path(self, row: Mapping[str, Any]) -> Path:
        """Return the file that holds an item's bytes (a picture, or the tar that holds it), inside the data root.

        Raises:
            IndexDirectoryError: The item's ``file`` leads outside the data root, or in circles.
        """
        name = PurePosixPath(row["file"])
        safe = "\0" not in row["file"] and not name.is_absolute() and ".." not in name.parts
        what = f"item {row['key']!r}: its file"
        path = resolved_path(self.data_root / name, what=what, kind=IndexDirectoryError) if safe else self.data_root
        if not safe or not path.is_relative_to(self.data_root.resolve()):
            raise IndexDirectoryError(
                f"item {row['key']!r} names {row['file']!r}, which is not inside {self.data_root}"
            )
        return path

    def item_bytes(self, row: Mapping[str, Any]) -> bytes:
        """Return the original bytes of one item.

        Args:
            row: The item's columns ``key``, ``file``, ``member``, ``offset`` and ``size``.

        Raises:
            IndexDirectoryError: The picture has vanished, changed its size, is too large, or is not inside the data
                root.
        """
        path = self.item_path(row)
        try:
            if row.get("offset") is None:
                data = read_stored(path)
            else:
                data = read_stored(path, offset=row["offset"], size=row["size"])
        except PictureReadError as error:
            raise IndexDirectoryError(f"item {row['key']!r}: {path} {error}; {_RESTORE}") from error
        if len(data) != row["size"]:
            raise IndexDirectoryError(
                f"item {row['key']!r}: {path} has changed since it was indexed ({row['size']:,} bytes then, "
                f"{len(data):,} now); {_RESTORE}"
            )
        return data


_RESTORE = "restore it, say where the pictures are now (data_root), or build a new index"


def read_manifest(folder: Path) -> Manifest:
    """Read an index directory's manifest without looking at the parts.

    Raises:
        IndexDirectoryError: There is none, or it cannot be used.
    """
    path = folder / MANIFEST_FILE
    try:
        if not folder.is_dir():
            what = "is no folder" if folder.exists() else "does not exist"
            raise IndexDirectoryError(
                f"index {folder} {what}; make one with: tpips-index build --data … --out {folder}"
            )
        if not path.is_file():
            raise IndexDirectoryError(
                f"{folder} holds no finished index (no {MANIFEST_FILE}); "
                f"make one with: tpips-index build --data … --out {folder}"
            )
        if path.stat().st_size > _MAX_MANIFEST_BYTES:
            raise IndexDirectoryError(f"{path} has more than {_MAX_MANIFEST_BYTES:,} bytes, which no manifest has")
        return Manifest.from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise IndexDirectoryError(f"cannot read {path}: {error}; build the index anew") from error
    except IndexDirectoryError as error:
        raise IndexDirectoryError(f"{error} ({folder})" if str(folder) not in str(error) else str(error)) from error


def _check_file(path: Path, record: FileRecord, *, verify: bool) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise IndexDirectoryError(f"index file {path} is missing ({error.strerror}); {_REBUILD}") from error
    if size != record.bytes:
        raise IndexDirectoryError(f"index file {path} has {size:,} bytes instead of {record.bytes:,}; {_REBUILD}")
    if verify:
        with open(path, "rb") as stream:
            digest = hashlib.sha256()
            while block := stream.read(1 << 20):
                digest.update(block)
        if digest.hexdigest() != record.sha256:
            raise IndexDirectoryError(f"index file {path} does not have the checksum of the manifest; {_REBUILD}")


_REBUILD = "copy the index again if it is a copy, or build it anew"


def _check_rows(folder: Path, part: PartRecord, manifest: Manifest) -> None:
    for name, rows, schema in (
        (items_file(part.id), part.rows, ITEM_SCHEMA),
        (errors_file(part.id), part.errors, ERROR_SCHEMA),
    ):
        metadata, found = _parquet_head(folder / name)
        if metadata.num_rows != rows:
            raise IndexDirectoryError(
                f"index file {folder / name} has {metadata.num_rows} rows, and the manifest says {rows}; {_REBUILD}"
            )
        for field in schema:
            if field.name not in found.names or found.field(field.name).type != field.type:
                raise IndexDirectoryError(
                    f"index file {folder / name} lacks the column {field.name!r} of type {field.type}; {_REBUILD}"
                )
    for aspect in manifest.aspects:
        if part.has(aspect):
            _check_vectors(folder / vectors_file(aspect, part.id), (part.rows, manifest.model.dim))


def _check_vectors(path: Path, shape: tuple[int, int]) -> None:
    try:
        with open(path, "rb") as stream:
            version = np.lib.format.read_magic(stream)
            if version != (1, 0):
                raise ValueError(f"npy format {version}")
            found, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
            header = stream.tell()
    except (OSError, ValueError) as error:
        raise IndexDirectoryError(f"index file {path} is no vector file ({error}); {_REBUILD}") from error
    if found != shape or fortran or dtype != np.dtype("<f2") or path.stat().st_size != header + 2 * shape[0] * shape[1]:
        raise IndexDirectoryError(
            f"index file {path} should hold float16 {shape} in C order, and holds {dtype} {found}; {_REBUILD}"
        )


def _parquet_head(path: Path) -> tuple[Any, pa.Schema]:
    try:
        with open(path, "rb") as stream, pq.ParquetFile(stream) as file:
            names = file.schema_arrow.names
            if len(set(names)) != len(names):
                raise ValueError("it has two columns of one name")
            return file.metadata, file.schema_arrow
    except (OSError, ValueError, pa.ArrowException) as error:
        raise IndexDirectoryError(f"index file {path} is damaged ({error}); {_REBUILD}") from error


def _read_parquet(path: Path, columns: Sequence[str] | None) -> pa.Table:
    # An open file rather than a path: pyarrow would read partition columns out of a folder called "a=b".
    try:
        with open(path, "rb") as stream, pq.ParquetFile(stream) as file:
            names = None if columns is None else [name for name in columns if name in file.schema_arrow.names]
            table = file.read(columns=names)
        table.validate(full=True)  # strings that are not UTF-8 would raise only where they are used
        if len(set(table.column_names)) != table.num_columns:
            raise ValueError("it has two columns of one name")
        return table
    except (OSError, ValueError, pa.ArrowException) as error:
        raise IndexDirectoryError(f"index file {path} is damaged ({error}); {_REBUILD}") from error
