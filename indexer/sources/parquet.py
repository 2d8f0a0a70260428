"""Parquet files with a column of pictures, paths or addresses; the other columns become metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from indexer.columns import Scalar
from indexer.sources.file_kinds import describe_file, suffix
from indexer.sources.keys import plain_step
from indexer.sources.named_pictures import NamedPictures, StoredPicture, address_key, path_key
from indexer.sources.parquet_footer import DamagedParquetError, Footer, read_footer
from indexer.sources.parquet_layout import ParquetLayout, column_values, parquet_layout
from indexer.sources.row_ranges import RowRange, covered_ranges, uncovered
from indexer.sources.shard_files import FileKind, ShardFile, root_of
from indexer.sources.source import BadSample, Indexed, Sample, Shard, SourceError
from indexer.sources.table_columns import metadata_of
from indexer.sources.urls import is_web_url
from indexer.stored_bytes import MAX_PICTURE_BYTES
from indexer.stored_rows import PARQUET_FAULTS, open_parquet, picture_of, row_batches

__all__ = ["PARQUET_FILES", "ParquetSource"]

PARQUET_FILES = FileKind(
    noun=".parquet",
    matches=lambda name: suffix(name) in (".parquet", ".pq", ".parq"),
    example="data/train-*.parquet",
    nested=True,
)
# Larger row groups, which only tables without the pictures themselves have, are split.
MAX_SHARD_ROWS = 4096
_MAX_KEY = 1024


@dataclass(frozen=True)
class _Row:
    """A row as the file holds it; ``fault`` says why it cannot be read."""

    number: int
    key: str
    picture: bytes | str | None = None
    metadata: dict[str, Scalar] | None = None
    fault: str | None = None


class ParquetSource:
    """The rows of parquet files; an item's key is the file's name without suffix and the row's number.

    Shards are runs of whole row groups. Where a file names pictures by path or address, their keys are those; paths are
    relative to ``pictures``, and what addresses lead to is kept in ``gallery``.

    Args:
        files: The files, at least one.
        kind: The source's name in the registry.
        gallery: Where fetched pictures are kept.
        root: The data root of the index, if there is one already.
        pictures: The folder that paths are relative to; by default the first file's.
        shard_size: Row groups are put together up to so many rows.
        image: The column of pictures; by default it is found.
        key: A column of keys.
        private: Whether addresses may lead to this machine or a private network.

    Raises:
        SourceError: There is no readable file among them, or it is not clear which column holds pictures.
    """

    def __init__(
        self,
        files: Sequence[ShardFile],
        *,
        kind: str = "parquet",
        gallery: Path,
        root: Path | None = None,
        pictures: Path | None = None,
        shard_size: int,
        image: str | None = None,
        key: str | None = None,
        private: bool = False,
    ) -> None:
        self.kind = kind
        self._shard_size = shard_size
        self._options = (image, key)
        base, names = root_of([file.path for file in files], root)
        self._files: dict[str, ShardFile] = {}
        for name, file in zip(names, files, strict=True):
            self._files.setdefault(name, file)
        first, layout, addresses = self._look()
        if not layout.as_text:
            self.root = base
        elif addresses:
            self.root = gallery.resolve()
        else:
            self.root = (pictures or self._files[first].path.parent).resolve()
        self._pictures = NamedPictures(self.root, addresses=layout.as_text and addresses, private=private)

    def shards(self, indexed: Indexed) -> list[Shard]:
        """Return the rows that are not indexed yet, and the files that cannot be read."""
        shards = []
        for name, file in self._files.items():
            try:
                footer = read_footer(file)
            except DamagedParquetError as error:
                damaged = f"{name}~damaged"
                if damaged not in indexed.shards:
                    shards.append(Shard(damaged, samples=1, content=(BadSample(name, f"the file {error}"),)))
                continue
            self._layout(footer, name)
            covered = covered_ranges(name, indexed.shards)
            for known in covered:
                if known.check != footer.check:
                    raise known.changed(file.shown)
            for start, end in uncovered(_runs(footer.groups, self._shard_size), covered):
                rows = RowRange(name, start, end, footer.check)
                shards.append(Shard(rows.name, samples=end - start, content=(rows,)))
        return shards

    def read(self, shard: Shard) -> Iterator[Sample | BadSample]:
        """Give the shard's rows in order, each of them as a sample or a bad sample."""
        (content,) = shard.content
        if isinstance(content, BadSample):
            yield content
            return
        file = self._files[content.file]
        path = file.fetched()
        try:
            footer = read_footer(file)
        except DamagedParquetError as error:
            raise SourceError(f"{path} {error}; see to it and run the same command again") from error
        if footer.check != content.check:
            raise content.changed(str(path))
        layout = self._layout(footer, content.file)
        rows = _rows(path, footer, content, layout)
        if layout.as_text:
            yield from self._named(rows)
        else:
            for row in rows:
                yield self._held(row, content.file, layout)

    def _held(self, row: _Row, file: str, layout: ParquetLayout) -> Sample | BadSample:
        if row.fault is not None:
            return BadSample(row.key, row.fault)
        if isinstance(row.picture, bytes):
            if len(row.picture) > MAX_PICTURE_BYTES:
                return BadSample(row.key, f"has {len(row.picture):,} bytes; at most {MAX_PICTURE_BYTES:,} are read")
            member, size = f"{row.number}/{layout.image}", len(row.picture)
            return Sample(row.key, row.picture, file, member, None, size, row.metadata or {})
        if row.picture is None:
            return BadSample(row.key, "the row holds no picture")
        ((_, found),) = self._pictures.read_all([(row, row.picture)])
        return _sample(row, row.key, found)

    def _named(self, rows: Iterable[_Row]) -> Iterator[Sample | BadSample]:
        asked = ((row, row.picture if isinstance(row.picture, str) else "") for row in rows)
        for row, found in self._pictures.read_all(asked):
            name = row.picture if isinstance(row.picture, str) else ""
            key = address_key(name) if self._pictures.addresses else path_key(name)
            own = self._options[1] is not None or row.fault is not None or not key
            yield _sample(row, row.key if own else key, found)

    def _look(self) -> tuple[str, ParquetLayout, bool]:
        """Return the first readable file, its layout, and whether its text column holds addresses."""
        faults, looks = [], []
        for name, file in self._files.items():
            try:
                layout = self._layout(footer := read_footer(file), name)
                return name, layout, layout.as_text and _holds_addresses(file.fetched(), footer, layout)
            except DamagedParquetError as error:
                faults.append(f"{file.shown} {error}")
                looks.append(f"; it looks like {describe_file(file.path)}" if file.path.exists() else "")
        raise SourceError(
            f"none of the {len(self._files)} files can be read; the first: {faults[0]}{looks[0]}. "
            "Give parquet files only"
        )

    def _layout(self, footer: Footer, name: str) -> ParquetLayout:
        image, key = self._options
        return parquet_layout(footer.schema, image=image, key=key, shown=self._files[name].shown)


