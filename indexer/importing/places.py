"""From what a user names to vectors, and to the keys and metadata that lie beside them."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl

from indexer.exporting.laion import ARRAYS, METADATA
from indexer.exporting.npy import ITEMS_FILE, array_name
from indexer.exporting.record import SCHEMA_KEY, ExportRecord, read_export_file
from indexer.given_path import given_path
from indexer.importing.arrays import array_input, numbered_files, read_array_head
from indexer.importing.columns import column_input, open_table, vector_columns
from indexer.importing.tables import ItemTable, csv_table, parquet_table
from indexer.importing.vector_input import EmbeddingsError, VectorInput
from tpips_model.aspects import Aspect

__all__ = ["VectorPlace", "export_at", "open_keys", "open_vectors", "split_place"]

PARQUET = (".parquet", ".pq")
_KINDS = "an npy file, a parquet file, a LAION folder or what tpips-index export wrote"


@dataclass(frozen=True)
class VectorPlace:
    """The vectors of one aspect, and the table beside them, if there is one.

    Attributes:
        aspect: The aspect.
        vectors: Its vectors.
        table: Keys and metadata of the same rows.
        record: What the place tells of itself, if it is part of an export.
        options: What the user said of the table behind the place: ``key`` and ``image``.
    """

    aspect: Aspect
    vectors: VectorInput
    table: ItemTable | None
    record: ExportRecord | None
    options: dict[str, str]


def split_place(text: str, known: Collection[str]) -> tuple[Path, dict[str, str]]:
    """Take options such as ``?column=emb&key=id`` off the end of a place, unless there is a file of that very name.

    Raises:
        EmbeddingsError: An option is unknown, or the place is no path.
    """
    place, mark, query = text.rpartition("?")
    if not mark or "=" not in query or os.path.exists(os.path.expanduser(text)):
        place, query = text, ""
    pairs = parse_qsl(query, keep_blank_values=True)
    options = dict(pairs)
    if len(options) < len(pairs):
        raise EmbeddingsError(f"an option behind {place!r} is given twice: {query!r:.200}; give each once")
    for name, value in options.items():
        if name not in known or not value:
            raise EmbeddingsError(
                f"unknown option {name!r} behind {place!r}, or one without a value; there may stand "
                f"{', '.join(f'{one}=…' for one in known)}"
            )
    if not place:
        raise EmbeddingsError(f"there is no file's name in {text!r}; give {_KINDS}")
    return given_path(place, what="the file", kind=EmbeddingsError), options


def export_at(text: str) -> ExportRecord:
    """Return what an export tells of itself.

    Raises:
        EmbeddingsError: There is no export.
        ExportError: It is damaged.
    """
    path, _ = split_place(text, ())
    record = read_export_file(path) if path.is_dir() else _parquet_record(path) if _is_parquet(path) else None
    if record is None:
        raise EmbeddingsError(
            f"{path} is no export of tpips-index (a folder with export.json, or its parquet file); say which file "
            "holds which aspect's vectors with --aspect ASPECT=FILE"
        )
    return record


def open_vectors(aspect: Aspect, text: str) -> VectorPlace:
    """Return the vectors that a place holds for an aspect.

    Raises:
        EmbeddingsError: There are none, or they cannot be read.
        ExportError: It says that it is an export, and is damaged.
    """
    path, options = split_place(text, ("column", "key", "image"))
    column = options.pop("column", None)
    if column is not None and not _is_parquet(path):
        raise EmbeddingsError(f"{path} is no parquet file, so it has no column {column!r}")
    if path.is_dir():
        record = read_export_file(path)
        if record is not None:
            return _of_export(aspect, path, record, options)
        return _of_laion(aspect, path, options)
    if _is_parquet(path):
        vectors = column_input(path, column, slug=aspect.slug)
        table = parquet_table([path], shown=str(path), vectors=vector_columns(open_table(path).schema_arrow))
        return VectorPlace(aspect, vectors, table, table.record, options)
    if path.suffix == ".npy" or not path.exists():
        record = read_export_file(path.parent)
        if record is not None and record.layout == "npy" and path.name in record.vectors.values():
            return _of_arrays(aspect, path, options)
        return VectorPlace(aspect, array_input([read_array_head(path)], shown=str(path)), None, None, options)
    raise EmbeddingsError(f"{path} holds no vectors that can be read; give {_KINDS}")


def open_keys(text: str) -> tuple[ItemTable, dict[str, str]]:
    """Return the table that a place holds, and what the user said of its columns.

    Raises:
        EmbeddingsError: There is none, or it cannot be read.
        SourceError: A csv file that cannot be read.
    """
    path, options = split_place(text, ("key", "image"))
    if path.is_dir():
        files = list(numbered_files(path, ".parquet").values())
        if not files:
            raise EmbeddingsError(f"{path} holds no parquet files; give a csv or parquet file, or a folder of them")
        return parquet_table(files, shown=str(path)), options
    if _is_parquet(path):
        return parquet_table([path], shown=str(path)), options
    if path.suffix in (".csv", ".tsv", ".txt") and path.is_file():
        return csv_table(path), options
    what = "is neither a csv nor a parquet file" if path.exists() else "does not exist"
    raise EmbeddingsError(f"{path} {what}; give the keys in one of these, or leave out --keys to number the items")


def _of_export(aspect: Aspect, path: Path, record: ExportRecord, options: dict[str, str]) -> VectorPlace:
    if aspect not in record.vectors:
        known = ", ".join(repr(one.text) for one in record.vectors)
        raise EmbeddingsError(f"the export {path} has no vectors under {aspect.text!r}; it has {known}")
    # By the aspect's own slug: what a record names is not believed to be inside the folder.
    if record.layout == "npy":
        return _of_arrays(aspect, path / array_name(aspect.slug), options)
    return _of_laion(aspect, path / aspect.slug, options)


def _of_arrays(aspect: Aspect, path: Path, options: dict[str, str]) -> VectorPlace:
    items = path.parent / ITEMS_FILE
    table = parquet_table([items], shown=str(items))
    return VectorPlace(aspect, array_input([read_array_head(path)], shown=str(path)), table, table.record, options)


def _of_laion(aspect: Aspect, path: Path, options: dict[str, str]) -> VectorPlace:
    folder = path / ARRAYS if (path / ARRAYS).is_dir() else path
    files = numbered_files(folder, ".npy")
    if not files:
        raise EmbeddingsError(f"{path} holds no vectors: no {ARRAYS}_0.npy and so on; give {_KINDS}")
    heads = {number: read_array_head(file) for number, file in files.items()}
    vectors = array_input(list(heads.values()), shown=str(folder))
    metadata = next((one for one in (path / METADATA, folder.parent / METADATA) if one.is_dir()), folder)
    tables = numbered_files(metadata, ".parquet")
    if not tables:
        return VectorPlace(aspect, vectors, None, None, options)
    for number in sorted(files.keys() | tables.keys()):
        if number not in files or number not in tables:
            there, absent = (files, "metadata") if number in files else (tables, "vectors")
            raise EmbeddingsError(
                f"{there[number]} has no {absent} of its number beside it; they belong together two by two"
            )
        rows = open_table(tables[number]).metadata.num_rows
        if rows != heads[number].rows:
            raise EmbeddingsError(
                f"{files[number]} holds {heads[number].rows:,} vectors, and {tables[number]} {rows:,} rows; they must "
                "be as many, or keys would go to other vectors"
            )
    table = parquet_table(list(tables.values()), shown=str(metadata))
    return VectorPlace(aspect, vectors, table, table.record, options)


def _parquet_record(path: Path) -> ExportRecord | None:
    text = (open_table(path).schema_arrow.metadata or {}).get(SCHEMA_KEY)
    return ExportRecord.from_json(text, shown=str(path)) if text is not None else None


def _is_parquet(path: Path) -> bool:
    return path.suffix in PARQUET and path.is_file()
