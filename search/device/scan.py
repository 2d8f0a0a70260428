"""Exact top-k on GPUs: half-precision products where the vectors lie, the few best scored again on the CPU.

Every device holds a range of the rows. It keeps their halves in its memory as queries ask for them, up to a bound, and
multiplies them with the query there, which reads each once. What does not fit is read from the mapped parts at every
query, by threads that fill pinned buffers ahead of the copy to the device. A device's scores have a proven error bound;
all rows within it of the k-th best are scored in float64 from the stored halves, by the function that the CPU's exact
path ends with, so that rows, order and scores are the same as there, bit for bit.

FAISS's GPU indices have no part in this. None of them takes 4-bit fast-scan codes, and none weighs aspects when it is
asked, so that each set of aspects would need an index of its own. A flat one over such a set would hold the same
halves, but gives at most 2,048 rows, and no bound on the error of their scores. For a single query over what does not
fit, the approximate path on the CPU reads a sixteenth of the bytes, while the link to a device is no faster than the
CPU's own memory; streaming pays for batches, where one copy serves up to ``BATCH`` queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from search.candidates import Candidates
from search.compile import Vectors
from search.device.candidates import Found
from search.device.choice import DeviceError, cuda_devices
from search.device.queries import HalfQueries
from search.device.shard import DeviceShard
from search.exact import TopK, rescored
from search.row_scores import ROW_NORM
from search.vectors import StoredVectors

__all__ = ["BATCH", "DeviceScan"]

# How many queries share a pass over the data.
BATCH = 256


class DeviceScan:
    """The vectors of an index, scanned on one or several devices.

    Nothing is copied to a device before a query asks for it. Threads may share a scan; they take turns on each device.

    Args:
        store: N items.
        devices: torch's names, one for each range of rows; by default every GPU. "cpu" runs the same code on the CPU.
        memory: How many bytes of vectors each device may keep; by default half of what is free on it now, and none on
            the CPU, where the mapped files are in memory already. Scores and buffers come on top, within 1 GiB.
        row_norm: Bound on the Euclidean norm of every stored row, which the error bound rests on.

    Raises:
        DeviceError: A device does not exist, cannot be used, or computes less precisely than the bound asks for.
    """

    def __init__(
        self,
        store: StoredVectors,
        devices: Sequence[str] | None = None,
        memory: int | None = None,
        *,
        row_norm: float = ROW_NORM,
    ) -> None:
        names = cuda_devices() if devices is None else tuple(devices)
        if not names:
            raise DeviceError("there is no GPU that torch can use; scan on the CPU (device='cpu')")
        if memory is not None and memory < 0:
            raise DeviceError(f"the memory that a device may fill must be a number of bytes, at least 0, not {memory}")
        cuts = [store.rows * number // len(names) for number in range(len(names) + 1)]
        self._store = store
        self._row_norm = row_norm
        self._shards = [
            DeviceShard(store, name, start=start, stop=stop, memory=memory)
            for name, start, stop in zip(names, cuts[:-1], cuts[1:], strict=True)
        ]

    @property
    def cached_bytes(self) -> int:
        """How many bytes of vectors the devices keep now."""
        return sum(shard.cached_bytes for shard in self._shards)

    def fits(self, aspects: int) -> bool:
        """Return whether the devices can keep all vectors of this many aspects, so that a query reads none of them."""
        return all(shard.aspect_bytes * aspects <= shard.memory for shard in self._shards)

    def top_k(self, query: Vectors, k: int, *, rows: NDArray[np.int64] | None = None) -> TopK:
        """Return the k best rows by Σ_a query[a]·x_a, the same as ``search.exact.exact_top_k`` does.

        Args:
            query: float64 (D,) by slug, at least one, not all zero.
            k: At least 1; fewer rows come back only if there are fewer.
            rows: int64, ascending: only these; by default all.

        Raises:
            IndexDirectoryError: Stored vectors are not finite.
            DeviceError: A device's memory does not suffice.
        """
        return self.top_k_batch([query], [k], rows=rows)[0]

    def top_k_batch(
        self, queries: Sequence[Vectors], counts: Sequence[int], *, rows: NDArray[np.int64] | None = None
    ) -> list[TopK]:
        """Return what ``top_k`` gives for each query and its k, with one pass over the data for ``BATCH`` of them."""
        chosen = self._store.rows if rows is None else len(rows)
        if chosen == 0:
            return [TopK(np.empty(0, np.int64), np.empty(0, np.float64)) for _ in queries]
        wanted = np.minimum(np.array(counts, np.int64), chosen)
        tops: list[TopK] = []
        for start in range(0, len(queries), BATCH):
            tops += self._batch(queries[start : start + BATCH], wanted[start : start + BATCH], rows)
        return tops

    def _batch(
        self, queries: Sequence[Vectors], counts: NDArray[np.int64], rows: NDArray[np.int64] | None
    ) -> list[TopK]:
        halves = HalfQueries.of(queries, self._row_norm)
        with ThreadPoolExecutor(len(self._shards)) as pool:
            found = Found.concatenated(list(pool.map(lambda shard: shard.scan(halves, counts, rows), self._shards)))
        tops = []
        for number, (query, k) in enumerate(zip(queries, counts.tolist(), strict=True)):
            merged = Candidates(k, float(halves.slack[number]))
            mine = found.queries == number
            merged.offer(found.scores[mine], found.rows[mine])
            tops.append(rescored(self._store, query, merged.rows, k))
        return tops
