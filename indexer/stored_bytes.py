"""Reading a picture's bytes from a file, whole or by offset, within bounds."""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path

__all__ = ["MAX_PICTURE_BYTES", "PictureReadError", "read_stored"]

# A picture file beyond this is refused unread: to_rgb's bound on pixels would refuse almost all of them anyway.
MAX_PICTURE_BYTES = 512 * 1024 * 1024

# What a network file system or a failing cable gives now and then; the pause in seconds before each new try.
_TRANSIENT = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN, errno.ECONNRESET)
_PAUSES = (0.1, 0.5)


class PictureReadError(Exception):
    """A picture's bytes cannot be read; the message is the reason alone, for a ledger or a fuller message."""


def read_stored(path: Path, *, offset: int = 0, size: int | None = None) -> bytes:
    """Read ``size`` bytes from ``offset`` on (``None``: the whole file); transient failures are tried again.

    Raises:
        PictureReadError: No such file, no regular file, no permission, too large, or it ends too early.
    """
    for pause in (*_PAUSES, None):
        try:
            return _read(path, offset, size)
        except OSError as error:
            if pause is None or error.errno not in _TRANSIENT:
                raise PictureReadError(f"cannot be read: {error.strerror or error}") from error
            time.sleep(pause)
    raise AssertionError("the last try returns or raises")


def _read(path: Path, offset: int, size: int | None) -> bytes:
    if offset < 0 or (size is not None and size < 0):
        raise PictureReadError(f"has no {size} bytes at {offset}")
    # Opening a named pipe would wait for its writer for ever.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise PictureReadError("is no regular file")
        wanted = status.st_size if size is None else size
        if wanted > MAX_PICTURE_BYTES:
            raise PictureReadError(f"has {wanted:,} bytes; at most {MAX_PICTURE_BYTES:,} are read")
        if offset + wanted > status.st_size:
            raise PictureReadError(f"ends at byte {status.st_size:,}, before byte {offset + wanted:,}")
        stream.seek(offset)
        data = stream.read(wanted)
    if len(data) != wanted:
        raise PictureReadError(f"gave {len(data):,} bytes of {wanted:,}")
    return data
