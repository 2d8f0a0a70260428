"""What the techniques share: noise, blur, relief and marks.

H, W are a picture's height and width. Pictures are PIL images of mode RGB; fields are float32 (H, W).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from indexer.gallery.palettes import Colour

__all__ = [
    "Field",
    "along",
    "blurred",
    "edges",
    "emboss",
    "enlarged",
    "field_of",
    "mask_image",
    "shaded",
    "smooth_noise",
    "strokes_along_shapes",
    "tones",
]

Field = NDArray[np.float32]


def mask_image(field: Field) -> Image.Image:
    """Return a field of [0, 1] as a PIL image of mode L, values outside clipped."""
    return Image.fromarray((np.clip(field, 0, 1) * 255 + 0.5).astype(np.uint8))


def field_of(mask: Image.Image) -> Field:
    """Return a PIL image of mode L as a field of [0, 1]."""
    return np.asarray(mask, dtype=np.float32) / np.float32(255)


def tones(picture: Image.Image) -> Field:
    """Return how light each pixel looks, in [0, 1], by the weights of Rec. 601."""
    return field_of(picture.convert("L"))


def blurred(field: Field, radius: float) -> Field:
    """Blur a field of [0, 1]."""
    return field_of(mask_image(field).filter(ImageFilter.GaussianBlur(radius)))


def enlarged(field: Field, size: tuple[int, int]) -> Field:
    """Resize a field of any range smoothly to (width, height)."""
    return np.asarray(Image.fromarray(field).resize(size, Image.Resampling.BILINEAR))


def shaded(picture: Image.Image, light: Field, dark: Colour, bright: Colour) -> Image.Image:
    """Return a picture with each pixel moved towards ``dark`` where ``light`` is negative, ``bright`` where positive.

    Args:
        picture: The picture.
        light: How far, from −1 (all the way to ``dark``) to 1.
        dark: The colour of shadow.
        bright: The colour of light.
    """
    result = picture.copy()
    result.paste(dark, mask=mask_image(-light))
    result.paste(bright, mask=mask_image(light))
    return result


def smooth_noise(shape: tuple[int, int], grain: float, rng: np.random.Generator) -> Field:
    """Return noise of mean 0 whose hills are about ``grain`` pixels apart, nearly all in [−1, 1]."""
    height, width = shape
    coarse = rng.uniform(-1, 1, (int(height / grain) + 2, int(width / grain) + 2)).astype(np.float32)
    return np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))


def edges(picture: Image.Image) -> Field:
    """Return how fast the colour changes, about 1 at a border between two far colours."""
    bands = np.ascontiguousarray(np.moveaxis(np.asarray(picture), 2, 0)).astype(np.float32) / np.float32(255)
    squared = np.zeros(bands.shape[1:], dtype=np.float32)
    squared[:, :-1] += ((bands[:, :, 1:] - bands[:, :, :-1]) ** 2).sum(axis=0)
    squared[:-1] += ((bands[:, 1:] - bands[:, :-1]) ** 2).sum(axis=0)
    change: Field = np.sqrt(squared)
    return change


def emboss(heights: Field) -> Field:
    """Light a relief from the upper left: positive on the slopes that face the light."""
    return heights - 0.5 * (np.roll(heights, -1, axis=1) + np.roll(heights, (-1, -1), axis=(0, 1)))


def strokes_along_shapes(picture: Image.Image, rng: np.random.Generator) -> Field:
    """Return a direction in radians at every pixel: along the borders of shapes, and swirling between them."""
    tone = tones(picture.reduce(2).filter(ImageFilter.BoxBlur(1)))
    rows, columns = np.gradient(tone)
    # The structure tensor's double angle can be averaged where the angle itself cannot.
    double_x, double_y = rows**2 - columns**2, -2 * rows * columns
    strength = np.hypot(double_x, double_y) + np.float32(2e-3)
    swirl = smooth_noise(tone.shape, 45, rng) * 2.2
    parts = []
    for part, drift in ((double_x, np.cos(swirl)), (double_y, np.sin(swirl))):
        parts.append(enlarged(blurred(0.5 + 0.5 * part / strength, 2.5) - 0.5 + 0.06 * drift, picture.size))
    return np.float32(0.5) * np.arctan2(parts[1], parts[0])


def along(field: Field, angle: Field, reach: int, step: float = 1.5) -> Field:
    """Average a field along a direction (a straight line integral convolution).

    Args:
        field: Noise of mean 0.
        angle: The direction at every pixel, in radians.
        reach: How many samples are taken to each side.
        step: Pixels between samples.
    """
    height, width = field.shape
    here = np.arange(height * width, dtype=np.int32).reshape(height, width)
    step_y, step_x = np.sin(angle) * np.float32(step), np.cos(angle) * np.float32(step)
    total = field.copy()
    for away in range(1, reach + 1):
        offset = np.rint(away * step_y).astype(np.int32) * width + np.rint(away * step_x).astype(np.int32)
        total += field.ravel().take(here + offset, mode="wrap")
        total += field.ravel().take(here - offset, mode="wrap")
    # The average of n independent values is √n smaller; this keeps the field's own size.
    return total / np.float32(np.sqrt(2 * reach + 1))