def _sample(row: _Row, key: str, found: StoredPicture | str) -> Sample | BadSample:
    if row.fault is not None or isinstance(found, str):
        return BadSample(key, row.fault or str(found))
    return Sample(key, found.data, found.file, None, None, len(found.data), row.metadata or {})


def _runs(groups: Sequence[int], shard_size: int) -> Iterator[tuple[int, int]]:
    """Give runs of whole row groups of at most ``shard_size`` rows, or of one larger one, split where it is huge."""
    start = end = 0
    for rows in groups:
        if end > start and end - start + rows > shard_size:
            yield start, end
            start = end
        end += rows
        while end - start > max(MAX_SHARD_ROWS, shard_size):
            yield start, start + MAX_SHARD_ROWS
            start += MAX_SHARD_ROWS
    if end > start:
        yield start, end


def _rows(path: Path, footer: Footer, wanted: RowRange, layout: ParquetLayout) -> Iterator[_Row]:
    """Give every row of a range; those of a row group that breaks off each with the reason."""
    try:
        file = open_parquet(path)
    except PARQUET_FAULTS as error:
        raise SourceError(f"{path} cannot be read ({error}); see to it and run again") from error
    with file:
        first = 0
        for group, count in enumerate(footer.groups):
            start, end = max(first, wanted.start), min(first + count, wanted.end)
            if start < end:
                yield from _group_rows(file, group, first, range(start, end), layout, wanted.file)
            first += count


