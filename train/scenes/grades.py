"""Colour palettes, as gradings of a finished picture."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from train.scenes.colors import luminance
from train.scenes.raster import FloatMap

__all__ = ["COLORLESS_GRADES", "GRADES", "HUE_MOVING_GRADES"]

Grade = Callable[[FloatMap], FloatMap]


def _saturated(factor: float, lift: float = 0.0, gain: float = 1.0) -> Grade:
    def grade(pixels: FloatMap) -> FloatMap:
        gray = luminance(pixels)[..., None]
        return lift + gain * np.clip(gray + (pixels - gray) * factor, 0, 1)

    return grade


def _duotone(dark: tuple[float, float, float], light: tuple[float, float, float]) -> Grade:
    low, high = np.array(dark, np.float32), np.array(light, np.float32)
    return lambda pixels: low + (high - low) * luminance(pixels)[..., None]


def _tinted(*gains: float) -> Grade:
    gain = np.array(gains, np.float32)
    return lambda pixels: pixels * gain


def _split_toned(shadows: tuple[float, float, float], highlights: tuple[float, float, float]) -> Grade:
    low, high = np.array(shadows, np.float32), np.array(highlights, np.float32)

    def grade(pixels: FloatMap) -> FloatMap:
        gray = luminance(pixels)[..., None]
        return pixels + (1 - gray) * low + gray * high

    return grade


def _channels(order: tuple[int, int, int]) -> Grade:
    return lambda pixels: pixels[..., list(order)]


def _curves(*powers: float) -> Grade:
    power = np.array(powers, np.float32)
    return lambda pixels: np.clip(pixels, 0, 1) ** power


GRADES: dict[str, Grade] = {
    "none": lambda pixels: pixels,
    "sepia": lambda pixels: luminance(pixels)[..., None] * np.array([1.1, 0.88, 0.6], np.float32),
    "monochrome": _saturated(0.0),
    "vivid": _saturated(2.0),
    "faded": _saturated(0.55, 0.34, 0.58),
    "pastel": _saturated(0.8, 0.45, 0.55),
    "teal and orange": _split_toned((-0.14, 0.04, 0.13), (0.16, 0.02, -0.2)),
    "magenta and green": _split_toned((0.14, -0.1, 0.14), (-0.12, 0.1, -0.12)),
    "duo purple": _duotone((0.16, 0.02, 0.3), (0.98, 0.85, 0.75)),
    "duo blue": _duotone((0.02, 0.06, 0.25), (0.75, 0.9, 1.0)),
    "duo green": _duotone((0.03, 0.16, 0.08), (0.9, 1.0, 0.72)),
    "duo crimson": _duotone((0.2, 0.0, 0.06), (1.0, 0.86, 0.86)),
    "green tint": _tinted(0.76, 1.12, 0.74),
    "red tint": _tinted(1.2, 0.7, 0.7),
    "yellow tint": _tinted(1.12, 1.05, 0.55),
    "violet tint": _tinted(0.95, 0.7, 1.2),
    "cross process": _curves(0.7, 0.85, 1.7),
    "moonlight": _curves(1.9, 1.3, 0.8),
    "hue third": _channels((2, 0, 1)),
    "swapped": _channels((2, 1, 0)),
    "duo orange": _duotone((0.2, 0.05, 0.02), (1.0, 0.85, 0.5)),
    "muted": _saturated(0.28),
    "cyan tint": _tinted(0.66, 1.05, 1.12),
    "pink tint": _tinted(1.18, 0.78, 1.04),
    "hue two thirds": _channels((1, 2, 0)),
}

# Under these nobody can tell the colour of an object.
COLORLESS_GRADES = frozenset(
    {"sepia", "monochrome", "duo purple", "duo blue", "duo green", "duo crimson", "duo orange"}
)
# Under these the colour of an object is not the one it was painted in.
HUE_MOVING_GRADES = frozenset({"hue third", "hue two thirds", "swapped"})
