"""The lock that lets one program at a time write into an index directory."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from indexer.durable import write_failure
from indexer.manifest import IndexDirectoryError

__all__ = ["LOCK_FILE", "writer_lock"]

LOCK_FILE = "lock"


@contextmanager
def writer_lock(index: Path) -> Iterator[None]:
    """Hold the index's lock; the operating system lets go of it whenever the process ends, however it ends.

    Raises:
        IndexDirectoryError: Another program holds it, or the folder cannot be written.
    """
    path = index / LOCK_FILE
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise write_failure(path, error) from error
    try:
        _take(descriptor, index)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, index: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise IndexDirectoryError(f"another program is writing to {index}; wait for it to end") from error
        raise IndexDirectoryError(
            f"cannot lock {index}: {error.strerror or error}; put the index on a file system that can lock files"
        ) from error
    if os.fstat(descriptor).st_nlink == 0:
        # A build that came to nothing removed the file between our opening and locking it.
        raise IndexDirectoryError(f"{index} was being removed by another build; run the same command again")
