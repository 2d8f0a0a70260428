"""A compiled query is linear in its terms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from search.compile import CompiledQuery, EmbeddedTerm, compile_query
from search.terms import QueryError
from tpips_model.aspects import Aspect

SLUGS = ("overall", "subject", "brushwork")


def score(query: CompiledQuery, item: dict[str, NDArray[np.float64]]) -> float:
    return float(sum(vector @ item[slug] for slug, vector in query.vectors.items()))


def random_vectors(rng: np.random.Generator) -> dict[str, NDArray[np.float64]]:
    return {
        slug: vector / np.linalg.norm(vector) for slug, vector in zip(SLUGS, rng.standard_normal((3, 6)), strict=True)
    }


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 1000),
    asked=st.lists(
        st.tuples(st.sampled_from(SLUGS), st.floats(0.01, 1) | st.floats(-1, -0.01)), min_size=1, max_size=4
    ),
    penalty=st.sampled_from([0.0, 0.3, -0.5, 1.0]),
)
def test_score_is_the_papers_formula(seed: int, asked: list[tuple[str, float]], penalty: float) -> None:
    rng = np.random.default_rng(seed)
    terms = [EmbeddedTerm(Aspect(slug), weight, random_vectors(rng)) for slug, weight in asked]
    item = random_vectors(rng)
    expected = 0.0
    for term in terms:
        similarity = {slug: float(term.vectors[slug] @ item[slug]) for slug in SLUGS}
        taken_off = 0.0 if term.aspect.is_overall else penalty * similarity["overall"]
        expected += term.weight * (similarity[term.aspect.slug] - taken_off)
    query = compile_query(terms, penalty)
    assert score(query, item) == pytest.approx(expected, abs=1e-12)
    shares = [sum(float(vector @ item[slug]) for slug, vector in share.items()) for share in query.terms]
    assert sum(shares) == pytest.approx(expected, abs=1e-12)


def test_terms_of_one_aspect_collapse_to_one_vector() -> None:
    rng = np.random.default_rng(0)
    terms = [EmbeddedTerm(Aspect("subject"), weight, random_vectors(rng)) for weight in (1.0, -0.5, 0.25)]
    query = compile_query(terms)
    assert list(query.vectors) == ["subject"]
    np.testing.assert_allclose(query.vectors["subject"], sum(term.weight * term.vectors["subject"] for term in terms))


def test_without_penalty_overall_is_not_scanned() -> None:
    term = EmbeddedTerm(Aspect("subject"), 1.0, random_vectors(np.random.default_rng(0)))
    assert set(compile_query([term]).vectors) == {"subject"}
    assert set(compile_query([term], 0.3).vectors) == {"subject", "overall"}


def test_overall_has_no_penalty_of_its_own() -> None:
    vectors = random_vectors(np.random.default_rng(0))
    query = compile_query([EmbeddedTerm(Aspect("Overall"), 2.0, vectors)], 0.3)
    np.testing.assert_array_equal(query.vectors["overall"], 2.0 * vectors["overall"])


def test_terms_that_cancel() -> None:
    vectors = random_vectors(np.random.default_rng(0))
    terms = [EmbeddedTerm(Aspect("subject"), weight, vectors) for weight in (0.7, -0.7)]
    with pytest.raises(QueryError, match="cancel each other out"):
        compile_query(terms, 0.3)
    with_another = compile_query([*terms, EmbeddedTerm(Aspect("brushwork"), 1.0, vectors)])
    assert set(with_another.vectors) == {"brushwork"}


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_weights_whose_squares_vanish_or_overflow_count(scale: float) -> None:
    vectors = random_vectors(np.random.default_rng(0))
    query = compile_query([EmbeddedTerm(Aspect("subject"), scale, vectors)], 0.3)
    np.testing.assert_array_equal(query.vectors["subject"], scale * vectors["subject"])
    np.testing.assert_array_equal(query.vectors["overall"], -0.3 * scale * vectors["overall"])


def test_overflow() -> None:
    vectors = {"subject": np.ones(1)}
    terms = [EmbeddedTerm(Aspect("subject"), 1.5e308, vectors)] * 2
    with pytest.raises(QueryError, match="scores overflow"):
        compile_query(terms)


@pytest.mark.parametrize(("weights", "penalty"), [((1e308, 1e308), 0.0), ((1e308, -1e308), 0.0), ((1e10,), 1e308)])
def test_scores_that_could_overflow(weights: tuple[float, ...], penalty: float) -> None:
    vectors = random_vectors(np.random.default_rng(0))
    slugs = ("subject", "brushwork")
    terms = [EmbeddedTerm(Aspect(slug), weight, vectors) for slug, weight in zip(slugs, weights, strict=False)]
    with pytest.raises(QueryError, match="scores overflow"):
        compile_query(terms, penalty)
