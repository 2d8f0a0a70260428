"""EXIF that a PNG file keeps behind its pixels, found without decoding them."""

from __future__ import annotations

import os
import zlib
from typing import BinaryIO

__all__ = ["exif_behind_pixels"]

# EXIF has at most 64 kB, and little else stands behind the pixels.
_TAIL = 1 << 17
_NAME = b"eXIf"


def exif_behind_pixels(stream: BinaryIO) -> bytes | None:
    """Return the EXIF chunk at the end of a PNG file, if there is one; the stream's position is moved.

    The chunk is told from pixels that happen to look like one by its checksum.
    """
    stream.seek(max(0, stream.seek(0, os.SEEK_END) - _TAIL))
    tail = stream.read(_TAIL)
    at = tail.rfind(_NAME)
    while at >= 4:
        size = int.from_bytes(tail[at - 4 : at], "big")
        end = at + len(_NAME) + size
        if zlib.crc32(tail[at:end]) == int.from_bytes(tail[end : end + 4], "big") and end + 4 <= len(tail):
            return tail[at + len(_NAME) : end]
        at = tail.rfind(_NAME, 0, at)
    return None
