"""What every way of answering a composed query has in common in the composition benchmark, and our own ways."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.composition_cases import Query, Selection
from benchmarks.composition_data import VectorFiles
from search.exact import exact_top_k

__all__ = ["Answer", "ExactScan", "PlainNumpy", "Setting", "Way", "rival_module"]


@dataclass(frozen=True)
class Setting:
    """What a way is built from.

    Attributes:
        files: The stored vectors.
        indexed: The slugs of the aspects that are indexed.
        threads: How many threads a query may use.
    """

    files: VectorFiles
    indexed: tuple[str, ...]
    threads: int

    def rows(self, slug: str, start: int, stop: int) -> NDArray[np.float32]:
        """Return stored rows of an aspect, float32 (stop - start, D)."""
        halves = np.empty((stop - start, self.files.source.dim), np.float16)
        self.files.store(self.indexed).copy_block(slug, start, halves)
        return halves.astype(np.float32)


class Answer(NamedTuple):
    """What a way answers.

    Attributes:
        rows: int64 (K,), those it holds for the best, best first.
        rescored: How many rows it scored exactly after choosing them otherwise, if it works like that.
    """

    rows: NDArray[np.int64]
    rescored: int | None = None


class Way(Protocol):
    """A way of answering composed queries, built once and asked one query at a time."""

    @property
    def name(self) -> str:
        """As the tables have it."""
        ...

    def top(self, query: Query, k: int, selection: Selection | None) -> Answer:
        """Return the k best rows, or what the way takes for them."""
        ...


class ExactScan:
    """Our exact path: memory-mapped float16, scanned in blocks."""

    name = "exact scan"

    def __init__(self, setting: Setting) -> None:
        self._store = setting.files.store(setting.indexed)
        self._threads = setting.threads

    def top(self, query: Query, k: int, selection: Selection | None) -> Answer:
        """Return the k best rows."""
        rows = None if selection is None else selection.rows
        return Answer(exact_top_k(self._store, query.vectors, k, rows=rows, threads=self._threads).rows)


class PlainNumpy:
    """A floor that asks for nothing but numpy: float32 arrays in memory, Σ_a X_a @ q_a, and a partition."""

    name = "numpy float32"

    def __init__(self, setting: Setting) -> None:
        self._items = items = setting.files.items
        self._rows = {slug: np.empty((items, setting.files.source.dim), np.float32) for slug in setting.indexed}
        for slug, rows in self._rows.items():
            for start in range(0, items, 65536):
                stop = min(items, start + 65536)
                rows[start:stop] = setting.rows(slug, start, stop)

    def top(self, query: Query, k: int, selection: Selection | None) -> Answer:
        """Return the k best rows by float32 sums."""
        scores = np.zeros(self._items, np.float32)
        for slug, vector in query.vectors.items():
            scores += self._rows[slug] @ vector.astype(np.float32)
        if selection is not None:
            scores = scores[selection.rows]
        best = np.argpartition(scores, len(scores) - k)[-k:] if len(scores) > k else np.arange(len(scores))
        best = best[np.argsort(-scores[best])]
        return Answer(best if selection is None else selection.rows[best])


def rival_module(name: str, package: str) -> ModuleType:
    """Import the library of another system.

    Raises:
        SystemExit: It is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise SystemExit(
            f"--rivals compares with {package}, which is not installed ({error}); run: pip install {package}"
        ) from error
