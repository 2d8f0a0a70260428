"""The factors that a procedural picture is made of, and the values each may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from train.scenes.backgrounds import BACKGROUNDS
from train.scenes.brushes import BRUSHES
from train.scenes.grades import GRADES
from train.scenes.landscapes import LANDSCAPES
from train.scenes.shapes import SHAPES
from train.scenes.subjects import SUBJECTS
from train.scenes.textures import TEXTURES

__all__ = [
    "FACTORS",
    "KIND_FACTORS",
    "STYLE_FACTORS",
    "VOCABULARY",
    "Value",
    "Values",
    "far_enough",
    "hue",
    "number",
    "place",
]

Value = str | int | float | tuple[float, float]


@dataclass(frozen=True)
class Values:
    """The values of one factor.

    Attributes:
        train: Values that training pictures may take.
        held: Values kept for evaluation; none of them is in ``train``.
        neutral: The value of a picture in which the factor does nothing (no brush, no blur); it belongs to neither
            list and may be one side of a contrast in both. None where there is no such value.
    """

    train: tuple[Value, ...]
    held: tuple[Value, ...]
    neutral: Value | None = None


def _split(names: tuple[str, ...], held: set[str], neutral: str | None = None) -> Values:
    unknown = held - set(names)
    if unknown:
        raise ValueError(f"held-out values {sorted(unknown)} are not drawn by any function")
    train = tuple(name for name in names if name not in held and name != neutral)
    return Values(train, tuple(name for name in names if name in held), neutral)


_CORNERS = tuple((x, y) for y in (-0.24, 0.0, 0.24) for x in (-0.24, 0.0, 0.24))

VOCABULARY: dict[str, Values] = {
    "shape": _split(tuple(SHAPES), {"heart", "gear", "crescent", "arrow", "bolt"}),
    "object_color": Values(
        (0.0, 0.07, 0.14, 0.32, 0.46, 0.62, 0.72, 0.86, "white", "black", "brown"), (0.23, 0.54, 0.79, "gray")
    ),
    "count": Values((1, 2, 4, 6, 9), (3, 5, 8)),
    "size": Values((0.06, 0.088, 0.13, 0.185, 0.26), (0.072, 0.107, 0.155, 0.22)),
    "position": Values(_CORNERS, ((-0.13, -0.24), (0.13, 0.24), (-0.24, 0.13), (0.24, -0.13), (0.12, -0.1))),
    "background": _split(tuple(BACKGROUNDS), {"mountains", "triangles", "skyline", "chevrons", "harbour"}),
    "background_color": Values(
        (0.0, 0.07, 0.14, 0.32, 0.46, 0.62, 0.72, 0.86, "white", "black", "brown"), (0.23, 0.54, 0.79, "gray")
    ),
    "palette": _split(tuple(GRADES), {"duo orange", "muted", "cyan tint", "pink tint", "hue two thirds"}, "none"),
    "light_direction": Values(tuple(range(0, 360, 45)), (22, 68, 112, 158, 202, 248, 292, 338)),
    "brightness": Values((-1.4, -0.7, 0.8), (-1.0, 0.6, 1.05), 0.0),
    "warmth": Values((-1.0, -0.55, 0.55, 1.0), (-0.78, 0.78), 0.0),
    "texture": _split(tuple(TEXTURES), {"weave", "honeycomb", "rosettes", "spiral", "plaid"}, "smooth"),
    "brush": _split(tuple(BRUSHES), {"stained glass", "dither", "engraving", "chalk", "daubs"}, "none"),
    "blur": Values((1.5, 3.2), (2.3, 4.4), 0.0),
    "rotation": Values((25, -25, 50, -50, 90, -90, 180), (35, -35, 68, -68, 135), 0),
    "zoom": Values((0.7, 1.45, 2.0, 2.8), (0.78, 1.7, 2.4), 1.0),
    "subject": _split(
        tuple(SUBJECTS), {"duck", "snail", "sailing boat", "teapot", "cactus", "rocket", "snowman", "guitar"}
    ),
    "scene": _split(tuple(LANDSCAPES), {"canyon", "orchard", "bridge"}),
}

# "scene" is the subject of a picture without a main object.
FACTORS = tuple(name for name in VOCABULARY if name != "scene")

# What a whole-picture treatment can change, whatever the picture shows.
STYLE_FACTORS = ("palette", "light_direction", "brightness", "warmth", "brush", "blur", "rotation", "zoom")

_OBJECT_FACTORS = ("object_color", "count", "size", "position", "background", "background_color", "texture")

# kind of picture -> the factors that show in it
KIND_FACTORS: dict[str, tuple[str, ...]] = {
    "shapes": ("shape", *_OBJECT_FACTORS, *STYLE_FACTORS),
    "subjects": ("subject", *_OBJECT_FACTORS, *STYLE_FACTORS),
    "photographs": ("subject", *STYLE_FACTORS),
    "materials": ("texture", "object_color", *STYLE_FACTORS),
}


def number(values: Mapping[str, Value], factor: str) -> float:
    """Return a factor's value, which must be a number.

    Raises:
        TypeError: It is none.
    """
    value = values[factor]
    if isinstance(value, (str, tuple)):
        raise TypeError(f"the value of {factor} must be a number, but is {value!r}")
    return float(value)


def place(values: Mapping[str, Value], factor: str) -> tuple[float, float]:
    """Return a factor's value, which must be a point of the picture.

    Raises:
        TypeError: It is none.
    """
    value = values[factor]
    if not isinstance(value, tuple):
        raise TypeError(f"the value of {factor} must be a point (x, y), but is {value!r}")
    return value


def hue(values: Mapping[str, Value], factor: str) -> float | str:
    """Return a factor's value, which must be a hue or the name of a colour.

    Raises:
        TypeError: It is neither.
    """
    value = values[factor]
    if isinstance(value, tuple):
        raise TypeError(f"the value of {factor} must be a hue or a colour's name, but is {value!r}")
    return value


def far_enough(factor: str, first: Value, second: Value) -> bool:
    """Whether two values of a factor differ so much that anybody would see it.

    >>> far_enough("object_color", 0.0, 0.95), far_enough("object_color", 0.0, 0.3), far_enough("count", 4, 6)
    (False, True, False)
    """
    if first == second:
        return False
    if isinstance(first, tuple) and isinstance(second, tuple):
        return max(abs(first[0] - second[0]), abs(first[1] - second[1])) >= 0.23
    if isinstance(first, str) or isinstance(second, str) or isinstance(first, tuple) or isinstance(second, tuple):
        return {first, second} not in ({"white", "gray"}, {"black", "brown"}, {"brown", 0.07})
    distance = abs(first - second)
    if factor in ("object_color", "background_color"):
        return min(distance, 1 - distance) >= 0.1
    if factor in ("light_direction", "rotation"):
        return min(distance, 360 - distance) >= (60 if factor == "light_direction" else 24)
    ratio = max(first, second) / min(first, second) if min(first, second) > 0 else 0
    smallest = {"count": 1.6, "size": 1.4, "zoom": 1.28}.get(factor)
    if smallest is not None:
        return ratio >= smallest
    return distance >= {"brightness": 0.6, "warmth": 0.5, "blur": 1.2}[factor]
