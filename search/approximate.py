"""Top-k by codes: candidates of the highest estimated scores, rescored exactly until no better one is to be expected.

The codes' estimates err by a common amount (quantising shrinks the best) and by each row's own quantisation error. Both
are measured on the candidates that have been rescored; how many rows lie below the lowest candidate is extrapolated
from how densely the candidates lie. From these follows how many of the true top k are to be expected among the rows not
rescored. Scoring goes on until that is below ``EXPECTED_MISSES`` · k.

Where inverted lists are looked into, all of this holds for the rows in these lists; what the others hold is not known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.lists import LISTS_FROM_ROWS
from search.candidates import Candidates
from search.compile import Vectors
from search.exact import TopK, default_threads, exact_top_k, rescored
from search.joint_cache import JointCache
from search.joint_codes import Estimated, JointCodes
from search.row_scores import RowScorer, ScaledQuery
from search.vectors import StoredVectors

__all__ = ["EXPECTED_MISSES", "ApproximateSearch", "ApproximateTopK", "expected_misses"]

# Of the true top k, how many may be expected among the rows that are not rescored, as a share of k.
EXPECTED_MISSES = 5e-4
FIRST_CANDIDATES = 256
CANDIDATES_PER_HIT = 16
# What one scan fetches beyond the first candidates costs little; another scan costs as much as the first.
FETCHED_PER_RESCORED = 2
# Rescoring so large a share of all rows costs as much as the exact scan.
EXACT_BEYOND = 1 / 16
# Of the lists of a very large index, so many are looked into. Measured on 500,000 items in 2,048 lists: they hold 0.97
# to 0.99 of the true top 10, and 0.93 with an overall penalty; more with more lists (docs/lists.md).
PROBED_SHARE = 1 / 4


@dataclass(frozen=True, eq=False)
class ApproximateTopK(TopK):
    """The best rows that were found, highest score first, equal scores by row.

    Attributes:
        rescored: How many rows were scored exactly.
        exact: Whether every row was, so that these are proven to be the best.
        probed: How many inverted lists were looked into; ``None`` if it did not go by lists.
    """

    rescored: int
    exact: bool
    probed: int | None


class ApproximateSearch:
    """Searches by the codes of the aspects in a query.

    Args:
        store: N items.
        cache: Their codes.
    """

    def __init__(self, store: StoredVectors, cache: JointCache) -> None:
        self._store = store
        self._cache = cache

    @property
    def has_lists(self) -> bool:
        """Whether there are inverted lists to choose from."""
        return self._cache.list_count > 0

    def top_k(
        self,
        query: Vectors,
        k: int,
        *,
        rows: NDArray[np.int64] | None = None,
        nprobe: int | None = None,
        threads: int | None = None,
    ) -> ApproximateTopK:
        """Return the k best rows by Σ_a query[a]·x_a, their scores exact, each of them very probably among the true k.

        Very probably as far as the lists looked into go: of what the others hold, nothing is said.

        Args:
            query: float64 (D,) by slug, at least one, not all zero; all of them coded.
            k: At least 1; fewer rows come back only if there are fewer.
            rows: int64, ascending: the rows to choose from; by default all.
            nprobe: How many inverted lists to look into, or more where these hold fewer than k rows. By default all,
                and a quarter of those of an index of ``LISTS_FROM_ROWS`` rows.
            threads: How many scan at once; by default as many as OpenMP would use.

        Raises:
            IndexDirectoryError: Stored vectors are not finite.
        """
        return self.top_k_batch([query], [k], rows=rows, nprobe=nprobe, threads=threads)[0]

    def top_k_batch(
        self,
        queries: Sequence[Vectors],
        counts: Sequence[int],
        *,
        rows: NDArray[np.int64] | None = None,
        nprobe: int | None = None,
        threads: int | None = None,
    ) -> list[ApproximateTopK]:
        """Return what ``top_k`` gives for each query and its k; queries of the same aspects are scanned together."""
        if nprobe is None and self.has_lists and self._store.rows >= LISTS_FROM_ROWS:
            nprobe = max(1, int(PROBED_SHARE * self._cache.list_count))
        how = _How(rows, nprobe, threads or default_threads())
        groups: dict[tuple[str, ...], list[int]] = {}
        for number, query in enumerate(queries):
            groups.setdefault(tuple(sorted(query)), []).append(number)
        answers: dict[int, ApproximateTopK] = {}
        for slugs, numbers in groups.items():
            joint = self._cache.get(slugs)
            scaled_queries = [ScaledQuery.of(queries[number]) for number in numbers]
            wanted = [max(FIRST_CANDIDATES, CANDIDATES_PER_HIT * counts[number]) for number in numbers]
            found = joint.search(
                [query.vectors for query in scaled_queries],
                FETCHED_PER_RESCORED * max(wanted),
                at_least=[counts[number] for number in numbers],
                **how.arguments,
            )
            for number, scaled, first, candidates in zip(numbers, scaled_queries, wanted, found, strict=True):
                search = _Search(self._store, joint, queries[number], scaled, counts[number], how)
                answers[number] = search.run(first, candidates)
        return [answers[number] for number in range(len(queries))]


@dataclass(frozen=True, eq=False)
class _How:
    """How the codes are searched for every query, and again for more candidates."""

    rows: NDArray[np.int64] | None
    nprobe: int | None
    threads: int

    @property
    def arguments(self) -> dict[str, Any]:
        return {"rows": self.rows, "nprobe": self.nprobe, "threads": self.threads}


@dataclass(eq=False)
class _Search:
    """One query's way from candidates to an answer."""

    store: StoredVectors
    joint: JointCodes
    query: Vectors
    scaled: ScaledQuery
    k: int
    how: _How

    @property
    def total(self) -> int:
        return self.store.rows if self.how.rows is None else len(self.how.rows)

    def run(self, first: int, found: Estimated) -> ApproximateTopK:
        scores = np.empty(0, np.float32)
        wanted = first
        while True:
            upto = min(wanted, len(found.rows))
            scores = np.concatenate([scores, self._float32_scores(found.rows[len(scores) : upto])])
            if len(scores) == found.among or self._enough(found, scores):
                return self._answer(found, scores)
            wanted *= 2
            # Centroids that are all the same (as of one vector) give no estimates at all, however many are asked for.
            if wanted > 2 * found.among or min(wanted, found.among) > max(EXACT_BEYOND * self.total, first):
                how = self.how
                top = exact_top_k(self.store, self.query, self.k, rows=how.rows, threads=how.threads)
                return ApproximateTopK(top.rows, top.scores, self.total, exact=True, probed=None)
            if upto == len(found.rows):
                # Estimates come in the same order each time, so the first of them stay the first.
                count = FETCHED_PER_RESCORED * wanted
                (found,) = self.joint.search([self.scaled.vectors], count, at_least=[self.k], **self.how.arguments)

    def _enough(self, found: Estimated, scores: NDArray[np.float32]) -> bool:
        unseen = found.among - len(scores)
        return (
            expected_misses(found.estimates[: len(scores)], scores, self.k, unseen=unseen) <= EXPECTED_MISSES * self.k
        )

    def _float32_scores(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        order = np.argsort(rows)
        (ascending,) = RowScorer(self.store, [self.scaled], max(len(rows), 1)).rows(rows[order])
        scores = np.empty(len(rows), np.float32)
        scores[order] = ascending
        return scores

    def _answer(self, found: Estimated, scores: NDArray[np.float32]) -> ApproximateTopK:
        rows = found.rows[: len(scores)]
        candidates = Candidates(min(self.k, len(rows)), self.scaled.slack)
        candidates.offer(scores, rows)
        top = rescored(self.store, self.query, candidates.rows, self.k)
        return ApproximateTopK(top.rows, top.scores, len(rows), exact=len(rows) == self.total, probed=found.probed)


def expected_misses(estimates: NDArray[np.float32], scores: NDArray[np.float32], k: int, *, unseen: int) -> float:
    """Return how many rows that are not rescored are to be expected above the k-th best of those that are.

    Of the rows that were scanned: those of inverted lists that were not looked into are not counted.

    A row of estimate e has a true score that is normal around e + μ with standard deviation σ, both measured where the
    unseen rows begin: on the lower half of the candidates. The unseen rows' estimates go on below the lowest one, at a
    density that grows as it grew over the candidates, R λ exp(λ u) at a distance u; this overstates the flank of any
    distribution whose logarithm is concave. The expectation is ∫ R λ exp(λ u) Q(z + u / σ) du over u > 0, with Q the
    normal distribution's upper tail and z σ what the lowest estimate + μ lacks to the k-th best score, which is
    R (exp(−λ σ z + λ² σ² / 2) Q(z − λ σ) − Q(z)); and it is at most ``unseen`` · Q(z).

    Args:
        estimates: float32 (R,), descending.
        scores: float32 (R,), the same rows' scores.
        k: How many are wanted.
        unseen: How many rows are not among the R.
    """
    count = len(estimates)
    if unseen == 0:
        return 0.0
    if count <= k:
        return float(unseen)
    lower = slice(count // 2, None)
    errors = scores[lower].astype(np.float64) - estimates[lower]
    mean, deviation = float(errors.mean()), float(errors.std(ddof=1)) if len(errors) > 1 else math.inf
    kth = float(np.partition(scores, count - k)[count - k])
    lowest, middle = float(estimates[-1]), float(estimates[count // 2])
    lacking = kth - lowest - mean
    if deviation == 0.0:
        return 0.0 if lacking > 0.0 else float(unseen)
    z = lacking / deviation
    bound = unseen * _upper_tail(z)
    if middle == lowest:
        return bound
    growth = math.log(count / max(count // 2, 1)) / (middle - lowest) * deviation
    exponent = growth * (growth / 2.0 - z)
    if exponent > 500.0:
        return bound
    return min(bound, count * (math.exp(exponent) * _upper_tail(z - growth) - _upper_tail(z)))


def _upper_tail(z: float) -> float:
    return 0.5 * math.erfc(z / math.sqrt(2.0))
