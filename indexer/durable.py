"""Writing a file so that, whenever the machine stops, it is either wholly there or not there."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from pathlib import Path

from indexer.manifest import FileRecord, IndexDirectoryError

__all__ = ["TEMPORARY_SUFFIX", "file_record", "make_folder", "write_durably", "write_failure"]

TEMPORARY_SUFFIX = ".tmp"


def write_durably(path: Path, payload: bytes) -> FileRecord:
    """Write a file under a temporary name, flush it to the disk, rename it, and flush the folder.

    Raises:
        IndexDirectoryError: The disk is full, the folder read-only, or another fault of the file system.
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
        _flush_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):  # the disk's fault is what matters; a left-over is removed by the next run
            temporary.unlink(missing_ok=True)
        raise write_failure(path, error) from error
    return file_record(payload)


def file_record(payload: bytes) -> FileRecord:
    """Return the size and the checksum of a file that holds ``payload``."""
    return FileRecord(bytes=len(payload), sha256=hashlib.sha256(payload).hexdigest())


def make_folder(path: Path) -> None:
    """Make a folder and its parents, each flushed into its parent.

    Raises:
        IndexDirectoryError: It cannot be made.
    """
    if path.is_dir():
        return
    if path.parent != path:
        make_folder(path.parent)
    try:
        path.mkdir(exist_ok=True)
        _flush_folder(path.parent)
    except OSError as error:
        raise write_failure(path, error) from error


def write_failure(path: Path, error: OSError) -> IndexDirectoryError:
    """Return the error that tells a user why ``path`` could not be written and what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        advice = "free some space and run the same command again; what is finished is kept"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        advice = "the output folder must be writable; give another one with --out, or change its rights"
    elif error.errno in (errno.ENOTDIR, errno.EEXIST):
        advice = "something that is no folder stands in the way; give another folder with --out"
    else:
        advice = "see to the file system and run the same command again; what is finished is kept"
    return IndexDirectoryError(f"cannot write {path}: {error.strerror or error}; {advice}")


def _flush_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
