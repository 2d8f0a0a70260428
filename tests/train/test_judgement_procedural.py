"""Procedural judgements: the same for the same seed, drawn only when looked at, evaluation apart from training."""

from __future__ import annotations

from itertools import pairwise

import pytest

from train.judgements import JudgementDataError, load_judgements
from train.judgements.procedural import ProceduralConfig, ProceduralPicture, _drawn, procedural_judgements
from train.scenes import family


def test_the_same_seed_gives_the_same_judgements() -> None:
    found = load_judgements("procedural:families=2,seed=3,triplets=4")
    again = procedural_judgements(ProceduralConfig(families=2, seed=3, triplets=4))
    assert found.judgements == again.judgements
    assert len({one.item for one in found.judgements}) == 8
    assert {one.kind for one in found.judgements} == {"odd-one-out"}
    for one in found.judgements:
        assert sum(one.votes) == pytest.approx(1, abs=1e-12)


def test_a_picture_is_the_familys_and_may_be_changed_by_its_reader() -> None:
    picture = ProceduralPicture(3_000_001, 5)
    drawn = family(3_000_001).pictures[5].draw().tobytes()
    loaded = picture.load()
    assert loaded.tobytes() == drawn
    loaded.paste((0, 0, 0), (0, 0, 40, 40))
    assert picture.load().tobytes() == drawn
    assert picture.key == "family-3000001/5.png"
    assert ProceduralPicture(3_000_001, 5, held=True).key == "family-3000001-held/5.png"


def test_labels_draw_no_pictures_but_those_they_measure() -> None:
    for measured, drawn in ((False, 0), (True, 8)):
        seed = next(seed for seed in range(99) if ("brightness" in family(seed * 1_000_000).varied) == measured)
        _drawn.cache_clear()
        procedural_judgements(ProceduralConfig(families=1, seed=seed, triplets=1))
        assert _drawn.cache_info().currsize == drawn


def test_evaluation_and_other_seeds_share_no_family() -> None:
    ranges = [
        ProceduralConfig(families=1_000_000, seed=seed, evaluation=evaluation).seeds
        for seed in (0, 1, 999)
        for evaluation in (False, True)
    ]
    assert len(set().union(*({one[0], one[-1]} for one in ranges))) == 2 * len(ranges)
    ordered = sorted(ranges, key=lambda one: one[0])
    assert all(one[-1] < other[0] for one, other in pairwise(ordered))


def test_aspects_are_words() -> None:
    aspects = {one.aspect.text for one in load_judgements("procedural:families=6,triplets=3").judgements}
    assert "overall" in aspects
    assert not any("_" in text for text in aspects)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("colour=1", "cannot be used; give each of families, seed, triplets"),
        ("seed=1,seed=2", "cannot be used; give each of families, seed, triplets"),
        ("families", "families must be a whole number, but is ''"),
        ("families=x", "families must be a whole number, but is 'x'"),
        ("families=-1", "families must be a whole number"),
        ("families=1;seed=2", "families must be a whole number"),
        ("families=²", "families must be a whole number"),
        ("evaluation=maybe", "evaluation must be yes or no, but is 'maybe'"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: str, message: str) -> None:
    with pytest.raises(JudgementDataError, match=message):
        load_judgements(f"procedural:{options}")


@pytest.mark.parametrize("options", ["families=0", "seed=1000", "triplets=57", "families=1000001"])
def test_options_out_of_range_are_refused(options: str) -> None:
    with pytest.raises(JudgementDataError, match="is out of range; give"):
        load_judgements(f"procedural:{options}")
