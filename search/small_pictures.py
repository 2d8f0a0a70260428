"""Small pictures of results, from the index's thumbnails or from the pictures themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from indexer import IndexDirectory
from indexer.thumbnails import make_thumbnail, small_picture
from tpips_model.images import to_rgb

__all__ = ["JPEG_QUALITY", "item_thumbnail"]

JPEG_QUALITY = 84
# From which part of a size on a thumbnail of the index serves instead: stretched by less than half, it looks the same.
ENOUGH = 0.7


def item_thumbnail(index: IndexDirectory, row: int, record: Mapping[str, Any], side: int) -> bytes:
    """Return an item's picture as an upright JPEG of at most ``side`` pixels a side.

    Args:
        index: The index, or what stands for it where hits come from a server, which has pictures alone.
        row: The item's row.
        record: All of its columns.
        side: How many pixels.

    Raises:
        IndexDirectoryError: The picture is away, and has no thumbnail.
        ImageError: The picture cannot be decoded, and has no thumbnail.
    """
    if not isinstance(index, IndexDirectory):
        return make_thumbnail(to_rgb(index.item_bytes(record), at_least=side), side, quality=JPEG_QUALITY)
    return small_picture(index, row, record, side, enough=round(ENOUGH * side), quality=JPEG_QUALITY)
