"""Ways in which a picture can be painted, drawn or printed."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter
from scipy.ndimage import uniform_filter
from scipy.spatial import cKDTree

from train.scenes.colors import luminance
from train.scenes.raster import SIZE, FloatMap, blurred, from_image, gradient, mixed, noise, screen, to_image

__all__ = ["BRUSHES", "COARSE_BRUSHES", "COLORLESS_BRUSHES"]

Brush = Callable[[FloatMap, np.random.Generator], FloatMap]

_X, _Y = (axis * SIZE for axis in screen())


@lru_cache(maxsize=24)
def _seeds(spacing: float, variant: int) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatMap, FloatMap]:
    """A jittered grid of seed points; for every pixel the nearest one, its distance and the gap to the second."""
    rng = np.random.default_rng(variant)
    line = np.arange(-spacing, SIZE + spacing, spacing)
    points = np.stack(np.meshgrid(line, line), -1).reshape(-1, 2) + rng.uniform(0, spacing, (len(line) ** 2, 2))
    pixels = np.stack([_X + SIZE / 2, _Y + SIZE / 2], -1)
    distance, nearest = cKDTree(points).query(pixels, k=2)
    column, row = np.clip(points, 0, SIZE - 1).astype(np.intp).T
    at = nearest[..., 0]
    return (
        row[at],
        column[at],
        distance[..., 0].astype(np.float32),
        (distance[..., 1] - distance[..., 0]).astype(np.float32),
    )


def _lines(angle: float, period: float, rng: np.random.Generator) -> FloatMap:
    """Sine waves across the picture at an angle, in [-1, 1]."""
    return np.sin((_X * np.cos(angle) + _Y * np.sin(angle)) * (2 * np.pi / period) + rng.uniform(0, 6))


def _edges(pixels: FloatMap, sigma: float, gain: float) -> FloatMap:
    dx, dy = gradient(blurred(luminance(pixels), sigma))
    return np.clip(np.hypot(dx, dy) * gain, 0, 1)


def _points(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    row, column, distance, _ = _seeds(4.5, int(rng.integers(4)))
    dabs = pixels[row, column] + rng.uniform(-0.08, 0.08, (SIZE, SIZE, 3)).astype(np.float32)[row, column]
    return mixed(np.clip(pixels * 0.4 + 0.55, 0, 1), dabs, np.clip(2.9 - distance, 0, 1))


def _stipple(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    row, column, distance, _ = _seeds(3.4, int(rng.integers(4)))
    ink = np.clip((1 - luminance(pixels)[row, column]) * 3.2 - distance, 0, 1)
    return np.repeat((0.95 - 0.85 * ink)[..., None], 3, 2)


def _strokes(
    pixels: FloatMap, rng: np.random.Generator, length: float, width: int, count: int, follow: bool
) -> FloatMap:
    dx, dy = gradient(blurred(luminance(pixels), 2.5))
    angle = np.arctan2(dy, dx) + np.pi / 2 if follow else np.full((SIZE, SIZE), rng.uniform(0, np.pi))
    canvas = to_image(pixels).filter(ImageFilter.GaussianBlur(3))
    draw = ImageDraw.Draw(canvas)
    at = rng.integers(0, SIZE, (count, 2))
    angles = angle[at[:, 0], at[:, 1]] + rng.normal(0, 0.15, count)
    steps = np.stack([np.cos(angles), np.sin(angles)], 1) * length * rng.uniform(0.6, 1.2, (count, 1))
    colors = np.clip(pixels[at[:, 0], at[:, 1]] * 255 + rng.uniform(-16, 16, (count, 1)), 0, 255).astype(int)
    ends = np.concatenate([at[:, ::-1] - steps, at[:, ::-1] + steps], 1)
    for end, shade in zip(ends.tolist(), colors.tolist(), strict=True):
        draw.line(end, fill=tuple(shade), width=width)
    return from_image(canvas)


def _impasto(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    painted = _strokes(pixels, rng, 5, 4, 700, True)
    dx, dy = gradient(luminance(painted))
    return np.clip(painted * (1 + 2.2 * (dx + dy))[..., None], 0, 1)


def _pencil(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    gray = blurred(luminance(pixels), 1.5)
    shade = np.where(_lines(0.8, 3.4, rng) > gray * 3.4 - 1.1, 0.68, 1.0)
    drawn = np.clip(1 - _edges(pixels, 0.8, 7), 0.1, 1) * shade
    return np.repeat((0.08 + 0.88 * drawn)[..., None], 3, 2) * 0.9 + pixels * 0.1


def _charcoal(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    grain = noise(_X / SIZE, _Y / SIZE, rng, 1.0, 0.3)
    gray = blurred(luminance(pixels), 2.0) * 1.25 - _edges(pixels, 1.5, 4)
    return np.repeat(np.clip(gray + 0.36 * (grain - 0.5), 0.08, 0.93)[..., None], 3, 2)


def _mosaic(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    cells = SIZE // int(rng.integers(6, 9))
    small = to_image(pixels).resize((cells, cells), Image.Resampling.BOX)
    return from_image(small.resize((SIZE, SIZE), Image.Resampling.NEAREST))


def _tiles(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    period = int(rng.integers(7, 9))
    tiled = _mosaic(pixels, rng)
    joint = (np.arange(SIZE) % period < 1)[:, None] | (np.arange(SIZE) % period < 1)[None]
    return np.where(joint[..., None], 0.3, tiled).astype(np.float32)


def _poster(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    levels = np.float32(rng.integers(2, 4))
    return np.round(from_image(to_image(pixels).filter(ImageFilter.GaussianBlur(0.9))) * levels) / levels


def _cutout(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    row, column, _, _ = _seeds(9.0, 10 + int(rng.integers(4)))
    return from_image(to_image(pixels).filter(ImageFilter.GaussianBlur(1.5)))[row, column]


def _hatching(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    gray = blurred(luminance(pixels), 1.5)
    first = np.where(_lines(0.75, 4.0, rng) > gray * 2.4 - 1.0, 0.55, 1.0)
    second = np.where(_lines(2.35, 4.0, rng) > gray * 3.2 - 0.6, 0.6, 1.0)
    return np.clip(pixels * (first * second)[..., None] + 0.1, 0, 1)


def _halftone(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    u, v = (_X + _Y) / 7.5, (_X - _Y) / 7.5
    radius = np.hypot(u % 1 - 0.5, v % 1 - 0.5)
    ink = radius < (1 - blurred(luminance(pixels), 1.5)) * 0.72
    return np.where(ink[..., None], pixels * 0.3, np.clip(pixels * 0.3 + 0.68, 0, 1))


def _watercolor(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    smooth = from_image(to_image(pixels).filter(ImageFilter.MedianFilter(5)).filter(ImageFilter.GaussianBlur(1)))
    wash = 0.72 + 0.4 * noise(_X / SIZE, _Y / SIZE, rng, 1.5, 1.0)
    rim = 1 - 0.45 * _edges(smooth, 1.0, 5)
    return np.clip((0.25 + 0.75 * smooth) * (wash * rim)[..., None], 0, 1)


def _linocut(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    gray = blurred(luminance(pixels), 1.2)
    ink = gray + 0.22 * _lines(rng.uniform(0, np.pi), 6.0, rng) < np.quantile(gray, 0.5)
    return np.where(ink[..., None], pixels * 0.16, np.clip(pixels * 0.25 + 0.72, 0, 1))


def _ink(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    flat = np.round(from_image(to_image(pixels).filter(ImageFilter.MedianFilter(3))) * 5) / 5
    return flat * (1 - np.clip(_edges(pixels, 1.0, 9) * 1.4 - 0.25, 0, 1))[..., None]


def _neon(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    return np.clip(_edges(pixels, 1.0, 9)[..., None] * (0.35 + pixels), 0, 1) + 0.06 * pixels


def _emboss(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    dx, dy = gradient(blurred(luminance(pixels), 0.8))
    return np.clip(0.5 + (dx + dy)[..., None] * 4 + 0.25 * (pixels - 0.5), 0, 1)


def _canvas(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    weave = np.maximum(_lines(0.0, 3.2, rng), _lines(np.pi / 2, 3.2, rng))
    soft = from_image(to_image(pixels).filter(ImageFilter.GaussianBlur(1)))
    return np.clip(soft * (0.82 + 0.24 * weave)[..., None], 0, 1)


def _oil(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    reach = int(rng.integers(2, 5))
    width = 2 * reach - 1
    gray = luminance(pixels)
    mean = uniform_filter(pixels, (width, width, 0))
    variance = uniform_filter(gray**2, width) - uniform_filter(gray, width) ** 2
    shifts = [(dy, dx) for dy in (-reach, reach) for dx in (-reach, reach)]
    spread = np.stack([np.roll(variance, shift, (0, 1)) for shift in shifts])
    calm = np.stack([np.roll(mean, shift, (0, 1)) for shift in shifts])
    return np.take_along_axis(calm, spread.argmin(0)[None, ..., None], 0)[0]


def _stained_glass(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    row, column, _, gap = _seeds(13.0, 20 + int(rng.integers(4)))
    return pixels[row, column] * np.clip(gap / 2, 0.05, 1)[..., None]


def _dither(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    bayer = np.array([[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]], np.float32) / 16 - 0.47
    pattern = np.tile(np.kron(bayer, np.ones((2, 2), np.float32)), (SIZE // 8, SIZE // 8))
    return np.clip(np.round(pixels + 0.8 * pattern[..., None]), 0, 1)


def _engraving(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    gray = blurred(luminance(pixels), 1.2)
    wave = np.sin((_Y + 7 * gray) * (2 * np.pi / 4.5))
    return np.repeat(np.where(wave > gray * 2.2 - 1.1, 0.12, 0.94)[..., None], 3, 2).astype(np.float32)


def _chalk(pixels: FloatMap, rng: np.random.Generator) -> FloatMap:
    grain = noise(_X / SIZE, _Y / SIZE, rng, 1.0, 0.2)
    line = np.clip(_edges(pixels, 1.2, 8) + 0.35 * luminance(pixels), 0, 1) * (grain > 0.3)
    return np.clip(0.12 + line[..., None] * (0.5 + 0.5 * pixels), 0, 1)


BRUSHES: dict[str, Brush] = {
    "none": lambda pixels, rng: pixels,
    "oil": _oil,
    "points": _points,
    "stipple": _stipple,
    "long strokes": lambda pixels, rng: _strokes(pixels, rng, 9, 3, 900, True),
    "slanted strokes": lambda pixels, rng: _strokes(pixels, rng, 7, 3, 1000, False),
    "impasto": _impasto,
    "pencil": _pencil,
    "charcoal": _charcoal,
    "mosaic": _mosaic,
    "tiles": _tiles,
    "poster": _poster,
    "cut paper": _cutout,
    "hatching": _hatching,
    "halftone": _halftone,
    "watercolor": _watercolor,
    "linocut": _linocut,
    "ink": _ink,
    "neon": _neon,
    "emboss": _emboss,
    "canvas": _canvas,
    "stained glass": _stained_glass,
    "dither": _dither,
    "engraving": _engraving,
    "chalk": _chalk,
    "daubs": lambda pixels, rng: _strokes(pixels, rng, 1.5, 6, 1100, False),
}

# Under these nobody can tell the colours of the scene.
COLORLESS_BRUSHES = frozenset({"stipple", "pencil", "charcoal", "neon", "emboss", "engraving", "chalk", "linocut"})
# Under these fine surface texture is lost.
COARSE_BRUSHES = frozenset(BRUSHES) - {"none", "hatching", "canvas", "emboss", "oil", "halftone", "poster"}
