"""Everything that can be the subject of a picture, by name."""

from __future__ import annotations

from train.scenes.subjects_animals import ANIMALS, Part, Subject
from train.scenes.subjects_plants import PLANTS
from train.scenes.subjects_things import THINGS
from train.scenes.subjects_vehicles import VEHICLES

__all__ = ["SUBJECTS", "Part", "Subject"]

_DRAWN = {**PLANTS, **VEHICLES, **THINGS}

# The order is part of what a seed means: families draw a subject by its place in this list.
_ORDER = (
    "tree",
    "fir",
    "palm",
    "blossom",
    "mushroom",
    "cottage",
    "tower",
    "sailing boat",
    "steamer",
    "car",
    "bus",
    "bicycle",
    "aeroplane",
    "rocket",
    "balloon",
    "mug",
    "bottle",
    "teapot",
    "lamp",
    "chair",
    "umbrella",
    "clock",
    "apple",
    "key",
    "cactus",
    "snowman",
    "guitar",
    "gift",
    "pyramid",
    "sign",
)

SUBJECTS: dict[str, Subject] = {**ANIMALS, **{name: _DRAWN[name] for name in _ORDER}}
