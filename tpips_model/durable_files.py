"""Writing a file so that, whenever the machine stops, it is either wholly there or as it was before."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["TEMPORARY_SUFFIX", "flush_to_disk", "replace_file"]

TEMPORARY_SUFFIX = ".tmp"


def replace_file(path: Path, payload: bytes) -> None:
    """Write a file under a temporary name beside it, flush it to the disk, rename it, and flush the folder.

    Raises:
        OSError: The file system refused; what was there before is still there, and nothing half-written.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        if temporary.is_symlink():  # else opening it would write to where it leads
            temporary.unlink()
        with open(temporary, "wb") as stream:
            stream.write(payload)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        flush_to_disk(path.parent)
    except OSError:
        with contextlib.suppress(OSError):  # the first fault is what matters
            temporary.unlink(missing_ok=True)
        raise


def flush_to_disk(path: Path) -> None:
    """Flush a file, or a folder's list of names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
