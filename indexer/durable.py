"""Writing a file so that, whenever the machine stops, it is either wholly there or not there."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

from indexer.manifest import FileRecord, IndexDirectoryError
from tpips_model.durable_files import TEMPORARY_SUFFIX, flush_to_disk, replace_file

__all__ = ["TEMPORARY_SUFFIX", "file_record", "make_folder", "write_durably", "write_failure"]


def write_durably(path: Path, payload: bytes) -> FileRecord:
    """Write a file under a temporary name, flush it to the disk, rename it, and flush the folder.

    Raises:
        IndexDirectoryError: The disk is full, the folder read-only, or another fault of the file system.
    """
    try:
        replace_file(path, payload)
    except OSError as error:
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
        flush_to_disk(path.parent)
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
