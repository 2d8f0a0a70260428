"""Filters that are put together with widgets: choices, their place in a link, and their text in the filter language."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indexer import IndexDirectory
from indexer.file_checks import removed_rows
from search.items import Items

__all__ = ["Facet", "FilterChoice", "choices_from_params", "choices_to_params", "facets_of", "filter_text"]

How = Literal["any", "min", "max", "has", "is"]
HOWS: tuple[How, ...] = ("any", "min", "max", "has", "is")
MAX_CHOICES = 200
MAX_VALUE = 500
# A column of more different values is searched by what it contains.
MAX_VALUES = 60
# Distinct values and ranges of larger indices come from their first items.
MAX_SAMPLED = 200_000
INTERNAL = ("file", "member", "offset", "size")


@dataclass(frozen=True)
class FilterChoice:
    """One thing that a filter widget asks.

    Attributes:
        column: The column.
        how: "any" (one of the values so chosen), "min", "max", "has" (contains the text), "is" (true or false).
        value: The value as text.
    """

    column: str
    how: How
    value: str


@dataclass(frozen=True)
class Facet:
    """A column that can be filtered by, and what is in it.

    Attributes:
        column: The column.
        kind: "choices" (few texts), "text" (many), "number" or "truth".
        values: The texts of "choices", in alphabetical order.
        low: The least of the numbers.
        high: The greatest.
        whole: Whether the numbers are whole.
    """

    column: str
    kind: Literal["choices", "text", "number", "truth"]
    values: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    whole: bool = False


def choices_to_params(choices: Iterable[FilterChoice]) -> dict[str, list[str]]:
    """Return choices as parameters of a link, such as ``any.style=Cubism``."""
    params: dict[str, list[str]] = {}
    for choice in choices:
        params.setdefault(f"{choice.how}.{choice.column}", []).append(choice.value)
    return params


def choices_from_params(params: Mapping[str, Sequence[str]]) -> tuple[tuple[FilterChoice, ...], list[str]]:
    """Read what ``choices_to_params`` wrote; also what could not be used, in words."""
    choices: list[FilterChoice] = []
    problems: list[str] = []
    for name, values in params.items():
        start, dot, column = name.partition(".")
        how = next((known for known in HOWS if known == start), None)
        if not dot or not column or how is None:
            continue
        for value in values:
            if how in ("min", "max") and not _is_number(value):
                problems.append(f"the link filters by {name}={value[:40]!r}, which is no number")
            elif how == "is" and value not in ("true", "false"):
                problems.append(f"the link filters by {name}={value[:40]!r}; expected true or false")
            else:
                choices.append(FilterChoice(column, how, value[:MAX_VALUE]))
    if len(choices) > MAX_CHOICES:
        problems.append(f"the link holds {len(choices)} filter values; the first {MAX_CHOICES} are used")
    return tuple(choices[:MAX_CHOICES]), problems


def filter_text(choices: Iterable[FilterChoice], where: str = "") -> str | None:
    """Return the filter that choices and a free filter ask together, or ``None`` if they ask nothing.

    Examples:
        >>> filter_text([FilterChoice("style", "any", "Cubism"), FilterChoice("year", "min", "1900")])
        '`style` in ["Cubism"] and `year` >= 1900'
    """
    by_column: dict[tuple[str, How], list[str]] = {}
    for choice in choices:
        by_column.setdefault((choice.column, choice.how), []).append(choice.value)
    conditions = []
    for (column, how), values in by_column.items():
        name = f"`{column}`"
        if how == "any":
            conditions.append(f"{name} in [{', '.join(map(_quoted, values))}]")
        elif how == "has":
            conditions += [f"{name} contains {_quoted(value)}" for value in values]
        elif how == "is":
            conditions.append(f"{name} = {values[-1]}")
        else:
            conditions.append(f"{name} {'>=' if how == 'min' else '<='} {values[-1]}")
    if where.strip():
        conditions.append(f"({where.strip()})")
    return " and ".join(conditions) or None


def facets_of(index: IndexDirectory) -> tuple[Facet, ...]:
    """Return the columns of an index that can be filtered by, metadata first."""
    schema = Items(index).schema
    names = [field.name for field in schema if field.name not in INTERNAL and "`" not in field.name]
    table = _first_items(index, schema, names)
    facets = [facet for name in names if (facet := _facet(name, table[name])) is not None]
    own = ("key", "width", "height")
    return tuple(sorted(facets, key=lambda facet: facet.column in own))


def _first_items(index: IndexDirectory, schema: pa.Schema, names: Sequence[str]) -> pa.Table:
    tables, rows = [], 0
    for part in index.manifest.parts:
        table = index.part_items(part, names)
        if part.removal_file is not None:
            gone = removed_rows(index.path, part)
            table = table.take(pa.array(np.delete(np.arange(part.rows), gone)))
        tables.append(table)
        rows += part.live
        if rows >= MAX_SAMPLED:
            break
    table = pa.concat_tables(tables, promote_options="permissive") if tables else schema.empty_table()
    # A column of a later part only, or one that is a number here and a text there, has the index's own type.
    columns = [
        table[name].cast(schema.field(name).type)
        if name in table.column_names
        else pa.nulls(len(table), schema.field(name).type)
        for name in names
    ]
    return pa.table(columns, list(names))


def _facet(name: str, column: pa.ChunkedArray) -> Facet | None:
    kind = column.type
    if pa.types.is_boolean(kind):
        return Facet(name, "truth")
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if name != "key" and pc.count_distinct(column).as_py() <= MAX_VALUES:
            values = sorted(value for value in pc.unique(column).to_pylist() if value is not None)
            return Facet(name, "choices", tuple(values)) if values else None
        return Facet(name, "text")
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        finite = column.filter(pc.is_finite(column)) if len(column) else column
        ends = pc.min_max(finite).as_py()
        if ends["min"] is None or ends["min"] == ends["max"]:
            return None
        return Facet(name, "number", (), float(ends["min"]), float(ends["max"]), pa.types.is_integer(kind))
    return None


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _is_number(text: str) -> bool:
    # As the filter language writes numbers.
    try:
        return math.isfinite(float(text)) and text.isascii() and "_" not in text and text == text.strip()
    except ValueError:
        return False
