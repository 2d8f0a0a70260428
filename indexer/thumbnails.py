"""Small pictures kept beside an index's items, so that it can be browsed away from its images."""

from __future__ import annotations

import contextlib
import io
import threading
from bisect import bisect_right
from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from indexer.columns import THUMBNAIL_SCHEMA
from indexer.file_names import thumbnails_file
from indexer.part_of_row import part_of_row
from indexer.records import MAX_THUMBNAIL_SIDE, MIN_THUMBNAIL_SIDE, IndexDirectoryError
from indexer.stored_rows import PARQUET_FAULTS, open_parquet
from tpips_model.errors import ImageError, TpipsError
from tpips_model.images import to_rgb

if TYPE_CHECKING:
    from indexer.directory import IndexDirectory

__all__ = [
    "MAX_SIDE",
    "MIN_SIDE",
    "THUMBNAIL_SIDE",
    "WHOLE_SIDE",
    "index_thumbnail",
    "make_thumbnail",
    "small_picture",
]

THUMBNAIL_SIDE = 256
# As large as a JPEG can be.
WHOLE_SIDE = 65_500
MIN_SIDE, MAX_SIDE = MIN_THUMBNAIL_SIDE, MAX_THUMBNAIL_SIDE

# 256 pixels a side then take 13 kB in the mean over the demo gallery; WebP takes a sixth less, in ten times the time.
JPEG_QUALITY = 80
_JPEG_START = b"\xff\xd8\xff"
_MAX_GROUP_BYTES = 64 << 20
_OPEN_FILES = 16


def make_thumbnail(image: Image.Image, side: int, *, quality: int = JPEG_QUALITY) -> bytes:
    """Return a picture as JPEG with both sides of at most ``side`` pixels; the same bytes for the same pixels.

    Args:
        image: The picture, which is left as it was; it is never enlarged.
        side: How many pixels.
        quality: As JPEG encoders take it.
    """
    rgb = image if image.mode == "RGB" else image.convert("RGB")
    scale = min(side, WHOLE_SIDE) / max(rgb.size)
    if scale < 1.0:
        width, height = (max(1, round(length * scale)) for length in rgb.size)
        rgb = rgb.resize((width, height), Image.Resampling.BICUBIC, reducing_gap=2.0)
    buffer = io.BytesIO()
    # No comment: Pillow would take the one of the file that the picture came from.
    rgb.save(buffer, "JPEG", quality=quality, optimize=True, comment=b"")
    return buffer.getvalue()


def index_thumbnail(index: IndexDirectory, row: int) -> bytes | None:
    """Return an item's stored thumbnail as JPEG, or ``None`` if it has none.

    Only the part's row group that holds it is read. Threads may call this at once.

    Args:
        index: The index.
        row: The item's row.

    Raises:
        IndexDirectoryError: There is no such row, or the thumbnails' file is missing or damaged.
    """
    part, place = part_of_row(index, row)
    if not part.has_thumbnails:
        return None
    path = index.path / thumbnails_file(part.id)
    try:
        status = path.stat()
        reader = _reader(path, part.rows, status.st_ino, status.st_size, status.st_mtime_ns)
        return reader.row(place)
    except PARQUET_FAULTS as error:
        raise IndexDirectoryError(
            f"index file {path} is missing or damaged ({error}); copy the index again if it is a copy, or make the "
            "thumbnails anew: tpips-index thumbnails --remove, then tpips-index thumbnails"
        ) from error


def small_picture(
    index: IndexDirectory,
    row: int,
    record: Mapping[str, Any],
    size: int,
    *,
    enough: int | None = None,
    quality: int = JPEG_QUALITY,
) -> bytes:
    """Return an item's picture as an upright JPEG of at most ``size`` pixels a side, from wherever it is to be had.

    That is the stored thumbnail, if it is large enough; else the picture itself; and if that is away, or can no longer
    be decoded, the thumbnail, however small.

    Args:
        index: The index.
        row: The item's row.
        record: All of its columns.
        size: How many pixels.
        enough: From how many pixels of its longer side on a thumbnail is large enough; by default ``size``.
        quality: The JPEG quality of what has to be made.

    Raises:
        IndexDirectoryError: The picture is no longer where it was when it was indexed, and has no thumbnail.
        ImageError: The picture cannot be decoded, and has no thumbnail.
    """
    stored = _stored(index, row)
    needed = min(size if enough is None else enough, max(record["width"], record["height"]))
    if stored is not None and max(stored[1]) >= needed:
        with contextlib.suppress(ImageError):  # damaged behind its head; the picture itself may be there
            return _fitted(stored, size, quality)
        stored = None
    try:
        return make_thumbnail(to_rgb(index.item_bytes(record), at_least=size), size, quality=quality)
    except TpipsError:
        if stored is None:
            raise
        return _fitted(stored, size, quality)


def _stored(index: IndexDirectory, row: int) -> tuple[bytes, tuple[int, int]] | None:
    """Return a thumbnail and its width and height; ``None`` also if it is damaged, since the picture may be there."""
    try:
        data = index_thumbnail(index, row)
        if data is None:
            return None
        with Image.open(io.BytesIO(data), formats=("JPEG",)) as opened:  # reads the header only
            return data, opened.size
    except (IndexDirectoryError, OSError, ValueError):
        return None


def _fitted(stored: tuple[bytes, tuple[int, int]], size: int, quality: int) -> bytes:
    data, sides = stored
    return data if max(sides) <= size else make_thumbnail(to_rgb(data, at_least=size), size, quality=quality)


class _Reader:
    """The thumbnails of one part, whose file stays open; threads take turns."""

    def __init__(self, path: Path, rows: int) -> None:
        self._file = open_parquet(path)
        self._lock = threading.Lock()
        heads = [self._file.metadata.row_group(number) for number in range(self._file.metadata.num_row_groups)]
        self._ends = list(accumulate(head.num_rows for head in heads))
        if self._file.schema_arrow.names != THUMBNAIL_SCHEMA.names or self._file.metadata.num_rows != rows:
            raise ValueError(f"it should hold {rows:,} rows of one column")
        if any(head.total_byte_size > _MAX_GROUP_BYTES for head in heads):
            raise ValueError(f"it has a row group of over {_MAX_GROUP_BYTES:,} bytes")

    def row(self, number: int) -> bytes | None:
        """Return one row's thumbnail."""
        group = bisect_right(self._ends, number)
        with self._lock:
            column = self._file.read_row_group(group, use_threads=False).column(0)
        place = number - (self._ends[group - 1] if group else 0)
        if place >= len(column):
            raise ValueError(f"row group {group} ends before row {number:,}")
        data: bytes = column[place].as_py()
        if data and not data.startswith(_JPEG_START):
            raise ValueError(f"row {number:,} is no JPEG picture")
        return data or None


@lru_cache(maxsize=_OPEN_FILES)
def _reader(path: Path, rows: int, *identity: int) -> _Reader:
    """Return the reader of a file; another identity is another file of the same name."""
    return _Reader(path, rows)
