"""Items embedded when a question is asked, and kept for the next one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from indexer import IndexDirectory
from search.items import Items
from search.query_embedder import QueryEmbedder
from search.query_image import PICTURES_AT_ONCE, QueryImage
from tpips_model.aspects import Aspect
from tpips_model.errors import TpipsError
from tpips_model.images import to_rgb

__all__ = ["LiveVectors"]

KEPT_BYTES = 64 << 20
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
        for start in range(0, len(rows), PICTURES_AT_ONCE):
            batch = rows[start : start + PICTURES_AT_ONCE]
            kept = {row: self._recall(row, aspects) for row in batch}
            new = self._embedded([row for row, known in kept.items() if known is None], aspects)
            for row, known in kept.items():
                found[row] = new[row] if known is None else known
            progress(start + len(batch))
        return found

    def _recall(self, row: int, aspects: Sequence[Aspect]) -> NDArray[np.float16] | None:
        with self._lock:
            # The prompt is made of the aspect's words, so vectors are kept by them.
            known = [self._kept.get((row, aspect.text)) for aspect in aspects]
        vectors = [one for one in known if one is not None]
        return np.stack(vectors) if len(vectors) == len(aspects) else None

    def _embedded(self, rows: Sequence[int], aspects: Sequence[Aspect]) -> dict[int, NDArray[np.float16] | TpipsError]:
        if not rows:
            return {}
        with ThreadPoolExecutor(READERS) as readers:
            images = dict(zip(rows, readers.map(self._image, rows), strict=True))
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

    def _image(self, row: int) -> QueryImage | TpipsError:
        record = self._items.records(np.array([row], np.int64))[0]
        try:
            data = self._index.item_bytes(record)
            pixels = to_rgb(data, at_least=self._embedder.decode_at_least)
        except TpipsError as error:
            return error
        return QueryImage(record["key"], ("row", row), None, pixels, self._index, self._items)
