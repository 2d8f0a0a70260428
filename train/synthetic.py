"""Procedural triplets whose odd one out is known: labels for families of pictures (section 4.3 of the paper).

A family holds eight pictures and so 56 triplets. For a factor, two pictures are alike if they share its value; an
aspect may rest on several factors (mood: palette, brightness, warmth), and "overall" on all that differ. Triplets
that nobody could tell are left out: the colour of an object in a pencil drawing, the texture of a blurred one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from train.scenes import FACTORS, FAMILY_SIZE, Family, Picture, seen_radius
from train.scenes.brushes import COARSE_BRUSHES, COLORLESS_BRUSHES
from train.scenes.grades import COLORLESS_GRADES, HUE_MOVING_GRADES
from train.scenes.vocabulary import number

__all__ = ["ASPECTS", "EVALUATION_SEEDS", "TRIPLETS", "AspectLabels", "aspect_labels", "factor_value"]

# Seeds of families from here on are for evaluation; training stays below.
EVALUATION_SEEDS = 1_000_000_000

# int (56, 3): the members of every triplet of a family.
TRIPLETS: NDArray[np.int64] = np.array(list(combinations(range(FAMILY_SIZE), 3)))

_WEIGHTS = {
    "shape": 1.0, "object_color": 1.0, "count": 0.8, "size": 0.6, "position": 0.7, "background": 1.2,
    "background_color": 1.0, "palette": 1.2, "light_direction": 0.4, "brightness": 0.7, "warmth": 0.5, "texture": 0.7,
    "brush": 1.1, "blur": 0.7, "rotation": 0.8, "zoom": 0.5, "subject": 2.2,
}  # fmt: skip

_COMPOSITES = {
    "color": ("object_color", "background_color", "palette", "warmth"),
    "lighting": ("light_direction", "brightness", "warmth"),
    "object": ("shape", "object_color", "texture", "subject"),
    "camera": ("rotation", "zoom"),
    "mood": ("palette", "brightness", "warmth"),
    "overall": FACTORS,
}

# aspect -> the factors it rests on and their weights; the first 17 are the factors themselves
ASPECTS: Mapping[str, Mapping[str, float]] = {
    **{name: {name: 1.0} for name in FACTORS},
    **{name: {factor: _WEIGHTS[factor] for factor in factors} for name, factors in _COMPOSITES.items()},
}

_SURE, _SOFTNESS = 0.92, 0.12


@dataclass(frozen=True)
class AspectLabels:
    """What a family's triplets look like under one aspect.

    Attributes:
        targets: float32 (56, 3); entry k is the share of people who would call member k of the triplet the odd one.
        usable: bool (56,); whether anybody could tell.
    """

    targets: NDArray[np.float32]
    usable: NDArray[np.bool_]


def factor_value(picture: Picture, factor: str) -> str | None:
    """Return a factor's value as a comparable word, or None where the picture has none."""
    value = picture.values.get(factor)
    return None if value is None else str(value)


def aspect_labels(family: Family, images: Sequence[Image.Image]) -> dict[str, AspectLabels]:
    """Label a family's triplets under every aspect that tells its pictures apart.

    Args:
        family: A family.
        images: Its pictures as drawn, for what must be measured: how bright they came out.

    Returns:
        Aspect's name → labels with at least one usable triplet. Triplets are those of TRIPLETS.
    """
    alike = {name: _alike(family, name) for name in family.varied}
    telling = {name: _readable(family, images, name) for name in family.varied}
    labels: dict[str, AspectLabels] = {}
    for aspect, weights in ASPECTS.items():
        factors = [name for name in weights if name in family.varied]
        if not factors:
            continue
        if aspect in FACTORS:
            made = _sharp(alike[aspect], telling[aspect])
        else:
            made = _graded({name: weights[name] for name in factors}, alike, telling, strict=aspect != "overall")
        if made.usable.any():
            labels[aspect] = made
    return labels


def _alike(family: Family, factor: str) -> NDArray[np.float64]:
    """float64 (56, 3): entry k is 1 if the two members other than k share the factor's value."""
    if family.kind == "cross" and factor == "subject":
        half = FAMILY_SIZE // 2
        values = np.arange(FAMILY_SIZE) // half
    else:
        _, values = np.unique([str(factor_value(picture, factor)) for picture in family.pictures], return_inverse=True)
    first, second, third = values[TRIPLETS].T
    return np.stack([second == third, first == third, first == second], 1).astype(np.float64)


