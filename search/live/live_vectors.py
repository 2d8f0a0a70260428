"""Items embedded when a question is asked, and kept for the next one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer import IndexDirectory
from search.items import Items
from search.query_embedder import QueryEmbedder
from search.query_image import PICTURES_AT_ONCE, QueryImage
from tpips_model.aspects import Aspect
from tpips_model.errors import TpipsError
from tpips_model.images import to_rgb

__all__ = ["LiveVectors", "decoded_bytes"]

KEPT_BYTES = 64 << 20
# Decoded pictures that are held at once, unless one alone is larger. The model holds them several times over.
HELD_BYTES = 64 << 20
# What twelve megapixels take, where an index does not know a picture's size.
UNKNOWN_BYTES = 36 << 20
# Pictures may lie in remote archives, where waiting is most of reading.
READERS = 4


class LiveVectors:
    """Embeds indexed items under aspects that are not indexed, each once; threads may ask at once.

    Args:
        index: The index.
        items: Its items.
        embedder: Its model.
    """

    def __init__(self, index: IndexDirectory, items: Items, embedder: QueryEmbedder) -> None:
        self._index, self._items, self._embedder = index, items, embedder
        self._kept: OrderedDict[tuple[int, str], NDArray[np.float16]] = OrderedDict()
        self._lock = threading.Lock()

    def of(
        self, rows: Sequence[int], aspects: Sequence[Aspect], progress: Callable[[int], None]
    ) -> dict[int, NDArray[np.float16] | TpipsError]:
        """Return each row's vectors, float16 (A, D) as an index would hold them, or why its picture cannot be read.

        Args:
            rows: The rows.
            aspects: The aspects.
            progress: Called with how many of the rows are done, after each few.

        Raises:
            ModelError: The model that made the index cannot be had.
        """
        found: dict[int, NDArray[np.float16] | TpipsError] = {}
        new = []
        for row in rows:
            known = self._recall(row, aspects)
            if known is None:
                new.append(row)
            else:
                found[row] = known
        for group in self._groups(new):
            found.update(self._embedded(group, aspects))
            progress(len(found))
        if not new:
            progress(len(found))
        return found

    def _groups(self, rows: Sequence[int]) -> Iterator[dict[int, dict[str, Any]]]:
        """Yield the items' records by row, so many at a time as may be decoded at once."""
        group: dict[int, dict[str, Any]] = {}
        held = 0
        for row, record in zip(rows, self._items.records(np.array(rows, np.int64)) if rows else (), strict=True):
            size = decoded_bytes(record, self._embedder.decode_at_least)
            if group and (len(group) == PICTURES_AT_ONCE or held + size > HELD_BYTES):
                yield group
                group, held = {}, 0
            group[row] = record
            held += size
        if group:
            yield group

    def _recall(self, row: int, aspects: Sequence[Aspect]) -> NDArray[np.float16] | None:
        with self._lock:
            # The prompt is made of the aspect's words, so vectors are kept by them.
            known = [self._kept.get((row, aspect.text)) for aspect in aspects]
        vectors = [one for one in known if one is not None]
        return np.stack(vectors) if len(vectors) == len(aspects) else None

    def _embedded(
        self, group: Mapping[int, Mapping[str, Any]], aspects: Sequence[Aspect]
    ) -> dict[int, NDArray[np.float16] | TpipsError]:
        with ThreadPoolExecutor(READERS) as readers:
            images = dict(zip(group, readers.map(self._image, group.values()), strict=True))
        readable = {row: image for row, image in images.items() if isinstance(image, QueryImage)}
        made = self._embedder(list(readable.values()), aspects) if readable else []
        vectors = {
            row: np.array([of_image[aspect.slug] for aspect in aspects]).astype(np.float16)
            for row, of_image in zip(readable, made, strict=True)
        }
        found: dict[int, NDArray[np.float16] | TpipsError] = {}
        with self._lock:
            for row, image in images.items():
                if isinstance(image, TpipsError):
                    found[row] = image
                    continue
                found[row] = vectors[row]
                for aspect, vector in zip(aspects, vectors[row], strict=True):
                    self._kept[row, aspect.text] = vector
            while len(self._kept) * 2 * self._index.dim > KEPT_BYTES:
                self._kept.popitem(last=False)
        return found

    def _image(self, record: Mapping[str, Any]) -> QueryImage | TpipsError:
        try:
            data = self._index.item_bytes(record)
            pixels = to_rgb(data, at_least=self._embedder.decode_at_least)
        except TpipsError as error:
            return error
        return QueryImage(record["key"], ("key", record["key"]), None, pixels, self._index, self._items)


def decoded_bytes(record: Mapping[str, Any], at_least: int | None) -> int:
    """Return how much memory an item's picture takes once ``to_rgb`` has decoded it, going by its record.

    >>> decoded_bytes({"width": 4000, "height": 3000, "key": "a.png"}, 160)
    36000000
    >>> decoded_bytes({"width": 4000, "height": 3000, "key": "a.JPG"}, 160)
    562500
    """
    width, height = int(record["width"]), int(record["height"])
    if not width or not height:
        return UNKNOWN_BYTES
    scale = 1
    if at_least is not None and str(record["key"]).lower().endswith((".jpg", ".jpeg")):
        scale = next((by for by in (8, 4, 2) if min(width, height) // by >= at_least), 1)
    return 3 * (width // scale) * (height // scale)
