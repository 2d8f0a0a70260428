"""Subjects that carry people: a sailing boat, a bicycle, a hot-air balloon."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from indexer.gallery.palettes import Palette, mix
from indexer.gallery.pen import Pen

__all__ = ["bicycle", "hot_air_balloon", "sailing_boat"]


def bicycle(pen: Pen, p: Palette, rng: np.random.Generator) -> None:
    """A bicycle with a basket of flowers."""
    back, front, crank, seat, head = (-0.36, 0.25), (0.36, 0.25), (-0.06, 0.24), (-0.16, 0.62), (0.26, 0.62)
    for x, y in (back, front):
        for angle in np.radians(np.arange(0, 180, 22.5) + rng.uniform(0, 20)):
            reach = (0.22 * np.cos(angle), 0.22 * np.sin(angle))
            pen.line([(x - reach[0], y - reach[1]), (x + reach[0], y + reach[1])], 0.008, p.paper)
        pen.ring(x, y, 0.235, 0.045, p.ink)
        pen.ring(x, y, 0.205, 0.018, p.second)
        pen.oval(x, y, 0.03, 0.03, p.ink)
    for points in ([back, seat, head, crank, back], [seat, crank], [head, front]):
        pen.line(points, 0.048, p.main)
    pen.line([seat, (-0.18, 0.72)], 0.035, p.ink)
    pen.blob([(-0.32, 0.735), (-0.2, 0.76), (-0.06, 0.73), (-0.18, 0.7)], p.ink)
    pen.line([head, (0.23, 0.78)], 0.04, p.ink)
    pen.curve([(0.1, 0.84), (0.2, 0.8), (0.34, 0.82), (0.4, 0.74)], 0.036, p.ink)
    pen.ring(*crank, 0.065, 0.028, p.second)
    pen.line([(-0.06, 0.24), (0.0, 0.12)], 0.025, p.ink)
    pen.line([(-0.04, 0.11), (0.05, 0.11)], 0.03, p.ink)
    pen.polygon([(0.3, 0.5), (0.58, 0.5), (0.55, 0.7), (0.33, 0.7)], p.accent)
    for y in (0.55, 0.6, 0.65):
        pen.line([(0.31, y), (0.57, y)], 0.012, mix(p.accent, p.ink, 0.5))
    for x in (0.36, 0.44, 0.51):
        pen.oval(x, 0.74, 0.05, 0.05, p.main if x != 0.44 else p.paper)


def hot_air_balloon(pen: Pen, p: Palette, rng: np.random.Generator) -> None:
    """A striped balloon with its basket."""
    colours = [p.main, p.paper, p.second, p.accent] if rng.random() < 0.5 else [p.main, p.accent, p.paper, p.second]
    angles = np.linspace(np.pi, 0, 9)
    height = np.linspace(0, 1, 12)
    # The envelope's half width from the mouth (0) to the crown (1).
    half = 0.4 * np.sqrt(np.clip(1 - ((height - 0.6) / np.where(height < 0.6, 0.66, 0.405)) ** 2, 0, 1))
    y = 0.3 + 0.76 * height
    for gore, (left, right) in enumerate(pairwise(angles)):
        edges = [*zip(half * np.cos(left), y, strict=True), *zip((half * np.cos(right))[::-1], y[::-1], strict=True)]
        colour = colours[gore % 4]
        pen.polygon([(float(a), float(b)) for a, b in edges], mix(colour, p.ink, 0.22 * gore / 7))
    pen.curve([(-0.385, 0.66), (0, 0.6), (0.385, 0.66)], 0.035, mix(p.shadow, p.main, 0.2))
    for x in (-0.1, -0.04, 0.04, 0.1):
        pen.line([(x * 1.35, 0.31), (x * 0.8, 0.15)], 0.01, p.ink)
    pen.polygon([(-0.09, 0.15), (0.09, 0.15), (0.075, 0.0), (-0.075, 0.0)], p.shadow)
    pen.line([(-0.095, 0.15), (0.095, 0.15)], 0.03, p.second)
    for level in (0.05, 0.09):
        pen.line([(-0.08, level), (0.08, level)], 0.01, mix(p.shadow, p.paper, 0.4))


def sailing_boat(pen: Pen, p: Palette, rng: np.random.Generator) -> None:
    """A boat under two sails."""
    pen.line([(0.02, 0.16), (0.02, 1.02)], 0.025, p.ink)
    belly = 0.04 + 0.05 * rng.random()
    pen.blob([(0.05, 0.24), (0.07, 0.98), (0.24 + belly, 0.66), (0.47, 0.26), (0.3, 0.23)], p.paper)
    pen.blob([(0.06, 0.26), (0.065, 0.5), (0.24, 0.47), (0.46, 0.27), (0.3, 0.235)], mix(p.paper, p.accent, 0.75))
    pen.blob([(-0.01, 0.24), (-0.005, 0.9), (-0.2 - belly, 0.55), (-0.4, 0.27), (-0.2, 0.23)], p.second)
    pen.polygon([(0.02, 1.0), (0.02, 1.08), (-0.13, 1.04)], p.main)
    pen.blob([(-0.5, 0.2), (0, 0.17), (0.54, 0.22), (0.38, 0.02), (0, -0.02), (-0.36, 0.02)], p.main)
    pen.curve([(-0.47, 0.16), (0, 0.13), (0.5, 0.18)], 0.03, p.paper)
    pen.curve([(-0.36, 0.03), (0, -0.01), (0.38, 0.03)], 0.03, mix(p.main, p.ink, 0.6))
    for x in (-0.2, 0.0, 0.2):
        pen.oval(x, 0.085, 0.022, 0.022, p.paper)
