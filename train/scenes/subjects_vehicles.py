"""Vehicles built of simple parts, with variation within each kind."""

from __future__ import annotations

import itertools

import numpy as np

from train.scenes.shapes import Outline, circle, ellipse, ribbon
from train.scenes.subjects_animals import Part, Subject

__all__ = ["VEHICLES"]


def _polygon(*corners: tuple[float, float]) -> Outline:
    return np.array(corners, np.float64)


def _box(left: float, top: float, right: float, bottom: float) -> Outline:
    return _polygon((left, top), (right, top), (right, bottom), (left, bottom))


def sailing_boat(rng: np.random.Generator) -> list[Part]:
    mast = rng.uniform(-0.15, 0.05)
    parts: list[Part] = [(_polygon((-0.9, 0.45), (0.9, 0.45), (0.55, 0.9), (-0.6, 0.9)), "dark")]
    parts += [
        (_box(mast - 0.03, -1.0, mast + 0.03, 0.45), "ink"),
        (_polygon((mast + 0.08, -0.9), (0.75, 0.32), (mast + 0.08, 0.32)), "main"),
    ]
    return [*parts, (_polygon((mast - 0.08, -0.7), (-0.65, 0.32), (mast - 0.08, 0.32)), "light")]


def steamer(rng: np.random.Generator) -> list[Part]:
    parts: list[Part] = [
        (_polygon((-1.0, 0.25), (1.0, 0.15), (0.75, 0.75), (-0.8, 0.75)), "main"),
        (_box(-0.55, -0.15, 0.45, 0.22), "paper"),
    ]
    chimneys = (-0.3, 0.15) if rng.random() < 0.5 else (-0.05,)
    parts += [(_box(x, -0.75, x + 0.22, -0.15), "accent") for x in chimneys]
    return [*parts, *((circle(x, 0.45, 0.07), "paper") for x in (-0.5, -0.1, 0.3))]


def car(rng: np.random.Generator) -> list[Part]:
    roof = rng.uniform(0.3, 0.45)
    cabin = _polygon((-0.55, -0.05), (-0.35, -0.05 - roof), (0.25, -0.05 - roof), (0.55, -0.05))
    glass = _polygon((-0.42, -0.06), (-0.28, -roof + 0.04), (0.2, -roof + 0.04), (0.42, -0.06))
    parts: list[Part] = [
        (cabin, "main"),
        (glass, "paper"),
        (_box(-1.0, -0.08, 1.0, 0.35), "main"),
        (_box(-0.06, -0.5, 0.0, 0.2), "dark"),
    ]
    for x in (-0.55, 0.55):
        parts += [(circle(x, 0.38, 0.25), "ink"), (circle(x, 0.38, 0.11), "light")]
    return [*parts, (circle(0.92, 0.08, 0.08), "accent")]


def bus(rng: np.random.Generator) -> list[Part]:
    parts: list[Part] = [(_box(-1.0, -0.5, 1.0, 0.4), "main"), (_box(-1.0, 0.08, 1.0, 0.18), "accent")]
    windows = int(rng.integers(4, 6))
    edges = np.linspace(-0.92, 0.95, windows + 1)
    parts += [(_box(left, -0.38, right - 0.07, 0.0), "paper") for left, right in itertools.pairwise(edges)]
    for x in (-0.6, 0.6):
        parts += [(circle(x, 0.42, 0.2), "ink"), (circle(x, 0.42, 0.09), "light")]
    return parts


def bicycle(rng: np.random.Generator) -> list[Part]:
    parts: list[Part] = []
    for x in (-0.58, 0.58):
        outer, inner = circle(x, 0.35, 0.42), circle(x, 0.35, 0.34)[::-1]
        parts.append((np.concatenate([outer, outer[:1], inner[-1:], inner]), "ink"))
    frame = [(-0.58, 0.35), (-0.2, -0.3), (0.4, -0.3), (0.0, 0.35), (-0.58, 0.35)]
    parts += [(ribbon(list(pair), 0.1), "main") for pair in itertools.pairwise(frame)]
    parts += [(ribbon([(0.4, -0.3), (0.58, 0.35)], 0.09), "main"), (ribbon([(0.3, -0.55), (0.6, -0.5)], 0.09), "ink")]
    return [*parts, (ribbon([(0.4, -0.3), (0.36, -0.55)], 0.08), "main"), (_box(-0.4, -0.5, -0.05, -0.4), "dark")]


def aeroplane(rng: np.random.Generator) -> list[Part]:
    parts: list[Part] = [
        (_polygon((-0.95, -0.05), (-1.0, -0.6), (-0.65, -0.1)), "dark"),
        (ellipse(0, 0, 1.0, rng.uniform(0.17, 0.24)), "main"),
    ]
    parts += [
        (_polygon((-0.1, 0.0), (0.3, 0.0), (-0.3, 0.7), (-0.5, 0.7)), "dark"),
        (_polygon((0.0, -0.12), (0.2, -0.12), (-0.1, -0.5), (-0.25, -0.5)), "dark"),
    ]
    return [*parts, *((circle(x, -0.05, 0.05), "paper") for x in (0.1, 0.3, 0.5, 0.7))]


def rocket(rng: np.random.Generator) -> list[Part]:
    parts: list[Part] = [
        (_polygon((-0.25, 0.3), (-0.6, 0.85), (-0.2, 0.65)), "dark"),
        (_polygon((0.25, 0.3), (0.6, 0.85), (0.2, 0.65)), "dark"),
    ]
    parts += [
        (_polygon((-0.15, 0.65), (0, 1.1), (0.15, 0.65)), "accent"),
        (ellipse(0, -0.1, rng.uniform(0.28, 0.36), 0.85), "main"),
    ]
    return [*parts, (circle(0, -0.3, 0.17), "paper"), (circle(0, -0.3, 0.11), "ink")]


def balloon(rng: np.random.Generator) -> list[Part]:
    parts: list[Part] = [(ribbon([(side * 0.35, 0.1), (side * 0.13, 0.7)], 0.03), "ink") for side in (-1, 1)]
    parts += [(ellipse(0, -0.3, 0.62, rng.uniform(0.62, 0.7)), "main"), (ellipse(0, -0.3, 0.24, 0.66), "accent")]
    return [*parts, (_box(-0.17, 0.68, 0.17, 0.95), "dark")]


VEHICLES: dict[str, Subject] = {
    "sailing boat": sailing_boat,
    "steamer": steamer,
    "car": car,
    "bus": bus,
    "bicycle": bicycle,
    "aeroplane": aeroplane,
    "rocket": rocket,
    "balloon": balloon,
}
