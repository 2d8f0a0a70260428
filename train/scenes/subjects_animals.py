"""Animals and people built of simple parts, with variation within each kind."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from train.scenes.shapes import Outline, circle, ellipse, ribbon

__all__ = ["ANIMALS", "Part", "Subject"]

# An outline and its tone: "main", "dark", "light", "accent", "ink" or "paper".
Part = tuple[Outline, str]
Subject = Callable[[np.random.Generator], list[Part]]


def _polygon(*corners: tuple[float, float]) -> Outline:
    return np.array(corners, np.float64)


def _legs(xs: tuple[float, ...], top: float, bottom: float, width: float, tone: str = "dark") -> list[Part]:
    return [(ribbon([(x, top), (x, bottom)], width), tone) for x in xs]


def _eye(x: float, y: float, size: float) -> list[Part]:
    return [(circle(x, y, size), "paper"), (circle(x, y, size * 0.55), "ink")]


def cat(rng: np.random.Generator) -> list[Part]:
    ear, cheek = rng.uniform(0.35, 0.55), rng.uniform(0.42, 0.5)
    head_y = -0.42
    parts: list[Part] = [(ribbon([(0.4, 0.75), (0.8, 0.6), (0.85, 0.1), (0.65, -0.1)], 0.16, 0.1), "main")]
    parts += [(ellipse(0, 0.45, rng.uniform(0.42, 0.55), 0.55), "main"), (ellipse(0, 0.55, 0.24, 0.36), "light")]
    for side in (-1, 1):
        tip = (side * 0.42, head_y - cheek - ear * 0.4)
        parts.append((_polygon((side * 0.08, head_y - 0.3), tip, (side * 0.46, head_y - 0.05)), "main"))
        parts.append(
            (_polygon((side * 0.18, head_y - 0.3), (side * 0.38, head_y - 0.6), (side * 0.38, head_y - 0.2)), "accent")
        )
    parts.append((ellipse(0, head_y, cheek, 0.4), "main"))
    for side in (-1, 1):
        parts += _eye(side * 0.18, head_y - 0.05, 0.1)
        parts.append((ribbon([(side * 0.1, head_y + 0.15), (side * 0.55, head_y + 0.1)], 0.025), "ink"))
    return [*parts, (_polygon((-0.07, head_y + 0.1), (0.07, head_y + 0.1), (0, head_y + 0.18)), "ink")]


def dog(rng: np.random.Generator) -> list[Part]:
    length, leg = rng.uniform(0.55, 0.7), rng.uniform(0.3, 0.42)
    parts = _legs((-length * 0.8, -length * 0.5, length * 0.45, length * 0.75), 0.3, 0.3 + leg + 0.15, 0.13)
    parts += [
        (ellipse(0, 0.15, length, 0.3), "main"),
        (ribbon([(-length * 0.9, 0.05), (-0.9, -0.45)], 0.14, 0.05), "main"),
    ]
    parts += [(ribbon([(length * 0.7, 0.1), (0.62, -0.4)], 0.34), "main"), (ellipse(0.62, -0.45, 0.28, 0.25), "main")]
    parts += [(ellipse(0.88, -0.36, 0.2, 0.13), "light"), (circle(1.05, -0.4, 0.06), "ink")]
    return [*parts, (ellipse(0.45, -0.35, 0.11, rng.uniform(0.22, 0.34), 0.25), "dark"), *_eye(0.68, -0.52, 0.06)]


def bird(rng: np.random.Generator) -> list[Part]:
    parts = _legs((-0.1, 0.12), 0.4, 0.9, 0.05, "accent")
    parts += [(_polygon((-0.5, 0.0), (-1.05, rng.uniform(-0.25, 0.3)), (-0.95, 0.35), (-0.4, 0.3)), "dark")]
    parts += [
        (ellipse(0, 0.1, 0.6, rng.uniform(0.36, 0.46), -0.25), "main"),
        (ellipse(0.15, 0.22, 0.34, 0.25, -0.3), "light"),
    ]
    parts += [
        (circle(0.48, -0.38, rng.uniform(0.26, 0.32)), "main"),
        (_polygon((0.7, -0.46), (1.1, -0.34), (0.7, -0.26)), "accent"),
    ]
    return [*parts, (ellipse(-0.15, 0.08, 0.42, 0.2, 0.35), "dark"), *_eye(0.55, -0.44, 0.08)]


def fish(rng: np.random.Generator) -> list[Part]:
    depth = rng.uniform(0.32, 0.5)
    parts: list[Part] = [(_polygon((-0.5, 0), (-1.05, -0.42), (-0.9, 0), (-1.05, 0.42)), "dark")]
    parts += [(_polygon((-0.25, -depth * 0.8), (0.1, -depth - 0.28), (0.35, -depth * 0.8)), "dark")]
    parts += [(_polygon((-0.1, depth * 0.8), (-0.05, depth + 0.22), (0.2, depth * 0.8)), "dark")]
    parts += [(ellipse(0.12, 0, 0.78, depth), "main"), (ellipse(0.2, depth * 0.35, 0.55, depth * 0.5), "light")]
    return [*parts, (_polygon((0.05, 0), (-0.25, 0.18), (-0.25, -0.12)), "accent"), *_eye(0.58, -0.1, 0.1)]


def butterfly(rng: np.random.Generator) -> list[Part]:
    parts: list[Part] = []
    span, tilt = rng.uniform(0.48, 0.58), rng.uniform(0.4, 0.7)
    for side in (-1, 1):
        parts += [
            (ellipse(side * 0.48, -0.35, span, 0.38, -side * tilt), "main"),
            (ellipse(side * 0.38, 0.45, 0.42, 0.3, side * 0.7), "dark"),
        ]
        parts += [(circle(side * 0.58, -0.42, 0.16), "accent"), (circle(side * 0.42, 0.48, 0.12), "light")]
        parts += [(ribbon([(0, -0.6), (side * 0.25, -1.0)], 0.04), "ink")]
    return [*parts, (ellipse(0, 0, 0.09, 0.65), "ink")]


def rabbit(rng: np.random.Generator) -> list[Part]:
    ear = rng.uniform(0.34, 0.46)
    parts: list[Part] = [(circle(-0.5, 0.72, 0.16), "light")]
    parts += [(ellipse(0, 0.5, 0.48, 0.48), "main"), (ellipse(0, 0.58, 0.25, 0.32), "light")]
    for side in (-1, 1):
        parts += [
            (ellipse(side * 0.2, -0.75, 0.13, ear, side * 0.2), "main"),
            (ellipse(side * 0.2, -0.72, 0.06, ear * 0.75, side * 0.2), "accent"),
        ]
        parts += [(ellipse(side * 0.3, 0.93, 0.22, 0.1), "dark")]
    parts.append((ellipse(0, -0.2, 0.36, 0.33), "main"))
    return [*parts, *_eye(-0.15, -0.25, 0.08), *_eye(0.15, -0.25, 0.08), (circle(0, -0.08, 0.05), "ink")]


def elephant(rng: np.random.Generator) -> list[Part]:
    parts = _legs((-0.6, -0.25, 0.15, 0.42), 0.2, 0.85, 0.22)
    parts += [(ellipse(-0.15, 0.0, 0.66, 0.46), "main"), (circle(0.52, -0.28, rng.uniform(0.32, 0.38)), "main")]
    trunk = [(0.75, -0.2), (0.95, 0.1), (0.95, 0.45), (rng.uniform(0.78, 1.05), 0.65)]
    return [
        *parts,
        (ribbon(trunk, 0.24, 0.1), "main"),
        (ellipse(0.3, -0.25, 0.26, 0.34), "dark"),
        *_eye(0.66, -0.38, 0.06),
    ]


def turtle(rng: np.random.Generator) -> list[Part]:
    parts: list[Part] = [(ellipse(x, 0.42, 0.16, 0.24, x * 0.6), "accent") for x in (-0.55, 0.4)]
    parts += [
        (ellipse(0.85, -0.02, 0.22, 0.18), "accent"),
        (_polygon((-0.75, 0.3), (-1.05, 0.4), (-0.7, 0.42)), "accent"),
    ]
    top = rng.uniform(0.5, 0.7)
    angle = np.linspace(np.pi, 2 * np.pi, 24)
    parts.append((np.stack([0.8 * np.cos(angle) - 0.05, 0.36 + (top + 0.3) * np.sin(angle)], 1), "main"))
    parts += [(circle(x, y, 0.15), "dark") for x, y in ((-0.4, 0.08), (0, -0.12), (0.35, 0.1))]
    return [*parts, *_eye(0.92, -0.06, 0.05)]


def face(rng: np.random.Generator) -> list[Part]:
    width, mouth = rng.uniform(0.55, 0.7), rng.uniform(-0.12, 0.16)
    parts: list[Part] = [(ellipse(0, -0.15, width + 0.14, 0.85), "dark"), (ellipse(0, 0.05, width, 0.8), "main")]
    for side in (-1, 1):
        parts += [*_eye(side * 0.25, -0.08, 0.11), (ribbon([(side * 0.12, -0.28), (side * 0.4, -0.3)], 0.06), "ink")]
    parts.append((_polygon((0, -0.02), (0.1, 0.26), (-0.06, 0.26)), "light"))
    return [*parts, (ribbon([(-0.25, 0.48 - mouth), (0, 0.48 + mouth), (0.25, 0.48 - mouth)], 0.09), "accent")]


def person(rng: np.random.Generator) -> list[Part]:
    swing, wide = rng.uniform(0.1, 0.5), rng.uniform(0.2, 0.28)
    parts: list[Part] = [
        (ribbon([(side * 0.12, 0.3), (side * (0.15 + 0.3 * swing), 1.0)], 0.17), "dark") for side in (-1, 1)
    ]
    parts += [
        (ribbon([(side * wide, -0.4), (side * (0.35 + swing * 0.5), 0.15 - swing)], 0.13), "light") for side in (-1, 1)
    ]
    parts += [(_polygon((-wide - 0.06, -0.5), (wide + 0.06, -0.5), (0.22, 0.35), (-0.22, 0.35)), "main")]
    return [*parts, (circle(0, -0.75, 0.22), "light"), (ellipse(0, -0.88, 0.23, 0.12), "ink")]


def duck(rng: np.random.Generator) -> list[Part]:
    parts: list[Part] = [
        (_polygon((-0.6, 0.2), (-1.05, -0.15), (-0.5, 0.55)), "main"),
        (ellipse(-0.05, 0.35, 0.75, 0.42), "main"),
    ]
    parts += [(ribbon([(0.42, 0.25), (0.5, -0.3)], 0.3), "main"), (circle(0.5, -0.45, rng.uniform(0.27, 0.33)), "main")]
    parts += [(ellipse(0.9, -0.38, 0.24, 0.1), "accent"), (ellipse(-0.15, 0.3, 0.45, 0.22, -0.2), "dark")]
    return [*parts, *_eye(0.56, -0.53, 0.07)]


def snail(rng: np.random.Generator) -> list[Part]:
    parts: list[Part] = [(ribbon([(-0.95, 0.7), (0.3, 0.68), (0.75, 0.4), (0.8, -0.05)], 0.3, 0.22), "light")]
    parts += [(ribbon([(0.78, -0.1), (x, -0.55)], 0.05), "light") for x in (0.65, 0.95)]
    size = rng.uniform(0.5, 0.6)
    return [
        *parts,
        (circle(-0.2, 0.1, size), "main"),
        (circle(-0.15, 0.13, size * 0.66), "dark"),
        (circle(-0.18, 0.16, size * 0.36), "main"),
    ]


ANIMALS: dict[str, Subject] = {
    "cat": cat,
    "dog": dog,
    "bird": bird,
    "fish": fish,
    "butterfly": butterfly,
    "rabbit": rabbit,
    "elephant": elephant,
    "turtle": turtle,
    "face": face,
    "person": person,
    "duck": duck,
    "snail": snail,
}
