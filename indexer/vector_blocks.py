"""Reading an index's vectors to make something of them: a sample, or a part block by block; no damaged ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from indexer.directory import IndexDirectory
from indexer.manifest import IndexDirectoryError, PartRecord
from tpips_model.aspects import Aspect

__all__ = ["part_blocks", "sample_vectors", "spread_rows"]

BLOCK_VALUES = 1 << 22


def part_blocks(index: IndexDirectory, part: PartRecord, aspect: Aspect) -> Iterator[NDArray[np.float32]]:
    """Yield a part's vectors under one aspect in blocks, float32 (rows, D); blocks are the same under all aspects.

    Raises:
        IndexDirectoryError: A vector is not finite.
    """
    vectors = index.part_vectors(part, aspect)
    step = max(1, BLOCK_VALUES // index.dim)
    for start in range(0, part.rows, step):
        yield _finite(index, aspect, vectors[start : start + step].astype(np.float32))


def sample_vectors(index: IndexDirectory, aspect: Aspect, count: int) -> NDArray[np.float32]:
    """Return so many vectors, evenly spaced, or all if there are fewer: float32 (T, D).

    Raises:
        IndexDirectoryError: A vector is not finite.
    """
    return np.concatenate(
        [np.empty((0, index.dim), np.float32), *(block for _, block in spread_rows(index, aspect, count))]
    )


def spread_rows(index: IndexDirectory, aspect: Aspect, count: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield evenly spaced vectors part by part: how many came before, and float32 (rows, D).

    Raises:
        IndexDirectoryError: A vector is not finite.
    """
    count = min(index.rows, count)
    wanted = np.arange(count) * index.rows // max(count, 1)
    first = 0
    for part in index.manifest.parts:
        begin, end = np.searchsorted(wanted, [first, first + part.rows])
        if end > begin:
            rows = index.part_vectors(part, aspect)[wanted[begin:end] - first]
            yield int(begin), _finite(index, aspect, rows.astype(np.float32))
        first += part.rows


def _finite(index: IndexDirectory, aspect: Aspect, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    if not np.isfinite(vectors).all():
        raise IndexDirectoryError(
            f"the stored vectors under {aspect.text!r} in {index.path} are damaged (tpips-index info --verify tells "
            "which); build the index anew"
        )
    return vectors
