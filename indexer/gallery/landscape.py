"""Subjects that stand in a landscape: a house, a tree, a mountain, a lighthouse."""

from __future__ import annotations

import numpy as np

from indexer.gallery.palettes import Palette, mix
from indexer.gallery.pen import Pen

__all__ = ["house", "lighthouse", "mountain", "tree"]


def house(pen: Pen, p: Palette, rng: np.random.Generator) -> None:
    """A cottage with a smoking chimney."""
    wall, side, roof = p.second, mix(p.second, p.shadow, 0.45), p.main
    pen.polygon([(0.16, 0.5), (0.16, 0.84), (0.27, 0.84), (0.27, 0.5)], p.shadow)
    pen.polygon([(0.14, 0.84), (0.14, 0.88), (0.29, 0.88), (0.29, 0.84)], p.ink)
    pen.polygon([(-0.44, 0), (0.1, 0), (0.1, 0.5), (-0.17, 0.82), (-0.44, 0.5)], wall)
    pen.polygon([(0.1, 0), (0.5, 0.03), (0.5, 0.5), (0.1, 0.5)], side)
    pen.polygon([(-0.17, 0.86), (0.34, 0.84), (0.56, 0.47), (0.08, 0.45)], roof)
    pen.line([(-0.5, 0.45), (-0.17, 0.85), (0.08, 0.45)], 0.035, mix(roof, p.ink, 0.5))
    pen.polygon([(-0.26, 0), (-0.26, 0.28), (-0.08, 0.28), (-0.08, 0)], mix(p.main, p.ink, 0.45))
    pen.oval(-0.11, 0.14, 0.012, 0.012, p.accent)
    for x, y, width, height in [(-0.26, 0.4, 0.18, 0.16), (0.19, 0.17, 0.11, 0.18), (0.36, 0.18, 0.1, 0.18)]:
        pen.polygon([(x, y), (x + width, y), (x + width, y + height), (x, y + height)], p.paper)
        pen.line([(x + width / 2, y), (x + width / 2, y + height)], 0.014, p.shadow)
        pen.line([(x, y + height / 2), (x + width, y + height / 2)], 0.014, p.shadow)
    for x in (-0.48, 0.3, 0.5):
        pen.oval(x, 0.05, 0.1, 0.08 + 0.03 * rng.random(), mix(p.accent, p.shadow, 0.5))
    for step in range(4):
        pen.oval(
            0.22 + 0.05 * step, 0.95 + 0.07 * step, 0.035 + 0.015 * step, 0.03 + 0.012 * step, mix(p.paper, p.sky, 0.4)
        )


def lighthouse(pen: Pen, p: Palette, rng: np.random.Generator) -> None:
    """A banded lighthouse on its rock."""
    rock = mix(p.shadow, p.ground, 0.25)
    pen.blob([(-0.5, -0.01), (-0.38, 0.13), (-0.16, 0.19), (0.18, 0.18), (0.36, 0.1), (0.5, -0.01), (0, -0.03)], rock)
    pen.blob([(-0.36, 0.1), (-0.2, 0.17), (0.0, 0.15), (-0.14, 0.06)], mix(rock, p.paper, 0.35))
    low, high, foot, top = 0.17, 0.095, 0.13, 0.74
    bands = 5
    for band in range(bands):
        y0, y1 = foot + (top - foot) * band / bands, foot + (top - foot) * (band + 1) / bands
        w0, w1 = low + (high - low) * band / bands, low + (high - low) * (band + 1) / bands
        pen.polygon([(-w0, y0), (w0, y0), (w1, y1), (-w1, y1)], p.main if band % 2 == 0 else p.paper)
        pen.polygon(
            [(w0 * 0.35, y0), (w0, y0), (w1, y1), (w1 * 0.35, y1)],
            mix(p.main if band % 2 == 0 else p.paper, p.ink, 0.28),
        )
    pen.polygon([(-0.15, 0.74), (0.15, 0.74), (0.15, 0.775), (-0.15, 0.775)], p.ink)
    for x in (-0.13, -0.065, 0.0, 0.065, 0.13):
        pen.line([(x, 0.77), (x, 0.83)], 0.01, p.ink)
    pen.line([(-0.14, 0.83), (0.14, 0.83)], 0.012, p.ink)
    pen.polygon([(-0.075, 0.775), (0.075, 0.775), (0.075, 0.92), (-0.075, 0.92)], mix(p.accent, p.paper, 0.45))
    for x in (-0.075, 0.0, 0.075):
        pen.line([(x, 0.775), (x, 0.92)], 0.012, p.ink)
    pen.oval(0, 0.915, 0.1, 0.1, p.second, start=0, stop=180)
    pen.line([(0, 1.0), (0, 1.07)], 0.014, p.ink)
    pen.polygon([(-0.04, 0.15), (0.04, 0.15), (0.04, 0.26), (-0.04, 0.26)], p.ink)
    for y in (0.42, 0.6):
        pen.oval(-0.02, y + 0.02 * rng.random(), 0.022, 0.034, p.ink)