def _group_rows(
    file: pq.ParquetFile, group: int, first: int, wanted: range, layout: ParquetLayout, name: str
) -> Iterator[_Row]:
    batches = row_batches(file, group, layout.columns)
    at, fault = first, f"row group {group} ends early"
    while at < wanted.stop:
        try:
            batch = next(batches, None)
        except PARQUET_FAULTS as error:
            batch, fault = None, f"row group {group} cannot be read: {str(error) or type(error).__name__:.200}"
        if batch is None:
            break
        skipped = max(wanted.start - at, 0)
        if skipped < batch.num_rows:
            part = batch.slice(skipped, min(batch.num_rows, wanted.stop - at) - skipped)
            yield from _batch_rows(part, at + skipped, layout, name)
        at += batch.num_rows
    for number in range(max(at, wanted.start), wanted.stop):
        yield _Row(number, _row_key(name, number), fault=fault)


def _batch_rows(batch: pa.RecordBatch, first: int, layout: ParquetLayout, name: str) -> Iterator[_Row]:
    try:
        rows = _converted(batch, first, layout, name)
    except (*PARQUET_FAULTS, OverflowError) as error:
        if batch.num_rows > 1:  # so that one bad value costs one row
            rows = [
                row for at in range(batch.num_rows) for row in _batch_rows(batch.slice(at, 1), first + at, layout, name)
            ]
        else:
            rows = [_Row(first, _row_key(name, first), fault=f"the row cannot be read: {error}"[:200])]
    yield from rows


def _converted(batch: pa.RecordBatch, first: int, layout: ParquetLayout, name: str) -> list[_Row]:
    columns = {column: column_values(batch.column(column), layout.labels.get(column)) for column in layout.names}
    keys = batch.column(layout.key).to_pylist() if layout.key is not None else None
    rows = []
    for at, value in enumerate(batch.column(layout.image).to_pylist()):
        metadata = metadata_of({column: values[at] for column, values in columns.items()}, layout.names)
        key, fault = _row_key(name, first + at), None
        if keys is not None:
            own = "" if keys[at] is None else plain_step(str(keys[at]))
            if own and len(own) <= _MAX_KEY:
                key = own
            else:
                fault = (
                    f"its key has {len(own):,} characters; at most {_MAX_KEY:,} are kept" if own else "its key is empty"
                )
        rows.append(_Row(first + at, key, _picture(value), metadata, fault))
    return rows


def _picture(value: object) -> bytes | str | None:
    data = picture_of(value)
    if data is None and isinstance(value, dict) and isinstance(value.get("path"), str):
        return str(value["path"])
    return value if isinstance(value, str) else data


def _row_key(name: str, row: int) -> str:
    stem, dot, _ = name.rpartition(".")
    return f"{stem if dot else name}/{row}"


def _holds_addresses(path: Path, footer: Footer, layout: ParquetLayout) -> bool:
    whole = RowRange(path.name, 0, min(sum(footer.groups), MAX_SHARD_ROWS), footer.check)
    names = (row.picture for row in _rows(path, footer, whole, layout) if isinstance(row.picture, str))
    return is_web_url(next((name.strip() for name in names if name.strip()), ""))
