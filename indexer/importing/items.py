"""The items that imported vectors belong to: keys, metadata, and where their pictures are, if anywhere."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path, PurePosixPath

import numpy as np

from indexer.columns import ITEM_SCHEMA, Item, Scalar
from indexer.importing.tables import ItemTable, Row
from indexer.importing.vector_input import EmbeddingsError
from indexer.sources.keys import plain_step
from indexer.sources.table_columns import free_names, named_column, picture_column

__all__ = ["ImportedItems", "PictureFolder", "refuse_doubled_keys"]

# Columns that keys are taken from, if none is named.
_KEYS = ("key", "image_path")
_OWN = ("file", "member", "offset", "size", "width", "height")
_MIN_DIGITS = 6
# What the columns of an index hold.
_MOST_BYTES, _MOST_PIXELS = (1 << 63) - 1, (1 << 31) - 1


@dataclass
class PictureFolder:
    """The folder that pictures lie in, and how many were looked for in vain.

    Attributes:
        root: The folder, absolute, its links followed.
        missing: How many items name no file in it.
        example: The first such name.
    """

    root: Path
    missing: int = 0
    example: str = ""
    _real: dict[Path, bool] = field(default_factory=dict, repr=False)

    def relative(self, name: str) -> str | None:
        """Return a path relative to the folder, or ``None`` if it leads outside of it."""
        place = Path(name) if name.startswith("/") else self.root / name
        try:
            real = place.resolve()
        except (OSError, ValueError, RuntimeError):  # a null character, or links that go in circles
            return None
        if not real.is_relative_to(self.root):
            return None
        plain = PurePosixPath(name)
        return name if not plain.is_absolute() and ".." not in plain.parts else real.relative_to(self.root).as_posix()

    def find(self, name: str) -> tuple[str, int]:
        """Return the file that a table names and its size; no file and 0 if it is not in the folder."""
        relative = self.relative(name) if name else None
        if relative is not None:
            try:
                status = os.stat(self.root / relative)
                if stat.S_ISREG(status.st_mode):
                    return relative, status.st_size
            except (OSError, ValueError):
                pass
        self.missing += 1
        self.example = self.example or name
        return "", 0


class ImportedItems:
    """Items out of a table, or numbered ones where there is none.

    Args:
        table: The table, or ``None``.
        rows: N.
        key: The column of keys that the user named.
        image: The column of the pictures' paths that the user named.
        pictures: Where the pictures are, if that is known.

    Raises:
        EmbeddingsError: A column is not what it must be.
        SourceError: There is no such column, or it is not clear which one names the pictures.
    """

    def __init__(
        self,
        table: ItemTable | None,
        rows: int,
        *,
        key: str | None = None,
        image: str | None = None,
        pictures: PictureFolder | None = None,
    ) -> None:
        self.table = table
        self.rows = rows
        self.pictures = pictures
        self.key: str | None = None
        self._image: str | None = None
        self._names: Mapping[str, str] = {}
        if table is not None:
            self._choose_columns(table, key, image)

    def _choose_columns(self, table: ItemTable, key: str | None, image: str | None) -> None:
        for option, name in (("key", key), ("image", image)):
            if name is not None:
                named_column(name, table.columns, option=option, shown=table.shown)
        if table.record is not None:
            absent = [name for name in ITEM_SCHEMA.names if name not in table.columns]
            if absent:
                raise EmbeddingsError(f"{table.shown} lacks the column {absent[0]!r}, which an export has; export anew")
            self.key = key or "key"
            names = {column: name for column, name in table.record.metadata.items() if column in table.columns}
            if len(set(names.values())) != len(names) or set(names.values()) & set(ITEM_SCHEMA.names):
                raise EmbeddingsError(f"{table.shown} names two columns alike; export anew")
            self._names = names
            return
        self.key = key or next((name for name in _KEYS if name in table.columns), None)
        self._image = image
        if image is None and self.pictures is not None:
            self._image = picture_column(table.texts, table.columns, shown=table.shown)
        kept = (name for name in table.columns if name not in (self.key, self._image))
        self._names = free_names(kept, shown=table.shown)

    def read_keys(self) -> Iterator[str]:
        """Give the keys in row order.

        Raises:
            EmbeddingsError: A row has none, or none that an index may hold.
        """
        if self.table is None or self.key is None:
            yield from map(self._numbered, range(self.rows))
            return
        for number, row in enumerate(self.table.read([self.key])):
            yield self._plain_key(row[0], number)

    def read_items(self) -> Iterator[Item]:
        """Give the items in row order.

        Raises:
            EmbeddingsError: As ``read_keys``, or a row of an export is damaged.
        """
        metadata = list(self._names)
        names = [self._names[column] for column in metadata]
        # An index keeps no absolute paths; where the pictures are is for --pictures to say.
        paths = "image_path" if self.table is not None and self.table.record is None else None
        own = list(_OWN) if self.table is not None and self.table.record is not None else []
        image = [self._image] if self._image is not None else []
        columns = [*([self.key] if self.key is not None else []), *own, *image, *metadata]
        rows: Iterator[Row] = self.table.read(columns) if self.table is not None and columns else repeat((), self.rows)
        for number, row in enumerate(rows):
            key = self._numbered(number) if self.key is None else self._plain_key(row[0], number)
            row = row if self.key is None else row[1:]
            values = row[len(own) + len(image) :]
            found = {
                name: value
                for name, value in zip(names, values, strict=True)
                if value is not None and not (name == paths and str(value).startswith("/"))
            }
            if own:
                yield self._exported(key, row, found, number)
            else:
                file, size = self._picture(row[0]) if image else ("", 0)
                yield Item(key, file, None, None, size, 0, 0, found)

    def _numbered(self, row: int) -> str:
        return f"{row:0{max(_MIN_DIGITS, len(str(self.rows - 1)))}d}"

    def _plain_key(self, value: Scalar, row: int) -> str:
        assert self.table is not None
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or not value:
            what = "no key" if value is None or value == "" else f"the key {value!r}, no text and no whole number,"
            raise EmbeddingsError(
                f"{self.table.shown} has {what} in row {row:,} of its column {self.key!r} (rows count from 0); name "
                "another column with --keys FILE?key=COLUMN"
            )
        if self.key == "image_path" and self.table.record is None and value.startswith("/"):
            return self._key_of_path(value, row)
        return value if value.isprintable() else plain_step(value)

    def _key_of_path(self, path: str, row: int) -> str:
        relative = self.pictures.relative(path) if self.pictures is not None else None
        if relative is None:
            assert self.table is not None
            raise EmbeddingsError(
                f"{self.table.shown} has absolute paths as keys, such as {path!r:.200} in row {row:,}, which an index "
                "does not keep; give the folder that they lie in with --pictures, or another column with --keys "
                "FILE?key=COLUMN"
            )
        return plain_step(relative)

    def _picture(self, name: Scalar) -> tuple[str, int]:
        assert self.pictures is not None
        return self.pictures.find(name if isinstance(name, str) else "")

    def _exported(self, key: str, row: Row, metadata: Mapping[str, Scalar], number: int) -> Item:
        file, member, offset, size, width, height = row[: len(_OWN)]
        texts = isinstance(file, str) and (member is None or isinstance(member, str))
        numbers = ((size, _MOST_BYTES), (offset or 0, _MOST_BYTES), (width, _MOST_PIXELS), (height, _MOST_PIXELS))
        whole = all(type(value) is int and 0 <= value <= most for value, most in numbers)
        # Both sides are 0 where nobody has looked at the picture; of one that somebody has, neither is.
        if not texts or not whole or (width == 0) != (height == 0):
            assert self.table is not None
            raise EmbeddingsError(
                f"{self.table.shown} is damaged in row {number:,} (rows count from 0), which says of {key!r:.200} that "
                f"it is {width!r:.20}×{height!r:.20} pixels large, in {size!r:.20} bytes of {file!r:.200}; export anew"
            )
        assert isinstance(file, str)
        name = PurePosixPath(file)
        if not file or name.is_absolute() or ".." in name.parts or "\0" in file:
            file, member, offset, size = "", None, None, 0
        return Item(key, file, member, offset, size, width, height, metadata)  # type: ignore[arg-type]


def refuse_doubled_keys(items: ImportedItems) -> None:
    """Check that no two items have one key; eight bytes an item are in memory for it.

    Raises:
        EmbeddingsError: Two have; the message has the first two rows.
    """
    if items.key is None:
        return
    digests = np.fromiter((_digest(key) for key in items.read_keys()), np.uint64)
    if len(digests) != items.rows:
        return  # told elsewhere
    ordered = np.sort(digests)
    doubled = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(doubled):
        return
    suspects = np.isin(digests, doubled)
    seen: dict[str, int] = {}
    found: tuple[str, int, int] | None = None
    count = 0
    for row, key in enumerate(items.read_keys()):
        if suspects[row]:
            if key in seen:
                count += 1
                found = found or (key, seen[key], row)
            seen.setdefault(key, row)
    if found is not None and items.table is not None:
        key, first, second = found
        raise EmbeddingsError(
            f"{items.table.shown} has the key {key!r:.200} twice, in rows {first:,} and {second:,} (rows count from "
            f"0); {count:,} rows in all have the key of an earlier one. Every item needs its own: name another column "
            "with --keys FILE?key=COLUMN"
        )


def _digest(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "little")
