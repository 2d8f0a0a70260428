"""Pictures in the sizes that the app shows, made when a browser asks for them and kept within a bound."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from indexer import IndexDirectory
from indexer.thumbnails import WHOLE_SIDE, make_thumbnail, small_picture
from search.small_pictures import JPEG_QUALITY, item_thumbnail
from tpips_model.images import to_rgb

__all__ = ["SIZES", "Thumbnails", "item_jpeg", "upload_jpeg"]

# Pixels of the longer side; 0 is the whole picture.
SIZES = (0, 160, 360, 720, 1280)
WHOLE_QUALITY = 95
MAX_KEPT_BYTES = 128 << 20


def item_jpeg(index: IndexDirectory, row: int, record: Mapping[str, Any], size: int) -> bytes:
    """Return an indexed picture as an upright JPEG of at most about ``size`` pixels a side, from wherever it is.

    Args:
        index: The index.
        row: The item's row.
        record: All of its columns.
        size: One of ``SIZES``.

    Raises:
        TpipsError: It can be had neither from where it was when it was indexed nor from the index.
    """
    if not size:
        return small_picture(index, row, record, WHOLE_SIDE, quality=WHOLE_QUALITY)
    return item_thumbnail(index, row, record, size)


def upload_jpeg(data: bytes, size: int) -> bytes:
    """Return a picture's bytes as an upright JPEG of at most ``size`` pixels a side, without the file's metadata.

    Args:
        data: The bytes of an image file.
        size: One of ``SIZES``.

    Raises:
        ImageError: It cannot be decoded.
    """
    if not size:
        return make_thumbnail(to_rgb(data), WHOLE_SIDE, quality=WHOLE_QUALITY)
    return make_thumbnail(to_rgb(data, at_least=size), size, quality=JPEG_QUALITY)


class Thumbnails:
    """The JPEGs that were asked for last; threads may share it."""

    def __init__(self, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[tuple[object, int], bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: object, size: int, make: Callable[[], bytes]) -> bytes:
        """Return the JPEG of a picture.

        Args:
            key: What tells the picture from others.
            size: How large it is; 0 is the whole picture.
            make: Gives the JPEG.

        Raises:
            TpipsError: The picture cannot be read.
        """
        with self._lock:
            if (key, size) in self._kept:
                self._kept.move_to_end((key, size))
                return self._kept[key, size]
        made = make()
        if size:  # whole pictures are seldom asked for twice
            with self._lock:
                self._bytes += len(made) - len(self._kept.get((key, size), b""))
                self._kept[key, size] = made
                while self._bytes > self._max_bytes and len(self._kept) > 1:
                    self._bytes -= len(self._kept.popitem(last=False)[1])
        return made
