"""Outlines of plain shapes, as closed polygons about the origin that fill the unit circle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["SHAPES", "Outline", "circle", "ellipse", "polygon", "ribbon", "star"]

Outline = NDArray[np.float64]

_TURN = np.linspace(0, 2 * np.pi, 48, endpoint=False)


def _points(x: NDArray[np.float64], y: NDArray[np.float64]) -> Outline:
    return np.stack([x, y], axis=1)


def ellipse(x: float, y: float, rx: float, ry: float, turn: float = 0.0) -> Outline:
    """Return an ellipse's outline about (x, y), its axes turned by ``turn`` radians."""
    px, py = rx * np.cos(_TURN[::2]), ry * np.sin(_TURN[::2])
    return _points(x + px * np.cos(turn) - py * np.sin(turn), y + px * np.sin(turn) + py * np.cos(turn))


def circle(x: float, y: float, radius: float) -> Outline:
    """Return a circle's outline."""
    return ellipse(x, y, radius, radius)


def polygon(corners: int, radius: float = 1.0, turn: float = -np.pi / 2) -> Outline:
    """Return a regular polygon, one corner upwards unless turned."""
    angle = turn + 2 * np.pi * np.arange(corners) / corners
    return _points(radius * np.cos(angle), radius * np.sin(angle))


def star(corners: int, inner: float) -> Outline:
    """Return a star whose inner corners lie at radius ``inner``."""
    angle = -np.pi / 2 + np.pi * np.arange(2 * corners) / corners
    radius = np.where(np.arange(2 * corners) % 2 == 0, 1.0, inner)
    return _points(radius * np.cos(angle), radius * np.sin(angle))


def ribbon(path: list[tuple[float, float]], width: float, end_width: float | None = None) -> Outline:
    """Return a path of two or more points thickened to ``width``, tapering to ``end_width``."""
    points = np.array(path, np.float64)
    step = np.gradient(points, axis=0)
    normal = np.stack([-step[:, 1], step[:, 0]], axis=1) / np.maximum(np.hypot(*step.T), 1e-9)[:, None]
    half = np.linspace(width, width if end_width is None else end_width, len(points))[:, None] / 2
    return np.concatenate([points + normal * half, (points - normal * half)[::-1]])


def _wavy(terms: tuple[tuple[int, float, float], ...], base: float = 0.78) -> Outline:
    radius = base + sum(size * np.cos(order * _TURN + phase) for order, size, phase in terms)
    return _points(radius * np.cos(_TURN), radius * np.sin(_TURN))


def _cross() -> Outline:
    a, b = 0.36, 1.0
    return np.array(
        [(-a, -b), (a, -b), (a, -a), (b, -a), (b, a), (a, a), (a, b), (-a, b), (-a, a), (-b, a), (-b, -a), (-a, -a)]
    )


def _ring() -> Outline:
    outer, inner = circle(0, 0, 1.0), circle(0, 0, 0.52)[::-1]
    return np.concatenate([outer, outer[:1], inner[-1:], inner])


def _heart() -> Outline:
    y = 13 * np.cos(_TURN) - 5 * np.cos(2 * _TURN) - 2 * np.cos(3 * _TURN) - np.cos(4 * _TURN)
    return _points(16 * np.sin(_TURN) ** 3 / 17, -y / 17)


def _crescent() -> Outline:
    outer, inner = np.linspace(0.65, 2 * np.pi - 0.65, 30), np.linspace(2 * np.pi - 0.9, 0.9, 24)
    return np.concatenate(
        [_points(np.cos(outer), np.sin(outer)), _points(0.42 + 0.75 * np.cos(inner), 0.75 * np.sin(inner))]
    )


def _drop() -> Outline:
    angle = np.linspace(-0.35, np.pi + 0.35, 30)
    return np.concatenate([[(0, -1.1)], _points(0.75 * np.cos(angle), 0.3 + 0.7 * np.sin(angle))])


def _gear() -> Outline:
    radius = np.where((np.arange(48) // 3) % 2 == 0, 1.0, 0.74)
    return _points(radius * np.cos(_TURN), radius * np.sin(_TURN))


def _half_disc() -> Outline:
    angle = np.linspace(np.pi, 2 * np.pi, 24)
    return _points(np.cos(angle), 0.45 + np.sin(angle))


def _lens() -> Outline:
    angle = np.linspace(-0.9, 0.9, 16)
    right = _points(np.cos(angle) * 1.25 - 0.75, np.sin(angle) * 1.25)
    return np.concatenate([right, -right])


def _fixed(*corners: tuple[float, float]) -> Callable[[], Outline]:
    return lambda: np.array(corners, np.float64)


SHAPES: dict[str, Callable[[], Outline]] = {
    "circle": lambda: circle(0, 0, 0.95),
    "square": _fixed((-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)),
    "triangle": lambda: polygon(3),
    "pentagon": lambda: polygon(5),
    "hexagon": lambda: polygon(6),
    "five-pointed star": lambda: star(5, 0.42),
    "eight-pointed star": lambda: star(8, 0.6),
    "twelve-pointed star": lambda: star(12, 0.78),
    "cross": _cross,
    "ring": _ring,
    "ellipse": lambda: ellipse(0, 0, 1.0, 0.5),
    "upright ellipse": lambda: ellipse(0, 0, 0.48, 1.0),
    "corner": _fixed((-0.8, -1), (-0.2, -1), (-0.2, 0.4), (0.8, 0.4), (0.8, 1), (-0.8, 1)),
    "tee": _fixed((-1, -0.9), (1, -0.9), (1, -0.3), (0.3, -0.3), (0.3, 0.95), (-0.3, 0.95), (-0.3, -0.3), (-1, -0.3)),
    "diamond": _fixed((0, -1), (0.6, 0), (0, 1), (-0.6, 0)),
    "trapezium": _fixed((-0.5, -0.7), (0.5, -0.7), (1, 0.7), (-1, 0.7)),
    "slanted bar": _fixed((-1, 0.5), (-0.3, -0.5), (1, -0.5), (0.3, 0.5)),
    "house": _fixed((0, -1), (0.9, -0.2), (0.65, -0.2), (0.65, 0.9), (-0.65, 0.9), (-0.65, -0.2), (-0.9, -0.2)),
    "drop": _drop,
    "half disc": _half_disc,
    "lens": _lens,
    "flower": lambda: _wavy(((5, 0.26, 0.0),), 0.73),
    "clover": lambda: _wavy(((3, 0.36, 0.5),), 0.64),
    "blob": lambda: _wavy(((2, 0.15, 1.0), (3, 0.13, 2.0), (5, 0.08, 0.3))),
    "puddle": lambda: _wavy(((2, 0.2, 4.0), (4, 0.12, 1.3), (3, 0.1, 5.0))),
    "heart": _heart,
    "gear": _gear,
    "crescent": _crescent,
    "arrow": _fixed((-1, -0.3), (0.1, -0.3), (0.1, -0.8), (1, 0), (0.1, 0.8), (0.1, 0.3), (-1, 0.3)),
    "bolt": _fixed((0.2, -1), (-0.7, 0.15), (-0.1, 0.15), (-0.3, 1), (0.7, -0.25), (0.1, -0.25), (0.5, -1)),
}
