"""Subjects that lie on a table: flowers in a vase, a bowl of fruit."""

from __future__ import annotations

import numpy as np

from indexer.gallery.palettes import Palette, mix
from indexer.gallery.pen import Pen

__all__ = ["flower_vase", "fruit_bowl"]


def flower_vase(pen: Pen, p: Palette, rng: np.random.Generator) -> None:
    """Seven flowers in a vase."""
    heads = [(-0.28, 0.68), (-0.13, 0.88), (0.06, 0.74), (0.2, 0.92), (0.31, 0.66), (-0.06, 0.6), (0.17, 0.58)]
    green = mix(p.accent, p.shadow, 0.65)
    for x, y in heads:
        pen.curve([(0.0, 0.36), (x * 0.4, 0.5), (x, y)], 0.022, green)
    for side in (-1, 1):
        for y in (0.5, 0.62):
            pen.oval(side * 0.2, y, 0.12, 0.04, green, turn=side * 32)
    for number, (x, y) in enumerate(heads):
        petal = (p.main, p.accent, p.paper, p.second)[number % 4]
        radius, spin = rng.uniform(0.075, 0.1), rng.uniform(0, 60)
        for angle in np.radians(spin + np.arange(0, 360, 60)):
            cx, cy = x + radius * 0.72 * np.cos(angle), y + radius * 0.72 * np.sin(angle)
            pen.oval(cx, cy, radius * 0.62, radius * 0.42, mix(petal, p.paper, 0.12), turn=float(np.degrees(angle)))
        pen.oval(x, y, radius * 0.38, radius * 0.38, mix(p.shadow, petal, 0.15))
    outline = [
        (-0.1, 0.44),
        (-0.07, 0.36),
        (-0.2, 0.2),
        (-0.13, 0.01),
        (0.13, 0.01),
        (0.2, 0.2),
        (0.07, 0.36),
        (0.1, 0.44),
    ]
    pen.blob(outline, p.main)
    pen.curve([(-0.185, 0.22), (0, 0.17), (0.185, 0.22)], 0.05, p.paper)
    pen.curve([(-0.17, 0.14), (0, 0.09), (0.17, 0.14)], 0.018, p.second)
    pen.oval(0, 0.44, 0.11, 0.025, mix(p.main, p.ink, 0.6))
    pen.blob([(-0.13, 0.26), (-0.09, 0.31), (-0.1, 0.2), (-0.13, 0.16)], mix(p.main, p.paper, 0.6))


def fruit_bowl(pen: Pen, p: Palette, rng: np.random.Generator) -> None:
    """A bowl of apples, a pear, a banana and grapes."""

    def fruit(x: float, y: float, radius: float, colour: tuple[int, int, int]) -> None:
        pen.oval(x, y, radius, radius * 0.95, colour)
        pen.oval(x + radius * 0.2, y - radius * 0.25, radius * 0.72, radius * 0.6, mix(colour, p.ink, 0.16))
        pen.oval(x - radius * 0.1, y + radius * 0.05, radius * 0.72, radius * 0.66, colour)
        pen.oval(x - radius * 0.35, y + radius * 0.4, radius * 0.22, radius * 0.16, mix(colour, p.paper, 0.7))
        pen.line([(x, y + radius * 0.8), (x + radius * 0.15, y + radius * 1.25)], 0.018, p.ink)

    yellow = mix(p.accent, p.paper, 0.25)
    pen.blob([(-0.46, 0.52), (-0.32, 0.86), (-0.12, 0.98), (-0.06, 0.93), (-0.22, 0.78), (-0.3, 0.5)], yellow)
    pen.curve([(-0.4, 0.56), (-0.28, 0.82), (-0.1, 0.95)], 0.012, mix(yellow, p.ink, 0.45))
    fruit(0.0, 0.64, 0.18, p.second)
    fruit(-0.25, 0.5, 0.15, p.main)
    fruit(0.06, 0.48, 0.14, mix(p.main, p.accent, 0.45))
    pen.blob(
        [(0.18, 0.42), (0.12, 0.6), (0.22, 0.7), (0.24, 0.86), (0.31, 0.86), (0.33, 0.7), (0.42, 0.58), (0.36, 0.42)],
        p.accent,
    )
    pen.blob([(0.17, 0.56), (0.24, 0.66), (0.24, 0.54), (0.2, 0.48)], mix(p.accent, p.paper, 0.5))
    pen.line([(0.275, 0.86), (0.3, 0.95)], 0.018, p.ink)
    for row, many in enumerate((4, 3, 2)):
        for number in range(many):
            x = -0.05 + 0.075 * (number - (many - 1) / 2) + 0.01 * rng.random()
            pen.oval(x, 0.47 - 0.06 * row, 0.043, 0.043, mix(p.shadow, p.second, 0.25 + 0.1 * number))
    body = mix(p.main, p.ink, 0.25)
    pen.oval(0, 0.4, 0.5, 0.4, body, start=180, stop=360)
    pen.polygon([(-0.2, 0.04), (0.2, 0.04), (0.25, -0.02), (-0.25, -0.02)], mix(body, p.ink, 0.45))
    pen.curve([(-0.43, 0.24), (-0.2, 0.1), (0.2, 0.1), (0.43, 0.24)], 0.04, p.paper)
    pen.curve([(-0.47, 0.32), (-0.2, 0.2), (0.2, 0.2), (0.47, 0.32)], 0.02, p.second)
    pen.line([(-0.51, 0.4), (0.51, 0.4)], 0.045, mix(body, p.paper, 0.45))
