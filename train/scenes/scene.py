"""From the values of a picture's factors to its pixels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from train.scenes.backgrounds import background
from train.scenes.brushes import BRUSHES
from train.scenes.camera import exposed, finished, light_vector, lit, scene_coordinates, view, warmed
from train.scenes.colors import color
from train.scenes.grades import GRADES
from train.scenes.landscapes import landscape
from train.scenes.objects import Placement, draw_objects, group_offsets, tones
from train.scenes.raster import FloatMap
from train.scenes.shapes import SHAPES
from train.scenes.subjects import SUBJECTS, Part
from train.scenes.textures import TEXTURES, textured
from train.scenes.vocabulary import Value, hue, number, place

__all__ = ["Habits", "render", "seen_radius"]


@dataclass(frozen=True)
class Habits:
    """What all pictures of a family have in common beside their factors.

    Attributes:
        exposure_way: How brightness is changed (see camera.exposed).
        warmth_way: How warmth is changed (see camera.warmed).
        light_strength: How strongly one side is lit, in [0, 1].
        spot: Whether the light is a spot.
        framed: Whether turning leaves black corners (pictures without a main object only).
        seed: Where in its scene, and in which of its variants, a picture lies.
    """

    exposure_way: int
    warmth_way: int
    light_strength: float
    spot: bool
    framed: bool
    seed: int


def seen_radius(values: Mapping[str, Value]) -> float:
    """Return half an object's width on the screen, as a share of the picture's width."""
    return number(values, "size") * number(values, "zoom") ** 0.7


def render(kind: str, values: Mapping[str, Value], habits: Habits, seed: int) -> Image.Image:
    """Draw one picture.

    Args:
        kind: ``"shapes"``, ``"subjects"``, ``"materials"`` or ``"photographs"``.
        values: A value for every factor of that kind (vocabulary.KIND_FACTORS); for photographs "subject" is
            ``"<scene>/<variant>"``.
        habits: What the picture's family has in common.
        seed: Draws everything that no factor says.

    Returns:
        RGB (SIZE, SIZE).
    """
    rng = np.random.default_rng([seed, 11])
    light = light_vector(number(values, "light_direction") + rng.normal(0, 6))
    turn = float(np.deg2rad(number(values, "rotation") + rng.normal(0, 1.2)))
    zoom = number(values, "zoom") * float(rng.uniform(0.96, 1.04))
    if kind == "photographs":
        pixels = _photograph(str(values["subject"]), turn, zoom, habits, rng)
    elif kind == "materials":
        pixels = _material(values, turn, zoom, rng)
    else:
        pixels = _with_objects(kind, values, turn, zoom, light, rng)
    pixels = lit(pixels, light, habits.light_strength, habits.spot)
    pixels = BRUSHES[str(values["brush"])](pixels.astype(np.float32), rng)
    pixels = np.clip(GRADES[str(values["palette"])](np.clip(pixels, 0, 1)), 0, 1)
    pixels = exposed(pixels, number(values, "brightness") * rng.uniform(0.93, 1.07), habits.exposure_way)
    pixels = warmed(pixels, number(values, "warmth") * rng.uniform(0.9, 1.1), habits.warmth_way)
    return finished(pixels, number(values, "blur") * rng.uniform(0.9, 1.1), rng)


@lru_cache(maxsize=4)
def _canvas(scene: str, variant: int) -> Image.Image:
    return landscape(scene, variant)


def _photograph(subject: str, turn: float, zoom: float, habits: Habits, rng: np.random.Generator) -> FloatMap:
    scene, variant = subject.split("/")
    shift = rng.uniform(-0.02, 0.02, 2)
    return view(_canvas(scene, int(variant)), turn, max(zoom, 1.0), shift, habits.framed)


def _material(values: Mapping[str, Value], turn: float, zoom: float, rng: np.random.Generator) -> FloatMap:
    u, v = scene_coordinates(turn, zoom, rng.uniform(-0.3, 0.3, 2))
    surface = np.broadcast_to(color(hue(values, "object_color"), rng, (0.3, 0.9)), (*u.shape, 3))
    return textured(surface, TEXTURES[str(values["texture"])](u * 6, v * 6, rng).astype(np.float32))


def _with_objects(
    kind: str,
    values: Mapping[str, Value],
    turn: float,
    zoom: float,
    light: NDArray[np.float64],
    rng: np.random.Generator,
) -> FloatMap:
    u, v = scene_coordinates(turn, zoom, rng.uniform(-0.05, 0.05, 2))
    pixels = background(str(values["background"]), hue(values, "background_color"), u, v, rng)
    radius = seen_radius(values) * float(rng.uniform(0.95, 1.05))
    count, (x, y) = int(number(values, "count")), place(values, "position")
    turned = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    offsets = group_offsets(count) @ turned * radius + rng.normal(0, 0.1, (count, 2)) * radius
    centers = offsets + np.array([x, y]) + rng.normal(0, 0.012, 2)
    bodies: list[list[Part]]
    if kind == "shapes":
        bodies = [[(SHAPES[str(values["shape"])](), "main")]] * count
    else:
        bodies = [SUBJECTS[str(values["subject"])](rng) for _ in range(count)]
    placement = Placement(centers, radius, turn)
    return draw_objects(
        pixels, bodies, placement, tones(hue(values, "object_color"), rng), str(values["texture"]), light, rng
    )
