"""The 4-bit codes of several aspects laid side by side: one faiss fast-scan index that scores their combination.

A weighted sum of similarities under several aspects is one inner product in the concatenated space, so the codes of
the aspects in a query, side by side along the sub-quantiser axis, are the codes of a product quantiser of that space:
one look-up table, one scan. The index is an inverted file of a single list, since faiss's flat fast-scan takes no
selection of rows and this one does; it is cut into ranges of rows, which are scanned at once and assembled one by one,
so that little is held twice.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer import IndexDirectory
from indexer.quantizer import Quantizer
from search.exact import default_threads
from search.vectors import copy_rows, part_starts
from tpips_model.aspects import Aspect

__all__ = ["DEFAULT_CODES_MEMORY", "JointCache", "JointCodes", "StoredCodes"]

DEFAULT_CODES_MEMORY = 4 << 30
# A range is a thread's share of the rows within these bounds; so many are held twice while an index is assembled.
MIN_RANGE_ROWS, MAX_RANGE_ROWS = 1 << 14, 1 << 18
BLOCK_ROWS = 32  # fast-scan codes are packed in blocks of so many rows
_ID_BYTES = 8
# What a range is asked for: its share of the candidates by its rows, times this, and this many more.
SHARE_AND_MORE, MORE = 1.2, 64


@dataclass(frozen=True, eq=False)
class StoredCodes:
    """What an index stores of its coded aspects.

    Attributes:
        part_rows: How many rows each part holds.
        codes: Gives the parts of an aspect's codes by its slug, uint8 (rows of the part, M / 2).
        quantizer: Gives an aspect's quantiser by its slug.
        slugs: The aspects that are coded.
    """

    part_rows: Sequence[int]
    codes: Callable[[str], Sequence[NDArray[np.uint8]]]
    quantizer: Callable[[str], Quantizer]
    slugs: frozenset[str]

    @classmethod
    def of_index(cls, index: IndexDirectory) -> StoredCodes:
        """Return the codes of an opened index."""
        aspects: Mapping[str, Aspect] = {aspect.slug: aspect for aspect in index.coded_aspects}
        return cls(
            part_rows=[part.rows for part in index.manifest.parts],
            codes=lambda slug: index.codes(aspects[slug]),
            quantizer=lambda slug: index.quantizer(aspects[slug]),
            slugs=frozenset(aspects),
        )


@dataclass(frozen=True, eq=False)
class _Range:
    """A fast-scan index over the rows from ``start`` on."""

    start: int
    rows: int
    index: Any


class JointCodes:
    """The codes of some aspects of an index, assembled.

    Args:
        stored: The index's codes.
        slugs: The aspects, in any order.
    """

    def __init__(self, stored: StoredCodes, slugs: Sequence[str]) -> None:
        self.slugs = tuple(sorted(slugs))
        self._quantizers = [stored.quantizer(slug) for slug in self.slugs]
        starts = part_starts(stored.part_rows)
        parts = [[np.asarray(part) for part in stored.codes(slug)] for slug in self.slugs]
        self.rows = starts[-1]
        range_rows = max(MIN_RANGE_ROWS, min(MAX_RANGE_ROWS, -(-self.rows // default_threads())))
        self._ranges = [
            self._assemble(parts, starts, start, min(range_rows, self.rows - start))
            for start in range(0, self.rows, range_rows)
        ]
        _give_back_freed_memory()

    @property
    def nbytes(self) -> int:
        """How many bytes the assembled codes and their row numbers take."""
        return sum(self.bytes_of(part.rows, self._quantizers) for part in self._ranges)

    @staticmethod
    def bytes_of(rows: int, quantizers: Sequence[Quantizer]) -> int:
        """Return how many bytes so many rows take."""
        codes = sum(len(quantizer.centroids) // 2 for quantizer in quantizers)
        return -(-rows // BLOCK_ROWS) * BLOCK_ROWS * codes + rows * _ID_BYTES

    def search(
        self,
        queries: Sequence[Mapping[str, NDArray[np.floating[Any]]]],
        count: int,
        *,
        rows: NDArray[np.int64] | None = None,
        threads: int = 1,
    ) -> list[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        """Return for each query the rows of the highest estimated scores.

        Args:
            queries: float (D,) by slug, the slugs of this object, scaled to norms around 1.
            count: How many at most.
            rows: int64, ascending: the rows to choose from; by default all.
            threads: How many ranges are scanned at once.

        Returns:
            float32 (K,), descending, and int64 (K,), K at most ``count``; no row of a higher estimate is left out, but
            fewer may come back than there are. Estimates are off by a common amount (quantising shrinks the best) and
            by each row's own error.
        """
        import faiss

        flat = np.concatenate(
            [
                np.stack([quantizer.rotate(np.asarray(query[slug], np.float64)) for query in queries])
                for slug, quantizer in zip(self.slugs, self._quantizers, strict=True)
            ],
            axis=1,
        ).astype(np.float32)

        chosen = self.rows if rows is None else len(rows)

        def scan(part: _Range) -> _Found | None:
            parameters = None
            available = part.rows
            if rows is not None:
                low, high = np.searchsorted(rows, [part.start, part.start + part.rows])
                available = int(high - low)
                if available == 0:
                    return None
                parameters = _only(rows[low:high] - part.start, part.rows)
            # Its share and some more. Where the best lie in one range, less than ``count`` comes back.
            wanted = min(available, count, int(SHARE_AND_MORE * count * available / chosen) + MORE)
            estimates, found = part.index.search(flat, wanted, params=parameters)
            return _Found(estimates, np.where(found < 0, -1, found + part.start), complete=wanted == available)

        # faiss scans one query with one thread; the setting is per thread and ends with it.
        workers = max(1, min(threads, len(self._ranges)))
        with ThreadPoolExecutor(workers, initializer=faiss.omp_set_num_threads, initargs=(1,)) as pool:
            scanned = [found for found in pool.map(scan, self._ranges) if found is not None]
        return [_merged(scanned, number, count) for number in range(len(queries))]

    def _assemble(
        self, parts: Sequence[Sequence[NDArray[np.uint8]]], starts: Sequence[int], start: int, rows: int
    ) -> _Range:
        import faiss

        widths = [len(quantizer.centroids) // 2 for quantizer in self._quantizers]
        codes = np.empty((rows, sum(widths)), np.uint8)
        left = 0
        for width, of_aspect in zip(widths, parts, strict=True):
            copy_rows(of_aspect, starts, start, codes[:, left : left + width])
            left += width
        centroids = np.concatenate([quantizer.centroids for quantizer in self._quantizers])
        dim = centroids.shape[0] * centroids.shape[2]
        coarse = faiss.IndexFlatIP(dim)
        coarse.add(np.zeros((1, dim), np.float32))
        plain = faiss.IndexIVFPQ(coarse, dim, 1, len(centroids), 4, faiss.METRIC_INNER_PRODUCT)
        plain.by_residual = False
        faiss.copy_array_to_vector(np.ascontiguousarray(centroids, np.float32).reshape(-1), plain.pq.centroids)
        plain.is_trained = True
        numbers = np.arange(rows, dtype=np.int64)
        plain.invlists.add_entries(0, rows, faiss.swig_ptr(numbers), faiss.swig_ptr(codes))
        plain.ntotal = rows
        packed = faiss.IndexIVFPQFastScan(plain, BLOCK_ROWS)
        # It has copied everything but the coarse quantiser, and would keep the unpacked codes alive.
        packed.referenced_objects = [coarse]
        return _Range(start, rows, packed)


def _give_back_freed_memory() -> None:
    """Return to the system what assembling has freed: half as much again as the codes, which glibc would keep."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:  # musl has none
        trim(0)


