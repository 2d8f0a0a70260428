"""Writing some rows of stored parts as one new part: whatever is stored of an item is copied bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer.clustering import list_dtype
from indexer.columns import ERROR_SCHEMA, ITEM_SCHEMA, THUMBNAIL_SCHEMA, concat_items
from indexer.compacting.files import write_array_blocks, write_tables
from indexer.directory import IndexDirectory
from indexer.file_checks import check_file, mapped_array, read_parquet
from indexer.file_names import (
    codes_file,
    errors_file,
    items_file,
    lists_file,
    quantizer_file,
    thumbnails_file,
    vectors_file,
)
from indexer.manifest import Manifest
from indexer.parquet_settings import ROWS_PER_GROUP, TABLE_SETTINGS, THUMBNAIL_SETTINGS, THUMBNAILS_PER_GROUP
from indexer.quantizer import sub_quantizers
from indexer.records import FileRecord, IndexDirectoryError, PartRecord
from indexer.stored_rows import PARQUET_FAULTS, open_parquet

__all__ = [
    "ArrayKind",
    "KeptRows",
    "array_kinds",
    "items_schema",
    "write_joined_arrays",
    "write_joined_items",
    "write_joined_ledgers",
    "write_joined_thumbnails",
]

_BLOCK_BYTES = 1 << 24


@dataclass(frozen=True)
class ArrayKind:
    """One kind of array that parts have: vectors or codes under an aspect, or lists.

    Attributes:
        name: Gives a part's file by its id.
        dtype: Of a value.
        tail: The shape of a row.
    """

    name: Callable[[int], str]
    dtype: np.dtype[Any]
    tail: tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        """What a row takes."""
        return int(self.dtype.itemsize * np.prod(self.tail, dtype=np.int64))


def array_kinds(manifest: Manifest, part: PartRecord) -> tuple[ArrayKind, ...]:
    """Return the kinds of arrays, of those that a manifest allows, that a part has."""
    dim = manifest.model.dim
    kinds = [ArrayKind(partial(vectors_file, aspect), np.dtype("<f2"), (dim,)) for aspect in manifest.aspects]
    width = sub_quantizers(dim) // 2
    coded = (aspect for aspect in manifest.aspects if quantizer_file(aspect) in manifest.quantizers)
    kinds += [ArrayKind(partial(codes_file, aspect), np.dtype("|u1"), (width,)) for aspect in coded]
    if manifest.lists is not None:
        kinds.append(ArrayKind(lists_file, list_dtype(manifest.lists.count), ()))
    return tuple(kind for kind in kinds if kind.name(part.id) in part.files)


@dataclass(frozen=True, eq=False)
class KeptRows:
    """A stored part, and which of its rows are copied.

    Attributes:
        index: The index that has the part.
        part: The part.
        rows: int64, ascending, counted within the part; ``None`` for all.
    """

    index: IndexDirectory
    part: PartRecord
    rows: NDArray[np.int64] | None

    @property
    def count(self) -> int:
        """How many rows."""
        return self.part.rows if self.rows is None else len(self.rows)

    def check(self) -> None:
        """Check the part's files by their checksums, so that no damaged one is given a new checksum.

        Raises:
            IndexDirectoryError: One is missing or damaged.
        """
        for name, record in self.part.files.items():
            check_file(self.index.path / name, record, verify=True)

    def taken(self, table: pa.Table, first: int = 0) -> pa.Table:
        """Return those of the rows that are in ``table``, which holds the part's rows from ``first`` on."""
        if self.rows is None:
            return table
        low, high = np.searchsorted(self.rows, [first, first + table.num_rows])
        return table.take(pa.array(self.rows[low:high] - first, pa.int64()))

    def items(self) -> pa.Table:
        """Return the rows' items."""
        return self.taken(self.index.part_items(self.part))

    def blocks(self, kind: ArrayKind) -> Iterator[NDArray[Any]]:
        """Give the rows of an array, so many at once that memory stays bounded."""
        path = self.index.path / kind.name(self.part.id)
        array = mapped_array(path, (self.part.rows, *kind.tail), kind.dtype.type)
        step = max(1, _BLOCK_BYTES // kind.row_bytes)
        for start in range(0, self.count, step):
            chosen = slice(start, start + step)
            yield array[chosen] if self.rows is None else array[self.rows[chosen]]

    def thumbnails(self) -> Iterator[pa.Table]:
        """Give the rows' thumbnails, row group by row group.

        Raises:
            IndexDirectoryError: They cannot be read.
        """
        path = self.index.path / thumbnails_file(self.part.id)
        try:
            with open_parquet(path) as file:
                first = 0
                for group in range(file.metadata.num_row_groups):
                    table = file.read_row_group(group, use_threads=False)
                    yield pa.table(self.taken(table, first).columns, schema=THUMBNAIL_SCHEMA)
                    first += table.num_rows
        except PARQUET_FAULTS as error:
            raise IndexDirectoryError(
                f"index file {path} is damaged ({error}); make the thumbnails anew: tpips-index thumbnails --remove, "
                "then tpips-index thumbnails"
            ) from error


def write_joined_arrays(
    out: Path, number: int, kept: Sequence[KeptRows], kinds: Iterable[ArrayKind]
) -> dict[str, FileRecord]:
    """Write the arrays of a new part, the rows of one old part behind those of the other.

    Args:
        out: The index that gets the part.
        number: The new part's id.
        kept: The rows; their parts have arrays of all ``kinds``.
        kinds: The kinds.

    Raises:
        IndexDirectoryError: A file cannot be written.
    """
    rows = sum(one.count for one in kept)
    return {
        kind.name(number): write_array_blocks(
            out / kind.name(number),
            (block for one in kept for block in one.blocks(kind)),
            dtype=kind.dtype,
            shape=(rows, *kind.tail),
        )
        for kind in kinds
    }


def items_schema(tables: Sequence[pa.Schema], everything: pa.Schema) -> pa.Schema:
    """Return the columns of parts put together.

    A column of one type keeps it. One of several takes the type that a reader of the whole index gives it, so that its
    values read as before.

    Args:
        tables: The columns of the parts.
        everything: Those of the whole index, as ``IndexDirectory.items`` has them.
    """
    types: dict[str, pa.DataType] = {}
    for schema in tables:
        for field in schema:
            known = types.setdefault(field.name, field.type)
            types[field.name] = field.type if known == field.type else everything.field(field.name).type
    return pa.schema([ITEM_SCHEMA.field(n) if n in ITEM_SCHEMA.names else pa.field(n, t) for n, t in types.items()])


def write_joined_items(out: Path, number: int, kept: Sequence[KeptRows], schema: pa.Schema) -> dict[str, FileRecord]:
    """Write the items of a new part.

    Raises:
        IndexDirectoryError: A file cannot be read or written.
    """
    tables = (concat_items([schema.empty_table(), one.items()]) for one in kept)
    typed = (pa.table(table.columns, schema=schema) for table in tables)
    name = items_file(number)
    return {
        name: write_tables(out / name, typed, schema=schema, rows_per_group=ROWS_PER_GROUP, settings=TABLE_SETTINGS)
    }


def write_joined_ledgers(out: Path, number: int, kept: Sequence[KeptRows]) -> dict[str, FileRecord]:
    """Write the ledger of a new part: all lines of all parts.

    Raises:
        IndexDirectoryError: A file cannot be read or written.
    """
    tables = (read_parquet(one.index.path / one.part.ledger_file, ERROR_SCHEMA.names) for one in kept)
    typed = (pa.table(table.columns, schema=ERROR_SCHEMA) for table in tables)
    name = errors_file(number)
    return {
        name: write_tables(
            out / name, typed, schema=ERROR_SCHEMA, rows_per_group=ROWS_PER_GROUP, settings=TABLE_SETTINGS
        )
    }


def write_joined_thumbnails(out: Path, number: int, kept: Sequence[KeptRows]) -> dict[str, FileRecord]:
    """Write the thumbnails of a new part.

    Raises:
        IndexDirectoryError: A file cannot be read or written.
    """
    name = thumbnails_file(number)
    tables = (table for one in kept for table in one.thumbnails())
    record = write_tables(
        out / name, tables, schema=THUMBNAIL_SCHEMA, rows_per_group=THUMBNAILS_PER_GROUP, settings=THUMBNAIL_SETTINGS
    )
    return {name: record}
