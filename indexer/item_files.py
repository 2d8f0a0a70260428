"""The files that items' bytes lie in: inside the data roots, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from indexer.given_path import resolved_path
from indexer.manifest import IndexDirectoryError, SourceRecord
from indexer.source_number import split_number
from indexer.stored_bytes import PictureReadError, read_item, turned_as_stored

__all__ = ["DataRoot", "check_given_roots", "data_roots", "item_bytes", "item_path"]

DataRoot = str | os.PathLike[str] | Mapping[str, str | os.PathLike[str]]

_RESTORE = "restore it, say where the pictures are now (data_root), or build a new index"


def data_roots(index: Path, sources: Sequence[SourceRecord], given: DataRoot | None) -> tuple[Path, ...]:
    """Return the folders that items' ``file`` is relative to, one a source, absolute.

    Args:
        index: The index directory.
        sources: What the manifest says.
        given: Where the pictures of the first source are now, or those of every source by its prefix.

    Raises:
        IndexDirectoryError: A path that no folder can have, or a prefix that no source has.
    """
    moved: Mapping[str, str | os.PathLike[str]]
    moved = {} if given is None else given if isinstance(given, Mapping) else {"": given}
    known = [source.prefix for source in sources]
    for prefix in moved:
        if prefix not in known:
            raise IndexDirectoryError(
                f"the index {index} has no source {prefix!r} whose pictures could have moved; its sources: "
                f"{', '.join(map(repr, known))} (data_root, or --data-root PREFIX=FOLDER, takes these)"
            )
    roots = (moved.get(source.prefix, index / source.root) for source in sources)
    return tuple(resolved_path(root, what="the data root", kind=IndexDirectoryError) for root in roots)


def check_given_roots(given: DataRoot | None) -> None:
    """Refuse a folder that was given as a data root and is not there; one that the manifest names may be away.

    Raises:
        IndexDirectoryError: It is no folder.
    """
    if given is None:
        return
    for root in given.values() if isinstance(given, Mapping) else (given,):
        if not resolved_path(root, what="the data root", kind=IndexDirectoryError).is_dir():
            raise IndexDirectoryError(
                f"the data root {os.fspath(root)!r} is no folder; give the one that the pictures are in now"
            )


def item_path(roots: Sequence[Path], row: Mapping[str, Any]) -> Path:
    """Return the file that holds an item's bytes (a picture, or the tar that holds it).

    Args:
        roots: The data roots.
        row: The item's columns ``key`` and ``file``.

    Raises:
        IndexDirectoryError: The item's ``file`` leads outside its data root, or in circles.
    """
    if not row["file"]:
        raise IndexDirectoryError(f"item {row['key']!r} has no picture: its vectors were imported without one")
    source, inside = split_number(row["file"])
    name = PurePosixPath(inside)
    safe = source < len(roots) and "\0" not in inside and not name.is_absolute() and ".." not in name.parts
    if safe:
        root = roots[source]
        path = resolved_path(root / name, what=f"item {row['key']!r}: its file", kind=IndexDirectoryError)
        if path.is_relative_to(root.resolve()):
            return path
    raise IndexDirectoryError(
        f"item {row['key']!r} names {row['file']!r}, which is not inside {roots[source if source < len(roots) else 0]}"
    )


def item_bytes(roots: Sequence[Path], row: Mapping[str, Any]) -> bytes:
    """Return the bytes of one item's picture file: the original ones, with its turning noted where it has one.

    Args:
        roots: The data roots.
        row: The item's columns ``key``, ``file``, ``member``, ``offset`` and ``size``.

    Raises:
        IndexDirectoryError: The picture has vanished, changed its size, is too large, or is not inside its data root.
    """
    path = item_path(roots, row)
    try:
        data = read_item(path, member=row.get("member"), offset=row.get("offset"), size=row["size"])
    except PictureReadError as error:
        raise IndexDirectoryError(f"item {row['key']!r}: {path} {error}; {_RESTORE}") from error
    if len(data) != row["size"]:
        raise IndexDirectoryError(
            f"item {row['key']!r}: {path} has changed since it was indexed ({row['size']:,} bytes then, "
            f"{len(data):,} now); {_RESTORE}"
        )
    return turned_as_stored(data, row.get("member"))
