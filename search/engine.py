"""The engine: the best rows of a compiled query, among all rows or a selection of them, by the way that suits."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from indexer import IndexDirectory
from indexer.codes import CODES_FROM_ROWS
from search.approximate import ApproximateSearch
from search.exact import exact_top_k_batch
from search.joint_cache import JointCache
from search.joint_codes import DEFAULT_CODES_MEMORY
from search.stored_codes import StoredCodes
from search.terms import QueryError
from search.vectors import StoredVectors

if TYPE_CHECKING:
    from search.device.scan import DeviceScan

__all__ = ["Engine", "Ranker", "Ranking"]

# Copying out so small a share of all rows and scoring it costs less than scanning the codes of all.
EXACT_SELECTION = 0.03

_Way = Literal["exact", "device", "codes"]


@dataclass(frozen=True, eq=False)
class Ranking:
    """The best rows, highest score first, equal scores by row.

    Attributes:
        rows: int64 (K,), rows in the whole index.
        scores: float64 (K,).
        exact: Whether they are proven to be the best.
        rescored: How many rows were scored exactly.
        probed: How many inverted lists were looked into; ``None`` if it did not go by lists.
    """

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]
    exact: bool
    rescored: int
    probed: int | None = None


class Ranker(Protocol):
    """What ranks rows for queries."""

    def top_k_batch(
        self,
        queries: Sequence[Mapping[str, NDArray[np.float64]]],
        k: int | Sequence[int],
        *,
        rows: NDArray[np.int64] | None = None,
        exact: bool | None = None,
        nprobe: int | None = None,
    ) -> list[Ranking]:
        """Return the k best of the rows for each query, as ``Engine.top_k_batch`` does."""
        ...


class Engine:
    """Ranks the rows of an index.

    Args:
        store: The index's vectors.
        index: The index.
        devices: The GPUs that exact scans run on, as ``chosen_devices`` gives them; none means the CPU.
        codes_memory: Bound in bytes on the codes held in memory.
    """

    def __init__(
        self,
        store: StoredVectors,
        index: IndexDirectory,
        *,
        devices: Sequence[str] = (),
        codes_memory: int = DEFAULT_CODES_MEMORY,
    ) -> None:
        self._store = store
        self._index = index
        self._devices = devices
        self._device_scan: DeviceScan | None = None
        self._lock = threading.Lock()
        stored = StoredCodes.of_index(index)
        self._coded = stored.slugs
        self._approximate = ApproximateSearch(store, JointCache(stored, memory=codes_memory))

    def top_k(
        self,
        query: Mapping[str, NDArray[np.float64]],
        k: int,
        *,
        rows: NDArray[np.int64] | None = None,
        exact: bool | None = None,
        nprobe: int | None = None,
    ) -> Ranking:
        """Return the k best rows by Σ_a query[a]·x_a.

        Args:
            query: float64 (D,) by slug, at least one, not all zero.
            k: At least 1; fewer rows come back only if there are fewer.
            rows: int64, ascending: the rows to choose from; ``None`` means all.
            exact: ``True`` scores every row, ``False`` goes by the codes. ``None`` chooses: a GPU that holds the rows
                scores them all, and so does the CPU for small indices and selections; beyond, the codes serve, where
                all of the query's aspects have them.
            nprobe: How many of the index's inverted lists a search by the codes looks into, as ``ApproximateSearch``
                takes it.

        Raises:
            QueryError: The codes are asked for, and the index has none; or ``nprobe`` is, and it has no lists.
            IndexDirectoryError: Stored vectors are not finite.
        """
        return self.top_k_batch([query], k, rows=rows, exact=exact, nprobe=nprobe)[0]

    def top_k_batch(
        self,
        queries: Sequence[Mapping[str, NDArray[np.float64]]],
        k: int | Sequence[int],
        *,
        rows: NDArray[np.int64] | None = None,
        exact: bool | None = None,
        nprobe: int | None = None,
    ) -> list[Ranking]:
        """Return what ``top_k`` gives for each query; ``k`` may differ from query to query."""
        if nprobe is not None and not self._approximate.has_lists:
            raise QueryError(
                f"the index {self._index.path} has no inverted lists, of which nprobe could choose some; make them "
                f"with: tpips-index codes {self._index.path} --lists N, or leave out nprobe"
            )
        counts = [k] * len(queries) if isinstance(k, int) else list(k)
        chosen = self._store.rows if rows is None else len(rows)
        by_way: dict[_Way, list[int]] = {}
        for number, query in enumerate(queries):
            by_way.setdefault(self._way(query, chosen, exact), []).append(number)
        rankings: dict[int, Ranking] = {}
        for way, numbers in by_way.items():
            asked = [queries[number] for number in numbers]
            wanted = [counts[number] for number in numbers]
            if way == "codes":
                found = [
                    Ranking(top.rows, top.scores, top.exact, top.rescored, top.probed)
                    for top in self._approximate.top_k_batch(asked, wanted, rows=rows, nprobe=nprobe)
                ]
            else:
                tops = (
                    self._on_devices().top_k_batch(asked, wanted, rows=rows)
                    if way == "device"
                    else exact_top_k_batch(self._store, asked, wanted, rows=rows)
                )
                found = [Ranking(top.rows, top.scores, True, chosen) for top in tops]
            rankings.update(zip(numbers, found, strict=True))
        return [rankings[number] for number in range(len(queries))]

    def _way(self, query: Mapping[str, NDArray[np.float64]], chosen: int, exact: bool | None) -> _Way:
        coded = self._coded.issuperset(query)
        if exact is False:
            if not coded:
                raise QueryError(
                    f"the index {self._index.path} has no codes to search approximately by; make them with: "
                    f"tpips-index codes {self._index.path}, or search exactly"
                )
            return "codes"
        if self._devices and (exact or not coded or self._on_devices().fits(len(query))):
            return "device"
        if exact or not coded or self._store.rows < CODES_FROM_ROWS:
            return "exact"
        return "exact" if chosen < EXACT_SELECTION * self._store.rows else "codes"

    def _on_devices(self) -> DeviceScan:
        from search.device.scan import DeviceScan

        with self._lock:
            if self._device_scan is None:
                self._device_scan = DeviceScan(self._store, self._devices)
            return self._device_scan
