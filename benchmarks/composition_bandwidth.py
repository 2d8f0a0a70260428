"""How fast this machine reads memory: the most that any of several plain reductions reaches."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import faiss
import numpy as np
from numpy.typing import NDArray

__all__ = ["read_bandwidth"]

# Many times the largest cache.
BUFFER_BYTES = 512 << 20
ROUNDS = 7
ROW = 256


def _numpy_sum(piece: NDArray[np.float32]) -> object:
    return piece.sum()


def _numpy_max(piece: NDArray[np.float32]) -> object:
    return piece.max()


def _integer_sum(piece: NDArray[np.float32]) -> object:
    return np.bitwise_or.reduce(piece.view(np.uint64))


def _faiss_norms(piece: NDArray[np.float32]) -> object:
    rows = len(piece) // ROW
    norms = np.empty(rows, np.float32)
    faiss.fvec_norms_L2sqr(  # type: ignore[attr-defined]
        faiss.swig_ptr(norms), faiss.swig_ptr(piece), ROW, rows
    )
    return norms


METHODS: dict[str, Callable[[NDArray[np.float32]], object]] = {
    "numpy sum": _numpy_sum,
    "numpy max": _numpy_max,
    "numpy or of 64-bit words": _integer_sum,
    "faiss norms of rows": _faiss_norms,
}


def read_bandwidth(threads: int) -> tuple[float, str]:
    """Return bytes a second that ``threads`` threads read together, and the reduction that reached it."""
    buffer = np.ones(BUFFER_BYTES // 4, np.float32)
    pieces = np.array_split(buffer.reshape(-1, ROW), threads)
    flat = [piece.reshape(-1) for piece in pieces]
    best = (0.0, "")
    with ThreadPoolExecutor(threads, initializer=faiss.omp_set_num_threads, initargs=(1,)) as pool:
        for _ in range(ROUNDS):
            for name, method in METHODS.items():
                start = time.perf_counter()
                list(pool.map(method, flat))
                best = max(best, (buffer.nbytes / (time.perf_counter() - start), name))
    return best
