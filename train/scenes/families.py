"""Families: eight pictures in which a few factors take one of two values each, and all else stays the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
from PIL import Image

from train.scenes.backgrounds import UPRIGHT_BACKGROUNDS
from train.scenes.objects import group_offsets
from train.scenes.scene import Habits, render, seen_radius
from train.scenes.vocabulary import KIND_FACTORS, VOCABULARY, Value, far_enough, number, place

__all__ = ["FAMILY_KINDS", "FAMILY_SIZE", "SCENES_VERSION", "Family", "Picture", "cross_family", "family"]

FAMILY_SIZE = 8
# Raised whenever the same seed gives other pictures, so that features kept on disk are never taken for theirs.
SCENES_VERSION = 1

# kind of family -> how often it is drawn
FAMILY_KINDS = {"shapes": 0.29, "subjects": 0.27, "photographs": 0.14, "materials": 0.08, "cross": 0.22}
_CONTENT_KINDS = {"photographs": 0.5, "subjects": 0.25, "shapes": 0.17, "materials": 0.08}

# How little of an object may lie outside the picture, in picture widths.
_OVERHANG = 0.03
# After so many tries without a drawable family, other or fewer factors are made to vary.
_TRIES = 40

# Factors that together decide whether a picture can be drawn and read.
_TIED = ("count", "size", "zoom", "position", "rotation", "background", "object_color", "background_color")


# Two sets of values and the factors in which they differ.
_Contrast = tuple[dict[str, Value], dict[str, Value], tuple[str, ...]]


@dataclass(frozen=True)
class Picture:
    """One picture of a family.

    Attributes:
        kind: What is drawn: a key of vocabulary.KIND_FACTORS.
        values: The value of every factor of that kind.
        habits: What it has in common with its family.
        seed: Draws all that no factor says.
    """

    kind: str
    values: Mapping[str, Value]
    habits: Habits
    seed: int

    def draw(self) -> Image.Image:
        """Return the picture, RGB (SIZE, SIZE)."""
        return render(self.kind, self.values, self.habits, self.seed)


@dataclass(frozen=True)
class Family:
    """Eight pictures and the factors that differ among them.

    Attributes:
        kind: A key of FAMILY_KINDS.
        pictures: FAMILY_SIZE pictures.
        varied: Factors that take two values; in a cross family "subject" stands for everything but the others.
    """

    kind: str
    pictures: tuple[Picture, ...]
    varied: tuple[str, ...]


def family(seed: int, *, held: bool = False, kind: str | None = None) -> Family:
    """Draw a family.

    Args:
        seed: The same seed gives the same family; keep the seeds of training and of evaluation apart.
        held: Whether the values that differ are those kept for evaluation.
        kind: A key of FAMILY_KINDS; by default drawn with its frequencies.

    Returns:
        FAMILY_SIZE pictures, not drawn yet.

    Raises:
        ValueError: An unknown kind.
    """
    rng = np.random.default_rng([seed, 3])
    if kind is None:
        kind = str(rng.choice(list(FAMILY_KINDS), p=list(FAMILY_KINDS.values())))
    if kind not in FAMILY_KINDS:
        raise ValueError(f"unknown kind of family {kind!r}; expected one of {', '.join(FAMILY_KINDS)}")
    if kind == "cross":
        return cross_family(rng, held)
    habits = _habits(rng)
    count = int(rng.integers(4, 9))
    while (contrast := _contrast(kind, rng, held, _pick(KIND_FACTORS[kind], count, rng))) is None:
        count = max(count - 1, 3)
    first, second, varied = contrast
    pictures = []
    for _ in range(FAMILY_SIZE):
        takes_second = rng.random(len(varied)) < 0.5
        values = dict(first) | {name: second[name] for name, taken in zip(varied, takes_second, strict=True) if taken}
        pictures.append(Picture(kind, values, habits, int(rng.integers(1 << 40))))
    return Family(kind, tuple(pictures), varied)


def cross_family(rng: np.random.Generator, held: bool = False) -> Family:
    """Draw a family of two unlike contents under all four combinations of two factors.

    It teaches that content X with edit a is closer to content Y with edit a than to X with edit b when the edit is
    asked about, and the other way round when the subject is.
    """
    kinds = [str(kind) for kind in rng.choice(list(_CONTENT_KINDS), 2, p=list(_CONTENT_KINDS.values()))]
    shared = [name for name in KIND_FACTORS[kinds[0]] if name in KIND_FACTORS[kinds[1]] and name != "subject"]
    while True:
        varied = _pick(shared, 2, rng)
        contents = [found for kind in kinds if (found := _contrast(kind, rng, held, varied)) is not None]
        if len(contents) == 2 and _agreeable(contents[0], contents[1], kinds, varied):
            break
    before, after, _ = contents[0]
    pictures = []
    habits = _habits(rng)
    for content, kind in enumerate(kinds):
        first = contents[content][0]
        for choice in product((False, True), repeat=2):
            chosen = {name: (after if take else before)[name] for name, take in zip(varied, choice, strict=True)}
            values = dict(first) | chosen
            if kind == "photographs":
                values["subject"] = contents[content][0]["subject"]
            pictures.append(Picture(kind, values, habits, int(rng.integers(1 << 40))))
    return Family("cross", tuple(pictures), (*varied, "subject"))


def _agreeable(first: _Contrast, second: _Contrast, kinds: list[str], varied: tuple[str, ...]) -> bool:
    """Whether the second content can take the first one's values of the varied factors."""
    before, after = (second[0] | {name: side[name] for name in varied} for side in first[:2])
    drawable = all(_drawable(kinds[1], value, varied) for value in _combinations(before, after, varied))
    return drawable and first[0].get("subject", 0) != second[0].get("subject", 1)


