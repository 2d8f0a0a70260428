"""Named and numbered colours with the small variation that pictures of one colour have."""

from __future__ import annotations

import colorsys

import numpy as np

from train.scenes.raster import FloatMap

__all__ = ["color", "luminance", "second_tone"]

_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


def color(
    value: float | str,
    rng: np.random.Generator,
    saturation: tuple[float, float] = (0.6, 0.95),
    lightness: tuple[float, float] = (0.6, 0.95),
) -> FloatMap:
    """Draw a colour near a named one or near a hue in [0, 1), float32 (3,) in [0, 1].

    Raises:
        ValueError: A name other than white, black, gray, brown.
    """
    if isinstance(value, str):
        if value == "white":
            rgb = np.array([0.95, 0.94, 0.92]) - rng.uniform(0, 0.06)
        elif value == "black":
            rgb = np.array([0.08, 0.08, 0.09]) + rng.uniform(0, 0.06)
        elif value == "gray":
            rgb = np.full(3, rng.uniform(0.42, 0.56))
        elif value == "brown":
            rgb = np.array(colorsys.hsv_to_rgb(0.07 + rng.uniform(-0.01, 0.01), 0.68, rng.uniform(0.34, 0.46)))
        else:
            raise ValueError(f"unknown colour {value!r}; expected white, black, gray, brown or a hue in [0, 1)")
    else:
        hue = (value + rng.uniform(-0.015, 0.015)) % 1
        rgb = np.array(colorsys.hsv_to_rgb(hue, rng.uniform(*saturation), rng.uniform(*lightness)))
    return rgb.astype(np.float32)


def second_tone(first: FloatMap, rng: np.random.Generator) -> FloatMap:
    """Return a darker tone of a light colour, or a lighter tone of a dark one, for patterns within one colour."""
    if first.mean() > 0.3:
        return first * np.float32(rng.uniform(0.5, 0.72))
    return first + (1 - first) * np.float32(rng.uniform(0.14, 0.26))


def luminance(pixels: FloatMap) -> FloatMap:
    """Return the grey value (..., ) of RGB (..., 3), both in [0, 1]."""
    return pixels @ _LUMA
