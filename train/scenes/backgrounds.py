"""Backgrounds, as tone maps over scene coordinates (u rightwards, v downwards, a picture one unit wide)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from train.scenes.colors import color, second_tone
from train.scenes.raster import FloatMap, Mask, mixed, noise

__all__ = ["BACKGROUNDS", "UPRIGHT_BACKGROUNDS", "background"]

Tone = Callable[[FloatMap, FloatMap, np.random.Generator], FloatMap]


def _steps(field: Mask) -> FloatMap:
    return field.astype(np.float32)


def _ridge(u: FloatMap, rng: np.random.Generator, scale: float, height: float, roughness: float = 1.7) -> FloatMap:
    return height * (noise(u, np.zeros_like(u), rng, scale, roughness) - np.float32(0.5))


def _plain(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    return 0.12 * noise(u, v, rng, 0.5)


def _clouds(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    return np.clip(1.5 * noise(u * 0.6, v, rng, 0.7, 1.3) - 0.25, 0, 1)


def _horizon(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    ground = v > rng.uniform(-0.02, 0.1) + _ridge(u, rng, 0.5, 0.03)
    return np.where(ground, 0.8 + 0.2 * noise(u, v, rng, 1.0, 0.8), 0.25 * (v + 0.5)).astype(np.float32)


def _room(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    floor, corner = rng.uniform(0.15, 0.24), rng.uniform(-0.32, -0.2)
    tone = np.where(v > floor, 1.0, np.where(u < corner, 0.5, 0.05))
    boards = (v > floor) & (np.sin(u / (v + 0.25) * 18) > 0.93)
    return (tone - 0.35 * boards).astype(np.float32)


def _bricks(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    row = np.floor(v * 11)
    joint = ((v * 11) % 1 < 0.14) | ((u * 6 + 0.5 * (row % 2)) % 1 < 0.08)
    return np.where(joint, 0.95, 0.25 * noise(u, v, rng, 1.0, 0.8)).astype(np.float32)


def _forest(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    trunks = (u * 9 + 0.25 * np.sin(u * 31 + rng.uniform(0, 6))) % 1 < 0.3
    leaves = v < -0.18 + 0.2 * noise(u, v, rng, 1.0, 1.2)
    ground = v > 0.3 + _ridge(u, rng, 0.5, 0.05)
    return np.where(
        leaves, 0.55 + 0.4 * noise(u, v, rng, 1.5, 0.8), np.where(ground, 0.75, np.where(trunks, 1.0, 0.1))
    ).astype(np.float32)


def _hills(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    tone = 0.2 * (v + 0.5)
    for level, shade in ((-0.05, 0.4), (0.12, 0.7), (0.28, 1.0)):
        tone = np.where(v > level + 0.07 * np.sin(u * rng.uniform(5, 9) + rng.uniform(0, 6)), shade, tone)
    return tone.astype(np.float32)


def _night_sky(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    stars = noise(u, v, rng, 1.0, 0.1) > 0.985
    return np.where(stars, 0.0, 0.85 + 0.15 * noise(u, v, rng, 0.6)).astype(np.float32)


def _bokeh(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    tone = np.full_like(u, 0.75)
    for x, y, radius, shade in rng.uniform((-0.6, -0.6, 0.04, 0), (0.6, 0.6, 0.13, 0.5), (16, 4)):
        tone = np.where(np.hypot(u - x, v - y) < radius, tone * 0.6 + shade * 0.3, tone)
    return tone.astype(np.float32)


def _sea(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    depth = np.clip(v + 0.08, 0.01, None)
    ripple = np.sin(12 / (depth + 0.12) + 3 * noise(u * 0.5, v, rng, 0.6)) * 0.2
    return np.where(v > -0.08, 0.75 + ripple, 0.25 * noise(u * 0.5, v, rng, 0.8)).astype(np.float32)


def _planks(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    grain = noise(u * 1.2, v * 0.15, rng, 1.0, 1.0)
    return np.where((u * 6) % 1 < 0.05, 1.0, 0.55 * grain + 0.2 * (np.floor(u * 6) % 2)).astype(np.float32)


def _curtain(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    return (0.5 + 0.45 * np.sin(u * rng.uniform(34, 42) + 1.2 * np.sin(v * 3))).astype(np.float32)


def _window(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    left, top = rng.uniform(-0.3, -0.1), rng.uniform(-0.36, -0.28)
    inside = (u > left) & (u < left + 0.4) & (v > top) & (v < top + 0.45)
    bars = (np.abs(u - left - 0.2) < 0.015) | (np.abs(v - top - 0.22) < 0.015)
    return np.where(inside & ~bars, 0.0, np.where(v > 0.3, 1.0, 0.7)).astype(np.float32)


def _mountains(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    tone = 0.1 * (v + 0.5)
    for level, shade in ((-0.1, 0.4), (0.05, 0.7), (0.22, 1.0)):
        tone = np.where(v > level + _ridge(u, rng, 0.6, 0.32, 1.3), shade, tone)
    return tone.astype(np.float32)


def _skyline(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    roofs = rng.uniform(-0.25, 0.2, 40)[np.clip(((u + 1) * 14).astype(int), 0, 39)]
    lights = ((u * 42) % 1 < 0.45) & ((v * 36) % 1 < 0.45)
    return np.where(v > roofs, np.where(lights, 0.45, 1.0), 0.1).astype(np.float32)


def _harbour(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    masts = (np.abs((u * 5 + 0.3) % 1 - 0.5) < 0.05) & (v > -0.3) & (v < 0.1)
    hulls = (np.abs((u * 5 + 0.3) % 1 - 0.5) < 0.33) & (v > 0.1) & (v < 0.17)
    return np.where(masts | hulls, 1.0, np.where(v > 0.15, 0.55 + 0.2 * np.sin(v * 90), 0.1)).astype(np.float32)


BACKGROUNDS: dict[str, Tone] = {
    "plain": _plain,
    "gradient": lambda u, v, rng: np.clip(0.5 + v, 0, 1),
    "vignette": lambda u, v, rng: np.clip(np.hypot(u, v) * 1.6, 0, 1),
    "stripes": lambda u, v, rng: _steps(np.sin(v * rng.uniform(36, 46)) > 0),
    "diagonals": lambda u, v, rng: _steps(np.sin((u + v) * rng.uniform(34, 42)) > 0),
    "checks": lambda u, v, rng: (np.floor(u * 8) + np.floor(v * 8)) % 2,
    "dots": lambda u, v, rng: _steps(np.hypot((u * 9) % 1 - 0.5, (v * 9) % 1 - 0.5) < 0.28),
    "waves": lambda u, v, rng: 0.5 + 0.5 * np.sin(v * 50 + 2.2 * np.sin(u * 10)),
    "rays": lambda u, v, rng: _steps(np.sin(np.arctan2(v, u) * 10 + rng.uniform(0, 6)) > 0),
    "rings": lambda u, v, rng: _steps(np.sin(np.hypot(u, v) * rng.uniform(55, 65)) > 0),
    "grid": lambda u, v, rng: _steps(((u * 9) % 1 < 0.1) | ((v * 9) % 1 < 0.1)),
    "clouds": _clouds,
    "grit": lambda u, v, rng: noise(u, v, rng, 1.0, 0.5),
    "bricks": _bricks,
    "planks": _planks,
    "curtain": _curtain,
    "bokeh": _bokeh,
    "night sky": _night_sky,
    "horizon": _horizon,
    "sea": _sea,
    "hills": _hills,
    "forest": _forest,
    "room": _room,
    "window": _window,
    "mountains": _mountains,
    "triangles": lambda u, v, rng: _steps((u * 8) % 1 > (v * 8) % 1),
    "chevrons": lambda u, v, rng: _steps(np.sin((v + 0.12 * np.abs((u * 6) % 2 - 1)) * 55) > 0),
    "skyline": _skyline,
    "harbour": _harbour,
}

# Backgrounds that show which way is up, so that a tilt of the camera can be seen.
UPRIGHT_BACKGROUNDS = frozenset(
    {"gradient", "horizon", "sea", "hills", "forest", "room", "window", "mountains", "skyline", "harbour"}
)


def background(kind: str, hue: float | str, u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    """Paint a background in two tones of one colour, float32 (H, W, 3) in [0, 1]."""
    first = color(hue, rng, (0.3, 0.7), (0.55, 0.95))
    pixels = mixed(first, second_tone(first, rng), BACKGROUNDS[kind](u, v, rng).astype(np.float32))
    grain = np.float32(rng.uniform(0, 0.12))
    return np.clip(pixels * (1 + grain * (noise(u, v, rng, 1.0, 0.7) - 0.5))[..., None], 0, 1)
