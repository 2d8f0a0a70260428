"""Looking at every stored vector of an index, and at its quantizers and clustering."""

from __future__ import annotations

import numpy as np

from indexer.directory import IndexDirectory, IndexDirectoryError
from tpips_model.aspects import Aspect

__all__ = ["aspects_of_one_vector", "check_vectors"]

# Written within 1e-3 of unit length; half precision adds at most 5e-4.
STORED_NORM_TOLERANCE = 2e-3
PIECE_ROWS = 4096


def check_vectors(index: IndexDirectory) -> None:
    """Check that every stored vector is finite and of unit length, as the indexer writes them, and what else is stored.

    Raises:
        IndexDirectoryError: One is not; the message has its key. Or a quantizer or the clustering is damaged.
    """
    keys = index.items(["key"])["key"]
    for aspect in index.aspects:
        first = 0
        for block in index.vectors(aspect):
            # In pieces, since a large part may not fit into memory in float64.
            for start in range(0, len(block), PIECE_ROWS):
                norms = np.linalg.norm(block[start : start + PIECE_ROWS].astype(np.float64), axis=1)
                bad = np.flatnonzero(~(np.abs(norms - 1.0) <= STORED_NORM_TOLERANCE))
                if len(bad):
                    key = keys[first + start + int(bad[0])].as_py()
                    raise IndexDirectoryError(
                        f"the index {index.path} is damaged: the vector of {key!r} "
                        f"under {aspect.text!r} has length {norms[bad[0]]:.4g}, where 1 is expected; build it anew"
                    )
            first += len(block)
        if aspect in index.coded_aspects:
            index.quantizer(aspect)
    if index.list_count:
        index.clustering()


def aspects_of_one_vector(index: IndexDirectory) -> tuple[Aspect, ...]:
    """Return the aspects under which several pictures all have one and the same vector, as a broken model gives."""
    return tuple(aspect for aspect in index.aspects if _all_the_same(index, aspect))


def _all_the_same(index: IndexDirectory, aspect: Aspect) -> bool:
    blocks = [block for block in index.vectors(aspect) if len(block)]
    return index.rows > 1 and all(bool((block == blocks[0][0]).all()) for block in blocks)
