"""Reading a csv file row by row, from any row on, so that a bad row costs that row alone."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from indexer.sources.source import SourceError

__all__ = ["CsvFile", "CsvRow"]

_BOM = b"\xef\xbb\xbf"
_DELIMITERS = ",;\t|"
_MAX_HEADER = 1 << 20


@dataclass(frozen=True)
class CsvRow:
    """A row of a csv file.

    Attributes:
        start: At which byte it begins.
        end: At which byte the next one begins.
        fields: Its fields, as many as the header has; empty where there is a fault.
        fault: Why it cannot be used.
    """

    start: int
    end: int
    fields: tuple[str, ...]
    fault: str | None = None


class CsvFile:
    """A csv file with a header row, in UTF-8; the delimiter is that of its header, of comma, semicolon, tab and bar.

    Args:
        path: The file.

    Raises:
        SourceError: It cannot be read, or its first row is no header.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: tuple[str, ...] = ()
        self._delimiter = ","
        with self._open() as stream:
            first = stream.readline(_MAX_HEADER)
            line = first.removeprefix(_BOM).decode("utf-8", "replace")
            self._delimiter = max(_DELIMITERS, key=line.count) if any(map(line.count, _DELIMITERS)) else ","
            stream.seek(len(_BOM) if first.startswith(_BOM) else 0)
            row = next(self._read(stream), None)
        if row is None or row.fault is not None:
            why = row.fault if row is not None else "it is empty"
            raise SourceError(f"{path} has no header row ({why}); the first row must name the columns")
        self.header, self._first = tuple(name.strip() for name in row.fields), row.end
        doubled = [name for name in self.header if self.header.count(name) > 1]
        if doubled:
            raise SourceError(f"{path} names the column {doubled[0]!r} twice; the first row must name the columns")

    def rows(self, start: int | None = None) -> Iterator[CsvRow]:
        """Give the rows from a byte on at which one begins, or all of them. Blank lines are no rows.

        Raises:
            SourceError: The file can no longer be read.
        """
        with self._open() as stream:
            stream.seek(self._first if start is None else start)
            for row in self._read(stream):
                if row.fault is None and len(row.fields) != len(self.header):
                    fault = f"the row has {len(row.fields)} fields, and the header {len(self.header)}"
                    row = CsvRow(row.start, row.end, (), fault)
                yield row

    def _open(self) -> BinaryIO:
        try:
            return open(self.path, "rb")
        except OSError as error:
            raise SourceError(f"cannot read {self.path}: {error.strerror or error}; give another csv file") from error

    def _read(self, stream: BinaryIO) -> Iterator[CsvRow]:
        while True:
            start = stream.tell()
            lines = _lines(stream)
            try:
                fields = next(csv.reader(lines, delimiter=self._delimiter, strict=True), None)
            except (csv.Error, UnicodeDecodeError) as error:
                # An open quote may have swallowed all that follows: go on with the next line.
                reached = stream.tell()
                stream.seek(start)
                stream.readline()
                what = f"is no csv: {error}"
                if isinstance(error, UnicodeDecodeError):
                    open_quote = reached > stream.tell()
                    what = "is no csv: a quote opens in it and does not close" if open_quote else "is not UTF-8"
                yield CsvRow(start, stream.tell(), (), f"the row {what}")
                continue
            if fields is None:
                return
            if fields:
                yield CsvRow(start, stream.tell(), tuple(fields))


def _lines(stream: BinaryIO) -> Iterator[str]:
    while line := stream.readline():
        yield line.decode("utf-8")
