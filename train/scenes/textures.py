"""Surface textures, as tone maps over coordinates in which an object's radius is one unit."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.spatial import cKDTree

from train.scenes.raster import FloatMap, looked_up, noise

__all__ = ["TEXTURES", "textured"]

Texture = Callable[[FloatMap, FloatMap, np.random.Generator], FloatMap]


def _square_wave(phase: FloatMap, share: float = 0.5) -> FloatMap:
    return ((phase % 1) < share).astype(np.float32) - np.float32(share)


# Cells along one side of a periodic field of cells, and samples along it.
_CELLS = 8
_CELL_SAMPLES = 512


@lru_cache(maxsize=4)
def _cell_field(variant: int) -> tuple[FloatMap, FloatMap]:
    rng = np.random.default_rng([variant, 23])
    corners = np.stack(np.meshgrid(np.arange(_CELLS), np.arange(_CELLS)), -1).reshape(-1, 2)
    points = (corners + rng.uniform(0, 1, corners.shape)) % _CELLS
    line = (np.arange(_CELL_SAMPLES) + 0.5) * (_CELLS / _CELL_SAMPLES)
    distance, _ = cKDTree(points, boxsize=_CELLS).query(np.stack(np.meshgrid(line, line), -1), k=2)
    return distance[..., 0].astype(np.float32), distance[..., 1].astype(np.float32)


def _cells(u: FloatMap, v: FloatMap, rng: np.random.Generator, per_unit: float) -> tuple[FloatMap, FloatMap]:
    """Distances to the nearest and second nearest of jittered points, per_unit points along one unit."""
    step = np.float32(per_unit * _CELL_SAMPLES / _CELLS)
    near, second = _cell_field(int(rng.integers(4)))
    shift = rng.uniform(0, _CELL_SAMPLES, 2).astype(np.float32)
    column, row = u * step + shift[0], v * step + shift[1]
    return looked_up(near, column, row), looked_up(second, column, row)


def _dots(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    f = rng.uniform(1.6, 2.2)
    return (np.hypot((u * f) % 1 - 0.5, (v * f + 0.5 * (np.floor(u * f) % 2)) % 1 - 0.5) < 0.3) - np.float32(0.3)


def _checks(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    f = rng.uniform(1.5, 2.1)
    return (np.floor(u * f) + np.floor(v * f)) % 2 - np.float32(0.5)


def _wood(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    warp = noise(u * 0.05, v * 0.3, rng, 1.0, 2.0)
    return 0.5 * np.sin((v + 1.4 * warp) * 15) * (0.7 + 0.3 * noise(u * 0.1, v, rng, 2.0))


def _cracks(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    near, second = _cells(u, v, rng, rng.uniform(1.6, 2.1))
    return np.clip((second - near) * 7, 0, 1) - np.float32(0.7)


def _pebbles(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    near, _ = _cells(u, v, rng, rng.uniform(2.2, 2.8))
    return 0.55 - np.clip(near * 1.5, 0, 1)


def _hatching(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    f = rng.uniform(2.6, 3.4)
    return np.minimum(_square_wave((u + v) * f, 0.75), _square_wave((u - v) * f, 0.75)) - np.float32(0.05)


def _zigzag(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    return _square_wave((v + 0.5 * np.abs((u * 1.7) % 2 - 1)) * rng.uniform(1.8, 2.3))


def _bricks(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    f = rng.uniform(2.2, 2.8)
    row = np.floor(v * f)
    joint = ((v * f) % 1 < 0.18) | ((u * f * 0.55 + 0.5 * (row % 2)) % 1 < 0.1)
    return np.where(joint, np.float32(0.5), np.float32(-0.2))


def _scales(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    f = rng.uniform(2.0, 2.6)
    row = np.floor(v * f * 1.5)
    x, y = (u * f + 0.5 * (row % 2)) % 1 - 0.5, (v * f * 1.5) % 1
    return np.clip(np.hypot(x * 1.7, y - 0.05), 0, 1).astype(np.float32) - np.float32(0.5)


def _waves(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    return 0.5 * np.sin((v + 0.16 * np.sin(u * 6)) * rng.uniform(11, 14))


def _grid(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    f = rng.uniform(2.0, 2.6)
    return np.where(((u * f) % 1 < 0.16) | ((v * f) % 1 < 0.16), np.float32(-0.5), np.float32(0.15))


def _marble(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    vein = np.abs(np.sin((u * 0.8 + v * 0.5 + 1.3 * noise(u * 0.25, v * 0.25, rng, 1.0, 1.5)) * 6))
    return np.clip(vein * 1.6, 0, 1) - np.float32(0.7)


def _knit(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    f = rng.uniform(2.2, 2.7)
    return (
        0.5
        * np.sin((v * f * 1.5 + 0.6 * np.abs((u * f) % 1 - 0.5)) * 2 * np.pi)
        * (0.4 + np.abs(np.sin(u * f * np.pi)))
    )


def _fur(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    return noise(u * 1.6, v * 0.22, rng, 1.0, 0.8) - np.float32(0.5)


def _rosettes(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    near, _ = _cells(u, v, rng, rng.uniform(1.7, 2.1))
    return np.where((near > 0.16) & (near < 0.34), np.float32(-0.5), np.float32(0.12))


def _honeycomb(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    f = rng.uniform(7, 9)
    waves = [np.cos(f * (u * np.cos(a) + v * np.sin(a))) for a in (0, np.pi / 3, 2 * np.pi / 3)]
    return np.clip((waves[0] + waves[1] + waves[2]) * 0.6, -0.5, 0.5)


def _weave(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    f = rng.uniform(1.6, 2.0)
    over = (np.floor(u * f) + np.floor(v * f)) % 2 == 0
    return 0.5 * np.where(over, np.sin(u * f * 6 * np.pi), np.sin(v * f * 6 * np.pi))


def _plaid(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    f = rng.uniform(0.9, 1.2)
    return (_square_wave(u * f) + _square_wave(v * f)) * 0.5 + _square_wave(u * f * 4, 0.2) * 0.4


TEXTURES: dict[str, Texture] = {
    "smooth": lambda u, v, rng: np.zeros_like(u),
    "stripes": lambda u, v, rng: _square_wave(v * rng.uniform(2.0, 2.6)),
    "upright stripes": lambda u, v, rng: _square_wave(u * rng.uniform(2.0, 2.6)),
    "pinstripes": lambda u, v, rng: _square_wave((u + v) * rng.uniform(3.2, 4.0), 0.35),
    "dots": _dots,
    "checks": _checks,
    "mottled": lambda u, v, rng: noise(u * 0.4, v * 0.4, rng, 1.0, 1.5) - np.float32(0.5),
    "grit": lambda u, v, rng: noise(u, v, rng, 1.0, 0.4) - np.float32(0.5),
    "speckles": lambda u, v, rng: (noise(u, v, rng, 1.0, 1.0) > 0.86) * np.float32(0.9) - np.float32(0.12),
    "wood": _wood,
    "cracks": _cracks,
    "pebbles": _pebbles,
    "hatching": _hatching,
    "rings": lambda u, v, rng: 0.5 * np.sin(np.hypot(u, v) * rng.uniform(14, 18)),
    "zigzag": _zigzag,
    "bricks": _bricks,
    "scales": _scales,
    "waves": _waves,
    "grid": _grid,
    "marble": _marble,
    "knit": _knit,
    "fur": _fur,
    "weave": _weave,
    "honeycomb": _honeycomb,
    "rosettes": _rosettes,
    "plaid": _plaid,
    "spiral": lambda u, v, rng: 0.5 * np.sin(np.hypot(u, v) * 13 + 2 * np.arctan2(v, u)),
}


def textured(pixels: FloatMap, tone: FloatMap) -> FloatMap:
    """Lay a texture over a surface so that it shows on dark and on light colours alike.

    Args:
        pixels: float32 (H, W, 3) in [0, 1].
        tone: float32 (H, W) in about [-0.5, 0.5]: below 0 darkens, above 0 lightens.

    Returns:
        float32 (H, W, 3).
    """
    light = np.clip(tone, 0, 0.55)[..., None] * 1.25
    dark = np.clip(-tone, 0, 0.55)[..., None] * 1.45
    return pixels + (1 - pixels) * light - pixels * dark
