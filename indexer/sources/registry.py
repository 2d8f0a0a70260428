"""The registry of sources, and how ``--data`` picks one."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from indexer.given_path import given_path
from indexer.output_folder import GALLERY_FOLDER
from indexer.sources.artgan import ArtganSource
from indexer.sources.csv_list import CsvSource
from indexer.sources.file_kinds import compressed_tar, describe_file, describe_names, is_picture_name, suffix
from indexer.sources.folder import DEFAULT_SHARD_SIZE, FolderSource
from indexer.sources.openimages import fetched_openimages, local_openimages
from indexer.sources.options import flag, split_options, without_options
from indexer.sources.source import Source, SourceError
from indexer.sources.urls import is_url, redacted
from indexer.sources.webdataset import WebDatasetSource

__all__ = ["SOURCES", "open_source"]


@dataclass(frozen=True)
class _Request:
    """What a source is opened with: the kind asked for, what stands behind its colon, and the index's needs."""

    kind: str
    place: str
    out: Path
    shard_size: int
    root: Path | None


def open_source(data: str, *, out: Path, shard_size: int = DEFAULT_SHARD_SIZE, root: Path | None = None) -> Source:
    """Open the source that ``--data`` names.

    Args:
        data: ``KIND:PLACE`` with a kind of ``SOURCES``, or a bare path, pattern or address, whose kind is guessed.
            Options stand behind the place, as in ``csv:list.csv?image=photo&key=id``.
        out: The index directory, which is not looked into for pictures, and where pictures are kept that lie nowhere
            else: those that ``demo`` paints, and those that a table's addresses lead to.
        shard_size: How many files of a folder or rows of a table make a shard.
        root: The data root of the index, if there is one already; shards are named relative to it.

    Raises:
        SourceError: It names no source, or there is nothing to index; the message says what it looks like.
    """
    if "\0" in data:
        shown = redacted(data) if is_url(data) else data
        raise SourceError(f"--data {shown!r:.120} holds a null character, which no path can; give another path")
    kind, _, place = data.partition(":")
    bare, question, options = data.partition("?")
    if bare in SOURCES:  # options and no place, as in openimages?split=test
        kind, place = bare, question + options
    elif kind not in SOURCES:
        kind, place = _guess_kind(data), data
    return SOURCES[kind](_Request(kind, place, out, shard_size, root))


def _open_folder(request: _Request) -> Source:
    _require_place(request, request.place, "folder:PATH, such as folder:~/Pictures")
    return FolderSource(request.place, shard_size=request.shard_size, exclude=request.out)


def _open_webdataset(request: _Request) -> Source:
    _require_place(request, request.place, "webdataset:PATTERN, such as webdataset:shards/{000..127}.tar")
    return WebDatasetSource(request.place, root=request.root)


def _open_demo(request: _Request) -> Source:
    if request.place:
        raise SourceError(f"'demo' takes nothing behind its colon, but {request.place!r} was given; give --data demo")
    from indexer.sources.demo import DemoSource

    return DemoSource(request.out / GALLERY_FOLDER, shard_size=request.shard_size)


def _open_wikiart(request: _Request) -> Source:
    if not request.place:
        return _hub_source(request, "huggan/wikiart", {}, local="a local copy with --data wikiart:PATH")
    place = given_path(request.place, what="the folder", kind=SourceError)
    if place.is_dir() and not _holds_parquet(place):
        return ArtganSource(place, shard_size=request.shard_size, exclude=request.out)
    return _parquet_source(request, request.place, {})


def _open_openimages(request: _Request) -> Source:
    place, options = split_options(request.place, ("split", "tables"), kind=request.kind)
    split, with_tables = options.get("split"), flag(options, "tables", default=True)
    if not place:
        return fetched_openimages(split=split, with_tables=with_tables)
    return local_openimages(
        place, split=split, with_tables=with_tables, shard_size=request.shard_size, exclude=request.out
    )


def _open_parquet(request: _Request) -> Source:
    place, options = split_options(request.place, _TABLE_OPTIONS, kind=request.kind)
    _require_place(request, place, "parquet:PATTERN, such as parquet:data/train-*.parquet")
    return _parquet_source(request, place, options)


def _open_csv(request: _Request) -> Source:
    place, options = split_options(request.place, _TABLE_OPTIONS, kind=request.kind)
    _require_place(request, place, "csv:FILE, such as csv:pictures.csv?image=path")
    if is_url(place):
        raise SourceError(f"{redacted(place)} is not on this machine; fetch the csv file first and give its path")
    return CsvSource(
        place, gallery=request.out / GALLERY_FOLDER, shard_size=request.shard_size, **_table_options(options)
    )


