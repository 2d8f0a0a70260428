"""Buildings and things built of simple parts, with variation within each kind."""

from __future__ import annotations

import numpy as np

from train.scenes.shapes import Outline, circle, ellipse, polygon, ribbon
from train.scenes.subjects_animals import Part, Subject

__all__ = ["THINGS"]


def _polygon(*corners: tuple[float, float]) -> Outline:
    return np.array(corners, np.float64)


def _box(left: float, top: float, right: float, bottom: float) -> Outline:
    return _polygon((left, top), (right, top), (right, bottom), (left, bottom))


def cottage(rng: np.random.Generator) -> list[Part]:
    roof, wide = rng.uniform(0.55, 0.8), rng.uniform(0.65, 0.8)
    parts: list[Part] = [(_box(0.3, -0.95, 0.48, -0.3), "dark"), (_box(-wide, -0.15, wide, 0.9), "main")]
    parts += [(_polygon((-wide - 0.18, -0.15), (0, -0.2 - roof), (wide + 0.18, -0.15)), "dark")]
    parts += [(_box(-0.14, 0.4, 0.14, 0.9), "accent"), (_box(-0.52, 0.1, -0.26, 0.38), "paper")]
    return [*parts, (_box(0.26, 0.1, 0.52, 0.38), "paper")]


def tower(rng: np.random.Generator) -> list[Part]:
    wide = rng.uniform(0.28, 0.4)
    parts: list[Part] = [(_box(-wide, -0.6, wide, 1.0), "main")]
    parts += [(_box(x, -0.8, x + wide * 0.42, -0.58), "main") for x in (-wide, -wide * 0.21, wide * 0.58)]
    parts += [(_box(-0.06, y, 0.08, y + 0.24), "ink") for y in (-0.4, 0.05)]
    return [*parts, (_box(-0.13, 0.6, 0.13, 1.0), "dark")]


def mug(rng: np.random.Generator) -> list[Part]:
    outer, inner = ellipse(0.62, 0.1, 0.34, 0.4), ellipse(0.62, 0.1, 0.2, 0.26)[::-1]
    handle = np.concatenate([outer, outer[:1], inner[-1:], inner])
    taper = rng.uniform(0.0, 0.14)
    body = _polygon((-0.7, -0.65), (0.6, -0.65), (0.6 - taper, 0.8), (-0.7 + taper, 0.8))
    return [
        (handle, "main"),
        (body, "main"),
        (ellipse(-0.05, -0.65, 0.65, 0.16), "dark"),
        (_box(-0.6, 0.05, 0.5, 0.2), "accent"),
    ]


def bottle(rng: np.random.Generator) -> list[Part]:
    wide = rng.uniform(0.28, 0.4)
    body = _polygon(
        (-0.12, -0.95),
        (0.12, -0.95),
        (0.13, -0.5),
        (wide, -0.2),
        (wide, 1.0),
        (-wide, 1.0),
        (-wide, -0.2),
        (-0.13, -0.5),
    )
    return [
        (body, "main"),
        (_box(-0.14, -1.0, 0.14, -0.82), "ink"),
        (_box(-wide, 0.1, wide, 0.6), "paper"),
        (_box(-wide, 0.25, wide, 0.38), "accent"),
    ]


def teapot(rng: np.random.Generator) -> list[Part]:
    outer, inner = ellipse(-0.68, 0.1, 0.34, 0.36), ellipse(-0.68, 0.1, 0.22, 0.24)[::-1]
    parts: list[Part] = [
        (np.concatenate([outer, outer[:1], inner[-1:], inner]), "dark"),
        (ribbon([(0.45, 0.3), (0.8, 0.0), (1.0, -0.4)], 0.26, 0.12), "main"),
    ]
    return [
        *parts,
        (ellipse(0, 0.2, 0.65, rng.uniform(0.46, 0.58)), "main"),
        (ellipse(0, -0.27, 0.34, 0.12), "dark"),
        (circle(0, -0.44, 0.1), "accent"),
    ]


def lamp(rng: np.random.Generator) -> list[Part]:
    top = rng.uniform(0.24, 0.4)
    parts: list[Part] = [(_box(-0.05, -0.1, 0.05, 0.85), "ink"), (ellipse(0, 0.9, 0.38, 0.1), "dark")]
    return [
        *parts,
        (_polygon((-top, -0.95), (top, -0.95), (0.65, -0.05), (-0.65, -0.05)), "main"),
        (_polygon((-0.62, -0.12), (0.62, -0.12), (0.65, -0.05), (-0.65, -0.05)), "accent"),
    ]


def chair(rng: np.random.Generator) -> list[Part]:
    back = rng.uniform(0.85, 1.0)
    parts: list[Part] = [(_box(x, 0.1, x + 0.12, 0.95), "dark") for x in (-0.5, 0.4)]
    parts += [(_box(-0.5, -back, -0.36, 0.15), "main"), (_box(-0.5, 0.02, 0.55, 0.2), "main")]
    return [*parts, *((_box(-0.4, y, 0.1, y + 0.14), "light") for y in (-0.8, -0.45))]


