"""Writing a file so that, whenever the machine stops, it is either wholly there or as it was before."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

__all__ = ["TEMPORARY_SUFFIX", "durable_file", "flush_to_disk", "replace_file"]

TEMPORARY_SUFFIX = ".tmp"


def replace_file(path: Path, payload: bytes) -> None:
    """Write a file as ``durable_file`` does, from one piece.

    Raises:
        OSError: The file system refused; what was there before is still there, and nothing half-written.
    """
    with durable_file(path) as stream:
        stream.write(payload)


@contextmanager
def durable_file(path: Path) -> Iterator[BinaryIO]:
    """Write a file under a temporary name beside it; when the block ends, flush it, rename it, and flush the folder.

    Raises:
        OSError: The file system refused. Then, and if the block raises, what was there before is still there, and
            nothing half-written.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        if temporary.is_symlink():  # else opening it would write to where it leads
            temporary.unlink()
        with open(temporary, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        flush_to_disk(path.parent)
    except BaseException:
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