def _open_hub(request: _Request) -> Source:
    place, options = split_options(request.place, ("split", "image", "key"), kind=request.kind)
    _require_place(request, place, "hf:ID, such as hf:huggan/wikiart?split=train")
    return _hub_source(request, place, options, local="its parquet files with --data parquet:PATH")


SOURCES: dict[str, Callable[[_Request], Source]] = {
    "folder": _open_folder,
    "webdataset": _open_webdataset,
    "demo": _open_demo,
    "wikiart": _open_wikiart,
    "openimages": _open_openimages,
    "parquet": _open_parquet,
    "csv": _open_csv,
    "hf": _open_hub,
}
_TABLE_OPTIONS = ("image", "key", "root", "private")


def _parquet_source(request: _Request, place: str, options: dict[str, str]) -> Source:
    from indexer.sources.parquet import PARQUET_FILES, ParquetSource
    from indexer.sources.shard_files import expand_files

    return ParquetSource(
        expand_files(place, PARQUET_FILES, exclude=request.out),
        kind=request.kind,
        gallery=request.out / GALLERY_FOLDER,
        root=request.root,
        shard_size=request.shard_size,
        **_table_options(options),
    )


def _hub_source(request: _Request, repo: str, options: dict[str, str], *, local: str) -> Source:
    from indexer.sources.hub import hub_files
    from indexer.sources.parquet import ParquetSource

    root, files = hub_files(repo, split=options.get("split"), known=request.root, local=local)
    return ParquetSource(
        files,
        kind=request.kind,
        gallery=request.out / GALLERY_FOLDER,
        root=root,
        shard_size=request.shard_size,
        image=options.get("image"),
        key=options.get("key"),
    )


def _table_options(options: dict[str, str]) -> dict[str, Any]:
    pictures = None
    if "root" in options:
        pictures = given_path(options["root"], what="the folder of the pictures", kind=SourceError)
        if not pictures.is_dir():
            raise SourceError(f"the folder of the pictures {pictures} does not exist; give another one with root=")
    return {
        "image": options.get("image"),
        "key": options.get("key"),
        "pictures": pictures,
        "private": flag(options, "private", default=False),
    }


def _holds_parquet(folder: Path) -> bool:
    return any(
        suffix(name) == ".parquet"
        for place in (folder, folder / "data")
        if place.is_dir()
        for name in os.listdir(place)
    )


def _require_place(request: _Request, place: str, example: str) -> None:
    if not place:
        raise SourceError(f"--data {request.kind} does not say where the pictures are; give {example}")


def _guess_kind(data: str) -> str:
    if not data.strip():
        raise SourceError("--data is empty; give folder:PATH, webdataset:PATTERN, demo, or a bare path")
    if is_url(data):
        return _guess_by_name(redacted(data)) or _unknown_address(data)
    if not os.path.exists(os.path.expanduser(data)):
        data = without_options(data)
    pattern = re.search(r"[{*?\[]", data) is not None
    if pattern and not os.path.exists(os.path.expanduser(data)):
        return _guess_by_name(data) or "webdataset"  # which may be longer than any path
    path = given_path(data, what="--data", kind=SourceError)
    if path.is_dir():
        return _guess_folder(path)
    if path.exists():
        guessed = _guess_by_name(path.name)
        if guessed is not None:
            return guessed
        more = "; give the folder that holds it" if is_picture_name(path.name) else ""
        raise SourceError(
            f"--data {data} is a file that looks like {describe_file(path)}{more}; expected is a folder of "
            "pictures, tar shards, a parquet or csv file, or 'demo'"
        )
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+-]+):", data)
    if scheme:
        raise SourceError(f"--data {data}: unknown kind {scheme[1]!r}; known kinds: {', '.join(SOURCES)}")
    raise SourceError(f"--data {data} does not exist; give a folder of pictures, tar shards, or 'demo'")


def _guess_by_name(name: str) -> str | None:
    if suffix(name) == ".tar" or compressed_tar(name):
        return "webdataset"
    return {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "csv"}.get(suffix(name))


def _unknown_address(data: str) -> str:
    raise SourceError(
        f"--data {redacted(data)} does not say what lies there; give webdataset:ADDRESS (tar shards) or parquet:ADDRESS"
    )


def _guess_folder(path: Path) -> str:
    names: list[str] = []
    for _, folders, files in os.walk(path):
        folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
        for name in files:
            if is_picture_name(name) and not name.startswith("."):
                return "folder"
        names += files
    if any(suffix(name) == ".tar" or compressed_tar(name) for name in os.listdir(path)):
        return "webdataset"
    if any(suffix(name) == ".parquet" for name in names):
        return "parquet"
    raise SourceError(
        f"--data {path} holds no pictures and no tar shards, but {describe_names(names)}; give a folder that holds "
        "JPEG, PNG, WebP, GIF, BMP or TIFF files"
    )