@dataclass(frozen=True, eq=False)
class _Found:
    """What one range gave: float32 and int64 (queries, K; -1 for none), and whether that is all there is to choose."""

    estimates: NDArray[np.float32]
    rows: NDArray[np.int64]
    complete: bool


def _only(rows: NDArray[np.int64], total: int) -> Any:
    """Return the search parameters that admit only the given rows of a range."""
    import faiss

    mask = np.zeros(total, np.uint8)
    mask[rows] = 1
    return faiss.IVFSearchParameters(sel=faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little")), nprobe=1)


def _merged(found: Sequence[_Found], number: int, count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return a query's best of all ranges, down to where a range may have had more to give."""
    if not found:
        return np.empty(0, np.float32), np.empty(0, np.int64)
    estimates = np.concatenate([part.estimates[number] for part in found])
    rows = np.concatenate([part.rows[number] for part in found])
    floor = max((float(part.estimates[number, -1]) for part in found if not part.complete), default=-np.inf)
    known = (estimates >= floor) & (rows >= 0)
    estimates, rows = estimates[known], rows[known]
    best = np.lexsort((rows, -estimates))[:count]
    return estimates[best], rows[best]


@dataclass
class _Slot:
    """One set of aspects in the cache; its lock lets one thread assemble while the others wait."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    joint: JointCodes | None = None


class JointCache:
    """Assembled codes by set of aspects; the sets used longest ago go when the memory bound is passed.

    Args:
        stored: The index's codes.
        memory: Bound in bytes; the set that is asked for is always held, however large.
    """

    def __init__(self, stored: StoredCodes, *, memory: int = DEFAULT_CODES_MEMORY) -> None:
        self._stored = stored
        self._memory = memory
        self._slots: OrderedDict[tuple[str, ...], _Slot] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, slugs: Sequence[str]) -> JointCodes:
        """Return the joint codes of a set of aspects, assembled once."""
        key = tuple(sorted(slugs))
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
        with slot.lock:
            if slot.joint is None:
                needed = JointCodes.bytes_of(sum(self._stored.part_rows), [self._stored.quantizer(s) for s in key])
                self._make_room(needed, keep=key)
                slot.joint = JointCodes(self._stored, key)
            return slot.joint

    @property
    def nbytes(self) -> int:
        """How many bytes are held."""
        with self._lock:
            return sum(slot.joint.nbytes for slot in self._slots.values() if slot.joint is not None)

    def _make_room(self, needed: int, *, keep: tuple[str, ...]) -> None:
        """Let go of sets, first those used longest ago, until ``needed`` bytes fit."""
        with self._lock:
            held = sum(slot.joint.nbytes for slot in self._slots.values() if slot.joint is not None)
            for key in [key for key, slot in self._slots.items() if key != keep and slot.joint is not None]:
                if held + needed <= self._memory:
                    break
                slot = self._slots.pop(key)
                held -= slot.joint.nbytes if slot.joint is not None else 0
