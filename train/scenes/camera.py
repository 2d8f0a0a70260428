"""The camera and its light: view, lighting direction, brightness, warmth, blur and the noise of a sensor."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from train.scenes.landscapes import CANVAS, SPAN
from train.scenes.raster import SIZE, FloatMap, from_image, screen, to_image

__all__ = ["exposed", "finished", "light_vector", "lit", "scene_coordinates", "view", "warmed"]


def light_vector(degrees: float) -> NDArray[np.float64]:
    """Return the unit vector on the screen towards a light: 0 from the right, 90 from below, 180 from the left."""
    angle = np.deg2rad(degrees)
    return np.array([np.cos(angle), np.sin(angle)])


def scene_coordinates(turn: float, zoom: float, shift: NDArray[np.float64]) -> tuple[FloatMap, FloatMap]:
    """Return the scene point seen at every pixel, the scene turned clockwise by ``turn`` radians and enlarged."""
    x, y = screen()
    u = (x * np.cos(turn) + y * np.sin(turn)) / zoom + shift[0]
    v = (y * np.cos(turn) - x * np.sin(turn)) / zoom + shift[1]
    return u.astype(np.float32), v.astype(np.float32)


def view(canvas: Image.Image, turn: float, zoom: float, shift: NDArray[np.float64], framed: bool) -> FloatMap:
    """Take a picture out of a landscape's canvas.

    Args:
        canvas: RGB (CANVAS, CANVAS), SPAN picture widths wide.
        turn: Clockwise turn in radians.
        zoom: Enlargement, at least 1.
        shift: float64 (2,), where the view's centre lies, in picture widths.
        framed: Whether the picture is turned as a print is, which leaves black corners, and not the camera.

    Returns:
        float32 (SIZE, SIZE, 3) in [0, 1].
    """
    scale = CANVAS / SPAN
    step = scale / SIZE / zoom
    cos, sin = np.cos(turn) * step, np.sin(turn) * step
    middle = SIZE / 2
    at_x, at_y = CANVAS / 2 + shift[0] * scale, CANVAS / 2 + shift[1] * scale
    data = (cos, sin, at_x - middle * (cos + sin), -sin, cos, at_y - middle * (cos - sin))
    pixels = from_image(canvas.transform((SIZE, SIZE), Image.Transform.AFFINE, data, Image.Resampling.BILINEAR))
    if framed:
        u, v = scene_coordinates(turn, 1.0, np.zeros(2))
        pixels = pixels * ((np.abs(u) < 0.5) & (np.abs(v) < 0.5))[..., None]
    return pixels


def lit(pixels: FloatMap, light: NDArray[np.float64], strength: float, spot: bool) -> FloatMap:
    """Light a picture from one side: an even fall-off, or a spot of light near that side."""
    x, y = screen()
    toward = (x * light[0] + y * light[1]).astype(np.float32) * 2
    if spot:
        distance = (x - 0.42 * light[0]) ** 2 + (y - 0.42 * light[1]) ** 2
        gain = 1 - strength + 1.9 * strength * np.exp(-distance / 0.16).astype(np.float32)
    else:
        gain = 1 + strength * toward
    return np.clip(pixels * gain[..., None], 0, 1)


def exposed(pixels: FloatMap, stops: float, way: int) -> FloatMap:
    """Brighten (positive stops) or darken a picture; ``way`` chooses gain, gamma, or exposure in linear light."""
    if way == 0:
        return 1 - (1 - pixels) * np.float32(0.55**stops) if stops > 0 else pixels * np.float32(0.62**-stops)
    if way == 1:
        return np.clip(pixels, 1e-4, 1) ** np.float32(1.75**-stops)
    return np.clip(np.clip(pixels, 0, 1) ** 2.2 * 2.2**stops, 0, 1) ** np.float32(1 / 2.2)


def warmed(pixels: FloatMap, warmth: float, way: int) -> FloatMap:
    """Shift a picture's white towards amber (positive) or blue, by gains before or after gamma."""
    gains = np.array([1 + 0.17 * warmth, 1.0, 1 - 0.26 * warmth], np.float32)
    if way == 1:
        gains = gains ** np.float32(1.15)
    keep = 1.0 if way == 0 else float(1 / max(gains.max(), 1))
    return np.clip(pixels * gains * keep, 0, 1)


def finished(pixels: FloatMap, blur: float, rng: np.random.Generator) -> Image.Image:
    """Focus, add a sensor's noise to some pictures, and compress some as JPEG does."""
    image = to_image(pixels)
    if blur > 0:
        image = image.filter(ImageFilter.GaussianBlur(blur))
    if rng.random() < 0.25:
        grain = rng.normal(0, rng.uniform(0.004, 0.018), (SIZE, SIZE, 1)).astype(np.float32)
        image = to_image(from_image(image) + grain)
    if rng.random() < 0.25:
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=int(rng.integers(70, 96)))
        image = Image.open(buffer).convert("RGB")
    return image
