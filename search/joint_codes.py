"""The 4-bit codes of several aspects laid side by side: faiss fast-scan indices that score their combination.

A weighted sum of similarities under several aspects is one inner product in the concatenated space, so the codes of
the aspects in a query, side by side along the sub-quantiser axis, are the codes of a product quantiser of that space:
one look-up table, one scan. They are inverted files, since faiss's flat fast-scan takes no selection of rows and those
do, cut into groups that are assembled one by one, so that little is held twice. Without lists in the index, a list is
a range of rows, and all are scanned; with them, a query may look into those lists alone where its best rows are to be
expected, under its own aspects and weights.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexer.quantizer import Quantizer
from search.exact import default_threads
from search.list_ranking import ListRanking
from search.packed_lists import BLOCK_ROWS, PackedLists, only
from search.stored_codes import StoredCodes
from search.vectors import copy_rows, copy_scattered, part_starts

__all__ = ["DEFAULT_CODES_MEMORY", "Estimated", "JointCodes"]

DEFAULT_CODES_MEMORY = 4 << 30
# Of lists, at least so many bytes are held twice; every group goes through all codes, so there are not many groups.
GROUP_BYTES, MOST_GROUPS = 1 << 26, 8
_ID_BYTES = 8
# What a scan is asked for: its share of the candidates by its rows, times this, and this many more.
SHARE_AND_MORE, MORE = 1.2, 64


class Estimated(NamedTuple):
    """The rows of the highest estimated scores.

    Attributes:
        estimates: float32 (K,), descending, off by a common amount (quantising shrinks the best) and by each row's own
            error.
        rows: int64 (K,). No row of a higher estimate in the lists looked into is left out.
        among: How many rows these lists hold of those to choose from.
        probed: How many lists these are; ``None`` if there are none.
    """

    estimates: NDArray[np.float32]
    rows: NDArray[np.int64]
    among: int
    probed: int | None


class JointCodes:
    """The codes of some aspects of an index, assembled.

    Args:
        stored: The index's codes.
        slugs: The aspects, in any order.

    Raises:
        IndexDirectoryError: The lists are damaged.
    """

    def __init__(self, stored: StoredCodes, slugs: Sequence[str]) -> None:
        self.slugs = tuple(sorted(slugs))
        self._stored = stored
        self._quantizers = [stored.quantizer(slug) for slug in self.slugs]
        self._sizes = stored.list_sizes
        self._starts = np.concatenate([[0], np.cumsum(self._sizes)])
        self.rows = int(self._starts[-1])
        widths = [quantizer.centroids.shape[0] * quantizer.centroids.shape[2] for quantizer in self._quantizers]
        lists = stored.list_count
        self._ranking = ListRanking(self._sizes, np.cumsum([0, *widths]).tolist()) if lists else None
        self._groups = self._assembled()
        # Ranges are scanned at once as they are; of a few large groups, each query's lists are dealt out.
        self._hands = -(-default_threads() // max(len(self._groups), 1)) if lists else 1
        _give_back_freed_memory()

    @property
    def nbytes(self) -> int:
        """How many bytes the assembled codes, their row numbers and what ranks the lists take."""
        ranking = self._ranking.nbytes if self._ranking is not None else 0
        return self.bytes_of(self._sizes, self._quantizers) + ranking

    @staticmethod
    def bytes_of(sizes: int | NDArray[np.int64], quantizers: Sequence[Quantizer]) -> int:
        """Return how many bytes the rows of lists of these sizes take."""
        blocks = -(-np.atleast_1d(sizes) // BLOCK_ROWS)
        codes = sum(quantizer.code_bytes for quantizer in quantizers)
        return int(blocks.sum()) * BLOCK_ROWS * codes + int(np.sum(sizes)) * _ID_BYTES

    def search(
        self,
        queries: Sequence[Mapping[str, NDArray[np.floating[Any]]]],
        count: int,
        *,
        rows: NDArray[np.int64] | None = None,
        nprobe: int | None = None,
        at_least: Sequence[int] | None = None,
        threads: int = 1,
    ) -> list[Estimated]:
        """Return for each query the rows of the highest estimated scores.

        Args:
            queries: float (D,) by slug, the slugs of this object, scaled to norms around 1.
            count: How many at most; fewer may come back than there are.
            rows: int64, ascending: the rows to choose from; by default all.
            nprobe: How many inverted lists to look into: the first in ``ListRanking``'s order that hold any row to
                choose from. By default all.
            at_least: For each query how many rows these lists must hold, by default 1; more are looked into for it.
            threads: How many scans run at once.
        """
        import faiss

        flat = np.concatenate(
            [
                np.stack([quantizer.rotate(np.asarray(query[slug], np.float64)) for query in queries])
                for slug, quantizer in zip(self.slugs, self._quantizers, strict=True)
            ],
            axis=1,
        ).astype(np.float32)
        available = self._sizes if rows is None else self._chosen(rows)
        admitted = None if rows is None else only(rows, self.rows)
        probed = self._probed(flat, available, nprobe, at_least or [1] * len(queries))
        among = [int(available[lists].sum()) for lists in probed]

        def scan(group: PackedLists, hand: int) -> _Found | None:
            own = [
                lists[slice(*np.searchsorted(lists, [group.first, group.end]))][hand :: self._hands] for lists in probed
            ]
            there = np.array([available[lists].sum() for lists in own])
            if not there.any():
                return None
            # Its share and some more. Where the best lie in one, less than ``count`` comes back.
            share = (SHARE_AND_MORE * count * there / np.maximum(among, 1)).astype(np.int64) + MORE
            wanted = int(np.minimum(np.minimum(there, count), share).max())
            return _Found(*group.search(flat, own, wanted, admitted), complete=there <= wanted)

        scans = [(group, hand) for group in self._groups for hand in range(self._hands)]
        # faiss scans one query with one thread; the setting is per thread and ends with it.
        workers = max(1, min(threads, len(scans)))
        with ThreadPoolExecutor(workers, initializer=faiss.omp_set_num_threads, initargs=(1,)) as pool:
            scanned = (
                [found for found in pool.map(scan, *zip(*scans, strict=True)) if found is not None] if scans else []
            )
        return [
            Estimated(
                *_merged(scanned, number, count),
                among[number],
                len(probed[number]) if self._stored.list_count else None,
            )
            for number in range(len(queries))
        ]

    def _chosen(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many of the given rows each list holds."""
        if self._stored.list_count:
            return np.bincount(self._stored.list_numbers[rows], minlength=self._stored.list_count)
        return np.diff(np.searchsorted(rows, self._starts))

    def _probed(
        self, flat: NDArray[np.float32], available: NDArray[np.int64], nprobe: int | None, at_least: Sequence[int]
    ) -> list[NDArray[np.int64]]:
        """Return for each query the numbers of the lists to look into, ascending."""
        open_ = np.flatnonzero(available)
        if self._ranking is None or nprobe is None or nprobe >= len(open_):
            return [open_] * len(flat)
        found = []
        for ranks, least in zip(self._ranking.ranks(flat, available)[:, open_], at_least, strict=True):
            order = open_[np.argsort(-ranks, kind="stable")]
            enough = int(np.searchsorted(np.cumsum(available[order]), least)) + 1
            found.append(np.sort(order[: max(nprobe, enough)]))
        return found

    def _assembled(self) -> list[PackedLists]:
        centroids = np.concatenate([quantizer.centroids for quantizer in self._quantizers])
        groups = []
        for first, end, rows, codes in self._unpacked():
            sizes = self._sizes[first:end]
            groups.append(PackedLists(first, sizes, rows, codes, centroids))
            if self._ranking is not None:
                self._ranking.add(first, sizes, codes, centroids)
        return groups

    def _unpacked(self) -> Iterator[tuple[int, int, NDArray[np.int64], NDArray[np.uint8]]]:
        """Yield groups of lists: the first, the one after the last, their rows list by list, and the rows' codes."""
        starts = part_starts(self._stored.part_rows)
        parts = [[np.asarray(part) for part in self._stored.codes(slug)] for slug in self.slugs]
        edges = np.cumsum([0, *(quantizer.code_bytes for quantizer in self._quantizers)])
        lists = self._stored.list_count
        order = np.argsort(self._stored.list_numbers, kind="stable") if lists else np.arange(self.rows)
        size = max(GROUP_BYTES // int(edges[-1]), -(-self.rows // MOST_GROUPS)) if lists else 1
        first = 0
        while first < len(self._sizes):
            end = max(first + 1, int(np.searchsorted(self._starts, self._starts[first] + size, side="right")) - 1)
            rows = order[self._starts[first] : self._starts[end]]
            codes = np.empty((len(rows), edges[-1]), np.uint8)
            for column, of_aspect in enumerate(parts):
                out = codes[:, edges[column] : edges[column + 1]]
                if lists:
                    copy_scattered(of_aspect, starts, rows, out)
                else:
                    copy_rows(of_aspect, starts, int(self._starts[first]), out)
            yield first, end, rows, codes
            first = end


def _give_back_freed_memory() -> None:
    """Return to the system what assembling has freed: half as much again as the codes, which glibc would keep."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:  # musl has none
        trim(0)


@dataclass(frozen=True, eq=False)
class _Found:
    """What one scan gave: float32 and int64 (queries, K; -1 for none), and for which queries that is all there is."""

    estimates: NDArray[np.float32]
    rows: NDArray[np.int64]
    complete: NDArray[np.bool_]


def _merged(found: Sequence[_Found], number: int, count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return a query's best of all scans, down to where a scan may have had more to give."""
    if not found:
        return np.empty(0, np.float32), np.empty(0, np.int64)
    estimates = np.concatenate([part.estimates[number] for part in found])
    rows = np.concatenate([part.rows[number] for part in found])
    floor = max((float(part.estimates[number, -1]) for part in found if not part.complete[number]), default=-np.inf)
    # Not those at the floor: of equal estimates, some were not fetched, and the order must be the same with more.
    known = (estimates > floor) & (rows >= 0)
    estimates, rows = estimates[known], rows[known]
    best = np.lexsort((rows, -estimates))[:count]
    return estimates[best], rows[best]
