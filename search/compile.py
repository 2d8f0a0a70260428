"""From terms to one vector per aspect: what the index is scanned with, and what each term adds to a score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from search.terms import QueryError
from tpips_model.aspects import OVERALL, Aspect

__all__ = ["CompiledQuery", "EmbeddedTerm", "compile_query", "slugs_needed"]

Vectors = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class EmbeddedTerm:
    """A term whose image has become vectors.

    Attributes:
        aspect: The term's aspect.
        weight: The term's weight.
        vectors: Unit vectors (D,) of the image by slug: the aspect's, and overall's where a penalty needs it.
    """

    aspect: Aspect
    weight: float
    vectors: Vectors


@dataclass(frozen=True, eq=False)
class CompiledQuery:
    """A query as a linear function of an item's vectors: score(x) = Σ_a vectors[a]·x_a.

    Attributes:
        vectors: float64 (D,) by slug.
        terms: The same for each term alone; they sum to ``vectors``, so the terms' contributions sum to the score.
    """

    vectors: Vectors
    terms: tuple[Vectors, ...]


def slugs_needed(aspect: Aspect, overall_penalty: float) -> tuple[str, ...]:
    """Return the slugs of the aspects that a term of this aspect is scored by."""
    if overall_penalty == 0.0 or aspect.is_overall:
        return (aspect.slug,)
    return (aspect.slug, OVERALL.slug)


def compile_query(terms: Sequence[EmbeddedTerm], overall_penalty: float = 0.0) -> CompiledQuery:
    """Collapse terms into one vector per aspect.

    The score is Σ_i w_i (f(q_i, x | a_i) − λ f(q_i, x | overall)), section 6 of the paper ("Aspect-conditioned
    retrieval", λ = 0.3), with f the inner product of unit vectors. A term whose aspect is overall has no penalty: the
    paper subtracts overall similarity from that under an aspect, and from itself it would only scale the weight.

    Args:
        terms: At least one.
        overall_penalty: λ.

    Raises:
        QueryError: The terms cancel each other out, or overflow.

    Examples:
        >>> east, north = np.array([1.0, 0.0]), np.array([0.0, 1.0])
        >>> term = EmbeddedTerm(Aspect("color"), 2.0, {"color": east, "overall": north})
        >>> {slug: vector.tolist() for slug, vector in compile_query([term], 0.25).vectors.items()}
        {'color': [2.0, 0.0], 'overall': [-0.0, -0.5]}
    """
    total: dict[str, NDArray[np.float64]] = {}
    with np.errstate(over="ignore", invalid="ignore"):  # told as an error below
        shares = [_share(term, overall_penalty) for term in terms]
        for share in shares:
            for slug, vector in share.items():
                total[slug] = total[slug] + vector if slug in total else vector
        # Unit vectors: no score, and no term's share of one, exceeds this. Doubled for rounding.
        bound = 2.0 * sum(abs(term.weight) for term in terms) * (1.0 + abs(overall_penalty))
        # In between, a vector is neither zero nor infinite; else its components tell.
        squares = {slug: float(vector.dot(vector)) for slug, vector in total.items()}
    finite = (squares[slug] < math.inf or np.isfinite(vector).all() for slug, vector in total.items())
    if not (math.isfinite(bound) and all(finite)):
        raise QueryError("the weights are so large that the scores overflow; give weights around 1")
    # An aspect whose terms cancel need not be scanned.
    vectors = {slug: vector for slug, vector in total.items() if squares[slug] > 0.0 or vector.any()}
    if not vectors:
        raise QueryError(
            "the terms of the query cancel each other out, so that no item scores above another; change a weight"
        )
    return CompiledQuery(vectors, tuple(shares))


def _share(term: EmbeddedTerm, overall_penalty: float) -> Vectors:
    share = {term.aspect.slug: term.weight * term.vectors[term.aspect.slug]}
    for slug in slugs_needed(term.aspect, overall_penalty)[1:]:
        share[slug] = -overall_penalty * term.weight * term.vectors[slug]
    return share
