"""The place that an export is written to: a new one, filled under a temporary name and renamed when it is whole."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from indexer.exporting.record import ExportError
from indexer.given_path import given_path
from tpips_model.durable_files import TEMPORARY_SUFFIX, flush_to_disk

__all__ = ["export_place"]


@contextmanager
def export_place(to: Path, *, index: Path, needed: int) -> Iterator[Path]:
    """Give a temporary path to write a file or a folder at, which becomes ``to`` when the block ends.

    Args:
        to: What does not exist yet, or is an empty folder.
        index: The index directory, in which nothing else may be put.
        needed: How many bytes will be written at least.

    Raises:
        ExportError: Something is there already, the disk has too little room, or a fault of the file system.
    """
    place = given_path(to, what="the place to export to", kind=ExportError)
    _refuse_what_is_there(place, index)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(place.parent).free
        if free < needed:
            raise ExportError(
                f"the export takes {needed:,} bytes or more, and {place.parent} has {free:,} left; free some space, "
                "give another place with --to, or fewer aspects with --aspect"
            )
        with tempfile.TemporaryDirectory(prefix=".export-", suffix=TEMPORARY_SUFFIX, dir=place.parent) as holder:
            whole = Path(holder) / "whole"
            yield whole
            for path in (*whole.rglob("*"), whole):  # everything below a folder, then itself
                flush_to_disk(path)
            os.replace(whole, place)
            flush_to_disk(place.parent)
    except OSError as error:
        raise ExportError(
            f"cannot write {place}: {error.strerror or error}; nothing stays of it. See to the file system, or give "
            "another place with --to"
        ) from error


def _refuse_what_is_there(place: Path, index: Path) -> None:
    if place.resolve().is_relative_to(index.resolve()):
        raise ExportError(f"{place} is inside the index {index}; give a place outside of it with --to")
    if place.is_symlink():
        raise ExportError(f"{place} is a link, and an export replaces none; give a new place with --to")
    if place.exists() and not (place.is_dir() and not os.listdir(place)):
        raise ExportError(f"{place} exists already and is not empty; give a new place with --to")
