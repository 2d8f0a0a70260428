"""The columns of items and error ledgers, and how metadata of mixed types becomes columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

__all__ = [
    "ERROR_SCHEMA",
    "ITEM_SCHEMA",
    "THUMBNAIL_SCHEMA",
    "Item",
    "LedgerLine",
    "Scalar",
    "concat_items",
    "error_table",
    "item_table",
]

Scalar = str | int | float | bool | None

ITEM_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("member", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("width", pa.int32(), nullable=False),
        pa.field("height", pa.int32(), nullable=False),
    ]
)
ERROR_SCHEMA = pa.schema(
    [pa.field("key", pa.string(), nullable=False), pa.field("reason", pa.string(), nullable=False)]
)
THUMBNAIL_SCHEMA = pa.schema([pa.field("thumbnail", pa.binary(), nullable=False)])


@dataclass(frozen=True)
class Item:
    """One indexed picture: its key, where its bytes are, its size after EXIF orientation, and its metadata."""

    key: str
    file: str
    member: str | None
    offset: int | None
    size: int
    width: int
    height: int
    metadata: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True)
class LedgerLine:
    """One line of the error ledger: what was skipped, and why."""

    key: str
    reason: str


def item_table(items: Sequence[Item]) -> pa.Table:
    """Return the items as a table: the fixed columns, then the metadata columns in order of their names.

    A metadata column takes the narrowest type that holds all its values: bool, int64, double, else string.
    """
    fixed = [
        pa.array([getattr(item, name) for item in items], ITEM_SCHEMA.field(name).type) for name in ITEM_SCHEMA.names
    ]
    names = sorted({name for item in items for name, value in item.metadata.items() if value is not None})
    columns = [_metadata_column([item.metadata.get(name) for item in items]) for name in names]
    fields = [*ITEM_SCHEMA, *(pa.field(name, column.type) for name, column in zip(names, columns, strict=True))]
    return pa.Table.from_arrays([*fixed, *columns], schema=pa.schema(fields))


def error_table(lines: Sequence[LedgerLine]) -> pa.Table:
    """Return the ledger's lines as a table."""
    return pa.Table.from_arrays(
        [pa.array([line.key for line in lines], pa.string()), pa.array([line.reason for line in lines], pa.string())],
        schema=ERROR_SCHEMA,
    )


def concat_items(tables: Sequence[pa.Table]) -> pa.Table:
    """Lay the parts' items under each other; a column whose type differs between parts takes the wider one.

    Without parts there are the fixed columns, with no rows.
    """
    if not tables:
        return ITEM_SCHEMA.empty_table()
    types: dict[str, pa.DataType] = {}
    for table in tables:
        for column in table.schema:
            types[column.name] = _wider(types[column.name], column.type) if column.name in types else column.type
    schema = pa.schema(list(types.items()))
    return pa.concat_tables([_cast(table, schema) for table in tables])


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = []
    for column in schema:
        if column.name not in table.column_names:
            columns.append(pa.nulls(table.num_rows, column.type))
        elif pa.types.is_string(column.type) and not pa.types.is_string(table[column.name].type):
            columns.append(pa.array([_text(value) for value in table[column.name].to_pylist()], pa.string()))
        else:
            # Integers beyond 2**53 lose digits as double, which is what a column of both must do.
            columns.append(table[column.name].cast(column.type, safe=False))
    return pa.Table.from_arrays(columns, schema=schema)


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if one == other:
        return one
    numbers = (pa.int64(), pa.float64())
    return pa.float64() if one in numbers and other in numbers else pa.string()


def _metadata_column(values: Sequence[Scalar]) -> pa.Array:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds == {int} and all(_fits(value) for value in values):
        return pa.array(values, pa.int64())
    if kinds in ({float}, {int, float}) and all(_fits(value) for value in values if isinstance(value, int)):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    return pa.array([_text(value) for value in values], pa.string())


def _fits(value: Scalar) -> bool:
    return value is None or (isinstance(value, int) and -(1 << 63) <= value < 1 << 63)


def _text(value: Scalar) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    # A lone surrogate (JSON's "\ud800") has no UTF-8 form.
    return str(value).encode("utf-8", "backslashreplace").decode()