def mountain(pen: Pen, p: Palette, rng: np.random.Generator) -> None:
    """A snow-capped peak above a row of firs."""
    lean = rng.uniform(-0.06, 0.06)
    for x, height, width in [(-0.42, 0.52, 0.36), (0.45, 0.6, 0.34)]:
        pen.polygon([(x - width, 0), (x, height), (x + width, 0)], mix(p.second, p.shadow, 0.35))
        pen.polygon([(x + 0.04, 0), (x, height), (x + width, 0)], mix(p.second, p.shadow, 0.65))
    peak = (lean, 1.0)
    pen.polygon([(-0.62, 0), (-0.3, 0.42), (-0.2, 0.5), peak, (0.2, 0.62), (0.3, 0.44), (0.64, 0)], p.main)
    ridge = [(peak[0], 1.0), (0.02, 0.78), (0.07, 0.6), (0.0, 0.4), (0.08, 0.2), (0.02, 0)]
    pen.polygon([*ridge, (0.64, 0), (0.3, 0.44), (0.2, 0.62)], mix(p.main, p.ink, 0.5))
    snow = [(-0.17, 0.66), (-0.1, 0.7), (-0.06, 0.64), (0.0, 0.72), (0.05, 0.66), (0.09, 0.73), (0.17, 0.68)]
    pen.polygon([peak, *snow], p.paper)
    pen.polygon([peak, (0.02, 0.78), (0.03, 0.69), (0.05, 0.66), (0.09, 0.73), (0.17, 0.68)], mix(p.paper, p.far, 0.65))
    for x in np.linspace(-0.56, 0.56, 11):
        tall = rng.uniform(0.08, 0.16)
        pen.polygon([(x - 0.045, -0.01), (x, tall), (x + 0.045, -0.01)], mix(p.accent, p.ink, 0.62))


def tree(pen: Pen, p: Palette, rng: np.random.Generator) -> None:
    """A round tree with fruit."""
    bark = mix(p.shadow, p.ink, 0.3)
    pen.blob([(-0.14, -0.01), (-0.055, 0.12), (-0.05, 0.5), (0.06, 0.5), (0.065, 0.12), (0.16, -0.01), (0, 0.02)], bark)
    for x, y in [(-0.24, 0.66), (0.22, 0.7), (-0.05, 0.8), (0.12, 0.62)]:
        pen.curve([(0.0, 0.34), (x * 0.5, 0.5), (x, y)], 0.04, bark)
    centres = [
        (0.0, 0.62, 0.3),
        (-0.27, 0.56, 0.2),
        (0.27, 0.58, 0.2),
        (-0.17, 0.78, 0.2),
        (0.18, 0.8, 0.2),
        (0, 0.9, 0.18),
    ]
    for share, shift in [(0.45, (0.02, -0.04)), (0.0, (0.0, 0.0))]:
        for x, y, radius in centres:
            pen.oval(x + shift[0], y + shift[1], radius, radius * 0.92, mix(p.main, p.ink, share))
    for x, y, radius in centres:
        for _ in range(5):
            angle, reach = rng.uniform(0, 2 * np.pi), radius * 0.6 * rng.random()
            at = (x - 0.04 + reach * np.cos(angle), y + 0.05 + reach * np.sin(angle))
            pen.oval(*at, radius * 0.28, radius * 0.24, mix(p.main, p.second, rng.uniform(0.25, 0.8)))
    for _ in range(9):
        pen.oval(rng.uniform(-0.36, 0.36), rng.uniform(0.5, 0.92), 0.032, 0.032, p.accent)
