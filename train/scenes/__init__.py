"""Procedural pictures whose every factor is known."""

from train.scenes.families import FAMILY_KINDS, FAMILY_SIZE, SCENES_VERSION, Family, Picture, family
from train.scenes.raster import SIZE
from train.scenes.scene import Habits, render, seen_radius
from train.scenes.vocabulary import FACTORS, KIND_FACTORS, STYLE_FACTORS, VOCABULARY, Value, Values, far_enough

__all__ = [
    "FACTORS",
    "FAMILY_KINDS",
    "FAMILY_SIZE",
    "KIND_FACTORS",
    "SCENES_VERSION",
    "SIZE",
    "STYLE_FACTORS",
    "VOCABULARY",
    "Family",
    "Habits",
    "Picture",
    "Value",
    "Values",
    "family",
    "far_enough",
    "render",
    "seen_radius",
]
