"""The procedural renderer: same seed same picture, every factor visible, held-out values apart."""

from __future__ import annotations

import numpy as np
import pytest

from train.scenes import (
    FACTORS,
    FAMILY_KINDS,
    FAMILY_SIZE,
    KIND_FACTORS,
    SIZE,
    STYLE_FACTORS,
    VOCABULARY,
    Habits,
    family,
    far_enough,
    render,
    seen_radius,
)

HABITS = Habits(exposure_way=0, warmth_way=0, light_strength=0.4, spot=False, framed=False, seed=1)

# A picture of each kind with nothing done to it, and another value for each of its factors.
PLAIN = {
    "palette": "none",
    "light_direction": 180,
    "brightness": 0.0,
    "warmth": 0.0,
    "brush": "none",
    "blur": 0.0,
    "rotation": 0,
    "zoom": 1.0,
}
WITH_OBJECT = {
    "object_color": 0.0,
    "count": 1,
    "size": 0.13,
    "position": (0.0, 0.0),
    "background": "hills",
    "background_color": 0.62,
    "texture": "smooth",
}
VALUES = {
    "shapes": {"shape": "circle", **WITH_OBJECT, **PLAIN},
    "subjects": {"subject": "cat", **WITH_OBJECT, **PLAIN},
    "photographs": {"subject": "meadow/3", **PLAIN},
    "materials": {"texture": "wood", "object_color": 0.0, **PLAIN},
}
OTHER = {
    "shape": "cross",
    "object_color": 0.32,
    "count": 4,
    "size": 0.185,
    "position": (0.24, -0.24),
    "background": "bricks",
    "background_color": 0.14,
    "palette": "sepia",
    "light_direction": 0,
    "brightness": -0.7,
    "warmth": 1.0,
    "texture": "checks",
    "brush": "points",
    "blur": 3.2,
    "rotation": 50,
    "zoom": 1.45,
    "subject": "car",
}


def pixels(kind, values, seed=5):
    return np.asarray(render(kind, values, HABITS, seed), np.float64)


def test_every_factor_has_both_kinds_of_values():
    assert set(FACTORS) == set(VOCABULARY) - {"scene"}
    assert len(FACTORS) >= 17
    for name, values in VOCABULARY.items():
        assert len(values.train) >= 2, name
        assert len(values.held) >= 2, name
        assert not set(values.train) & set(values.held), name
        assert values.neutral not in (*values.train, *values.held), name


def test_there_are_many_brushes_and_textures():
    for name in ("brush", "texture"):
        assert len(VOCABULARY[name].train) >= 12
        assert len(VOCABULARY[name].held) >= 4


@pytest.mark.parametrize(("kind", "factor"), [(kind, factor) for kind in KIND_FACTORS for factor in KIND_FACTORS[kind]])
def test_every_factor_changes_the_picture(kind, factor):
    other = "seaside/4" if (kind, factor) == ("photographs", "subject") else OTHER[factor]
    before = pixels(kind, VALUES[kind])
    after = pixels(kind, {**VALUES[kind], factor: other})
    assert before.shape == after.shape == (SIZE, SIZE, 3)
    # More than what a sensor's noise or another seed would do to a plain picture.
    assert np.abs(before - after).mean() > 1.0


@pytest.mark.parametrize("kind", FAMILY_KINDS)
def test_a_seed_gives_the_same_family(kind):
    first, again, other = (family(seed, kind=kind) for seed in (3, 3, 4))
    assert first == again
    assert first != other
    drawn = [picture.draw().tobytes() for picture in (first.pictures[0], again.pictures[0], other.pictures[0])]
    assert drawn[0] == drawn[1] != drawn[2]


def test_an_unknown_kind_is_an_error():
    with pytest.raises(ValueError, match="unknown kind of family 'oil'; expected one of shapes"):
        family(1, kind="oil")


@pytest.mark.parametrize("held", [False, True])
def test_families_vary_visibly_what_they_say(held):
    for seed in range(60):
        drawn = family(seed, held=held)
        assert len(drawn.pictures) == FAMILY_SIZE
        for name in drawn.varied:
            if name == "subject" and drawn.kind == "cross":
                continue
            found = {picture.values[name] for picture in drawn.pictures}
            assert len(found) <= 2
            if len(found) == 2 and name != "subject":
                assert far_enough(name, *found), (seed, name, found)
        if drawn.kind != "cross":
            for name in set(KIND_FACTORS[drawn.kind]) - set(drawn.varied):
                assert len({picture.values[name] for picture in drawn.pictures}) == 1, (seed, name)
        assert not {"size", "zoom"} <= set(drawn.varied)


@pytest.mark.parametrize("held", [False, True])
def test_families_keep_to_their_values(held):
    for seed in range(60):
        for picture in family(seed, held=held).pictures:
            for name, value in picture.values.items():
                if picture.kind == "photographs" and name == "subject":
                    name, value = "scene", str(value).split("/")[0]
                known = VOCABULARY[name]
                assert value in (*(known.held if held else known.train), known.neutral), (seed, name, value)


def test_cross_families_ask_the_same_of_two_contents():
    for seed in range(20):
        drawn = family(seed, kind="cross")
        first, second = drawn.pictures[: FAMILY_SIZE // 2], drawn.pictures[FAMILY_SIZE // 2 :]
        for name in drawn.varied[:2]:
            assert [picture.values[name] for picture in first] == [picture.values[name] for picture in second]
        assert {picture.values.get("subject", picture.kind) for picture in first}.isdisjoint(
            {picture.values.get("subject", "none of " + picture.kind) for picture in second}
        )


@pytest.mark.parametrize("position", VOCABULARY["position"].train)
def test_an_object_lies_where_its_label_says_whatever_the_camera_does(position):
    values = {**VALUES["shapes"], "background": "plain", "background_color": "white", "object_color": 0.0}
    for rotation, zoom in ((0, 1.0), (90, 1.0), (-50, 1.0), (0, 1.45), (180, 0.7)):
        seen = pixels("shapes", {**values, "position": position, "rotation": rotation, "zoom": zoom})
        redness = np.clip(seen[..., 0] - seen[..., 1] - 60, 0, None)
        rows, columns = np.indices(redness.shape)
        at = np.array([(redness * columns).sum(), (redness * rows).sum()]) / redness.sum() / SIZE - 0.5
        np.testing.assert_allclose(at, position, atol=0.05)


@pytest.mark.parametrize("held", [False, True])
def test_objects_lie_inside_the_picture(held):
    for seed in range(60):
        for picture in family(seed, held=held, kind="subjects").pictures:
            x, y = picture.values["position"]
            assert max(abs(x), abs(y)) + 0.85 * seen_radius(picture.values) <= 0.54


def test_style_factors_apply_to_every_kind():
    for factors in KIND_FACTORS.values():
        assert set(STYLE_FACTORS) <= set(factors)
