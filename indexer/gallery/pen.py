"""Drawing in a subject's own coordinates: x to the right, y up, the foot at the origin, about one unit tall."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, radians, sin

import numpy as np
from numpy.typing import NDArray
from PIL import ImageDraw

from indexer.gallery.palettes import Colour

__all__ = ["Pen", "Point"]

Point = tuple[float, float]
_CURVE_STEPS = 8


class Pen:
    """Draws filled shapes at one place and size on a canvas.

    Args:
        draw: The canvas.
        x: Canvas column of the origin.
        y: Canvas row of the origin.
        scale: Canvas pixels in one unit.
        mirrored: Whether left and right are exchanged.
    """

    def __init__(self, draw: ImageDraw.ImageDraw, x: float, y: float, scale: float, *, mirrored: bool = False) -> None:
        self._draw = draw
        self._origin = np.array([x, y], dtype=np.float32)
        self._unit = np.array([-scale if mirrored else scale, -scale], dtype=np.float32)
        self._scale = scale

    def polygon(self, points: Sequence[Point], colour: Colour) -> None:
        """Fill a polygon."""
        self._fill(np.asarray(points, dtype=np.float32), colour)

    def blob(self, points: Sequence[Point], colour: Colour) -> None:
        """Fill the smooth closed curve through some points (a Catmull-Rom spline)."""
        knots = np.asarray(points, dtype=np.float32)
        self._fill(_spline(np.concatenate([knots[-1:], knots, knots[:2]])), colour)

    def oval(
        self,
        x: float,
        y: float,
        rx: float,
        ry: float,
        colour: Colour,
        *,
        turn: float = 0,
        start: float = 0,
        stop: float = 360,
    ) -> None:
        """Fill an ellipse, turned by ``turn`` degrees, or the part of it from angle ``start`` to ``stop``."""
        angles = np.radians(np.linspace(start, stop, 28, dtype=np.float32))
        flat = np.stack([np.cos(angles) * rx, np.sin(angles) * ry], axis=1)
        turned = flat @ np.array([[cos(radians(turn)), sin(radians(turn))], [-sin(radians(turn)), cos(radians(turn))]])
        self._fill(turned.astype(np.float32) + np.array([x, y], dtype=np.float32), colour)

    def line(self, points: Sequence[Point], width: float, colour: Colour) -> None:
        """Draw a line with round joints and ends."""
        self._line(np.asarray(points, dtype=np.float32), width, colour)

    def curve(self, points: Sequence[Point], width: float, colour: Colour) -> None:
        """Draw a smooth line through some points."""
        knots = np.asarray(points, dtype=np.float32)
        self._line(_spline(np.concatenate([knots[:1], knots, knots[-1:]])), width, colour)

    def ring(self, x: float, y: float, radius: float, width: float, colour: Colour) -> None:
        """Draw a circle's line."""
        centre = self._to_canvas(np.array([[x, y]], dtype=np.float32))[0]
        reach = (radius + width / 2) * self._scale
        box = [float(centre[0] - reach), float(centre[1] - reach), float(centre[0] + reach), float(centre[1] + reach)]
        self._draw.ellipse(box, outline=colour, width=max(1, round(width * self._scale)))

    def _fill(self, points: NDArray[np.float32], colour: Colour) -> None:
        self._draw.polygon(self._to_canvas(points).ravel().tolist(), fill=colour)

    def _line(self, points: NDArray[np.float32], width: float, colour: Colour) -> None:
        thickness = max(1, round(width * self._scale))
        placed = self._to_canvas(points)
        self._draw.line(placed.ravel().tolist(), fill=colour, width=thickness, joint="curve")
        reach = thickness / 2 - 0.5
        if reach > 1.5:
            for x, y in (placed[0].tolist(), placed[-1].tolist()):
                self._draw.ellipse([x - reach, y - reach, x + reach, y + reach], fill=colour)

    def _to_canvas(self, points: NDArray[np.float32]) -> NDArray[np.float32]:
        return points * self._unit + self._origin


def _spline(knots: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the Catmull-Rom curve through ``knots[1:-1]``; the first and last knot give the directions."""
    t = np.linspace(0, 1, _CURVE_STEPS, endpoint=False, dtype=np.float32)[:, None]
    before, start, stop, after = knots[:-3, None], knots[1:-2, None], knots[2:-1, None], knots[3:, None]
    bend = 2 * before - 5 * start + 4 * stop - after
    curve = 0.5 * (2 * start + (stop - before) * t + bend * t**2 + (3 * start - before - 3 * stop + after) * t**3)
    return np.concatenate([curve.reshape(-1, 2), knots[-2:-1]])
