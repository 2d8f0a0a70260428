"""Every picture is decoded once, every answer is kept, and a run that was stopped ends as if it had not been."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.fixtures.judgements import write_triplets
from tests.fixtures.judges import choosing_judge, comparing_judge, embedding_judge, judgement, truth
from tpips_model.errors import ImageError, ModelError
from train.evaluation import open_pictures
from train.evaluation.items import Item, item_identity, plan_items
from train.evaluation.judges import Judge
from train.evaluation.open_pictures import OpenItem
from train.evaluation.score_cache import ScoreCache, ScoreCacheError
from train.evaluation.scoring import ScoringConfig, score_items
from train.judgements import Judgement, load_judgements

ASPECTS = ("overall", "lighting", "mood", "pose", "Color palette", "brushwork", "subject", "sharpness")


def triplets(count: int, *, aspects: Sequence[str] = ASPECTS, decoded: Counter[str] | None = None) -> list[Judgement]:
    """Triplets of neighbours on a circle of ``count`` grey levels: every picture is in three of them."""
    return [
        judgement([n, (n + 1) % count, (n + 2) % count], [0.6, 0.4, 0.0], aspect=aspect, decoded=decoded)
        for n in range(count)
        for aspect in aspects
    ]


def test_three_models_over_200_triplets_and_8_aspects_decode_each_picture_once() -> None:
    decoded: Counter[str] = Counter()
    embedded: Counter[str] = Counter()
    plan = plan_items(triplets(200, decoded=decoded))
    assert len(plan.items) == 200
    assert len(plan.item_of) == 1600
    shown: list[tuple[int, int]] = []
    scores = score_items(
        [embedding_judge(embedded), comparing_judge(), choosing_judge()],
        plan.items,
        ScoringConfig(),
        on_progress=lambda done, total: shown.append((done, total)),
    )
    assert decoded == {f"grey/{level}.png": 1 for level in range(200)}
    assert embedded == {str(level): 1 for level in range(200)}
    assert shown[0] == (0, 600)
    assert shown[-1] == (600, 600)
    for of_items in scores.values():
        for number in (0, 57, 199):
            levels = [(number + place) % 200 for place in range(3)]
            expected = [[truth(levels[i], levels[j], a) for i, j in ((1, 2), (0, 2), (0, 1))] for a in ASPECTS]
            np.testing.assert_allclose(of_items[number], expected, atol=1e-12)


def test_2afc_compares_the_reference_with_either_candidate() -> None:
    plan = plan_items([judgement([10, 200, 30], [0.2, 0.8])])
    scores = score_items([embedding_judge(), comparing_judge(), choosing_judge()], plan.items, ScoringConfig())
    expected = [[truth(10, 200, "lighting"), truth(10, 30, "lighting")]]
    np.testing.assert_allclose(scores["vectors"][0], expected)
    np.testing.assert_allclose(scores["pairs"][0], expected)
    assert scores["triplets"] == [None]


def test_a_bound_on_open_pictures_costs_time_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: Counter[str] = Counter()
    far_apart = [judgement([n, 100 + n, 200], [0.6, 0.4, 0.0], decoded=decoded) for n in [*range(20), *range(20)]] + [
        judgement([n, 50, 100 + n], [0.6, 0.4, 0.0], decoded=decoded) for n in range(20)
    ]
    plan = plan_items(far_apart)
    free = score_items([embedding_judge()], plan.items, ScoringConfig(batch=2))["vectors"]
    assert set(decoded.values()) == {1}
    monkeypatch.setattr(open_pictures, "MOST_OPEN", 12)
    bounded = score_items([embedding_judge()], plan.items, ScoringConfig(batch=2))["vectors"]
    assert decoded["grey/0.png"] == 3  # once before, and twice now
    np.testing.assert_array_equal(np.array(bounded), np.array(free))


def test_aspects_that_share_a_name_are_asked_apart() -> None:
    aspects = ("Color palette", "color-palette", "mood", "COLOR PALETTE")
    plan = plan_items(triplets(3, aspects=aspects))
    found = score_items([comparing_judge()], plan.items, ScoringConfig())["pairs"][0]
    np.testing.assert_allclose(found, [[truth(1, 2, a), truth(0, 2, a), truth(0, 1, a)] for a in aspects])


class _Stops:
    """A judge that ends the run after some items, as a kill would."""

    def __init__(self, judge: Judge, after: int) -> None:
        self._judge = judge
        self.name, self.fingerprint, self.row, self.kinds = judge.name, judge.fingerprint, judge.row, judge.kinds
        self.left = after
        self.asked = 0

    def scores(self, items: Sequence[OpenItem]) -> list[NDArray[np.float64]]:
        if self.asked + len(items) > self.left:
            raise KeyboardInterrupt
        self.asked += len(items)
        return self._judge.scores(items)


@pytest.mark.parametrize("torn", [b"", b'{"item": "abc", "sco', b'{"item": "abc", "scores": [[0.1'])
def test_a_run_that_was_stopped_goes_on_and_ends_alike(tmp_path: Path, torn: bytes) -> None:
    decoded: Counter[str] = Counter()
    plan = plan_items(triplets(24, decoded=decoded))
    expected = score_items([comparing_judge()], plan.items, ScoringConfig())
    config = ScoringConfig(cache=tmp_path / "cache", batch=4)
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        score_items([_Stops(comparing_judge(), after=10)], plan.items, config)
    (file,) = (tmp_path / "cache").iterdir()
    with open(file, "ab") as stream:
        stream.write(torn)
    decoded.clear()
    second = _Stops(comparing_judge(), after=100)
    shown: list[tuple[int, int]] = []
    resumed = score_items([second], plan.items, config, on_progress=lambda done, total: shown.append((done, total)))
    assert second.asked == 16  # two batches of four had been kept
    assert shown[0] == (8, 24)
    assert len(decoded) == 18  # the pictures of the missing 16 neighbours
    np.testing.assert_array_equal(np.array(resumed["pairs"]), np.array(expected["pairs"]))
    decoded.clear()
    third = _Stops(comparing_judge(), after=0)
    again = score_items([third, embedding_judge()], plan.items, config)
    np.testing.assert_array_equal(np.array(again["pairs"]), np.array(expected["pairs"]))
    assert set(decoded.values()) == {1}  # for the other model alone


def test_a_cache_that_was_cut_in_its_first_line_begins_anew(tmp_path: Path) -> None:
    cache = ScoreCache(tmp_path, name="a model/of:mine", fingerprint="x")
    content = cache.path.read_bytes()
    cache.path.write_bytes(content[:20])
    cache = ScoreCache(tmp_path, name="a model/of:mine", fingerprint="x")
    cache.add({"item": np.array([[0.1, 0.2]])})
    again = ScoreCache(tmp_path, name="a model/of:mine", fingerprint="x")
    np.testing.assert_array_equal(again.get("item"), [[0.1, 0.2]])


def test_another_fingerprint_is_another_cache(tmp_path: Path) -> None:
    plan = plan_items(triplets(4, aspects=["mood"]))
    config = ScoringConfig(cache=tmp_path)
    score_items([comparing_judge()], plan.items, config)
    other = _Stops(replace(comparing_judge(), fingerprint="fake:retrained"), after=100)
    score_items([other], plan.items, config)
    assert other.asked == 4
    assert len(list(tmp_path.iterdir())) == 2


def test_a_file_that_is_no_cache_is_refused(tmp_path: Path) -> None:
    path = ScoreCache(tmp_path, name="pairs", fingerprint="fake:pairs").path
    path.write_text('{"format": 99}\n')
    with pytest.raises(ScoreCacheError, match=r"does not begin as a cache.*delete it, or give another --cache"):
        score_items([comparing_judge()], plan_items(triplets(3)).items, ScoringConfig(cache=tmp_path))


def test_scores_of_another_shape_are_refused(tmp_path: Path) -> None:
    items = plan_items(triplets(3)).items
    cache = ScoreCache(tmp_path, name="pairs", fingerprint="fake:pairs")
    cache.add({item_identity(items[0]): np.zeros((1, 3))})
    with pytest.raises(ScoreCacheError, match="scores of another shape"):
        score_items([comparing_judge()], items, ScoringConfig(cache=tmp_path))


def test_an_item_is_known_by_pictures_kind_and_aspects(tmp_path: Path) -> None:
    found = load_judgements(str(write_triplets(tmp_path)))
    first = plan_items(found.judgements).items[0]
    others: list[Item] = [
        replace(first, kind="2afc"),
        replace(first, pictures=first.pictures[::-1]),
        replace(first, aspects=first.aspects[:2]),
    ]
    assert len({item_identity(item) for item in [first, *others]}) == 4
    before = item_identity(first)
    picture = tmp_path / "images/000/1.png"
    state = picture.stat()
    os.utime(picture, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert item_identity(first) != before
    picture.unlink()
    with pytest.raises(ImageError, match=r"images/000/1\.png"):
        item_identity(first)


def test_a_picture_that_cannot_be_read_is_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    found = load_judgements(str(write_triplets(tmp_path)))
    (tmp_path / "images/003/2.png").write_bytes(b"no picture")
    config = ScoringConfig(cache=tmp_path / "cache", batch=1)
    with pytest.raises(ImageError, match=r"images/003/2\.png"):
        score_items([comparing_judge()], plan_items(found.judgements).items, config)
    assert len(ScoreCache(tmp_path / "cache", name="pairs", fingerprint="fake:pairs")) == 3


def test_a_score_that_is_no_number_is_an_error() -> None:
    judge = replace(comparing_judge(), compare=lambda a, b, aspects: np.full((len(aspects), len(a)), np.nan))
    with pytest.raises(ModelError, match=r"pairs gave a score that is not a finite number.*dtype=float32"):
        score_items([judge], plan_items(triplets(3)).items, ScoringConfig())


def test_items_judged_twice_are_one() -> None:
    repeated = [*triplets(3, aspects=["mood", "pose"]), *triplets(3, aspects=["pose", "lighting"])]
    plan = plan_items(repeated)
    assert len(plan.items) == 3
    for number, one in enumerate(repeated):
        item = plan.items[plan.item_of[number]]
        assert item.pictures == one.pictures
        assert item.aspects[plan.aspect_of[number]] == one.aspect
    assert [len(item.aspects) for item in plan.items] == [3, 3, 3]
    assert sum(1 for _ in itertools.chain.from_iterable(item.aspects for item in plan.items)) == 9
