"""The registry of sources, and how ``--data`` picks one."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from indexer.given_path import given_path
from indexer.output_folder import GALLERY_FOLDER
from indexer.sources.file_kinds import compressed_tar, describe_file, describe_names, is_picture_name, suffix
from indexer.sources.folder import DEFAULT_SHARD_SIZE, FolderSource
from indexer.sources.source import Source, SourceError
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
        data: ``folder:PATH``, ``webdataset:PATTERN``, ``demo``, or a bare path or pattern, whose kind is guessed.
        out: The index directory, which is not looked into for pictures, and where ``demo`` paints its gallery.
        shard_size: How many files of a folder make a shard.
        root: The data root of the index, if there is one already; tar shards are named relative to it.

    Raises:
        SourceError: It names no source, or there is nothing to index; the message says what it looks like.
    """
    if "\0" in data:
        raise SourceError(f"--data {data!r:.120} holds a null character, which no path can; give another path")
    kind, _, place = data.partition(":")
    if kind not in SOURCES:
        kind, place = _guess_kind(data), data
    return SOURCES[kind](_Request(kind, place, out, shard_size, root))


def _open_folder(request: _Request) -> Source:
    _require_place(request, "folder:PATH, such as folder:~/Pictures")
    return FolderSource(request.place, shard_size=request.shard_size, exclude=request.out)


def _open_webdataset(request: _Request) -> Source:
    _require_place(request, "webdataset:PATTERN, such as webdataset:shards/{000..127}.tar")
    return WebDatasetSource(request.place, root=request.root)


def _open_demo(request: _Request) -> Source:
    if request.place:
        raise SourceError(f"'demo' takes nothing behind its colon, but {request.place!r} was given; give --data demo")
    from indexer.sources.demo import DemoSource

    return DemoSource(request.out / GALLERY_FOLDER, shard_size=request.shard_size)


def _coming_later(request: _Request) -> Source:
    raise SourceError(
        f"--data {request.kind} is planned and not there yet; for a local copy give --data folder:PATH (pictures) or "
        "--data webdataset:PATTERN (tar shards)"
    )


SOURCES: dict[str, Callable[[_Request], Source]] = {
    "folder": _open_folder,
    "webdataset": _open_webdataset,
    "demo": _open_demo,
    "wikiart": _coming_later,
    "openimages": _coming_later,
}


def _require_place(request: _Request, example: str) -> None:
    if not request.place:
        raise SourceError(f"--data {request.kind} does not say where the pictures are; give {example}")


def _guess_kind(data: str) -> str:
    if not data.strip():
        raise SourceError("--data is empty; give folder:PATH, webdataset:PATTERN, demo, or a bare path")
    pattern = re.search(r"[{*?\[]", data) is not None and "://" not in data
    if pattern and not os.path.exists(os.path.expanduser(data)):
        return "webdataset"  # which may be longer than any path
    path = given_path(data, what="--data", kind=SourceError)
    if path.is_dir():
        return _guess_folder(path)
    if path.exists():
        if suffix(path.name) == ".tar" or compressed_tar(path.name):
            return "webdataset"
        more = "; give the folder that holds it" if is_picture_name(path.name) else ""
        raise SourceError(
            f"--data {data} is a file that looks like {describe_file(path)}{more}; expected is a folder of "
            "pictures, tar shards, or 'demo'"
        )
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+-]+):", data)
    if "://" in data:
        raise SourceError(f"--data {data} is not on this machine; copy it here first and give its path")
    if scheme:
        raise SourceError(f"--data {data}: unknown kind {scheme[1]!r}; known kinds: {', '.join(SOURCES)}")
    raise SourceError(f"--data {data} does not exist; give a folder of pictures, tar shards, or 'demo'")


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
    raise SourceError(
        f"--data {path} holds no pictures and no tar shards, but {describe_names(names)}; give a folder that holds "
        "JPEG, PNG, WebP, GIF, BMP or TIFF files"
    )
