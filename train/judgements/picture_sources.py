"""Pictures of a data set that lie in files and in tar shards, read when they are asked for."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from tpips_model.errors import ImageError
from tpips_model.images import to_rgb

__all__ = ["MAX_PICTURE_BYTES", "FilePicture", "TarPicture", "decoded"]

# Beyond this a picture is refused unread; to_rgb's bound on pixels would refuse almost all such files anyway.
MAX_PICTURE_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FilePicture:
    """A picture file. Two are equal if they are the same file.

    Attributes:
        path: The file, absolute, its links followed.
        key: Its path relative to the data set's pictures.
    """

    path: str
    key: str = field(compare=False)

    def encoded(self) -> bytes:
        """Return the file's bytes.

        Raises:
            ImageError: It cannot be read.
        """
        try:
            # Opening a named pipe would wait for its writer for ever.
            with open(self.path, "rb", opener=_open_without_waiting) as stream:
                data = stream.read(MAX_PICTURE_BYTES + 1)
        except OSError as error:
            raise ImageError(f"cannot read picture {self.key!r} ({self.path}): {error.strerror or error}") from error
        if len(data) > MAX_PICTURE_BYTES:
            raise ImageError(f"cannot read picture {self.key!r}: it has over {MAX_PICTURE_BYTES:,} bytes")
        return data

    def load(self) -> Image.Image:
        """Return the picture, RGB and upright."""
        return decoded(self.encoded(), self.key)


@dataclass(frozen=True, slots=True)
class TarPicture:
    """A picture inside a tar shard. Two are equal if their bytes are.

    Attributes:
        digest: SHA-256 of its bytes, as the shard states it.
        tar: The shard, absolute.
        offset: Where its bytes begin.
        size: How many there are.
        key: What its data set calls it.
    """

    digest: str
    tar: Path = field(compare=False)
    offset: int = field(compare=False)
    size: int = field(compare=False)
    key: str = field(compare=False)

    def encoded(self) -> bytes:
        """Return the picture file's bytes.

        Raises:
            ImageError: They cannot be read, or are not those that the shard was written with.
        """
        try:
            with open(self.tar, "rb", opener=_open_without_waiting) as stream:
                stream.seek(self.offset)
                data = stream.read(self.size)
        except OSError as error:
            raise ImageError(f"cannot read picture {self.key!r} in {self.tar}: {error.strerror or error}") from error
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise ImageError(
                f"picture {self.key!r} in {self.tar} (byte {self.offset:,}) is not the one the shard was written with: "
                "its checksum differs; restore or export the shard again"
            )
        return data

    def load(self) -> Image.Image:
        """Return the picture, RGB and upright."""
        return decoded(self.encoded(), self.key)


def decoded(data: bytes, key: str) -> Image.Image:
    """Return a picture file's bytes as RGB pixels.

    Raises:
        ImageError: They cannot be decoded; the message names the key.
    """
    try:
        return to_rgb(data)
    except ImageError as error:
        raise ImageError(f"picture {key!r}: {error}") from error


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
