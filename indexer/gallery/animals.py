"""Subjects that live: a cat, a fish, an owl."""

from __future__ import annotations

import numpy as np

from indexer.gallery.palettes import Palette, mix
from indexer.gallery.pen import Pen

__all__ = ["cat", "fish", "owl"]


def cat(pen: Pen, p: Palette, rng: np.random.Generator) -> None:
    """A cat that sits and looks at you."""
    fur, stripe = p.main, mix(p.main, p.ink, 0.55)
    pen.curve([(0.2, 0.06), (0.46, 0.06), (0.5, 0.26), (0.4, 0.4), (0.46, 0.52)], 0.085, fur)
    pen.curve([(0.42, 0.38), (0.44, 0.46), (0.46, 0.52)], 0.085, stripe)
    pen.blob([(-0.26, 0.02), (-0.24, 0.3), (-0.13, 0.54), (0.1, 0.54), (0.25, 0.3), (0.29, 0.02), (0, -0.01)], fur)
    for y in (0.22, 0.32, 0.42):
        pen.curve([(0.26 - (y - 0.2) * 0.4, y), (0.17, y - 0.015), (0.1, y + 0.02)], 0.025, stripe)
    pen.blob(
        [(-0.16, 0.1), (-0.13, 0.42), (-0.02, 0.48), (0.09, 0.4), (0.1, 0.1), (-0.03, 0.03)], mix(fur, p.paper, 0.75)
    )
    for x in (-0.12, 0.06):
        pen.blob([(x - 0.06, 0.0), (x - 0.045, 0.3), (x + 0.045, 0.3), (x + 0.07, 0.0), (x, -0.02)], fur)
        pen.line([(x, 0.0), (x, 0.05)], 0.012, stripe)
    for side in (-1, 1):
        pen.polygon([(side * 0.23 - 0.02, 0.72), (side * 0.21 - 0.02, 1.02), (side * 0.03 - 0.02, 0.86)], fur)
        pen.polygon([(side * 0.19 - 0.02, 0.78), (side * 0.185 - 0.02, 0.94), (side * 0.08 - 0.02, 0.86)], p.second)
    pen.blob(
        [
            (-0.28, 0.66),
            (-0.2, 0.84),
            (-0.02, 0.88),
            (0.16, 0.84),
            (0.24, 0.66),
            (0.12, 0.52),
            (-0.02, 0.5),
            (-0.16, 0.52),
        ],
        fur,
    )
    for x in (-0.08, -0.02, 0.04):
        pen.line([(x, 0.87), (x * 0.8, 0.79)], 0.022, stripe)
    for x in (-0.12, 0.08):
        pen.oval(x, 0.7, 0.056, 0.05, mix(p.accent, p.paper, 0.35))
        pen.oval(x + 0.005, 0.7, 0.019, 0.045, p.ink)
        pen.oval(x + 0.012, 0.715, 0.01, 0.012, p.paper)
    pen.oval(-0.02, 0.575, 0.1, 0.055, mix(fur, p.paper, 0.75))
    pen.polygon([(-0.05, 0.625), (0.01, 0.625), (-0.02, 0.59)], p.ink)
    pen.curve([(-0.07, 0.57), (-0.045, 0.55), (-0.02, 0.59), (0.005, 0.55), (0.03, 0.57)], 0.012, p.ink)
    droop = rng.uniform(-0.02, 0.03)
    for side in (-1, 1):
        for y in (0.56, 0.595):
            pen.line([(side * 0.1 - 0.02, y), (side * 0.34 - 0.02, y + (y - 0.575) * 2 - droop)], 0.008, p.paper)


