"""The stored vectors of an index, addressed by row in the whole index."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from indexer import IndexDirectory
from tpips_model.aspects import Aspect

__all__ = ["Piece", "RowVectors", "StoredVectors"]

# Below this many rows a part, taking rows one by one is faster than part by part.
_FEW_ROWS = 8
# An aspect of so few bytes in float32 (4,096 rows of 256 numbers) is held in memory as that, of so many aspects at
# most: a query of few rows gathers some a dozen times, and converting halves takes longer than scoring them.
SINGLES_BYTES = 1 << 22
MAX_SINGLES = 16


class Piece(NamedTuple):
    """Rows ``start`` to ``stop`` of a part, counted within it."""

    part: int
    start: int
    stop: int


class RowVectors(Protocol):
    """What gives the vectors of rows as they were stored, in half precision."""

    dim: int

    def gather(self, slug: str, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the given rows of one aspect, float64 (K, D), in the order given."""
        ...

    def vector(self, slug: str, row: int) -> NDArray[np.float64]:
        """Return one row of one aspect, float64 (D,)."""
        ...


class StoredVectors:
    """float16 (N, D) per aspect, in parts that stay on disk; rows count through the parts in their order.

    Any number of threads may read at once.

    Args:
        load: Gives the parts of an aspect by its slug; called once per aspect, when it is first read.
        part_rows: How many rows each part holds.
        dim: D.
        singles_bytes: Up to how many bytes an aspect is also held in float32.
    """

    def __init__(
        self,
        load: Callable[[str], Sequence[NDArray[np.float16]]],
        *,
        part_rows: Sequence[int],
        dim: int,
        singles_bytes: int = SINGLES_BYTES,
    ) -> None:
        self._load = load
        self._starts = part_starts(part_rows)
        self._parts: dict[str, list[NDArray[np.float16]]] = {}
        self._pointers: dict[str, list[object]] = {}
        self._singles: dict[str, NDArray[np.float32]] = {}
        self._singles_bytes = singles_bytes
        self._lock = threading.Lock()
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
    def of_arrays(
        cls, parts: Mapping[str, Sequence[NDArray[np.float16]]], *, singles_bytes: int = SINGLES_BYTES
    ) -> StoredVectors:
        """Return given float16 arrays (rows, D), several parts per aspect, all aspects cut alike."""
        by_slug = {Aspect.of(text).slug: arrays for text, arrays in parts.items()}
        first = next(iter(by_slug.values()))
        return cls(
            by_slug.__getitem__,
            part_rows=[len(part) for part in first],
            dim=first[0].shape[1],
            singles_bytes=singles_bytes,
        )

    @property
    def rows(self) -> int:
        """N."""
        return self._starts[-1]

    def parts(self, slug: str) -> list[NDArray[np.float16]]:
        """Return the parts of one aspect, float16 (rows of the part, D)."""
        found = self._parts.get(slug)
        if found is None:
            with self._lock:  # once only: pointers into a second mapping would outlive it
                if slug not in self._parts:
                    # As plain arrays: slicing a memmap costs several times as much.
                    self._parts[slug] = [np.ascontiguousarray(part) for part in self._load(slug)]
                found = self._parts[slug]
        return found

    def singles(self, slug: str) -> NDArray[np.float32] | None:
        """Return all rows of one aspect, float32 (N, D), where they are few; ``None`` where they are many."""
        found = self._singles.get(slug)
        if found is None and 4 * self.rows * self.dim <= self._singles_bytes:
            parts = self.parts(slug)
            with self._lock:
                if slug not in self._singles and len(self._singles) < MAX_SINGLES:
                    joined = np.empty((self.rows, self.dim), np.float32)
                    copy_rows(parts, self._starts, 0, joined)
                    self._singles[slug] = joined
                found = self._singles.get(slug)
        return found

    def blocks(self, block_rows: int) -> Iterator[tuple[int, list[Piece]]]:
        """Cut all rows into blocks of at most ``block_rows``, in order, across parts.

        Yields:
            The block's first row, and its pieces. A part that fits into a block is never cut.
        """
        first, taken = 0, 0
        pieces: list[Piece] = []
        for part, (start, stop) in enumerate(pairwise(self._starts)):
            for low in range(0, stop - start, block_rows):
                high = min(low + block_rows, stop - start)
                if taken + high - low > block_rows:
                    yield first, pieces
                    first, taken, pieces = first + taken, 0, []
                pieces.append(Piece(part, low, high))
                taken += high - low
        if pieces:
            yield first, pieces

    def pointer(self, slug: str, piece: Piece) -> object:
        """Return where a piece lies in memory, as faiss takes it."""
        import faiss

        parts = self.parts(slug)
        if piece.start == 0:
            pointers = self._pointers.get(slug)
            if pointers is None:
                # Made once: for parts of few rows, making one costs as much as scoring them. Two threads may both do
                # it; the pointers are the same.
                pointers = self._pointers[slug] = [
                    faiss.swig_ptr(part.reshape(-1).view(np.uint8)) if len(part) else None for part in parts
                ]
            return pointers[piece.part]
        return faiss.swig_ptr(parts[piece.part][piece.start : piece.stop].reshape(-1).view(np.uint8))

    def copy_block(self, slug: str, start: int, out: NDArray[np.float16]) -> None:
        """Copy the rows from ``start`` on into ``out``, float16 (rows of the block, D), across parts."""
        copy_rows(self.parts(slug), self._starts, start, out)

    def gather_halves(self, slug: str, rows: NDArray[np.int64], out: NDArray[np.float16]) -> None:
        """Copy the given rows, ascending, into ``out``, float16 (rows, D)."""
        if len(rows) == 0:
            return
        parts = self.parts(slug)
        numbers = np.searchsorted(self._starts, rows, side="right") - 1
        cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(rows)]
        if len(rows) < _FEW_ROWS * (len(cuts) - 1):
            starts = self._starts
            views = [parts[n][row - starts[n]] for n, row in zip(numbers.tolist(), rows.tolist(), strict=True)]
            np.concatenate(views, out=out.reshape(-1))
            return
        for low, high in pairwise(cuts):
            number = int(numbers[low])
            np.take(parts[number], rows[low:high] - self._starts[number], axis=0, out=out[low:high], mode="clip")

    def gather(self, slug: str, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the given rows of one aspect, float64 (K, D), in the order given."""
        singles = self.singles(slug)
        if singles is not None:
            return singles.take(rows, axis=0).astype(np.float64)
        parts = self.parts(slug)
        if len(parts) == 1:
            return parts[0][rows].astype(np.float64)
        order = np.argsort(rows, kind="stable")
        halves = np.empty((len(rows), self.dim), np.float16)
        self.gather_halves(slug, rows[order], halves)
        out = np.empty(halves.shape, np.float64)
        out[order] = halves
        return out

    def vector(self, slug: str, row: int) -> NDArray[np.float64]:
        """Return one row of one aspect, float64 (D,)."""
        number = bisect_right(self._starts, row) - 1
        return self.parts(slug)[number][row - self._starts[number]].astype(np.float64)


def part_starts(part_rows: Sequence[int]) -> list[int]:
    """Return the first row of every part, and last the number of all rows.

    >>> part_starts([3, 0, 2])
    [0, 3, 3, 5]
    """
    return [0, *accumulate(part_rows)]


def copy_rows(parts: Sequence[NDArray[Any]], starts: Sequence[int], start: int, out: NDArray[Any]) -> None:
    """Copy the rows from ``start`` on into ``out``, as many as it has, across parts.

    Args:
        parts: Arrays (rows of the part, W).
        starts: As ``part_starts`` gives them.
        start: The first row.
        out: An array (rows, W).
    """
    stop = start + len(out)
    number = bisect_right(starts, start) - 1
    done = start
    while done < stop:
        first = starts[number]
        end = min(stop, starts[number + 1])
        out[done - start : end - start] = parts[number][done - first : end - first]
        done = end
        number += 1


def copy_scattered(
    parts: Sequence[NDArray[Any]], starts: Sequence[int], rows: NDArray[np.int64], out: NDArray[Any]
) -> None:
    """Copy the given rows into ``out``, reading each part from its beginning to its end.

    Args:
        parts: Arrays (rows of the part, W).
        starts: As ``part_starts`` gives them.
        rows: int64, in any order.
        out: An array (rows, W).
    """
    order = np.argsort(rows, kind="stable")
    ascending = rows[order]
    cuts = np.searchsorted(ascending, starts)
    for number, part in enumerate(parts):
        own = slice(cuts[number], cuts[number + 1])
        out[order[own]] = part[ascending[own] - starts[number]]
