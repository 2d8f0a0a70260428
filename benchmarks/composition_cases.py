"""What the composition benchmark asks, and the true answers.

A query has a held-out item of its own for every term, as compositional queries have: the colors of one picture with the
brushwork of another. Weights are drawn from [0.3, 1]. The truth is a float64 product over all stored rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.composition_data import ASPECTS, VectorFiles
from search.compile import EmbeddedTerm, Vectors, compile_query

__all__ = ["PENALTY", "Case", "Field", "Query", "Selection", "asked_cases", "growth_cases", "true_top"]

PENALTY = 0.3
HELD_OUT_ITEMS = 512
TRUTH_ROWS = 16384
# (name, column, below): the items whose column is below the bound.
FILTERS = (
    ("filter 50 %", "pick", 500),
    ("filter 5 %", "pick", 50),
    ("filter 0.1 %", "pick", 1),
    # Groups are 1 in 200 each; the query's own are mostly among those left out.
    ("filter 5 %, by content", "content", 10),
)


@dataclass(frozen=True, eq=False)
class Field:
    """One aspect's share of a query, for those who search every field by itself: weight · unit.

    Attributes:
        slug: The aspect.
        weight: Negative where similarity counts against an item.
        unit: float64 (D,), of norm 1.
    """

    slug: str
    weight: float
    unit: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Query:
    """A query in both forms.

    Attributes:
        vectors: float64 (D,) by slug, what an item's rows are multiplied with.
        fields: The same as weights and unit vectors.
    """

    vectors: Vectors
    fields: tuple[Field, ...]


@dataclass(frozen=True, eq=False)
class Selection:
    """The items that a filter keeps: those whose ``column`` is below ``below``.

    Attributes:
        column: A column of ``VectorFiles.columns``.
        below: The bound.
        rows: int64, ascending.
        bits: uint8, a bit an item, least significant first, as faiss takes it.
    """

    column: str
    below: int
    rows: NDArray[np.int64]
    bits: NDArray[np.uint8]

    @classmethod
    def of(cls, column: str, values: NDArray[np.int64], below: int) -> Selection:
        """Return the selection of the items with values below the bound."""
        kept = values < below
        return cls(column, below, np.flatnonzero(kept), np.packbits(kept, bitorder="little"))


@dataclass(frozen=True, eq=False)
class Case:
    """Queries of one kind.

    Attributes:
        name: As the tables have it.
        indexed: The slugs of the aspects that the index holds.
        queries: Asking some of them.
        selection: What the filter keeps, if there is one.
    """

    name: str
    indexed: tuple[str, ...]
    queries: tuple[Query, ...]
    selection: Selection | None = None


def asked_cases(files: VectorFiles, aspects: int, count: int) -> list[Case]:
    """Return the cases that ask all of the first ``aspects`` aspects, ``count`` queries each."""
    indexed = tuple(aspect.slug for aspect in ASPECTS[:aspects])
    drawn = _Drawn(files)
    positive = drawn.queries(count, [1.0] * aspects)
    # Every third term counts against an item, the last of them first.
    signs = [-1.0 if (aspects - number) % 3 == 1 else 1.0 for number in range(aspects)]
    columns = files.columns()
    return [
        Case("positive weights", indexed, positive),
        Case(f"penalty {PENALTY}", indexed, drawn.queries(count, [0.0] + [1.0] * (aspects - 1), penalty=PENALTY)),
        Case("mixed signs", indexed, drawn.queries(count, signs)),
        *(
            Case(name, indexed, positive, Selection.of(column, columns[column], below))
            for name, column, below in FILTERS
        ),
    ]


def growth_cases(files: VectorFiles, count: int) -> list[Case]:
    """Return the cases that ask two aspects of an index that holds these two, or all there are."""
    queries = _Drawn(files).queries(count, [1.0, 1.0])
    return [
        Case(f"2 asked of {indexed}", tuple(aspect.slug for aspect in ASPECTS[:indexed]), queries)
        for indexed in (2, len(ASPECTS))
    ]


class _Drawn:
    """Queries from held-out items; each call draws others."""

    def __init__(self, files: VectorFiles) -> None:
        self._rows = [files.source.held_out(number, HELD_OUT_ITEMS) for number in range(len(ASPECTS))]
        self._random = np.random.default_rng([files.source.seed, 1])

    def queries(self, count: int, signs: Sequence[float], *, penalty: float = 0.0) -> tuple[Query, ...]:
        """Return queries with a term for every sign that is not zero."""
        return tuple(self._query(signs, penalty) for _ in range(count))

    def _query(self, signs: Sequence[float], penalty: float) -> Query:
        items = self._random.choice(HELD_OUT_ITEMS, size=len(signs), replace=False)
        weights = self._random.uniform(0.3, 1.0, len(signs)) * signs
        terms = []
        for number, (item, weight) in enumerate(zip(items, weights, strict=True)):
            if weight != 0.0:
                vectors = {ASPECTS[field].slug: self._rows[field][item] for field in (number, 0)}
                terms.append(EmbeddedTerm(ASPECTS[number], float(weight), vectors))
        compiled = compile_query(terms, penalty).vectors
        given = {term.aspect.slug: term.weight for term in terms}
        fields = []
        for slug, vector in compiled.items():
            sign = 1.0 if given.get(slug, -penalty) > 0 else -1.0
            norm = float(np.linalg.norm(vector))
            fields.append(Field(slug, sign * norm, vector * (sign / norm)))
        return Query(compiled, tuple(fields))


def true_top(files: VectorFiles, cases: Sequence[Case], k: int, *, threads: int) -> list[list[NDArray[np.int64]]]:
    """Return the k best rows of every query of every case, best first, by float64 products over the stored halves."""
    queries = list({id(query): query for case in cases for query in case.queries}.values())
    numbers = {id(query): number for number, query in enumerate(queries)}
    asked = sorted({slug for query in queries for slug in query.vectors})
    store = files.store(tuple(asked))
    dim = files.source.dim
    kept = [_kept(case.selection, files.items) for case in cases]
    columns = {slug: np.stack([query.vectors.get(slug, np.zeros(dim)) for query in queries], axis=1) for slug in asked}

    def block(start: int) -> list[list[tuple[NDArray[np.float64], NDArray[np.int64]]]]:
        halves = np.empty((min(TRUTH_ROWS, files.items - start), dim), np.float16)
        scores = np.zeros((len(halves), len(queries)))
        for slug in asked:
            store.copy_block(slug, start, halves)
            scores += halves.astype(np.float64) @ columns[slug]
        found = []
        for case, mask in zip(cases, kept, strict=True):
            rows = np.flatnonzero(mask[start : start + len(halves)])
            of_case = scores[rows][:, [numbers[id(query)] for query in case.queries]]
            found.append([_best(column, rows + start, k) for column in of_case.T])
        return found

    with ThreadPoolExecutor(threads) as pool:
        blocks = list(pool.map(block, range(0, files.items, TRUTH_ROWS)))
    return [
        [_merged([found[case][query] for found in blocks], k) for query in range(len(cases[case].queries))]
        for case in range(len(cases))
    ]


def _kept(selection: Selection | None, items: int) -> NDArray[np.bool_]:
    mask = np.full(items, selection is None)
    if selection is not None:
        mask[selection.rows] = True
    return mask


def _best(
    scores: NDArray[np.float64], rows: NDArray[np.int64], k: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    if len(scores) > k:
        best = np.argpartition(scores, len(scores) - k)[-k:]
        scores, rows = scores[best], rows[best]
    order = np.argsort(-scores)
    return scores[order], rows[order]


def _merged(found: Sequence[tuple[NDArray[np.float64], NDArray[np.int64]]], k: int) -> NDArray[np.int64]:
    return _best(np.concatenate([scores for scores, _ in found]), np.concatenate([rows for _, rows in found]), k)[1]