def _pick(names: Iterable[str], count: int, rng: np.random.Generator) -> tuple[str, ...]:
    """Choose factors to vary; an object's size on the screen follows both size and zoom, so never both."""
    pool = [str(name) for name in rng.permutation(list(names))]
    if "size" in pool and "zoom" in pool:
        pool.remove(pool[max(pool.index("size"), pool.index("zoom"))])
    return tuple(pool[:count])


def _habits(rng: np.random.Generator) -> Habits:
    return Habits(
        exposure_way=int(rng.integers(3)),
        warmth_way=int(rng.integers(2)),
        light_strength=float(rng.uniform(0.3, 0.55)),
        spot=bool(rng.random() < 0.3),
        framed=bool(rng.random() < 0.35),
        seed=int(rng.integers(1 << 40)),
    )


def _contrast(kind: str, rng: np.random.Generator, held: bool, varied: tuple[str, ...]) -> _Contrast | None:
    """Draw two sets of values that differ in some factors, such that every mixture of them can be drawn and read."""
    factors = KIND_FACTORS[kind]
    for _ in range(_TRIES):
        first: dict[str, Value] = {}
        second: dict[str, Value] = {}
        for name in factors:
            first[name], second[name] = _two_values(kind, name, name in varied, held, rng)
        if all(_drawable(kind, values, varied) for values in _combinations(first, second, varied)):
            return first, second, varied
    return None


def _two_values(kind: str, name: str, varies: bool, held: bool, rng: np.random.Generator) -> tuple[Value, Value]:
    """Draw a base value and, where the factor varies, one that differs visibly."""
    listed = VOCABULARY["scene" if kind == "photographs" and name == "subject" else name]
    pool = [value for value in (listed.held if held else listed.train) if _possible(kind, name, value)]
    if not varies:
        calm = listed.neutral is not None and rng.random() < (0.5 if name == "texture" else 0.88)
        calm = calm and not (kind == "materials" and name == "texture")
        value = listed.neutral if calm and listed.neutral is not None else _one(pool, rng)
        value = _instance(kind, name, value, rng)
        return value, value
    while True:
        first, second = _one(pool, rng), _one(pool, rng)
        if listed.neutral is not None and rng.random() < 0.4 and not (kind == "materials" and name == "texture"):
            first, second = (first, listed.neutral) if rng.random() < 0.5 else (listed.neutral, second)
        if far_enough(name, first, second):
            return _instance(kind, name, first, rng), _instance(kind, name, second, rng)


def _one(pool: list[Value], rng: np.random.Generator) -> Value:
    return pool[int(rng.integers(len(pool)))]


def _instance(kind: str, name: str, value: Value, rng: np.random.Generator) -> Value:
    return f"{value}/{rng.integers(1 << 40)}" if kind == "photographs" and name == "subject" else value


def _possible(kind: str, name: str, value: Value) -> bool:
    """Whether a kind of picture can take a value: there is nothing beyond a photograph's edge to zoom out to."""
    if name != "zoom":
        return True
    zoom = number({name: value}, name)
    return zoom >= 1 if kind == "photographs" else zoom <= 2.01


def _combinations(
    first: Mapping[str, Value], second: Mapping[str, Value], varied: tuple[str, ...]
) -> list[dict[str, Value]]:
    """Every mixture of the two sets of values in the factors that decide what can be drawn."""
    tied = [name for name in _TIED if name in varied]
    return [
        dict(first) | {name: (second if take else first)[name] for name, take in zip(tied, choice, strict=True)}
        for choice in product((False, True), repeat=len(tied))
    ]


def _drawable(kind: str, values: Mapping[str, Value], varied: tuple[str, ...]) -> bool:
    """Whether objects lie inside the picture and the factors that vary can be seen."""
    if kind in ("photographs", "materials"):
        return True
    radius = seen_radius(values)
    offsets = group_offsets(int(number(values, "count")))
    reach = (np.hypot(*offsets.T).max() if values["rotation"] != 0 else np.abs(offsets).max()) + 0.9
    x, y = place(values, "position")
    if max(abs(float(x)), abs(float(y))) + reach * radius > 0.5 + _OVERHANG:
        return False
    smallest = max(
        [0.05, *(size for name, size in (("shape", 0.055), ("subject", 0.08), ("texture", 0.1)) if name in varied)]
    )
    upright = "rotation" not in varied or values["background"] in UPRIGHT_BACKGROUNDS
    stands_out = far_enough("object_color", values["object_color"], values["background_color"])
    return radius >= smallest and upright and stands_out
