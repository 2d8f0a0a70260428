"""Agreement, consensus and standard errors are those of tables worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from tests.fixtures.judges import choosing_judge, comparing_judge, embedding_judge, judgement
from tpips_model.errors import ModelError
from train.evaluation.evaluate import evaluate_judges
from train.evaluation.figures import Points, agreement_points, confidence_curve, figures_by
from train.evaluation.items import plan_items
from train.judgements import JudgementSet

# votes of four triplets (rows) and what a model says is the odd one
VOTES = [(0.8, 0.2, 0.0), (0.2, 0.4, 0.4), (0.0, 0.0, 1.0), (0.25, 0.75, 0.0)]
CHOICES = [0, 1, 0, 1]
SUBSETS = ["a", "a", "b", "b"]
ASPECTS = ["mood", "pose", "mood", "pose"]


def points(choices: Sequence[int] = CHOICES) -> Points:
    judgements = tuple(
        judgement([0, 10 + n, 100], votes, aspect=aspect, subset=subset)
        for n, (votes, aspect, subset) in enumerate(zip(VOTES, ASPECTS, SUBSETS, strict=True))
    )
    scores = [np.eye(3)[[choice]] for choice in choices]
    (found,) = agreement_points(
        [JudgementSet(judgements, name="test")], plan_items(judgements), {"model": list(scores)}
    )
    return found


def test_totals_equal_the_table_by_hand() -> None:
    (figure,) = figures_by(points())
    # agreement: 0.8, 0.4, 0.0, 0.75; mean 1.95 / 4; squares sum to 1.3625, less 4 · 0.4875²: 0.411875
    assert figure.agreement["model"].mean == pytest.approx(0.4875)
    assert figure.agreement["model"].standard_error == pytest.approx(math.sqrt(0.411875 / 3) / 2)
    # consensus: 0.68, 0.36, 1.0, 0.625; mean 2.665 / 4; squares sum to 1.982625, less 4 · 0.66625²: 0.20706875
    assert figure.consensus.mean == pytest.approx(0.66625)
    assert figure.consensus.standard_error == pytest.approx(math.sqrt(0.20706875 / 3) / 2)
    assert figure.consensus.count == 4
    assert figure.majority.mean == pytest.approx((0.8 + 0.4 + 1.0 + 0.75) / 4)


def test_parts_equal_the_tables_by_hand() -> None:
    one = points()
    by_subset = {figure.part: figure for figure in figures_by(one, one.subsets)}
    assert by_subset["a"].agreement["model"].mean == pytest.approx(0.6)  # 0.8, 0.4
    assert by_subset["a"].agreement["model"].standard_error == pytest.approx(0.2)  # 0.2828 / √2
    assert by_subset["b"].agreement["model"].mean == pytest.approx(0.375)  # 0.0, 0.75
    assert by_subset["b"].agreement["model"].standard_error == pytest.approx(0.375)
    by_aspect = {figure.part: figure for figure in figures_by(one, one.aspects)}
    assert by_aspect["mood"].agreement["model"].mean == pytest.approx(0.4)  # 0.8, 0.0
    assert by_aspect["pose"].agreement["model"].mean == pytest.approx(0.575)  # 0.4, 0.75
    assert by_aspect["pose"].consensus.mean == pytest.approx((0.36 + 0.625) / 2)


def test_the_curve_keeps_what_people_were_at_least_so_sure_of() -> None:
    curve = confidence_curve(points())
    assert curve.thresholds.tolist() == [0.4, 0.75, 0.8, 1.0]
    assert curve.counts.tolist() == [4, 3, 2, 1]
    np.testing.assert_allclose(curve.agreement["model"], [0.4875, (0.8 + 0.0 + 0.75) / 3, 0.4, 0.0])
    np.testing.assert_allclose(curve.consensus, [0.66625, (0.68 + 1.0 + 0.625) / 3, 0.84, 1.0])


def test_thresholds_that_differ_by_rounding_are_one() -> None:
    votes = [(0.6, 0.4, 0.0), (float(np.float32(0.6)), float(np.float32(0.4)), 0.0), (1 - 0.4, 0.4, 0.0)]
    judgements = tuple(judgement([0, 10 + n, 100], row) for n, row in enumerate(votes))
    (found,) = agreement_points([JudgementSet(judgements)], plan_items(judgements), {})
    assert confidence_curve(found).thresholds.tolist() == [0.6]


def test_continuous_shares_get_steps_of_a_twentieth() -> None:
    shares = np.linspace(0.41, 0.93, 60)
    judgements = tuple(judgement([0, n, 255], (share, 1 - share, 0.0)) for n, share in enumerate(shares, start=1))
    (found,) = agreement_points([JudgementSet(judgements)], plan_items(judgements), {})
    curve = confidence_curve(found)
    expected = [max(share, 1 - share) for share in shares]
    np.testing.assert_allclose(curve.thresholds, np.arange(11, 19) / 20)
    assert curve.counts.tolist() == [sum(share >= threshold for share in expected) for threshold in curve.thresholds]


def test_one_spelling_of_an_aspect_stands_for_all() -> None:
    spelled = ("Color palette", "color palette", "Color-Palette")
    judgements = tuple(judgement([0, n, 99], (1.0, 0.0, 0.0), aspect=word) for n, word in enumerate(spelled, start=1))
    (found,) = agreement_points([JudgementSet(judgements)], plan_items(judgements), {})
    assert found.aspects == ("Color palette",) * 3


def test_several_sets_and_kinds_stay_apart() -> None:
    triplets = JudgementSet((judgement([0, 10, 200], (0.0, 0.2, 0.8)),), name="same")
    pairs = JudgementSet((judgement([0, 10, 200], (0.6, 0.4)), judgement([0, 200, 10], (0.6, 0.4))), name="same")
    found = evaluate_judges([embedding_judge(), comparing_judge(), choosing_judge()], [triplets, pairs])
    assert [(one.data, one.kind) for one in found.points] == [("same-1", "odd-one-out"), ("same-2", "2afc")]
    assert [one.points for one in found.data] == [1, 2]
    odd, two = (figures_by(one)[0] for one in found.points)
    assert {name: value.mean for name, value in odd.agreement.items()} == {
        "vectors": 0.8,
        "pairs": 0.8,
        "triplets": 0.8,
    }
    assert {name: value.mean for name, value in two.agreement.items()} == pytest.approx({"vectors": 0.5, "pairs": 0.5})


def test_a_model_that_can_answer_nothing_is_told() -> None:
    pairs = JudgementSet((judgement([0, 10, 200], (0.6, 0.4)),))
    with pytest.raises(ModelError, match=r"triplets answers odd-one-out only, but the data hold 2afc; leave it out"):
        evaluate_judges([choosing_judge()], [pairs])
