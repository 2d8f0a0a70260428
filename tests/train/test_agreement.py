"""Agreement, consensus and standard error are those of the paper's section 5."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from train.agreement import agreement, estimate, human_consensus, odd_one_out_choices, two_afc_votes

SEEDS = st.integers(0, 10_000)


def draw(seed: int, choices: int, count: int = 40) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    raters = rng.multinomial(5, rng.dirichlet(np.ones(choices)), size=count) / 5
    return rng.normal(size=(count, choices)), raters


@given(SEEDS, st.sampled_from([2, 3]))
def test_agreement_is_the_chance_that_a_random_rater_chooses_the_same(seed: int, choices: int) -> None:
    scores, votes = draw(seed, choices)
    chosen = scores.argmax(1)
    expected = [votes[row, place] for row, place in enumerate(chosen)]
    np.testing.assert_allclose(agreement(scores, votes), expected)


@given(SEEDS)
def test_nobody_agrees_more_than_the_majority(seed: int) -> None:
    scores, votes = draw(seed, 3)
    assert (agreement(scores, votes) <= agreement(votes, votes) + 1e-12).all()
    np.testing.assert_allclose(agreement(votes, votes), votes.max(1))


@given(SEEDS)
def test_consensus_is_what_two_raters_have_in_common(seed: int) -> None:
    _, votes = draw(seed, 3)
    pairs = votes[:, :, None] * votes[:, None, :]
    np.testing.assert_allclose(human_consensus(votes), np.trace(pairs, axis1=1, axis2=2))
    assert (human_consensus(votes) <= votes.max(1) + 1e-12).all()
    assert (human_consensus(votes) >= 1 / 3 - 1e-12).all()


def test_a_model_that_says_nothing_scores_chance() -> None:
    _, votes = draw(7, 3)
    np.testing.assert_allclose(agreement(np.zeros_like(votes), votes), 1 / 3)


def test_the_papers_two_protocols_share_one_definition() -> None:
    """The odd one's score is the others' similarity; 2AFC's is the similarity to the reference."""
    assert odd_one_out_choices([[0.9, 0.1, 0.2], [0.0, 0.5, 0.7]]).tolist() == [0, 2]
    np.testing.assert_allclose(two_afc_votes([0.6, 0.0]), [[0.4, 0.6], [1.0, 0.0]])
    np.testing.assert_allclose(agreement([[0.1, 0.3], [0.1, 0.3]], two_afc_votes([0.6, 0.0])), [0.6, 0.0])


def test_standard_error_shrinks_with_the_root_of_the_count() -> None:
    values = np.random.default_rng(0).normal(2.0, 3.0, 20_000)
    found = estimate(values)
    assert found.count == 20_000
    assert found.mean == pytest.approx(2.0, abs=0.1)
    assert found.standard_error == pytest.approx(3.0 / 20_000**0.5, rel=0.03)
    assert estimate(np.tile(values, 4)).standard_error == pytest.approx(found.standard_error / 2, rel=1e-3)


def test_one_value_has_no_standard_error() -> None:
    assert np.isnan(estimate([0.5]).standard_error)


def test_bad_input_is_told() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        estimate([])
    with pytest.raises(ValueError, match="do not fit votes of shape"):
        agreement([[0.1, 0.2]], [[0.2, 0.3, 0.5]])
    with pytest.raises(ValueError, match="1 of 2 points have a score that is NaN"):
        agreement([[0.1, 0.2], [np.nan, 0.0]], [[0.5, 0.5], [0.5, 0.5]])
    with pytest.raises(ValueError, match="shares that sum to one"):
        human_consensus([[3.0, 2.0, 0.0]])
    with pytest.raises(ValueError, match=r"shape \(N, C\)"):
        human_consensus([0.5, 0.5])
