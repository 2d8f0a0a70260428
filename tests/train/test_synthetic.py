"""Labels of procedural triplets: symmetric, sharp for factors, soft for composites, hidden where nobody could tell."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from PIL import Image

from train.paraphrases import HELD_PARAPHRASES, PARAPHRASES
from train.scenes import FACTORS, FAMILY_SIZE, Family, family
from train.synthetic import ASPECTS, TRIPLETS, aspect_labels

BLANK = [Image.new("RGB", (4, 4), (40 * i % 256,) * 3) for i in range(FAMILY_SIZE)]


def varied_family(**columns) -> Family:
    """A family of shapes, plain but for the given factors' columns of eight values."""
    start = family(1, kind="shapes")
    plain = dict(start.pictures[0].values) | {
        "shape": "circle", "palette": "none", "brush": "none", "blur": 0.0, "texture": "smooth", "size": 0.26,
        "count": 1, "zoom": 1.0, "brightness": 0.0, "warmth": 0.0, "rotation": 0, "position": (0.0, 0.0),
    }  # fmt: skip
    pictures = tuple(
        dataclasses.replace(start.pictures[0], values=plain | {name: column[i] for name, column in columns.items()})
        for i in range(FAMILY_SIZE)
    )
    return Family("shapes", pictures, tuple(columns))


def halves(first, second):
    return [first] * 4 + [second] * 4


def test_aspects_cover_factors_composites_and_overall():
    assert set(FACTORS) < set(ASPECTS)
    assert {"color", "lighting", "object", "camera", "mood", "overall"} < set(ASPECTS)
    assert len(FACTORS) >= 17


def test_the_odd_one_is_the_one_with_another_value():
    labels = aspect_labels(varied_family(shape=halves("circle", "cross")), BLANK)["shape"]
    for triplet, target, usable in zip(TRIPLETS, labels.targets, labels.usable, strict=True):
        in_second = triplet >= 4
        assert usable == (0 < in_second.sum() < 3)
        if usable:
            odd = np.flatnonzero(in_second == (in_second.sum() == 1))[0]
            assert target.argmax() == odd
            assert target[odd] == pytest.approx(0.92)


def test_targets_are_shares():
    for seed in range(12):
        drawn = family(seed)
        for aspect, labels in aspect_labels(drawn, BLANK).items():
            np.testing.assert_allclose(labels.targets[labels.usable].sum(1), 1, atol=1e-5, err_msg=aspect)
            assert labels.usable.any()


def test_labels_do_not_depend_on_the_order_of_pictures():
    drawn = family(8, kind="shapes")
    order = np.random.default_rng(0).permutation(FAMILY_SIZE)
    shuffled = dataclasses.replace(drawn, pictures=tuple(drawn.pictures[i] for i in order))
    straight = aspect_labels(drawn, BLANK)
    turned = aspect_labels(shuffled, [BLANK[i] for i in order])
    assert set(straight) == set(turned)
    number = {tuple(triplet): i for i, triplet in enumerate(TRIPLETS.tolist())}
    for aspect, labels in turned.items():
        for row, triplet in enumerate(TRIPLETS):
            original = order[triplet]
            same = number[tuple(sorted(original.tolist()))]
            assert labels.usable[row] == straight[aspect].usable[same]
            expected = straight[aspect].targets[same][np.argsort(np.argsort(original))]
            np.testing.assert_allclose(labels.targets[row], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("factor", "values", "hiding", "hidden_by"),
    [
        ("object_color", (0.0, 0.32), "palette", "monochrome"),
        ("object_color", (0.0, 0.32), "brush", "pencil"),
        ("background_color", (0.0, 0.32), "palette", "sepia"),
        ("palette", ("none", "vivid"), "brush", "charcoal"),
        ("texture", ("checks", "dots"), "blur", 3.2),
        ("brush", ("oil", "points"), "blur", 3.2),
        ("texture", ("checks", "dots"), "size", 0.06),
        ("count", (1, 2), "size", 0.03),
        ("warmth", (1.0, -1.0), "palette", "swapped"),
    ],
)
def test_what_nobody_could_see_is_left_out(factor, values, hiding, hidden_by):
    shown = varied_family(**{factor: halves(*values)})
    usable = aspect_labels(shown, BLANK)[factor].usable
    neutral = shown.pictures[0].values[hiding]
    # One picture, the first, hides the factor: every triplet that holds it goes, the others stay.
    hidden = varied_family(**{factor: halves(*values), hiding: [hidden_by] + [neutral] * 7})
    left = aspect_labels(hidden, BLANK)[factor].usable
    np.testing.assert_array_equal(left, usable & ~(TRIPLETS == 0).any(1))


def test_brightness_must_agree_with_what_came_out():
    drawn = varied_family(brightness=halves(0.0, -1.4))
    agreeing = [Image.new("L", (4, 4), 200 if i < 4 else 60).convert("RGB") for i in range(FAMILY_SIZE)]
    assert aspect_labels(drawn, agreeing)["brightness"].usable.sum() == 48
    against = [*agreeing[:3], agreeing[4], *agreeing[4:]]
    assert not aspect_labels(drawn, against)["brightness"].usable[[3 in t and min(t) < 3 for t in TRIPLETS]].any()


def test_composites_grade_by_how_much_is_shared():
    drawn = varied_family(palette=["none", "none", "vivid", *["vivid"] * 5], warmth=[0.0, 0.0, 0.0, *[1.0] * 5])
    labels = aspect_labels(drawn, BLANK)["mood"]
    row = TRIPLETS.tolist().index([0, 2, 3])
    # 0 and 2 share the warmth, 2 and 3 the weightier palette, 0 and 3 nothing.
    assert labels.targets[row, 0] > labels.targets[row, 2] > labels.targets[row, 1]


def test_paraphrases_of_training_and_test_are_apart():
    assert set(PARAPHRASES) == set(HELD_PARAPHRASES) == set(ASPECTS)
    seen = {text.lower() for texts in PARAPHRASES.values() for text in texts}
    held = [text.lower() for texts in HELD_PARAPHRASES.values() for text in texts]
    assert len(held) == len(set(held))
    assert not seen & set(held)
    assert all(len(texts) >= 4 for name, texts in PARAPHRASES.items())
    assert all(len(texts) >= 2 for texts in HELD_PARAPHRASES.values())
