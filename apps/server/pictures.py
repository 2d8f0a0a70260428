"""Pictures from clients, bounded before they are believed; and the index's pictures for them."""

from __future__ import annotations

import base64
import binascii
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from apps.server.faults import RefusedError, logger
from apps.server.service import Service
from indexer import IndexDirectory, IndexDirectoryError
from indexer.thumbnails import small_picture
from search.small_pictures import JPEG_QUALITY
from tpips_model.errors import ImageError
from tpips_model.images import to_rgb

__all__ = [
    "IndexedItem",
    "ServedPicture",
    "check_picture",
    "indexed_item",
    "picture_of_text",
    "served_original",
    "served_thumbnail",
]

MAX_KEY_SHOWN = 100
_DATA_URL = re.compile(r"data:[^,;]{0,100}(;[^,;]{1,100}){0,4};base64,", re.IGNORECASE)
# By the signature, not by the file's name: what a browser is told must be what it is.
_UNKNOWN_TYPE = "application/octet-stream"


@dataclass(frozen=True)
class ServedPicture:
    """The bytes of a picture and what they are."""

    data: bytes
    media_type: str


def picture_of_text(text: str) -> bytes:
    """Return the bytes of a picture in base64, or in a data: URL.

    Raises:
        ImageError: It is neither.
    """
    start = _DATA_URL.match(text)
    if text[:5].lower() == "data:" and start is None:
        raise ImageError("a picture's data: URL must be in base64, such as data:image/png;base64,iVBOR…")
    try:
        data = base64.b64decode(text[start.end() if start else 0 :], validate=True)
    except (binascii.Error, ValueError) as error:  # ValueError: characters beyond ASCII
        raise ImageError(
            f"a picture must be the bytes of an image file in base64, or a data: URL of them ({error})"
        ) from error
    if not data:
        raise ImageError("a picture is empty; send the bytes of an image file in base64")
    return data


def check_picture(data: bytes, *, max_bytes: int, max_pixels: int) -> bytes:
    """Return the bytes of a picture that may be embedded.

    Raises:
        RefusedError: It is too large a file.
        ImageError: It has too many pixels, or cannot be decoded.
    """
    if len(data) > max_bytes:
        raise RefusedError(
            413, "size", f"the picture has {len(data):,} bytes, over the bound of {max_bytes:,}; save it smaller"
        )
    # The pixel bound holds before anything is decoded, and a JPEG is then decoded at an eighth of its size.
    to_rgb(data, max_pixels=max_pixels, at_least=1)
    return data


@dataclass(frozen=True)
class IndexedItem:
    """An item, and the version of the index that it was found in."""

    index: IndexDirectory
    row: int
    record: dict[str, Any]


def indexed_item(service: Service, key: str) -> IndexedItem:
    """Find an item.

    Raises:
        RefusedError: No item has this key.
    """
    opened = service.searcher.opened
    row = opened.items.keys.row(key)
    if row is None:
        shown = key if len(key) <= MAX_KEY_SHOWN else f"{key[:MAX_KEY_SHOWN]}…"
        raise RefusedError(404, "key", f"no indexed item has the key {shown!r}; GET /items lists the keys")
    (record,) = opened.items.records(np.array([row], np.int64))
    return IndexedItem(opened.index, row, record)


def served_original(service: Service, key: str) -> ServedPicture:
    """Return the bytes of an item's picture file as they are; never a thumbnail instead.

    Raises:
        RefusedError: No item has this key, or its picture is gone.
    """
    found = indexed_item(service, key)
    with _gone():
        data = found.index.item_bytes(found.record)
    return ServedPicture(data, _media_type(data))


def served_thumbnail(service: Service, key: str, size: int) -> ServedPicture:
    """Return an item's picture as a JPEG of at most ``size`` pixels a side, upright and in sRGB.

    Where the picture is gone, that is the thumbnail that the index keeps, if it keeps one, however small.

    Raises:
        RefusedError: No item has this key, or its picture is gone.
        ImageError: It cannot be decoded.
    """
    found = indexed_item(service, key)
    # Not by the row, which is another picture's once the index has been compacted.
    name = tuple(found.record[column] for column in ("file", "member", "offset", "size"))

    def small() -> bytes:
        return small_picture(found.index, found.row, found.record, size, quality=JPEG_QUALITY)

    with _gone():
        return ServedPicture(service.thumbnails.get(name, size, small), "image/jpeg")


@contextmanager
def _gone() -> Iterator[None]:
    """Answer that a picture is gone, without saying where it was."""
    try:
        yield
    except IndexDirectoryError as error:
        logger.warning("%s", error)
        raise RefusedError(
            404, "picture", "the picture of this item cannot be read where it was when it was indexed"
        ) from error


def _media_type(data: bytes) -> str:
    try:
        with Image.open(io.BytesIO(data)) as picture:
            return Image.MIME.get(picture.format or "", _UNKNOWN_TYPE)
    except Exception:  # decoders raise every kind; such bytes are served as what they are, bytes
        return _UNKNOWN_TYPE
