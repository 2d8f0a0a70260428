"""Pictures in the sizes that the app shows, made when a browser asks for them and kept within a bound."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from collections.abc import Callable

from PIL import Image

from tpips_model.images import to_rgb

__all__ = ["SIZES", "Thumbnails", "to_jpeg"]

# Pixels of the longer side; 0 is the whole picture.
SIZES = (0, 160, 360, 720, 1280)
JPEG_QUALITY = 84
MAX_KEPT_BYTES = 128 << 20


def to_jpeg(data: bytes, size: int) -> bytes:
    """Return a picture's bytes as an upright JPEG of at most ``size`` pixels a side, without the file's metadata.

    Args:
        data: The bytes of an image file.
        size: One of ``SIZES``.

    Raises:
        ImageError: It cannot be decoded.
    """
    image = to_rgb(data, at_least=size or None)
    if size:
        image.thumbnail((size, size), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=JPEG_QUALITY if size else 95)
    return buffer.getvalue()


class Thumbnails:
    """The JPEGs that were asked for last; threads may share it."""

    def __init__(self, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[tuple[object, int], bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: object, size: int, read: Callable[[], bytes]) -> bytes:
        """Return the JPEG of a picture.

        Args:
            key: What tells the picture from others.
            size: One of ``SIZES``.
            read: Gives the bytes of the picture's file.

        Raises:
            TpipsError: The picture cannot be read.
        """
        with self._lock:
            if (key, size) in self._kept:
                self._kept.move_to_end((key, size))
                return self._kept[key, size]
        made = to_jpeg(read(), size)
        if size:  # whole pictures are seldom asked for twice
            with self._lock:
                self._bytes += len(made) - len(self._kept.get((key, size), b""))
                self._kept[key, size] = made
                while self._bytes > self._max_bytes and len(self._kept) > 1:
                    self._bytes -= len(self._kept.popitem(last=False)[1])
        return made
