"""Some inverted lists of joint codes in one faiss fast-scan index, which scores the rows of any of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK_ROWS", "PackedLists", "means_and_variances", "only"]

BLOCK_ROWS = 32  # fast-scan codes are packed in blocks of so many rows
_BYTE_VALUES = 256


class PackedLists:
    """Consecutive lists, packed.

    Args:
        first: The number of the first of them among all lists.
        sizes: int64 (lists,): how many rows each holds.
        rows: int64 (rows,): their rows' numbers, list by list.
        codes: uint8 (rows, M / 2): their codes.
        centroids: float32 (M, 16, 4).
    """

    def __init__(
        self,
        first: int,
        sizes: NDArray[np.int64],
        rows: NDArray[np.int64],
        codes: NDArray[np.uint8],
        centroids: NDArray[np.float32],
    ) -> None:
        import faiss

        self.first = first
        self.count = len(sizes)
        dim = centroids.shape[0] * centroids.shape[2]
        coarse = faiss.IndexFlatIP(dim)  # empty: which lists are probed is said with every search
        plain = faiss.IndexIVFPQ(coarse, dim, self.count, len(centroids), 4, faiss.METRIC_INNER_PRODUCT)
        plain.by_residual = False
        faiss.copy_array_to_vector(np.ascontiguousarray(centroids, np.float32).reshape(-1), plain.pq.centroids)
        plain.is_trained = True
        end = 0
        for number, size in enumerate(sizes.tolist()):
            begin, end = end, end + size
            if size:
                plain.invlists.add_entries(
                    number, size, faiss.swig_ptr(rows[begin:end]), faiss.swig_ptr(codes[begin:end])
                )
        plain.ntotal = end
        self._index = faiss.IndexIVFPQFastScan(plain, BLOCK_ROWS)
        # It has copied everything but the coarse quantiser, and would keep the unpacked codes alive.
        self._index.referenced_objects = [coarse]

    @property
    def end(self) -> int:
        """The number after the last list's."""
        return self.first + self.count

    def search(
        self, queries: NDArray[np.float32], lists: Sequence[NDArray[np.int64]], count: int, parameters: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the best rows of some lists for each query.

        Args:
            queries: float32 (Q, 4M).
            lists: For each query int64: the numbers of the lists to look into, among all lists.
            count: How many rows at most.
            parameters: Of ``only``, or ``None``.

        Returns:
            float32 (Q, count), descending, and int64 (Q, count), -1 where there are no more.
        """
        import faiss

        probed = np.full((len(lists), max(map(len, lists))), -1, np.int64)
        for number, of_query in enumerate(lists):
            probed[number, : len(of_query)] = of_query - self.first
        parameters = faiss.IVFSearchParameters(sel=parameters, nprobe=probed.shape[1])
        unused = np.zeros(probed.shape, np.float32)
        estimates, rows = np.empty((len(queries), count), np.float32), np.empty((len(queries), count), np.int64)
        # Called as C++ has it: faiss's Python form takes no parameters.
        self._index.search_preassigned_c(
            len(queries),
            *(faiss.swig_ptr(queries), count, faiss.swig_ptr(probed), faiss.swig_ptr(unused)),
            *(faiss.swig_ptr(estimates), faiss.swig_ptr(rows), False, parameters),
        )
        return estimates, rows


def only(rows: NDArray[np.int64], total: int) -> Any:
    """Return what admits only the given rows, of ``total``, to ``PackedLists.search``."""
    import faiss

    mask = np.zeros(total, np.uint8)
    mask[rows] = 1
    return faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))


def means_and_variances(
    sizes: NDArray[np.int64], codes: NDArray[np.uint8], centroids: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the means, and the variances in each dimension, of what the codes of each list stand for.

    Args:
        sizes: int64 (lists,): how many rows each holds.
        codes: uint8 (rows, M / 2), list by list.
        centroids: float32 (M, 16, 4).

    Returns:
        Both float32 (lists, 4M); zeros for an empty list.
    """
    means = np.zeros((len(sizes), len(centroids), centroids.shape[2]), np.float32)
    squares = np.zeros_like(means)
    counters = np.repeat(np.arange(len(sizes)) * _BYTE_VALUES, sizes)
    shares = (1.0 / np.maximum(sizes, 1))[:, None, None]
    for byte in range(codes.shape[1]):
        counts = np.bincount(counters + codes[:, byte], minlength=len(sizes) * _BYTE_VALUES)
        pairs = (counts.reshape(len(sizes), 16, 16) * shares).astype(np.float32)
        # A byte's high half is the second axis; its low half, the earlier sub-quantizer's, is the third.
        for number, axis in ((2 * byte, 1), (2 * byte + 1, 2)):
            half = pairs.sum(axis=axis)
            means[:, number] = half @ centroids[number]
            squares[:, number] = half @ centroids[number] ** 2
    shape = (len(sizes), -1)
    return means.reshape(shape), np.maximum(squares - means**2, 0.0).reshape(shape)