def fish(pen: Pen, p: Palette, rng: np.random.Generator) -> None:
    """A banded fish and its bubbles."""
    pen.blob([(0.3, 0.5), (0.56, 0.78), (0.5, 0.5), (0.58, 0.2)], p.second)
    pen.blob([(-0.1, 0.72), (0.0, 0.95), (0.22, 0.86), (0.2, 0.66)], p.second)
    pen.blob([(-0.05, 0.28), (0.06, 0.08), (0.2, 0.16), (0.16, 0.34)], p.second)
    pen.blob(
        [
            (-0.54, 0.48),
            (-0.36, 0.72),
            (-0.05, 0.8),
            (0.24, 0.64),
            (0.38, 0.5),
            (0.24, 0.36),
            (-0.05, 0.2),
            (-0.36, 0.26),
        ],
        p.main,
    )
    pen.blob(
        [(-0.5, 0.44), (-0.2, 0.36), (0.2, 0.42), (0.1, 0.28), (-0.08, 0.22), (-0.36, 0.28)], mix(p.main, p.paper, 0.6)
    )
    for x in (-0.14, 0.02, 0.16):
        reach = 0.23 - abs(x) * 0.5
        pen.curve([(x, 0.5 + reach), (x + 0.05, 0.5), (x, 0.5 - reach * 0.8)], 0.05, p.accent)
    pen.curve([(-0.26, 0.7), (-0.2, 0.5), (-0.26, 0.3)], 0.02, mix(p.main, p.ink, 0.55))
    pen.blob([(-0.12, 0.46), (0.06, 0.48), (0.1, 0.36), (-0.02, 0.36)], p.second)
    pen.oval(-0.36, 0.57, 0.062, 0.062, p.paper)
    pen.oval(-0.37, 0.57, 0.032, 0.032, p.ink)
    pen.curve([(-0.53, 0.46), (-0.46, 0.43), (-0.42, 0.45)], 0.016, p.ink)
    for number in range(4):
        x, y = -0.6 + 0.05 * (number % 2) + 0.03 * rng.random(), 0.62 + 0.12 * number
        pen.ring(x, y, 0.022 + 0.008 * number, 0.012, p.paper)


def owl(pen: Pen, p: Palette, rng: np.random.Generator) -> None:
    """An owl on a branch."""
    wood = mix(p.shadow, p.ink, 0.35)
    pen.curve([(-0.56, 0.06), (-0.2, 0.1), (0.2, 0.07), (0.58, 0.12)], 0.085, wood)
    for x, turn in [(0.42, 40), (0.52, -25), (-0.46, 140)]:
        pen.oval(x, 0.19, 0.1, 0.04, mix(p.accent, p.shadow, 0.4), turn=turn)
    body = p.main
    pen.blob([(-0.1, 0.02), (-0.07, -0.1), (0.07, -0.1), (0.1, 0.02)], mix(body, p.ink, 0.5))
    pen.blob(
        [(-0.29, 0.86), (-0.31, 0.5), (-0.22, 0.16), (0, 0.07), (0.22, 0.16), (0.31, 0.5), (0.29, 0.86), (0, 0.9)], body
    )
    for side in (-1, 1):
        pen.polygon([(side * 0.32, 1.04), (side * 0.08, 0.86), (side * 0.29, 0.74)], body)
    pen.blob([(-0.17, 0.5), (-0.15, 0.2), (0, 0.12), (0.15, 0.2), (0.17, 0.5), (0, 0.56)], mix(p.second, p.paper, 0.55))
    for row in range(4):
        for number in range(-1, 2):
            x, y = 0.09 * number + 0.045 * (row % 2) - 0.02, 0.24 + 0.075 * row
            pen.curve([(x - 0.03, y + 0.02), (x, y - 0.012), (x + 0.03, y + 0.02)], 0.014, mix(body, p.ink, 0.4))
    for side in (-1, 1):
        wing = [(side * 0.3, 0.6), (side * 0.37, 0.4), (side * 0.27, 0.1), (side * 0.17, 0.3), (side * 0.2, 0.55)]
        pen.blob(wing, mix(body, p.ink, 0.42))
        for y in (0.28, 0.38, 0.48):
            pen.curve([(side * 0.2, y), (side * 0.26, y - 0.04), (side * 0.33, y)], 0.014, mix(body, p.paper, 0.35))
        pen.oval(side * 0.135, 0.74, 0.135, 0.135, mix(body, p.paper, 0.62))
        pen.oval(side * 0.13, 0.74, 0.088, 0.088, p.accent)
        pen.oval(side * 0.125, 0.74, 0.05, 0.05, p.ink)
        pen.oval(side * 0.125 + 0.018, 0.762, 0.016, 0.016, p.paper)
        for toe in (0.04, 0.08, 0.12):
            pen.oval(side * toe + side * 0.02 * rng.random(), 0.085, 0.018, 0.035, p.second)
    pen.polygon([(-0.04, 0.7), (0.04, 0.7), (0, 0.6)], mix(p.second, p.ink, 0.2))