def _sharp(alike: NDArray[np.float64], telling: NDArray[np.bool_]) -> AspectLabels:
    targets = np.where(alike > 0.5, _SURE, (1 - _SURE) / 2).astype(np.float32)
    return AspectLabels(targets, telling & (alike.sum(1) == 1))


def _graded(
    weights: Mapping[str, float],
    alike: Mapping[str, NDArray[np.float64]],
    telling: Mapping[str, NDArray[np.bool_]],
    strict: bool,
) -> AspectLabels:
    """Soft labels from how much of an aspect's factors each pair shares."""
    total = sum(weights.values())
    shared: NDArray[np.float64] = np.sum([weight * alike[name] for name, weight in weights.items()], axis=0) / total
    odds = np.exp((shared - shared.max(1, keepdims=True)) / _SOFTNESS)
    targets = 0.95 * odds / odds.sum(1, keepdims=True) + 0.05 / 3
    usable = shared.max(1) - shared.min(1) > 0.02
    if strict:
        for name in weights:
            usable &= telling[name] | (alike[name].sum(1) != 1)
    return AspectLabels(targets.astype(np.float32), usable)


def _readable(family: Family, images: Sequence[Image.Image], factor: str) -> NDArray[np.bool_]:
    """bool (56,): whether the factor can be seen in all three pictures of a triplet."""
    clear = np.array([_shows(picture, factor) for picture in family.pictures])
    readable: NDArray[np.bool_] = np.asarray(clear[TRIPLETS].all(axis=1))
    among = _AMONG.get(factor)
    if among is not None:
        readable &= np.array([among([family.pictures[i] for i in triplet]) for triplet in TRIPLETS])
    if factor == "brightness":
        readable &= _measured(
            [float(np.asarray(image.convert("L")).mean()) for image in images], _alike(family, factor)
        )
    return readable


def _measured(values: Sequence[float], alike: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether what was measured agrees with the label: the pair that is alike is also the closest, by a margin."""
    first, second, third = np.array(values)[TRIPLETS].T
    apart = np.abs(np.stack([second - third, first - third, first - second], 1))
    of_pair = (apart * alike).sum(1)
    least_of_others: NDArray[np.float64] = np.where(alike > 0.5, np.inf, apart).min(1)
    return np.asarray(of_pair < 0.75 * least_of_others)


def _shows(picture: Picture, factor: str) -> bool:
    """Whether a factor can be seen in a picture at all."""
    values = picture.values
    blur, brush = number(values, "blur"), values["brush"]
    has_object = picture.kind in ("shapes", "subjects")
    radius = seen_radius(values) if has_object else 0.5
    coarse = 0.035 if brush in COARSE_BRUSHES else 0.0
    if factor in ("object_color", "count", "size", "position") and radius < 0.04 + coarse + 0.012 * blur:
        return False
    if factor in ("object_color", "background_color"):
        return brush not in COLORLESS_BRUSHES and values["palette"] not in COLORLESS_GRADES
    if factor == "palette":
        return brush not in COLORLESS_BRUSHES
    if factor == "brush":
        return blur < 2.0
    if factor == "texture":
        return blur < 1.6 and brush not in COARSE_BRUSHES and radius >= 0.095
    if factor in ("shape", "subject"):
        return radius >= (0.05 if factor == "shape" else 0.075) + coarse + 0.012 * blur
    if factor == "background":
        return blur < 4.0
    return True


def _share(pictures: Sequence[Picture], factor: str) -> bool:
    return len({factor_value(picture, factor) for picture in pictures}) == 1


def _palette_holds_colors(pictures: Sequence[Picture]) -> bool:
    return _share(pictures, "palette") or not any(
        picture.values["palette"] in HUE_MOVING_GRADES for picture in pictures
    )


def _palette_holds_warmth(pictures: Sequence[Picture]) -> bool:
    moved = COLORLESS_GRADES | HUE_MOVING_GRADES
    return _share(pictures, "palette") or not any(picture.values["palette"] in moved for picture in pictures)


def _scale_shows(pictures: Sequence[Picture]) -> bool:
    """Zoom can be told by the size of objects, and otherwise only between views of one scene or texture."""
    if all(picture.kind in ("shapes", "subjects") for picture in pictures):
        return True
    return _share(pictures, "subject") and _share(pictures, "texture") and len({p.kind for p in pictures}) == 1


# What can only be told when another factor is the same, or does no harm, throughout a triplet.
_AMONG: Mapping[str, Callable[[Sequence[Picture]], bool]] = {
    "object_color": _palette_holds_colors,
    "background_color": _palette_holds_colors,
    "warmth": _palette_holds_warmth,
    "zoom": _scale_shows,
}
