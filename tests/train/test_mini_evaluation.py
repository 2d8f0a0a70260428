"""The evaluation gives full marks to a model that knows the truth, and chance to one that knows nothing."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console

from tpips_model.errors import TpipsError
from train.agreement import Estimate, estimate
from train.class_evaluation import find_classes, same_class_share
from train.contact_sheet import contact_sheet, write_photo_sheets
from train.mini_dataset import FamilyData
from train.mini_figures import PENALTIES, Bar, MiniEvaluation, Speed, SubjectRetrieval
from train.mini_report import evaluation_tables
from train.paraphrases import HELD_PARAPHRASES, PARAPHRASES
from train.photo_edits import EDITS, edited
from train.photo_evaluation import PhotoTrials, cross_content, load_photos, photo_odd_one_out, plan_trials
from train.retrieval_views import View
from train.scene_evaluation import Precision, odd_one_out_accuracy, ranked, retrieval_precision
from train.scenes import FACTORS, FAMILY_SIZE
from train.synthetic import ASPECTS, TRIPLETS

ASPECT_OF = {words: aspect for aspect, asked in HELD_PARAPHRASES.items() for words in asked}


def knowing(values: Mapping[str, Sequence[str]], count: int) -> View:
    """A model whose vector under an aspect is the value of its factor, and one vector for all under other words."""

    def one_hot(aspect: str) -> NDArray[np.float32]:
        names = list(values.get(aspect, ["same"] * count))
        return np.eye(64, dtype=np.float32)[[sorted(set(names)).index(name) for name in names]]

    return lambda words: np.stack([one_hot(ASPECT_OF.get(word, word)) for word in words], axis=1)


def ignorant(count: int, seed: int = 0) -> View:
    """A model that ignores the words and the picture."""
    vectors = np.random.default_rng(seed).normal(size=(count, 48)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return lambda words: np.repeat(vectors[:, None], len(words), axis=1)


def families(count: int, seed: int = 0) -> FamilyData:
    """Families whose blur takes one of two of four values, and whose brush is one of three throughout a family."""
    rng = np.random.default_rng(seed)
    blur, brush, targets, usable = [], [], [], []
    for _ in range(count):
        pair = rng.choice(["0.0", "1.5", "3.2", "4.4"], 2, replace=False)
        own = pair[rng.permutation([0, 0, 0, 0, 1, 1, 1, 1])]
        blur += list(own)
        brush += [str(rng.choice(["oil", "ink", "chalk"]))] * FAMILY_SIZE
        first, second, third = own[TRIPLETS].T
        alike = np.stack([second == third, first == third, first == second], axis=1)
        targets.append(np.where(alike, 0.92, 0.04))
        usable.append(alike.sum(1) == 1)
    values: dict[str, list[str | None]] = {name: [None] * (count * FAMILY_SIZE) for name in FACTORS}
    return FamilyData(
        features=np.zeros((count * FAMILY_SIZE, 1), np.float16),
        label_family=np.arange(count),
        label_aspect=np.full(count, list(ASPECTS).index("blur")),
        targets=np.array(targets, np.float32),
        usable=np.array(usable),
        values={**values, "blur": list(blur), "brush": list(brush)},
        kinds=["shapes"] * count,
    )


def words_of_all(paraphrases: Mapping[str, Sequence[str]]) -> set[str]:
    return {words.lower() for asked in paraphrases.values() for words in asked}


def test_words_that_measure_are_none_of_those_that_teach() -> None:
    assert set(HELD_PARAPHRASES) == set(PARAPHRASES) == set(ASPECTS)
    assert not words_of_all(HELD_PARAPHRASES) & words_of_all(PARAPHRASES)


def test_scene_accuracy_of_the_truth_and_of_nothing() -> None:
    data = families(120)
    count = len(data.values["blur"])
    right = odd_one_out_accuracy(knowing({"blur": [str(v) for v in data.values["blur"]]}, count), data)
    assert set(right) == {"blur"}
    assert right["blur"].mean == 1.0
    lot = odd_one_out_accuracy(ignorant(count), data)["blur"]
    assert lot.count == 120  # families, since the triplets of one hang together
    assert abs(lot.mean - 1 / 3) < 4 * lot.standard_error < 0.15


def test_retrieval_leaves_out_siblings_and_the_neutral_value() -> None:
    data = families(90)
    count = len(data.values["blur"])
    truth = {name: [str(v) for v in data.values[name]] for name in ("blur", "brush")}
    found = retrieval_precision(knowing(truth, count), data, penalties=(0.0, 0.3))
    assert set(found) == {"blur", "brush"}
    # Every query has ten companions elsewhere, so a model that knows the factor finds nothing else.
    assert found["blur"].by_penalty == {0.0: 1.0, 0.3: 1.0}
    assert found["brush"].by_penalty[0.0] == 1.0
    sharp = {row // FAMILY_SIZE for row, value in enumerate(truth["blur"]) if value != "0.0"}
    assert found["blur"].queries == len(sharp)
    lot = retrieval_precision(ignorant(count), data)["brush"]
    assert lot.by_penalty[0.0] == pytest.approx(lot.chance, abs=0.06)


def test_the_penalty_is_taken_off() -> None:
    """Half of the pictures look alike overall: with a penalty, those of the other half come first."""
    data = families(60)
    count = len(data.values["blur"])
    own_look = [str(number // FAMILY_SIZE % 2) for number in range(count)]
    truth = {"blur": [str(v) for v in data.values["blur"]], "overall": own_look, "brush": own_look}
    none, some = (
        retrieval_precision(knowing({**truth, "brush": ["same"] * count}, count), data, penalties=(penalty,))["blur"]
        for penalty in (0.0, 0.5)
    )
    assert none.by_penalty[0.0] == some.by_penalty[0.5] == 1.0
    vague = retrieval_precision(
        knowing({"overall": [str(v) for v in data.values["blur"]]}, count), data, penalties=(0.0, 0.5)
    )["blur"]
    assert vague.by_penalty[0.5] == 0.0 < vague.by_penalty[0.0]


def test_ranked_keeps_to_what_is_allowed() -> None:
    scores = np.array([[0.9, 0.1, 0.5, 0.5, 0.8]])
    assert ranked(scores, np.array([[False, True, True, True, True]]), 3).tolist() == [[4, 2, 3]]


def photographs(count: int) -> list[Image.Image]:
    rng = np.random.default_rng(1)
    coarse = rng.integers(0, 256, (count, 6, 6, 3), dtype=np.uint8)
    return [Image.fromarray(picture).resize((48, 48), Image.Resampling.BICUBIC) for picture in coarse]


@pytest.mark.parametrize("factor", EDITS)
def test_edits_change_the_picture_and_keep_its_size(factor: str) -> None:
    (photo,) = photographs(1)
    pictures = {name: np.asarray(edited(photo, {factor: name}), np.int16) for name in EDITS[factor]}
    assert all(pixels.shape == (48, 48, 3) for pixels in pictures.values())
    names = list(pictures)
    for number, first in enumerate(names):
        for second in names[number + 1 :]:
            assert np.abs(pictures[first] - pictures[second]).mean() > 2, (first, second)
    np.testing.assert_array_equal(np.asarray(edited(photo, {})), np.asarray(photo))


def test_unknown_edits_are_told() -> None:
    with pytest.raises(KeyError, match="unknown factors"):
        edited(photographs(1)[0], {"smell": "none"})


@pytest.fixture(scope="module")
def trials() -> tuple[list[dict[str, str]], PhotoTrials]:
    bank, planned = plan_trials(photographs(5), per_factor=30)
    drawn: list[dict[str, str]] = [{}] * len(bank.made)
    for (photo, values), number in bank.made.items():
        defaults = {factor: next(iter(choices)) for factor, choices in EDITS.items()}
        drawn[number] = {**defaults, **dict(values), "subject": str(photo)}
    return drawn, planned


def test_triplets_differ_in_two_factors_with_a_different_odd_one_each(
    trials: tuple[list[dict[str, str]], PhotoTrials],
) -> None:
    drawn, planned = trials
    for factor, rows in planned.triplets.items():
        assert len(rows) >= 30
        for *members, odd in rows:
            values = [drawn[number][factor] for number in members]
            others = [values[place] for place in range(3) if place != odd]
            assert others[0] == others[1] != values[odd]
            assert len({drawn[number]["subject"] for number in members}) == 1
            differing = [name for name in EDITS if len({drawn[number][name] for number in members}) > 1]
            assert len(differing) == 2


def test_photo_figures_of_the_truth_and_of_content_alone(trials: tuple[list[dict[str, str]], PhotoTrials]) -> None:
    drawn, planned = trials
    truth = knowing({name: [values[name] for values in drawn] for name in (*EDITS, "subject")}, len(drawn))
    assert {found.mean for found in photo_odd_one_out(truth, planned).values()} == {1.0}
    assert {found.mean for found in cross_content(truth, planned).values()} == {1.0}
    assert {found.mean for found in cross_content(truth, planned, by_subject=True).values()} == {1.0}
    subjects = np.eye(8, dtype=np.float32)[[int(values["subject"]) for values in drawn]]

    def content(words: Sequence[str]) -> NDArray[np.float32]:
        return np.repeat(subjects[:, None], len(words), axis=1)

    assert {found.mean for found in cross_content(content, planned).values()} == {0.0}
    assert {found.mean for found in cross_content(content, planned, by_subject=True).values()} == {1.0}
    for found in photo_odd_one_out(content, planned).values():
        assert found.mean == pytest.approx(1 / 3)


def test_photographs_of_a_folder_are_found_and_squared(tmp_path: Path) -> None:
    (tmp_path / "ß").mkdir()
    for number, size in enumerate([(300, 200), (100, 400), (64, 64)]):
        Image.new("RGB", size, (90 * number, 20, 30)).save(tmp_path / "ß" / f"{number}.png")
    (tmp_path / "notes.txt").write_text("no picture")
    assert [photo.size for photo in load_photos(tmp_path)] == [(224, 224)] * 3
    assert len(load_photos(tmp_path, at_most=2)) == 2
    with pytest.raises(TpipsError, match="holds 0 images"):
        load_photos(tmp_path / "nowhere")


def class_folders(root: Path) -> Path:
    for name, count in (("birds", 5), ("fish/small", 4), ("rare", 2)):
        (root / name).mkdir(parents=True)
        for number in range(count):
            Image.new("RGB", (8, 8)).save(root / name / f"{number}.png")
    return root


def test_classes_are_folders_with_enough_pictures(tmp_path: Path) -> None:
    folder = find_classes(class_folders(tmp_path))
    assert folder.classes == ["birds"] * 5 + ["fish/small"] * 4
    with pytest.raises(TpipsError, match="two or more folders"):
        find_classes(tmp_path / "birds")


def test_same_class_share_counts_the_first_five_others() -> None:
    classes = ["a"] * 6 + ["b"] * 6
    assert same_class_share(knowing({"subject": classes}, 12), classes, ["subject", "object type"]) == 1.0
    assert same_class_share(ignorant(12), classes, ["subject"]) < 0.8


def measured(**changes: object) -> MiniEvaluation:
    of_all = {name: estimate([0.8, 0.7, 0.9]) for name in FACTORS}
    of_edits = {name: Estimate(0.9, 0.01, 80) for name in EDITS}
    precision = {
        name: Precision(dict(zip(PENALTIES, (0.5, 0.5005, 0.4, 0.3), strict=True)), 0.2, 50) for name in FACTORS
    }
    values: dict[str, object] = {
        "scenes": {**of_all, "mood": estimate([0.1])},
        "held_values": of_all,
        "backbone_scenes": {**of_all, "mood": estimate([0.1])},
        "retrieval": precision,
        "backbone_retrieval": precision,
        "photos": of_edits,
        "backbone_photos": of_edits,
        "cross_content": of_edits,
        "cross_subject": of_edits,
        "photo_count": 6,
        "subject": SubjectRetrieval(0.5, 0.45, 0.6, 4, 40),
        "speed": Speed(30.0, 1.1),
        "weight_bytes": {"head.safetensors": 20_000_000},
    }
    return MiniEvaluation(**{**values, **changes})  # type: ignore[arg-type]


def test_bars_tell_what_is_reached() -> None:
    bars = {bar.name: bar for bar in measured().bars()}
    missed = [name for name, bar in bars.items() if not bar.reached]
    assert missed == ['same class in top 5 by "subject", 40 pictures']
    # Composite aspects do not count among the 17.
    assert bars["odd one out, held-out scenes, mean of 17 aspects"].figure == pytest.approx(80)
    slow = {bar.name: bar.reached for bar in measured(speed=Speed(19.9, 1.31)).bars()}
    assert not slow["images/s on one core, eight aspects"]
    assert not slow["eight aspects cost, of one"]
    assert Bar("cost", 1.3, 1.3, at_most=True).reached


def test_without_classes_the_subject_has_no_bar() -> None:
    assert not [bar for bar in measured(subject=None).bars() if "subject" in bar.name]


def test_the_smallest_of_equally_good_penalties_is_recommended() -> None:
    assert measured().recommended_overall_penalty == 0.0


def test_report_and_json_hold_every_bar() -> None:
    evaluation = measured()
    console = Console(width=200, file=io.StringIO())
    with console.capture() as capture:
        console.print(evaluation_tables(evaluation))
    text = capture.get()
    saved = json.loads(json.dumps(evaluation.to_json()))
    for bar, stored in zip(evaluation.bars(), saved["bars"], strict=True):
        assert bar.name.strip() in text
        assert stored["reached"] == bar.reached
    assert "missed" in text
    assert saved["recommended_overall_penalty"] == 0.0


def test_contact_sheets_show_queries_and_hits(tmp_path: Path) -> None:
    tiles = [[Image.new("RGB", (30, 20), color) for color in ("red", "lime", "blue")] for _ in range(2)]
    sheet = contact_sheet("by color", tiles, np.array([[True, False], [False, True]]))
    assert sheet.getpixel((60, 80)) == (255, 0, 0)
    assert {color for _, color in sheet.getcolors(1 << 24)} >= {(0, 128, 0), (255, 0, 0), (0, 255, 0), (0, 0, 255)}
    bank, _ = plan_trials(photographs(3), per_factor=2)
    write_photo_sheets(tmp_path, ignorant(len(bank.made)), bank, bank.pictures())
    assert {path.name for path in tmp_path.iterdir()} == {
        f"photos-{name.replace('_', '-')}.png" for name in (*EDITS, "subject")
    }
