"""Telling which items are a query's image itself, under whatever key."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from indexer import IndexDirectory, IndexDirectoryError
from search.items import Items
from search.query_image import QueryImage
from search.vectors import RowVectors

__all__ = ["SAME_VECTOR_DISTANCE", "is_query_image"]

# Half precision moves a unit vector by up to 5e-4; the rest is room for a model's rounding in another batch.
SAME_VECTOR_DISTANCE = 2e-3


def is_query_image(
    images: Sequence[QueryImage],
    rows: NDArray[np.int64],
    store: RowVectors,
    items: Items,
    index: IndexDirectory,
) -> NDArray[np.bool_]:
    """Tell for each row whether it is one of the images.

    It is if it was given by its key; if the vectors are the same, within ``SAME_VECTOR_DISTANCE`` under every aspect
    that the image has vectors for; or if the files hold the same bytes, which is only looked up where their sizes are
    equal. The bytes count because a large model may embed one picture a little differently in another batch.

    Args:
        images: The query's images, embedded.
        rows: int64 (K,).
        store: The stored vectors.
        items: The items.
        index: Where the items' bytes are read from.

    Returns:
        bool (K,).
    """
    same = np.zeros(len(rows), bool)
    for image in images:
        if image.row is not None:
            same |= rows == image.row
        same[~same] = _same_vectors(image, rows[~same], store)
        same[~same] = _same_bytes(image, rows[~same], items, index)
    return same


def _same_vectors(image: QueryImage, rows: NDArray[np.int64], store: RowVectors) -> NDArray[np.bool_]:
    same = np.ones(len(rows), bool)
    for slug, vector in image.vectors.items():
        # Aspect by aspect, only for those still in question: mostly none.
        if not same.any():
            break
        apart = store.gather(slug, rows[same])
        apart -= vector
        apart *= apart
        same[same] = np.sqrt(np.add.reduce(apart, axis=1)) <= SAME_VECTOR_DISTANCE
    return same


def _same_bytes(image: QueryImage, rows: NDArray[np.int64], items: Items, index: IndexDirectory) -> NDArray[np.bool_]:
    same = np.zeros(len(rows), bool)
    size = image.stored_size
    candidates = np.flatnonzero(items.sizes[rows] == size) if size is not None else ()
    data = image.stored_bytes() if len(candidates) else None
    if data is not None:
        for position, record in zip(candidates, items.records(rows[candidates]), strict=True):
            # An item whose picture has vanished cannot be shown to be the query's; it stays.
            with contextlib.suppress(IndexDirectoryError):
                same[position] = index.item_bytes(record) == data
    return same
