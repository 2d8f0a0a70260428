"""Drawing one or several like objects: outlines, colours, surface texture, shading and shadow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from train.scenes.colors import color
from train.scenes.raster import SIZE, FloatMap, blurred, gradient, screen
from train.scenes.subjects import Part
from train.scenes.textures import TEXTURES, textured

__all__ = ["Placement", "draw_objects", "group_offsets", "tones"]

_OVERSAMPLING = 2


@dataclass(frozen=True)
class Placement:
    """Where the objects of a picture lie on the screen.

    Attributes:
        centers: float64 (n, 2), x and y in (-0.5, 0.5).
        radius: Half an object's width, as a share of the picture's.
        turn: Clockwise turn in radians.
    """

    centers: NDArray[np.float64]
    radius: float
    turn: float


def group_offsets(count: int) -> NDArray[np.float64]:
    """Return the centres of a compact group of ``count`` objects about the origin, in radii, float64 (count, 2).

    >>> group_offsets(2).tolist()
    [[-1.2, 0.0], [1.2, 0.0]]
    """
    columns = int(np.ceil(np.sqrt(count)))
    rows = int(np.ceil(count / columns))
    places = []
    for row in range(rows):
        in_row = min(columns, count - row * columns)
        places += [(column - (in_row - 1) / 2, row - (rows - 1) / 2) for column in range(in_row)]
    return np.array(places, np.float64) * 2.4


def tones(value: float | str, rng: np.random.Generator) -> dict[str, FloatMap]:
    """Return the colours of a subject's parts when its main colour is ``value``."""
    main = color(value, rng)
    accent = color(float(rng.uniform(0, 1)), rng)
    light = main + (1 - main) * np.float32(0.5)
    return {
        "main": main, "dark": main * np.float32(0.6), "light": light, "accent": accent,
        "ink": np.full(3, 0.07, np.float32), "paper": np.array([0.95, 0.94, 0.9], np.float32),
    }  # fmt: skip


def _to_screen(
    outline: NDArray[np.float64], center: NDArray[np.float64], radius: float, turn: float
) -> list[tuple[float, float]]:
    cos, sin = np.cos(turn), np.sin(turn)
    x = outline[:, 0] * cos - outline[:, 1] * sin
    y = outline[:, 0] * sin + outline[:, 1] * cos
    points = (np.stack([x, y], 1) * radius + center + 0.5) * (SIZE * _OVERSAMPLING)
    return [(px, py) for px, py in points.tolist()]


def draw_objects(
    pixels: FloatMap,
    bodies: Sequence[Sequence[Part]],
    placement: Placement,
    colors: dict[str, FloatMap],
    texture: str,
    light: NDArray[np.float64],
    rng: np.random.Generator,
) -> FloatMap:
    """Draw objects onto a picture.

    Args:
        pixels: float32 (SIZE, SIZE, 3) in [0, 1], what lies behind.
        bodies: One list of parts per object, in the unit circle.
        placement: Where they lie.
        colors: Colour of each tone that the parts name.
        texture: Surface texture's name.
        light: Unit vector on the screen towards the light.
        rng: Draws small deviations.

    Returns:
        float32 (SIZE, SIZE, 3) in [0, 1].
    """
    wide = SIZE * _OVERSAMPLING
    fill = {name: tuple(int(c * 255) for c in np.clip(value, 0, 1)) for name, value in colors.items()}
    canvas, mask = Image.new("RGB", (wide, wide), fill["main"]), Image.new("L", (wide, wide), 0)
    on_canvas, on_mask = ImageDraw.Draw(canvas), ImageDraw.Draw(mask)
    turns = placement.turn + rng.normal(0, 0.06, len(bodies))
    for body, center, turn in zip(bodies, placement.centers, turns, strict=True):
        for outline, tone in body:
            points = _to_screen(outline, center, placement.radius, float(turn))
            on_canvas.polygon(points, fill=fill[tone])
            on_mask.polygon(points, fill=255)
    surface: FloatMap = np.asarray(canvas.reduce(_OVERSAMPLING), np.float32) / 255
    cover = np.asarray(mask.reduce(_OVERSAMPLING), np.float32) / 255
    if texture != "smooth":
        surface = textured(surface, TEXTURES[texture](*_local(placement), rng).astype(np.float32))
    return _lit(pixels, surface, cover, placement.radius * SIZE, light)


def _local(placement: Placement) -> tuple[FloatMap, FloatMap]:
    """Coordinates about the nearest object's centre, turned with it, one unit a radius."""
    x, y = screen()
    dx, dy = x[..., None] - placement.centers[:, 0], y[..., None] - placement.centers[:, 1]
    nearest = (dx**2 + dy**2).argmin(-1)[..., None]
    dx = np.take_along_axis(dx, nearest, -1)[..., 0] / placement.radius
    dy = np.take_along_axis(dy, nearest, -1)[..., 0] / placement.radius
    cos, sin = np.cos(placement.turn), np.sin(placement.turn)
    return (dx * cos + dy * sin).astype(np.float32), (dy * cos - dx * sin).astype(np.float32)


def _lit(pixels: FloatMap, surface: FloatMap, cover: FloatMap, radius: float, light: NDArray[np.float64]) -> FloatMap:
    dx, dy = gradient(blurred(cover, max(1.0, radius * 0.3)) * cover)
    facing = -(dx * light[0] + dy * light[1]) * radius
    surface = surface * np.clip(1 + 0.55 * facing, 0.5, 1.4)[..., None].astype(np.float32)
    shadow = np.roll(
        blurred(cover, 2.0), (round(-float(light[1]) * radius * 0.35), round(-float(light[0]) * radius * 0.35)), (0, 1)
    )
    behind = pixels * (1 - 0.5 * shadow[..., None])
    return np.clip(behind * (1 - cover[..., None]) + surface * cover[..., None], 0, 1)
