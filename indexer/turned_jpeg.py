"""Turning a JPEG picture without decoding it, by the orientation that its EXIF block names."""

from __future__ import annotations

import struct

__all__ = ["turned"]

_START = b"\xff\xd8"
# The EXIF orientation under which a picture is shown turned counter-clockwise by so many degrees.
_ORIENTATIONS = {0: 1, 90: 8, 180: 3, 270: 6}


def turned(data: bytes, degrees: int) -> bytes:
    """Return a JPEG file that is shown turned counter-clockwise; another file is returned as it is.

    The stored pixels are turned, whatever the file's own EXIF block says: a block in front of it, which all decoders
    obey, holds nothing but the orientation.

    Args:
        data: The file.
        degrees: 0, 90, 180 or 270.
    """
    if not data.startswith(_START):
        return data
    # A little-endian TIFF header, one directory of one entry: tag 0x0112, a short, and no further directory.
    directory = struct.pack("<HHHIHHI", 1, 0x0112, 3, 1, _ORIENTATIONS[degrees], 0, 0)
    block = b"Exif\0\0" + struct.pack("<2sHI", b"II", 42, 8) + directory
    return _START + b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block + data[2:]
