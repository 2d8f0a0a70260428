"""The lock that keeps files alive for those who read an index while it is being changed.

A commit that supersedes files begins a new epoch. A reader holds a shared lock on the file of its epoch; a writer
deletes superseded files once nobody holds an older one. Adding supersedes nothing, so the versions of one epoch share a
lock.
"""

from __future__ import annotations

import fcntl
import os
import weakref
from pathlib import Path

from indexer.durable import make_folder, write_durably, write_failure

__all__ = ["READERS_FOLDER", "EpochLock", "begin_epoch", "older_readers_gone"]

READERS_FOLDER = "readers"


class EpochLock:
    """A shared lock on an epoch, held until it is collected."""

    def __init__(self, descriptor: int) -> None:
        weakref.finalize(self, os.close, descriptor)

    @classmethod
    def take(cls, index: Path, epoch: int) -> EpochLock | None:
        """Lock an epoch; ``None`` where there is nothing to lock, as in a copy on a file system that cannot."""
        try:
            descriptor = os.open(_lock_file(index, epoch), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        lock = cls(descriptor)
        try:
            # Waits only for a writer that is about to delete the file, which takes no time.
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        except OSError:
            return None
        return lock


def begin_epoch(index: Path, epoch: int) -> None:
    """Make an epoch's file, before a manifest of it is written.

    Raises:
        IndexDirectoryError: It cannot be written.
    """
    path = _lock_file(index, epoch)
    if not path.exists():
        make_folder(path.parent)
        write_durably(path, b"Those who read this epoch of the index hold a lock on this file.\n")


def older_readers_gone(index: Path, epoch: int) -> bool:
    """Tell whether nobody reads an epoch before this one any more, and remove the files of those epochs.

    Raises:
        IndexDirectoryError: A file cannot be removed.
    """
    folder = index / READERS_FOLDER
    try:
        older = [path for path in folder.iterdir() if path.name.isdecimal() and int(path.name) < epoch]
    except FileNotFoundError:
        return True
    except OSError as error:
        raise write_failure(folder, error) from error
    removed = [_removed_if_free(path) for path in older]  # each of them, whether or not another one is in use
    return all(removed)


def _removed_if_free(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(descriptor)
    except BlockingIOError:
        return False
    except OSError as error:
        raise write_failure(path, error) from error
    return True


def _lock_file(index: Path, epoch: int) -> Path:
    return index / READERS_FOLDER / str(epoch)
