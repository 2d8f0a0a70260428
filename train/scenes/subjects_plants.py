"""Plants built of simple parts, with variation within each kind."""

from __future__ import annotations

import numpy as np

from train.scenes.shapes import Outline, circle, ellipse, ribbon
from train.scenes.subjects_animals import Part, Subject

__all__ = ["PLANTS"]


def _polygon(*corners: tuple[float, float]) -> Outline:
    return np.array(corners, np.float64)


def _box(left: float, top: float, right: float, bottom: float) -> Outline:
    return _polygon((left, top), (right, top), (right, bottom), (left, bottom))


def tree(rng: np.random.Generator) -> list[Part]:
    parts: list[Part] = [(ribbon([(0, 1.0), (rng.uniform(-0.08, 0.08), 0.1)], 0.26, 0.16), "dark")]
    parts += [
        (circle(x, y, rng.uniform(0.34, 0.46)), "main")
        for x, y in ((-0.4, -0.1), (0.4, -0.15), (0, -0.5), (-0.1, -0.05))
    ]
    return [*parts, *((circle(x, y, 0.08), "accent") for x, y in rng.uniform((-0.5, -0.6), (0.5, 0.1), (4, 2)))]


def fir(rng: np.random.Generator) -> list[Part]:
    wide = rng.uniform(0.55, 0.75)
    parts: list[Part] = [(_box(-0.1, 0.6, 0.1, 1.0), "dark")]
    tiers = ((0.7, 1.0, -0.1), (0.25, 0.78, -0.5), (-0.2, 0.55, -1.0))
    return parts + [(_polygon((-wide * w, y), (wide * w, y), (0, top)), "main") for y, w, top in tiers]


def palm(rng: np.random.Generator) -> list[Part]:
    lean = rng.uniform(-0.25, 0.25)
    parts: list[Part] = [(ribbon([(lean, 1.0), (lean * 0.4, 0.2), (0, -0.4)], 0.2, 0.11), "dark")]
    for angle in np.linspace(np.pi * 0.95, np.pi * 2.05, 6):
        end = (0.85 * np.cos(angle), -0.35 + 0.5 * np.sin(angle) + 0.25)
        parts.append((ribbon([(0, -0.42), (end[0] * 0.55, end[1] - 0.28), end], 0.22, 0.03), "main"))
    return parts


def blossom(rng: np.random.Generator) -> list[Part]:
    petals = int(rng.integers(5, 9))
    parts: list[Part] = [
        (ribbon([(0, 1.0), (0.05, -0.2)], 0.09), "dark"),
        (ellipse(0.25, 0.6, 0.28, 0.1, -0.6), "dark"),
    ]
    for angle in np.arange(petals) * 2 * np.pi / petals:
        parts.append((ellipse(0.38 * np.cos(angle), -0.4 + 0.38 * np.sin(angle), 0.3, 0.16, angle), "main"))
    return [*parts, (circle(0, -0.4, rng.uniform(0.17, 0.25)), "accent")]


def mushroom(rng: np.random.Generator) -> list[Part]:
    angle = np.linspace(np.pi, 2 * np.pi, 24)
    wide, high = rng.uniform(0.75, 0.95), rng.uniform(0.7, 1.0)
    cap = np.stack([wide * np.cos(angle), high * np.sin(angle)], 1)
    parts: list[Part] = [(_polygon((-0.2, 0), (0.2, 0), (0.28, 0.95), (-0.28, 0.95)), "light"), (cap, "main")]
    return [
        *parts,
        *((circle(x * wide, y * high, 0.11), "paper") for x, y in ((-0.5, -0.35), (0, -0.65), (0.45, -0.3), (0, -0.2))),
    ]


def apple(rng: np.random.Generator) -> list[Part]:
    wide = rng.uniform(0.42, 0.5)
    parts: list[Part] = [(ellipse(side * 0.28, 0.12, wide, 0.72), "main") for side in (-1, 1)]
    return [
        *parts,
        (ribbon([(0, -0.45), (0.08, -0.9)], 0.08), "ink"),
        (ellipse(0.34, -0.75, 0.28, 0.12, -0.4), "accent"),
        (ellipse(-0.35, -0.1, 0.1, 0.2), "light"),
    ]


def cactus(rng: np.random.Generator) -> list[Part]:
    arm = rng.uniform(-0.35, 0.0)
    parts: list[Part] = [
        (ribbon([(-0.1, 0.3), (-0.55, 0.25), (-0.58, arm)], 0.22), "main"),
        (ribbon([(0.1, 0.1), (0.55, 0.05), (0.58, arm - 0.25)], 0.2), "main"),
    ]
    return [
        (_polygon((-0.4, 0.7), (0.4, 0.7), (0.3, 1.0), (-0.3, 1.0)), "accent"),
        *parts,
        (ellipse(0, 0.0, 0.27, 0.85), "main"),
    ]


PLANTS: dict[str, Subject] = {
    "tree": tree,
    "fir": fir,
    "palm": palm,
    "blossom": blossom,
    "mushroom": mushroom,
    "apple": apple,
    "cactus": cactus,
}
