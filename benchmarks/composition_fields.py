"""FAISS per field and a merge: what hybrid search in a vector database does with several vector fields.

The k′ best of every field are fetched by themselves, then scored together: with zero for a score that was not fetched
(as Milvus and Qdrant do), or with the missing scores computed for all that were fetched (as Weaviate does). A field
with a negative weight is searched with the negated vector, which fetches what gains most by it; to fetch the most
similar and count them down finds half as many for mixed signs, and as many for a penalty.

The rows are the halves of faiss's scalar quantiser (fp16): half the time of IndexFlatIP in float32. Faiss spreads
queries over threads but not the rows of one query, so a field is cut into as many indices as there are threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.composition_cases import Query, Selection
from benchmarks.composition_ways import Answer, Setting
from search.row_scores import RowScorer, ScaledQuery

__all__ = ["FETCHED", "FieldMerge", "Fields", "fields_of", "merged"]

FETCHED = (10, 100, 1_000, 10_000)
ADD_ROWS = 65536
TRAIN_ROWS_PER_LIST = 40
# Of an inverted file with √N lists.
PROBED_SHARE = 1 / 8

Found = tuple[NDArray[np.float32], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class FieldMerge:
    """Fetch k′ a field, then merge.

    Attributes:
        fields: What is searched.
        fetched: k′.
        complete: Whether scores that were not fetched are computed; else they are zero.
    """

    fields: Fields
    fetched: int
    complete: bool

    @property
    def name(self) -> str:
        """As the tables have it."""
        return f"{self.fields.kind} per field, k' = {self.fetched:,}, {'rescored' if self.complete else 'missing = 0'}"

    def top(self, query: Query, k: int, selection: Selection | None) -> Answer:
        """Return the k best of what was fetched."""
        found = self.fields.search(query, self.fetched, selection)
        if self.complete:
            rows = np.unique(np.concatenate([rows for _, rows in found]))
            return Answer(self.fields.rescored(query, rows, k), len(rows))
        return Answer(merged(found, k))


def merged(found: list[Found], k: int) -> NDArray[np.int64]:
    """Return the k rows whose shares, where they were found, sum to most."""
    rows, places = np.unique(np.concatenate([rows for _, rows in found]), return_inverse=True)
    scores = np.bincount(places, np.concatenate([shares for shares, _ in found]), len(rows))
    return rows[np.argsort(-scores, kind="stable")[:k]]


class Fields:
    """Every field as one faiss index a thread, each of a run of rows.

    Args:
        setting: What to build from.
        kind: A key of ``KINDS``.
    """

    def __init__(self, setting: Setting, kind: str) -> None:
        faiss.omp_set_num_threads(setting.threads)  # for training and adding
        self.kind = kind
        # Whole bytes of a selection's bits.
        self._bounds = [setting.files.items * run // setting.threads // 8 * 8 for run in range(setting.threads)]
        self._bounds.append(setting.files.items)
        self._runs = {slug: list(KINDS[kind](setting, slug, self._bounds)) for slug in setting.indexed}
        self._store = setting.files.store(setting.indexed)
        self._pool_size = setting.threads
        self._pool = ThreadPoolExecutor(setting.threads, initializer=faiss.omp_set_num_threads, initargs=(1,))

    def search(self, query: Query, k: int, selection: Selection | None) -> list[Found]:
        """Return for every field of the query its k best rows, with their shares of the score."""
        vectors = {slug: vector.astype(np.float32)[None] for slug, vector in query.vectors.items()}
        jobs = {
            slug: [
                self._pool.submit(self._search_run, slug, run, vector, k, selection)
                for run in range(len(self._runs[slug]))
            ]
            for slug, vector in vectors.items()
        }
        return [_best([job.result() for job in of_field], k) for of_field in jobs.values()]

    def rescored(self, query: Query, rows: NDArray[np.int64], k: int) -> NDArray[np.int64]:
        """Return the k best of the rows, which ascend, by their whole scores."""
        runs = np.array_split(rows, self._pool_size)
        found = list(self._pool.map(self._rescored_run, [query] * len(runs), runs, [k] * len(runs)))
        shares, rows = _best(found, k)
        return rows[np.argsort(-shares, kind="stable")]

    def _search_run(
        self, slug: str, run: int, vector: NDArray[np.float32], k: int, selection: Selection | None
    ) -> Found:
        index = self._runs[slug][run]
        start = self._bounds[run]
        chosen: dict[str, Any] = {}
        if selection is not None:
            bits = selection.bits[start // 8 :]
            chosen["sel"] = faiss.IDSelectorBitmap(bits)  # type: ignore[call-arg, arg-type]
        parameters = faiss.SearchParameters(**chosen)
        if isinstance(index, faiss.IndexIVF):
            parameters = faiss.SearchParametersIVF(nprobe=index.nprobe, **chosen)  # type: ignore[call-arg]
        (shares,), (rows,) = index.search(vector, min(k, index.ntotal), params=parameters)
        found = rows >= 0
        return shares[found], rows[found] + start

    def _rescored_run(self, query: Query, rows: NDArray[np.int64], k: int) -> Found:
        if len(rows) == 0:
            return np.empty(0, np.float32), rows
        (scores,) = RowScorer(self._store, [ScaledQuery.of(query.vectors)], len(rows)).rows(rows)
        return _best([(scores, rows)], k)


def _best(found: list[Found], k: int) -> Found:
    shares = np.concatenate([shares for shares, _ in found])
    rows = np.concatenate([rows for _, rows in found])
    if len(rows) > k:
        best = np.argpartition(shares, len(shares) - k)[-k:]
        shares, rows = shares[best], rows[best]
    return shares, rows


def _flat(setting: Setting, slug: str, bounds: list[int]) -> Iterator[Any]:
    for start, stop in pairwise(bounds):
        dim = setting.files.source.dim
        index = faiss.IndexScalarQuantizer(dim, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
        index.is_trained = True  # a code is the half itself
        yield _filled(index, setting, slug, start, stop)


def _inverted(setting: Setting, slug: str, bounds: list[int]) -> Iterator[Any]:
    items, dim = setting.files.items, setting.files.source.dim
    lists = max(1, round(math.sqrt(items)))
    sample = np.concatenate([setting.rows(slug, start, min(items, start + 512)) for start in _spread(items, lists)])
    for start, stop in pairwise(bounds):
        coarse = faiss.IndexFlatIP(dim)
        index = faiss.IndexIVFScalarQuantizer(
            coarse, dim, lists, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT, False
        )
        index.train(sample)
        index.nprobe = max(1, round(lists * PROBED_SHARE))
        yield _filled(index, setting, slug, start, stop)


def _spread(items: int, lists: int) -> range:
    """Return where pieces of 512 rows start that together suffice to train the lists."""
    pieces = max(1, min(items // 512, -(-lists * TRAIN_ROWS_PER_LIST // 512)))
    return range(0, items, -(-items // pieces))


def _filled(index: Any, setting: Setting, slug: str, start: int, stop: int) -> Any:
    for first in range(start, stop, ADD_ROWS):
        index.add(setting.rows(slug, first, min(stop, first + ADD_ROWS)))
    return index


KINDS: dict[str, Callable[[Setting, str, list[int]], Iterator[Any]]] = {"FAISS": _flat, "FAISS IVF": _inverted}


@cache
def fields_of(setting: Setting, kind: str) -> Fields:
    """Return the fields of a setting, built once for all k′."""
    return Fields(setting, kind)
