"""Replacing a folder so that a kill leaves it as it was before, or wholly new."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from tpips_model.durable_files import flush_to_disk

__all__ = ["mended_folder", "write_folder"]

# Until it is complete; complete and not yet in its place; the old one, until the new one is in its place.
PARTIAL, COMPLETE, OLD = ".partial", ".complete", ".old"


def write_folder(path: Path, fill: Callable[[Path], object]) -> None:
    """Replace a folder by a new one; after a kill ``mended_folder`` brings back the old one or the new one.

    Args:
        path: The folder; its parent must be there.
        fill: Writes the files into the folder it is given, which stands beside ``path``.
    """
    partial, complete, old = (path.with_name(path.name + suffix) for suffix in (PARTIAL, COMPLETE, OLD))
    mended_folder(path)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    fill(partial)
    for name in sorted(partial.iterdir()):
        flush_to_disk(name)
    flush_to_disk(partial)
    os.rename(partial, complete)
    flush_to_disk(path.parent)
    _put_in_place(path, complete, old)


def mended_folder(path: Path) -> Path:
    """Finish what a kill left half done, and return ``path``."""
    partial, complete, old = (path.with_name(path.name + suffix) for suffix in (PARTIAL, COMPLETE, OLD))
    if complete.is_dir():
        _put_in_place(path, complete, old)
    if old.is_dir():
        shutil.rmtree(old)
    shutil.rmtree(partial, ignore_errors=True)
    return path


def _put_in_place(path: Path, complete: Path, old: Path) -> None:
    if path.is_dir():
        shutil.rmtree(old, ignore_errors=True)
        os.rename(path, old)
    os.rename(complete, path)
    flush_to_disk(path.parent)
    shutil.rmtree(old, ignore_errors=True)
