"""Queries in half precision, and how far a device's scores of them may be off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from search.compile import Vectors
from search.row_scores import ScaledQuery

__all__ = ["HalfQueries", "summing_error"]

# Four times float32's unit roundoff: see HalfQueries.
_UNIT = 2.0**-22


@dataclass(frozen=True, eq=False)
class HalfQueries:
    """Several queries as devices multiply them: float16, and scaled so that float16 holds them.

    A query q is scaled by a power of two so that Σ_a‖q_a‖ lies between 1/2 and 1, and rounded to halves h. Against a
    row whose aspects' norms are at most ρ, a device's score errs by at most

        ρ Σ_a‖q_a − h_a‖  +  γ ρ Σ_a‖h_a‖,    γ = nu / (1 − nu),

    n the values of a row under all aspects of the query and one more addition for each. The first term is the query's
    rounding, by Cauchy and Schwarz, computed and not estimated. The second is that of a sum of n exact products
    (11 + 11 bits fit float32's 24) in any order (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1),
    with u = 2^-22 in place of 2^-24: tensor cores truncate where float32 rounds, which doubles u, and align the b
    products of one step and the running sum to the largest of them before they add, which truncates each once more
    (Fasi, Higham, Mikaitis and Pranesh, Numerical behavior of NVIDIA tensor cores, PeerJ CS 2021): n/b steps of b + 2
    truncations are at most 3n/2 for b ≥ 4, and 2 · 3/2 < 4.

    Attributes:
        count: B.
        halves: float16 (B_a, D) by slug, for the B_a queries that ask for that aspect.
        owners: int64 (B_a,) by slug, those queries' numbers.
        slack: float32 (B,), by how much a row of the true top k may fall short of the k-th best score of a device.
    """

    count: int
    halves: Mapping[str, NDArray[np.float16]]
    owners: Mapping[str, NDArray[np.int64]]
    slack: NDArray[np.float32]

    @classmethod
    def of(cls, queries: Sequence[Vectors], row_norm: float) -> HalfQueries:
        """Return queries of float64 (D,) by slug, each with at least one vector that is not zero."""
        rows: dict[str, list[NDArray[np.float16]]] = {}
        owners: dict[str, list[int]] = {}
        slack = np.empty(len(queries), np.float32)
        for number, query in enumerate(queries):
            exponent = ScaledQuery.of(query, row_norm=row_norm).exponent
            scaled = {slug: np.ldexp(vector, exponent) for slug, vector in query.items()}
            halves = {slug: vector.astype(np.float16) for slug, vector in scaled.items()}
            for slug, half in halves.items():
                rows.setdefault(slug, []).append(half)
                owners.setdefault(slug, []).append(number)
            error = row_norm * _relative_error(scaled, halves)
            # Both the row and the k-th best may be off; 2^-22 covers the subtraction of the slack in float32.
            slack[number] = np.nextafter(np.float32(2.0 * error + row_norm * 2.0**-22), np.float32(np.inf))
        return cls(
            count=len(queries),
            halves={slug: np.stack(each) for slug, each in rows.items()},
            owners={slug: np.array(each, np.int64) for slug, each in owners.items()},
            slack=slack,
        )


def _relative_error(scaled: Vectors, halves: Mapping[str, NDArray[np.float16]]) -> float:
    """Return the bound of a score's error for rows of norm 1."""
    rounding = sum(float(np.linalg.norm(vector - halves[slug])) for slug, vector in scaled.items())
    norms = sum(float(np.linalg.norm(half.astype(np.float64))) for half in halves.values())
    return rounding + summing_error(sum(len(half) + 1 for half in halves.values())) * norms


def summing_error(count: int) -> float:
    """Return γ for a device's sum of this many products, as ``HalfQueries`` derives it."""
    return count * _UNIT / (1.0 - count * _UNIT)
