"""The command ``tpips-index thumbnails``."""

from __future__ import annotations

import shlex
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from indexer.commands.data_root import DataRoots, given_data_root
from indexer.commands.interruption import interruptible
from indexer.directory import IndexDirectory, IndexDirectoryError, read_manifest
from indexer.file_checks import removed_rows
from indexer.file_names import thumbnails_file
from indexer.given_path import given_path
from indexer.index_changes import recorded, with_file
from indexer.item_files import DataRoot, data_roots, item_bytes
from indexer.manifest import PartRecord
from indexer.output_folder import output_folder, remove_leftovers
from indexer.part import write_thumbnails
from indexer.thumbnails import MAX_SIDE, MIN_SIDE, THUMBNAIL_SIDE, make_thumbnail
from tpips_model.counted import counted
from tpips_model.errors import TpipsError
from tpips_model.images import to_rgb
from tpips_model.progress_bar import ProgressBar

__all__ = ["add_thumbnails", "remove_thumbnails", "thumbnails"]

# Decoding lets go of Python's lock, so that two threads decode nearly twice as much.
_THREADS = 2
_PICTURES_AT_ONCE = 32
_COLUMNS = ["key", "file", "member", "offset", "size"]


def thumbnails(
    directory: Annotated[Path, typer.Argument(help="The index directory.")],
    side: Annotated[
        int, typer.Option(min=MIN_SIDE, max=MAX_SIDE, help="The longest side of the small pictures in pixels.")
    ] = THUMBNAIL_SIDE,
    data_root: DataRoots = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the small pictures out of the index.")] = False,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Keep a small picture of every item in the index, so that it can be browsed away from its images.

    Running the same command again does only what is missing; pictures that are added later get theirs, too.
    """
    folder = given_path(directory, what="the index", kind=IndexDirectoryError)
    read_manifest(folder)  # so that no folder is made where there is no index
    where = shlex.quote(str(directory))
    given_root = given_data_root(data_root)
    with interruptible(), output_folder(folder, checked=not remove) as index:
        assert index is not None
        if remove:
            remove_thumbnails(index)
            typer.echo("no thumbnails any more")
            return
        index, missing = add_thumbnails(index, side, data_root=given_root, progress=progress)
    size = sum(part.files[thumbnails_file(part.id)].bytes for part in index.manifest.parts)
    typer.echo(
        f"thumbnails of {side} pixels for {counted(index.live_count - missing.count, 'image')}, {size:,} bytes in all"
    )
    if missing.count:
        told = counted(missing.count, "picture has", "pictures have")
        typer.echo(
            f"{told} none, such as {missing.example}; once they can be read: "
            f"tpips-index thumbnails {where} --remove, then the same command again"
        )
    typer.echo(f"browse it, with or without the pictures: tpips-app {where}")


@dataclass(frozen=True)
class Missing:
    """How many pictures were given no thumbnail, and why one of them was not."""

    count: int = 0
    example: str = ""


def add_thumbnails(
    index: IndexDirectory, side: int, *, data_root: DataRoot | None = None, progress: bool = True
) -> tuple[IndexDirectory, Missing]:
    """Make the thumbnails that an index lacks, part by part; later parts are given theirs when they are made.

    The caller holds the index's lock. What is finished is kept whenever it is stopped.

    Args:
        index: The index.
        side: The longest side in pixels.
        data_root: Where the pictures are now, if not where the manifest says; of several sources by their prefixes.
        progress: Whether a progress bar is shown on standard error.

    Returns:
        The index as it is now, and what could not be given one just now.

    Raises:
        IndexDirectoryError: The index has thumbnails of another size, none of a part's pictures can be read, or a file
            cannot be written.
    """
    manifest = index.manifest
    if manifest.thumbnail_side != side:
        if any(part.has_thumbnails for part in manifest.parts):
            raise IndexDirectoryError(
                f"the index {index.path} has thumbnails of {manifest.thumbnail_side} pixels already; take them away "
                f"first: tpips-index thumbnails {shlex.quote(str(index.path))} --remove"
            )
        index = recorded(index, replace(manifest, thumbnail_side=side))
    roots = data_roots(index.path, manifest.sources, data_root)
    lacking = [part for part in index.manifest.parts if not part.has_thumbnails]
    missing = Missing()
    with ProgressBar(
        total=sum(part.live for part in lacking), desc="making thumbnails", unit=" images", disable=not progress
    ) as bar:
        for part in lacking:
            made, reasons = [], []
            with closing(_thumbnails(index, part, roots, side)) as results:
                for picture, fault in results:
                    made.append(picture)
                    if fault:
                        reasons.append(fault)
                    bar.update(bool(picture or fault))
            if part.live and len(reasons) == part.live:
                pictures = counted(part.live, "picture")
                raise IndexDirectoryError(
                    f"none of the {pictures} of part {part.id} can be read, such as: {reasons[0]}; say with "
                    "--data-root where the pictures are now"
                )
            if reasons:
                missing = Missing(missing.count + len(reasons), missing.example or reasons[0])
            index = _with_thumbnails(index, part, made)
    return index, missing


def remove_thumbnails(index: IndexDirectory) -> IndexDirectory:
    """Take the thumbnails out of an index, of which later parts get none either; the caller holds the index's lock.

    Returns:
        The index as it is now.

    Raises:
        IndexDirectoryError: A file cannot be written or removed.
    """
    parts = tuple(
        replace(part, files={name: file for name, file in part.files.items() if name != thumbnails_file(part.id)})
        if part.has_thumbnails
        else part
        for part in index.manifest.parts
    )
    index = recorded(index, replace(index.manifest, parts=parts, thumbnail_side=None))
    remove_leftovers(index.path, index)
    return index


def _with_thumbnails(index: IndexDirectory, part: PartRecord, made: list[bytes]) -> IndexDirectory:
    name = thumbnails_file(part.id)
    if (index.path / name).exists():
        # Left by --remove for those who were reading the index then; writing it now would change it under their eyes.
        raise IndexDirectoryError(
            f"another program still reads the thumbnails that were taken out of {index.path}; end it (an app, a "
            "server), and run the same command again"
        )
    return with_file(index, part, name, write_thumbnails(index.path, part.id, made))


def _thumbnails(
    index: IndexDirectory, part: PartRecord, roots: tuple[Path, ...], side: int
) -> Generator[tuple[bytes, str]]:
    """Give every row's thumbnail, or nothing and the reason; neither for a row that is removed."""
    removed = set(removed_rows(index.path, part).tolist())
    rows = iter(enumerate(index.part_items(part, _COLUMNS).to_pylist()))

    def small(data: bytes | TpipsError | None) -> tuple[bytes, str]:
        if data is None:
            return b"", ""
        try:
            if isinstance(data, TpipsError):
                raise data
            return make_thumbnail(to_rgb(data, at_least=side), side), ""
        except TpipsError as error:
            return b"", str(error)

    with ThreadPoolExecutor(_THREADS) as pool:
        while batch := list(islice(rows, _PICTURES_AT_ONCE)):
            # Read one after the other, as they lie in tars and tables; decoded at once.
            yield from pool.map(small, [None if row in removed else _read(roots, item) for row, item in batch])


def _read(roots: tuple[Path, ...], item: dict[str, Any]) -> bytes | TpipsError:
    try:
        return item_bytes(roots, item)
    except TpipsError as error:
        return error
