"""A csv file of paths or addresses of pictures; the other columns become metadata."""

from __future__ import annotations

import re
import zlib
from array import array
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from indexer.columns import Scalar
from indexer.given_path import given_path
from indexer.sources.csv_rows import CsvFile, CsvRow
from indexer.sources.file_kinds import describe_file
from indexer.sources.keys import plain_step
from indexer.sources.named_pictures import NamedPictures, address_key, path_key
from indexer.sources.row_ranges import RowRange, covered_ranges, uncovered
from indexer.sources.source import BadSample, Indexed, Sample, Shard, SourceError
from indexer.sources.table_columns import free_names, metadata_of, named_column, picture_column, scalar
from indexer.sources.urls import is_web_url

__all__ = ["CsvSource", "field_value", "is_number_column"]

# How many rows decide whether a column holds numbers, and whether the pictures are addresses.
_LOOKED_AT = 1000
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_REAL = re.compile(r"-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]+)?")
_CHUNK = 1 << 20


class CsvSource:
    """Pictures that a csv file names; an item's key is the path, or the address without what may be secret in it.

    Paths are relative to ``pictures``; what addresses lead to is kept in ``gallery``. Rows may be added at the file's
    end later.

    Args:
        path: The csv file, with a header row.
        gallery: Where fetched pictures are kept.
        pictures: The folder that paths are relative to; by default the csv file's.
        shard_size: How many rows make a shard.
        image: The column of paths or addresses; by default it is found by its name.
        key: A column of keys.
        private: Whether addresses may lead to this machine or a private network.

    Raises:
        SourceError: The file cannot be read, or it is not clear which column names the pictures.
    """

    kind = "csv"

    def __init__(
        self,
        path: str,
        *,
        gallery: Path,
        pictures: Path | None = None,
        shard_size: int,
        image: str | None = None,
        key: str | None = None,
        private: bool = False,
    ) -> None:
        given = given_path(path, what="the csv file", kind=SourceError)
        if not given.is_file():
            what = "is a folder" if given.is_dir() else "does not exist"
            raise SourceError(f"{given} {what}; give a csv file with --data csv:FILE")
        if not (looks := describe_file(given)).endswith(("(CSV)", "plain text", "unknown kind")):
            raise SourceError(f"{given} is no csv file: it looks like {looks}; give a csv file with --data csv:FILE")
        self._file = CsvFile(given.resolve())
        header = self._file.header
        if any(map(is_web_url, header)):
            raise SourceError(
                f"{given} has no header row: its first row holds an address; put the columns' names first"
            )
        self._image = (
            named_column(image, header, option="image", shown=str(given))
            if image is not None
            else picture_column(header, header, shown=str(given))
        )
        self._key = named_column(key, header, option="key", shown=str(given)) if key is not None else None
        self._names = free_names((name for name in header if name != self._image), shown=str(given))
        first = [row.fields for row in islice(self._file.rows(), _LOOKED_AT) if row.fault is None]
        self._numbers = {name: is_number_column(fields[at] for fields in first) for at, name in enumerate(header)}
        named = [name for fields in first if (name := fields[header.index(self._image)].strip())]
        addresses = 2 * sum(map(is_web_url, named)) > len(named)
        self.root = gallery.resolve() if addresses else (pictures or self._file.path.parent).resolve()
        self._pictures = NamedPictures(self.root, addresses=addresses, private=private)
        self._shard_size = shard_size

    def shards(self, indexed: Indexed) -> list[Shard]:
        """Return the rows that are not indexed yet in runs of ``shard_size``."""
        starts = array("Q")
        end = 0
        for row in self._file.rows():
            starts.append(row.start)
            end = row.end
        if not starts:
            raise SourceError(f"{self._file.path} has a header row and nothing else; give a csv file with rows")
        count = len(starts)
        starts.append(end)
        covered = covered_ranges(self._file.path.name, indexed.shards)
        for known in covered:
            if known.end > count or known.check != self._check(starts, known.start, known.end):
                raise known.changed(str(self._file.path))
        # Only what no range covers is cut into runs, so that rows added later make runs of their own.
        shards = []
        for first, last in uncovered([(0, count)], covered):
            for start in range(first, last, self._shard_size):
                stop = min(start + self._shard_size, last)
                rows = RowRange(self._file.path.name, start, stop, self._check(starts, start, stop))
                shards.append(Shard(rows.name, samples=stop - start, content=(rows, starts[start], starts[stop])))
        return shards

    def read(self, shard: Shard) -> Iterator[Sample | BadSample]:
        """Give the shard's rows in order, each of them as a sample or a bad sample."""
        rows, start, stop = shard.content
        if f"{self._crc(start, stop):08x}" != rows.check:
            raise rows.changed(str(self._file.path))
        found = islice(self._file.rows(start), rows.end - rows.start)
        numbered = ((number, row) for number, row in enumerate(found, rows.start))
        asked = ((one, self._field(one[1], self._image)) for one in numbered)
        for (number, row), picture in self._pictures.read_all(asked):
            key, fault = self._key_of(row, number)
            if fault is not None or isinstance(picture, str):
                yield BadSample(key, fault or str(picture))
            else:
                data = picture.data
                yield Sample(key, data, picture.file, None, None, len(data), self._metadata(row))

    def _field(self, row: CsvRow, column: str) -> str:
        return row.fields[self._file.header.index(column)].strip() if row.fields else ""

    def _key_of(self, row: CsvRow, number: int) -> tuple[str, str | None]:
        """Return the row's key, and what is wrong with the row before its picture is looked at."""
        own = f"{self._file.path.name}:{number}"
        if row.fault is not None:
            return own, row.fault
        if self._key is not None:
            key = plain_step(self._field(row, self._key))
            return (key, None) if key else (own, "its key is empty")
        name = self._field(row, self._image)
        key = address_key(name) if self._pictures.addresses else path_key(name)
        return key or own, None

    def _metadata(self, row: CsvRow) -> dict[str, Scalar]:
        header = self._file.header
        values = dict(zip(header, row.fields, strict=True))
        record = {name: field_value(values[name], self._numbers[name]) for name in self._names}
        return metadata_of(record, self._names)

    def _check(self, starts: array[int], start: int, stop: int) -> str:
        return f"{self._crc(starts[start], starts[stop]):08x}"

    def _crc(self, start: int, stop: int) -> int:
        crc = 0
        with open(self._file.path, "rb") as stream:
            stream.seek(max(stop - 2, start))
            end = stream.read(stop - stream.tell())
            # The end of the last line is there or not, and is when rows are added.
            stop -= len(end) - len(end.rstrip(b"\r\n"))
            stream.seek(start)
            while start < stop and (chunk := stream.read(min(_CHUNK, stop - start))):
                crc = zlib.crc32(chunk, crc)
                start += len(chunk)
        return crc


def is_number_column(values: Iterator[str]) -> bool:
    """Tell whether all values are numbers, missing ones apart."""
    found = [_as_number(value.strip()) for value in values if value.strip()]
    return bool(found) and None not in found


def _as_number(value: str) -> int | float | None:
    """Return a number that is written as one; "007" and "+1" are names, and would lose what makes them so."""
    if _INTEGER.fullmatch(value):
        return int(value)
    return float(value) if _REAL.fullmatch(value) else None


def field_value(text: str, is_number: bool) -> Scalar:
    """Return a field's value: a number where its column holds numbers, and nothing where it is blank."""
    text = text.strip()
    number = _as_number(text) if is_number else None
    return scalar((text or None) if number is None else number)
