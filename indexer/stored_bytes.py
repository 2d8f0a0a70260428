"""Reading a picture's bytes from a file, whole, by offset or out of a parquet file, within bounds.

Where an item's bytes are, by its columns ``file``, ``offset`` and ``member``:

- the whole file: no offset, no member;
- in a plain tar: the offset, and the member's name;
- in a parquet file: no offset, and ``ROW/COLUMN`` as the member. Pictures in parquet are compressed page by page and
  have no offset of their own;
- any of these, to be turned counter-clockwise: ``#turn=DEGREES`` behind the member, of which that may be all.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from pathlib import Path

from indexer.turned_jpeg import turned

__all__ = [
    "MAX_PICTURE_BYTES",
    "PictureReadError",
    "is_whole_file",
    "member_turned",
    "read_item",
    "read_stored",
    "turned_as_stored",
]

# A picture file beyond this is refused unread: to_rgb's bound on pixels would refuse almost all of them anyway.
MAX_PICTURE_BYTES = 512 * 1024 * 1024

# What a network file system or a failing cable gives now and then; the pause in seconds before each new try.
_TRANSIENT = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN, errno.ECONNRESET)
_PAUSES = (0.1, 0.5)
_TURN = re.compile(r"(.*)#turn=(90|180|270)", re.DOTALL)


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


def read_item(path: Path, *, member: str | None, offset: int | None, size: int) -> bytes:
    """Read an item's bytes as they are stored, not yet turned.

    Args:
        path: The file that holds them.
        member: The item's column of that name.
        offset: Likewise.
        size: Likewise; where the file holds other bytes too, as many are read.

    Raises:
        PictureReadError: They are not there, or cannot be read.
    """
    if offset is not None:
        return read_stored(path, offset=offset, size=size)
    if is_whole_file(member, offset):
        return read_stored(path)
    from indexer.stored_rows import read_row  # brings pyarrow's parquet reader, so only where it is needed

    return read_row(path, _plain_member(member))


def is_whole_file(member: str | None, offset: int | None) -> bool:
    """Tell whether an item's bytes are a whole file, by its columns.

    >>> is_whole_file(None, None), is_whole_file("#turn=90", None), is_whole_file("7/image", None)
    (True, True, False)
    """
    return offset is None and not _plain_member(member)


def member_turned(member: str | None, degrees: int) -> str | None:
    """Return the member of an item that must be turned counter-clockwise by 0, 90, 180 or 270 degrees.

    >>> member_turned("train/a.jpg", 90), member_turned(None, 270), member_turned(None, 0)
    ('train/a.jpg#turn=90', '#turn=270', None)
    """
    return f"{member or ''}#turn={degrees}" if degrees else member


def turned_as_stored(data: bytes, member: str | None) -> bytes:
    """Return a picture's bytes so that every decoder shows them turned as the member says."""
    match = _TURN.fullmatch(member or "")
    return turned(data, int(match[2])) if match else data


def _plain_member(member: str | None) -> str:
    match = _TURN.fullmatch(member or "")
    return match[1] if match else member or ""
