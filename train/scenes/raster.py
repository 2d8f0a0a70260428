"""The pixel grid that every picture is drawn on, tileable noise, and small array operations."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

__all__ = [
    "SIZE",
    "FloatMap",
    "Mask",
    "blurred",
    "from_image",
    "gradient",
    "looked_up",
    "mixed",
    "noise",
    "screen",
    "to_image",
]

SIZE = 160
# Fine enough that the nearest sample will do: a picture has at most a third as many pixels to the unit.
TILE = 512

FloatMap = NDArray[np.floating]
Mask = NDArray[np.bool_]


@lru_cache(maxsize=4)
def screen(size: int = SIZE) -> tuple[FloatMap, FloatMap]:
    """Return x (rightwards) and y (downwards) of every pixel centre, float32 (size, size) in (-0.5, 0.5)."""
    line = ((np.arange(size) + 0.5) / size - 0.5).astype(np.float32)
    x, y = np.meshgrid(line, line)
    x.setflags(write=False)
    y.setflags(write=False)
    return x, y


@lru_cache(maxsize=24)
def _tile(roughness: float) -> FloatMap:
    """A periodic random field with power spectrum 1/f^(2·roughness), its values spread evenly over [0, 1]."""
    rng = np.random.default_rng(int(1000 * roughness) + 17)
    frequency = np.hypot(np.fft.fftfreq(TILE)[:, None], np.fft.fftfreq(TILE)[None]) * TILE
    frequency[0, 0] = np.inf
    spectrum = np.fft.fft2(rng.standard_normal((TILE, TILE))) / frequency**roughness
    field = np.fft.ifft2(spectrum).real
    ranks = np.empty(TILE * TILE, np.float32)
    ranks[np.argsort(field, axis=None)] = np.linspace(0, 1, TILE * TILE, dtype=np.float32)
    return ranks.reshape(TILE, TILE)


def noise(u: FloatMap, v: FloatMap, rng: np.random.Generator, scale: float = 1.0, roughness: float = 1.6) -> FloatMap:
    """Sample smooth fractal noise at scene coordinates.

    Args:
        u: float32 (...), scene coordinates; a picture is about one unit wide.
        v: float32 (...), the same.
        rng: Draws where in the noise field the picture lies.
        scale: How many times finer than the picture the largest blobs are.
        roughness: Steepness of the spectrum: 0.6 is gritty, 1.2 natural, 2 is smooth.

    Returns:
        float32 (...) in [0, 1], evenly distributed over the whole field.
    """
    shift = rng.uniform(TILE, 2 * TILE, 2).astype(np.float32)
    step = np.float32(TILE * scale)
    return looked_up(_tile(round(roughness, 1)), u * step + shift[1], v * step + shift[0])


def looked_up(tile: FloatMap, column: FloatMap, row: FloatMap) -> FloatMap:
    """Return the nearest sample of a square periodic field whose side is a power of two."""
    side = len(tile)
    at = (np.floor(row).astype(np.int32) & (side - 1)) * side + (np.floor(column).astype(np.int32) & (side - 1))
    return tile.ravel()[at]


def blurred(field: FloatMap, sigma: float) -> FloatMap:
    """Blur a field in [0, 1] with a Gaussian of ``sigma`` pixels (8-bit precision)."""
    image = Image.fromarray((np.clip(field, 0, 1) * 255).astype(np.uint8))
    return np.asarray(image.filter(ImageFilter.GaussianBlur(sigma)), np.float32) / 255


def gradient(field: FloatMap) -> tuple[FloatMap, FloatMap]:
    """Return the central differences of a field along x and y, in units per pixel."""
    along_y, along_x = np.gradient(field)
    return np.asarray(along_x), np.asarray(along_y)


def mixed(first: FloatMap, second: FloatMap, share: FloatMap) -> FloatMap:
    """Blend two colours or pictures: ``first`` where share (H, W) is 0, ``second`` where it is 1."""
    weight = share[..., None]
    return first * (1 - weight) + second * weight


def to_image(pixels: FloatMap) -> Image.Image:
    """Round float32 (H, W, 3) in [0, 1] to an RGB picture."""
    return Image.fromarray((np.clip(pixels, 0, 1) * 255 + 0.5).astype(np.uint8))


def from_image(image: Image.Image) -> FloatMap:
    """Return an RGB picture as float32 (H, W, 3) in [0, 1]."""
    return np.asarray(image, np.float32) / 255
