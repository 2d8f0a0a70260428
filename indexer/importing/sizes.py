"""The width and height of pictures that imported items name, out of the files' headers."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from indexer.columns import Item
from indexer.importing.items import PictureFolder
from indexer.stored_bytes import MAX_PICTURE_BYTES
from tpips_model.errors import ImageError
from tpips_model.images import header_size

__all__ = ["PictureSizes"]

# Files are waited for far longer than they are looked at.
_THREADS = 8
_AT_ONCE = 4096
# Some formats are taken into memory whole to be opened. Of such as are larger than this, one at a time.
_LARGE = 16 << 20


@dataclass
class PictureSizes:
    """Reads headers, several at once.

    Attributes:
        folder: Where the pictures are.
        unknown: How many pictures that are there have no header that tells their size.
        example: Why, for the first of them.
    """

    folder: PictureFolder
    unknown: int = 0
    example: str = ""
    _large: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def of(self, items: Sequence[Item]) -> Iterator[Item]:
        """Give the items in order, with the sizes that were not known, as far as their files tell them."""
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="header") as pool:
            for start in range(0, len(items), _AT_ONCE):
                some = items[start : start + _AT_ONCE]
                for item, found in zip(some, pool.map(self._look, some), strict=True):
                    if isinstance(found, tuple):
                        yield replace(item, width=found[0], height=found[1])
                        continue
                    self.unknown += found is not None
                    self.example = self.example or found or ""
                    yield item

    def _look(self, item: Item) -> tuple[int, int] | str | None:
        """Return a picture's size, or why it is not known; ``None`` where there is nothing to look at."""
        if item.width or not item.file or item.member is not None or item.offset is not None:
            return None
        relative = self.folder.relative(item.file)
        if relative is None:
            return None
        path = self.folder.root / relative
        try:
            if os.stat(path).st_size != item.size or item.size > MAX_PICTURE_BYTES:
                return None
        except OSError:
            return None
        try:
            with self._large if item.size > _LARGE else nullcontext():
                return header_size(path)
        except ImageError as error:
            return str(error).replace(str(path), item.file)
