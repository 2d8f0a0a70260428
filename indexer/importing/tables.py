"""Keys and metadata for imported vectors, out of parquet and csv files, in row order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from indexer.columns import Scalar
from indexer.exporting.record import SCHEMA_KEY, ExportRecord
from indexer.given_path import given_path
from indexer.importing.columns import open_table, parquet_fault
from indexer.importing.vector_input import EmbeddingsError
from indexer.sources.csv_list import field_value, is_number_column
from indexer.sources.csv_rows import CsvFile
from indexer.sources.parquet_layout import column_values, is_scalar, is_text
from indexer.stored_rows import PARQUET_FAULTS

__all__ = ["ItemTable", "csv_table", "parquet_table"]

_BATCH_ROWS = 4096
_LOOKED_AT = 1000

Row = tuple[Scalar, ...]


@dataclass(frozen=True)
class ItemTable:
    """A table with a row for every vector.

    Attributes:
        shown: What to call it in messages.
        rows: N.
        columns: The columns that can be read: text, numbers, truth values, times.
        texts: Those of them that hold text.
        left_out: The columns that cannot be kept as metadata: lists, structs, bytes.
        read: Gives the rows, as the named columns have them.
        record: What the table tells of itself, if it is part of an export.
    """

    shown: str
    rows: int
    columns: tuple[str, ...]
    texts: tuple[str, ...]
    left_out: tuple[str, ...]
    read: Callable[[Sequence[str]], Iterator[Row]]
    record: ExportRecord | None = None


def parquet_table(paths: Sequence[Path], *, shown: str, vectors: Sequence[str] = ()) -> ItemTable:
    """Return the rows of parquet files, one after the other; a column that one of them lacks has no values there.

    Args:
        paths: The files, at least one.
        shown: What to call them in messages.
        vectors: Columns that hold vectors, and so nothing to keep of an item.

    Raises:
        EmbeddingsError: One cannot be read.
        ExportError: One says that it is an export, and is damaged.
    """
    files = {path: open_table(path) for path in paths}
    kinds: dict[str, pa.DataType] = {}
    for file in files.values():
        for field in file.schema_arrow:
            kinds.setdefault(field.name, field.type)
    columns = tuple(name for name, kind in kinds.items() if is_scalar(kind))
    text = (files[paths[0]].schema_arrow.metadata or {}).get(SCHEMA_KEY)
    record = ExportRecord.from_json(text, shown=str(paths[0])) if text is not None else None
    rows = sum(file.metadata.num_rows for file in files.values())

    def read(names: Sequence[str]) -> Iterator[Row]:
        count = 0
        for path in paths:
            for row in _parquet_rows(path, names, exact=record is not None):
                count += 1
                yield row
        if count != rows:
            raise EmbeddingsError(f"{shown} says that it has {rows:,} rows, and gave {count:,}; it is damaged")

    return ItemTable(
        shown=shown,
        rows=rows,
        columns=columns,
        texts=tuple(name for name in columns if is_text(kinds[name])),
        left_out=tuple(name for name in kinds if name not in columns and name not in vectors),
        read=read,
        record=record,
    )


def csv_table(path: Path) -> ItemTable:
    """Return the rows of a csv file with a header row; here a row that is no csv is an error, for none may be missing.

    Raises:
        EmbeddingsError: A row cannot be read.
        SourceError: The file cannot be read, or has no header row.
    """
    file = CsvFile(given_path(path, what="the csv file", kind=EmbeddingsError))
    rows = 0
    first: list[tuple[str, ...]] = []
    for row in file.rows():
        if row.fault is not None:
            raise EmbeddingsError(f"{path}: {row.fault}, in row {rows:,} (rows count from 0); mend it")
        if rows < _LOOKED_AT:
            first.append(row.fields)
        rows += 1
    numeric = {name: is_number_column(fields[at] for fields in first) for at, name in enumerate(file.header)}

    def read(names: Sequence[str]) -> Iterator[Row]:
        places = [(file.header.index(name), numeric[name]) for name in names]
        for row in file.rows():
            if row.fault is not None:
                raise EmbeddingsError(f"{path} has changed while it was read; import again")
            yield tuple(field_value(row.fields[place], is_number) for place, is_number in places)

    texts = tuple(name for name, is_number in numeric.items() if not is_number)
    return ItemTable(str(path), rows, tuple(file.header), texts, (), read)


def _parquet_rows(path: Path, names: Sequence[str], *, exact: bool) -> Iterator[Row]:
    """Give a file's rows; unless ``exact``, numbers that are not finite are no values."""
    try:
        file = open_table(path)
        own = [name for name in names if name in file.schema_arrow.names]
        missing: list[Scalar] = [None] * _BATCH_ROWS
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=own, use_threads=False):
            batch.validate(full=True)  # strings that are not UTF-8 would raise only where they are used
            values: Mapping[str, list[Scalar]] = {
                name: batch.column(name).to_pylist() if exact else _values(batch.column(name)) for name in own
            }
            yield from zip(*(values.get(name, missing[: len(batch)]) for name in names), strict=True)
    except PARQUET_FAULTS as error:
        raise EmbeddingsError(f"{path} cannot be read ({parquet_fault(error)}); it is damaged") from error


def _values(column: pa.Array) -> list[Scalar]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column_values(column, None)
