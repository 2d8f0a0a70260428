"""The folder an index is written to: claimed by one program, freed of what a killed one left."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from indexer.directory import MANIFEST_FILE, IndexDirectory
from indexer.durable import TEMPORARY_SUFFIX, make_folder, write_failure
from indexer.file_names import PART_FOLDERS
from indexer.given_path import given_path
from indexer.lock import LOCK_FILE, writer_lock
from indexer.manifest import IndexDirectoryError
from indexer.readers import READERS_FOLDER, older_readers_gone
from tpips_model.errors import TpipsError

__all__ = ["GALLERY_FOLDER", "output_folder", "remove_leftovers"]

GALLERY_FOLDER = "gallery"
_OWN_FILE = re.compile(r"part-\d+(\.\d+)?\.(parquet|npy|codes\.npy)|(quantizer|clustering)\.safetensors")


@contextmanager
def output_folder(out: Path, *, checked: bool = True) -> Iterator[IndexDirectory | None]:
    """Claim a folder for writing an index, for as long as the block runs.

    Args:
        out: A folder that does not exist, is empty, or holds an index, finished or not.
        checked: Whether an index that is there is checked against its manifest.

    Yields:
        The index that is there, or ``None``.

    Raises:
        IndexDirectoryError: Something else is there, a folder of the index is a link, it cannot be written, another
            program writes to it, or the index in it is damaged.
    """
    existed = given_path(out, what="the output folder", kind=IndexDirectoryError).exists()
    _refuse_strangers(out)
    _refuse_links(out)
    make_folder(out)
    with writer_lock(out):
        index = None
        if (out / MANIFEST_FILE).exists():
            index = IndexDirectory.open(out, hold=False) if checked else IndexDirectory.open_unchecked(out)
        remove_leftovers(out, index)
        try:
            yield index
        except Exception:  # not an interrupt, after which the same command goes on
            if not (out / MANIFEST_FILE).exists():
                _discard(out, keep_folder=existed)
            raise


def _refuse_strangers(out: Path) -> None:
    """Refuse a folder that holds anything but an index: a build must not mix with somebody's files."""
    try:
        names = set(os.listdir(out))
    except FileNotFoundError:
        return
    except OSError as error:
        raise write_failure(out, error) from error
    if not names or MANIFEST_FILE in names:
        return
    # What a build killed before its first part leaves behind.
    begun = {LOCK_FILE, GALLERY_FOLDER, MANIFEST_FILE + TEMPORARY_SUFFIX, READERS_FOLDER, *PART_FOLDERS}
    if LOCK_FILE not in names or not names <= begun:
        strange = sorted(names - begun) or sorted(names)
        raise IndexDirectoryError(
            f"the output folder {out} holds something that is no index, such as {strange[0]!r}; give a new or empty "
            "folder with --out"
        )


def _refuse_links(out: Path) -> None:
    """Refuse an index whose folders are links: a build would write, and remove what it takes for left-overs, there."""
    try:
        aspects = out / "aspects"
        slugs = sorted(aspects.iterdir()) if aspects.is_dir() and not aspects.is_symlink() else []
        for path in (*(out / name for name in (*PART_FOLDERS, READERS_FOLDER, GALLERY_FOLDER)), *slugs):
            if path.is_symlink():
                raise IndexDirectoryError(
                    f"{path} is a link, and a build writes into no folder that is one; put the folder itself there, or "
                    "give another folder with --out"
                )
    except OSError as error:
        raise write_failure(out, error) from error


def remove_leftovers(out: Path, index: IndexDirectory | None) -> None:
    """Remove temporary files, and files of an index that no manifest names, as writers leave them.

    What is superseded stays for as long as somebody reads the index as it was.

    Args:
        out: The folder, claimed.
        index: The index that is there.

    Raises:
        IndexDirectoryError: A file cannot be removed.
    """
    named: set[str] = set()
    superseded_too = True
    if index is not None:
        named = set(index.manifest.files).union(*(part.files for part in index.manifest.parts))
        superseded_too = older_readers_gone(out, index.manifest.epoch)
    aspects = out / "aspects"
    slugs = sorted(aspects.iterdir()) if aspects.is_dir() else []
    folders = [*(out / name for name in PART_FOLDERS if name != "aspects"), *slugs]
    try:
        for folder in (out, out / READERS_FOLDER, *folders):
            for path in sorted(folder.iterdir()) if folder.is_dir() else []:
                own_file = folder not in (out, out / READERS_FOLDER) and _OWN_FILE.fullmatch(path.name)
                orphan = superseded_too and own_file and path.relative_to(out).as_posix() not in named
                if orphan or path.name.endswith(TEMPORARY_SUFFIX):
                    path.unlink()
        for folder in (out / "lists", out / "removed", out / "thumbnails", *slugs):
            if folder.is_dir() and not os.listdir(folder):
                folder.rmdir()
    except OSError as error:
        raise write_failure(out, error) from error


def _discard(out: Path, *, keep_folder: bool) -> None:
    """Take back what a build that came to nothing has made, so that nothing half-written stays."""
    # The fault that ended the build is what the user must see; what resists removal here is harmless.
    with contextlib.suppress(OSError, TpipsError):
        remove_leftovers(out, None)
        for path in (out / READERS_FOLDER).iterdir() if (out / READERS_FOLDER).is_dir() else ():
            path.unlink()
        for name in (*PART_FOLDERS, READERS_FOLDER):
            if (out / name).is_dir():
                (out / name).rmdir()
        if os.listdir(out) == [LOCK_FILE]:
            (out / LOCK_FILE).unlink()
            if not keep_folder:
                out.rmdir()
