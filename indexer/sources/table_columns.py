"""The columns of a table: which one names or holds the pictures, and what the others become."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from indexer.columns import ITEM_SCHEMA, Scalar
from indexer.sources.source import SourceError

__all__ = ["MAX_TEXT", "free_names", "named_column", "picture_column", "scalar"]

# What a column that names pictures is called, most telling first.
_NAMES = (
    "image",
    "image_path",
    "img",
    "picture",
    "photo",
    "path",
    "file_path",
    "filepath",
    "file_name",
    "filename",
    "file",
    "image_url",
    "url",
    "originalurl",
)
MAX_TEXT = 1 << 18
MAX_FIELDS = 256


def named_column(name: str, columns: Sequence[str], *, option: str, shown: str) -> str:
    """Return the column that the user named.

    Raises:
        SourceError: There is none of this name.
    """
    if name not in columns:
        raise SourceError(f"{shown} has no column {name!r} ({option}=…); its columns: {_listed(columns)}")
    return name


def picture_column(
    candidates: Sequence[str],
    columns: Sequence[str],
    *,
    shown: str,
    otherwise: str = "none of them is known to name pictures",
) -> str:
    """Return the one of the columns that may hold or name pictures by its name.

    Args:
        candidates: The columns that may, by their types.
        columns: All columns, for the message.
        shown: The table's name for messages.
        otherwise: What is wrong where no name decides.

    Raises:
        SourceError: None of them is called as such columns are.
    """
    by_name = {name.lower().replace("-", "_").replace(" ", "_"): name for name in reversed(candidates)}
    for name in _NAMES:
        if name in by_name:
            return by_name[name]
    raise SourceError(
        f"{shown} has the columns {_listed(columns)}, and {otherwise}; say which with ?image=COLUMN behind its name"
    )


def free_names(columns: Iterable[str], *, shown: str) -> dict[str, str]:
    """Return the name of each column in the index: one that an item has by itself gets the prefix ``meta_``.

    Raises:
        SourceError: There are too many.
    """
    names: dict[str, str] = {}
    for column in columns:
        name = column.encode("utf-8", "backslashreplace").decode().strip() or "_"
        while name in ITEM_SCHEMA.names or name in names.values():
            name = f"meta_{name}"
        names[column] = name
    if len(names) > MAX_FIELDS:
        raise SourceError(f"{shown} has {len(names):,} columns; at most {MAX_FIELDS} are taken over; leave some out")
    return names


def scalar(value: Any) -> Scalar:
    """Return a table's value as metadata: not-a-number and infinity are no value, other things become their text."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else None
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT]


def labelled(value: Any, names: Sequence[str]) -> Scalar:
    """Return the name of a class by its number; −1 and numbers that no class has are no value."""
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None


def _listed(columns: Collection[str]) -> str:
    shown = ", ".join(repr(name) for name in list(columns)[:20])
    return (shown or "none") + (f" and {len(columns) - 20} more" if len(columns) > 20 else "")


def metadata_of(record: Mapping[str, Scalar], names: Mapping[str, str]) -> dict[str, Scalar]:
    """Return a row's values under their names in the index, without those that are missing."""
    return {names[column]: value for column, value in record.items() if value is not None}
