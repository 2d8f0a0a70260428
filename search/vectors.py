"""The stored vectors of an index, addressed by row in the whole index."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from indexer import IndexDirectory
from tpips_model.aspects import Aspect

__all__ = ["StoredVectors"]


class StoredVectors:
    """float16 (N, D) per aspect, in parts that stay on disk; rows count through the parts in their order.

    Any number of threads may read at once.

    Args:
        load: Gives the parts of an aspect by its slug; called once per aspect, when it is first read.
        part_rows: How many rows each part holds.
        dim: D.
    """

    def __init__(
        self, load: Callable[[str], Sequence[NDArray[np.float16]]], *, part_rows: Sequence[int], dim: int
    ) -> None:
        self._load = load
        self._starts = [0, *accumulate(part_rows)]
        self._parts: dict[str, list[NDArray[np.float16]]] = {}
        self.dim = dim

    @classmethod
    def of_index(cls, index: IndexDirectory) -> StoredVectors:
        """Return the vectors of an opened index."""
        aspects = {aspect.slug: aspect for aspect in index.aspects}
        return cls(
            lambda slug: index.vectors(aspects[slug]),
            part_rows=[part.rows for part in index.manifest.parts],
            dim=index.dim,
        )

    @classmethod
    def of_arrays(cls, parts: Mapping[str, Sequence[NDArray[np.float16]]]) -> StoredVectors:
        """Return given float16 arrays (rows, D), several parts per aspect, all aspects cut alike."""
        by_slug = {Aspect.of(text).slug: arrays for text, arrays in parts.items()}
        first = next(iter(by_slug.values()))
        return cls(by_slug.__getitem__, part_rows=[len(part) for part in first], dim=first[0].shape[1])

    @property
    def rows(self) -> int:
        """N."""
        return self._starts[-1]

    def parts(self, slug: str) -> list[NDArray[np.float16]]:
        """Return the parts of one aspect, float16 (rows of the part, D)."""
        if slug not in self._parts:
            # As plain arrays: slicing a memmap costs several times as much. Two threads may both do it; no harm.
            self._parts[slug] = [np.asarray(part) for part in self._load(slug)]
        return self._parts[slug]

    def copy_block(self, slug: str, start: int, out: NDArray[np.float16]) -> None:
        """Copy the rows from ``start`` on into ``out``, float16 (rows of the block, D), across parts."""
        parts = self.parts(slug)
        stop = start + len(out)
        number = bisect_right(self._starts, start) - 1
        done = start
        while done < stop:
            first = self._starts[number]
            end = min(stop, self._starts[number + 1])
            out[done - start : end - start] = parts[number][done - first : end - first]
            done = end
            number += 1

    def gather(self, slug: str, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the given rows of one aspect, float64 (K, D), in the order given."""
        parts = self.parts(slug)
        numbers = np.searchsorted(self._starts, rows, side="right") - 1
        out = np.empty((len(rows), self.dim), np.float64)
        for number in np.unique(numbers):
            wanted = numbers == number
            out[wanted] = parts[number][rows[wanted] - self._starts[number]]
        return out