def umbrella(rng: np.random.Generator) -> list[Part]:
    angle = np.linspace(np.pi, 2 * np.pi, 24)
    high = rng.uniform(0.7, 0.9)
    parts: list[Part] = [(ribbon([(0, -0.1), (0, 0.75), (0.1, 0.9), (0.22, 0.8)], 0.07), "ink")]
    for low, shade, wide in ((0.0, "main", 0.95), (0.0, "accent", 0.34)):
        parts.append((np.stack([wide * np.cos(angle), low + high * np.sin(angle)], 1), shade))
    return parts


def clock(rng: np.random.Generator) -> list[Part]:
    hour, minute = rng.uniform(0, 2 * np.pi, 2)
    parts: list[Part] = [(circle(0, 0, 0.95), "main"), (circle(0, 0, 0.74), "paper")]
    parts += [(circle(0.6 * np.cos(a), 0.6 * np.sin(a), 0.055), "ink") for a in np.arange(12) * np.pi / 6]
    return [
        *parts,
        *((ribbon([(0, 0), (r * np.cos(a), r * np.sin(a))], 0.09), "ink") for a, r in ((hour, 0.32), (minute, 0.52))),
    ]


def key(rng: np.random.Generator) -> list[Part]:
    outer, inner = circle(-0.55, 0, 0.42), circle(-0.55, 0, rng.uniform(0.16, 0.24))[::-1]
    parts: list[Part] = [
        (np.concatenate([outer, outer[:1], inner[-1:], inner]), "main"),
        (_box(-0.2, -0.11, 1.0, 0.11), "main"),
    ]
    return [*parts, *((_box(x, 0.05, x + 0.13, 0.36), "main") for x in (0.55, 0.82))]


def snowman(rng: np.random.Generator) -> list[Part]:
    waist = rng.uniform(0.34, 0.42)
    parts: list[Part] = [
        (circle(0, 0.55, 0.48), "main"),
        (circle(0, -0.1, waist), "main"),
        (circle(0, -0.6, 0.28), "main"),
    ]
    parts += [
        (_box(-0.3, -0.9, 0.3, -0.82), "ink"),
        (_box(-0.2, -1.15, 0.2, -0.85), "ink"),
        (_polygon((0, -0.62), (0.32, -0.55), (0, -0.52)), "accent"),
    ]
    return [*parts, *((circle(x, y, 0.05), "ink") for x, y in ((-0.1, -0.68), (0.1, -0.68), (0, -0.2), (0, 0.02)))]


def guitar(rng: np.random.Generator) -> list[Part]:
    wide = rng.uniform(0.4, 0.48)
    parts: list[Part] = [
        (_box(-0.07, -0.95, 0.07, 0.2), "dark"),
        (_box(-0.13, -1.1, 0.13, -0.9), "ink"),
        (ellipse(0, 0.15, wide * 0.75, 0.3), "main"),
    ]
    return [
        *parts,
        (ellipse(0, 0.6, wide, 0.4), "main"),
        (circle(0, 0.35, 0.13), "ink"),
        (_box(-0.16, 0.7, 0.16, 0.78), "accent"),
    ]


def gift(rng: np.random.Generator) -> list[Part]:
    top = rng.uniform(-0.45, -0.3)
    parts: list[Part] = [
        (_box(-0.75, top, 0.75, 0.85), "main"),
        (_box(-0.85, top - 0.1, 0.85, top + 0.15), "dark"),
        (_box(-0.12, top - 0.1, 0.12, 0.85), "accent"),
    ]
    return [*parts, *((ellipse(side * 0.25, top - 0.25, 0.28, 0.14, side * 0.5), "accent") for side in (-1, 1))]


def pyramid(rng: np.random.Generator) -> list[Part]:
    apex = rng.uniform(-0.15, 0.15)
    return [
        (_polygon((-1.0, 0.75), (apex, -0.8), (0.4, 0.85)), "main"),
        (_polygon((0.4, 0.85), (apex, -0.8), (1.0, 0.6)), "dark"),
    ]


def sign(rng: np.random.Generator) -> list[Part]:
    corners = int(rng.choice([4, 8]))
    board = polygon(corners, 0.6, -np.pi / 2 if corners == 4 else np.pi / 8) + np.array([0, -0.4])
    return [
        (_box(-0.07, 0.0, 0.07, 1.0), "ink"),
        (board, "main"),
        (board * [0.78, 0.78] + [0, -0.09], "paper"),
        (_box(-0.25, -0.48, 0.25, -0.32), "accent"),
    ]


THINGS: dict[str, Subject] = {
    "cottage": cottage,
    "tower": tower,
    "mug": mug,
    "bottle": bottle,
    "teapot": teapot,
    "lamp": lamp,
    "chair": chair,
    "umbrella": umbrella,
    "clock": clock,
    "key": key,
    "snowman": snowman,
    "guitar": guitar,
    "gift": gift,
    "pyramid": pyramid,
    "sign": sign,
}
