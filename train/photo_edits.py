"""Edits of real photographs, each changing one aspect and no other: what the bundled model is tested on.

Written apart from the procedural renderer that the model learns from, so that a good figure here means that the aspect
was learnt and not the renderer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter, ImageOps

__all__ = ["EDITS", "EDIT_ORDER", "edited", "untouched"]

Edit = Callable[[Image.Image], Image.Image]

_GAMMA = 2.2


def _floats(image: Image.Image) -> NDArray[np.float32]:
    """float32 (H, W, 3) in [0, 1]."""
    return np.asarray(image).astype(np.float32) / np.float32(255)


def _image(values: NDArray[np.floating]) -> Image.Image:
    return Image.fromarray(np.rint(np.clip(values, 0, 1) * 255).astype(np.uint8))


def untouched(image: Image.Image) -> Image.Image:
    """Return the photograph as it is: the edit of a factor's own value."""
    return image


def _hue_turned(image: Image.Image) -> Image.Image:
    hue, saturation, value = image.convert("HSV").split()
    return Image.merge("HSV", (hue.point([(level + 85) % 256 for level in range(256)]), saturation, value)).convert(
        "RGB"
    )


def _red_and_blue_swapped(image: Image.Image) -> Image.Image:
    return _image(_floats(image)[..., ::-1])


def _faded_sepia(image: Image.Image) -> Image.Image:
    gray = _floats(image.convert("L"))[..., None]
    return _image(0.75 * gray * np.array([1.05, 0.95, 0.5]) + 0.25 * _floats(image))


def _gamma(exponent: float) -> Edit:
    return lambda image: _image(_floats(image) ** exponent)


def _light_of(*gains: float) -> Edit:
    """A white balance: gains of the three channels in linear light."""
    return lambda image: _image(np.clip(_floats(image) ** _GAMMA * np.array(gains), 0, 1) ** (1 / _GAMMA))


def _oil(image: Image.Image) -> Image.Image:
    """Kuwahara's filter: every pixel becomes the mean of the calmest of four windows that touch it."""
    from scipy.ndimage import uniform_filter

    size, pixels = 8, _floats(image)
    light = pixels.mean(axis=2)
    variance = uniform_filter(light**2, size) - uniform_filter(light, size) ** 2
    means = uniform_filter(pixels, (size, size, 1))
    shifts = [(dy, dx) for dy in (-size // 2, size // 2) for dx in (-size // 2, size // 2)]
    variances = np.stack([np.roll(variance, shift, (0, 1)) for shift in shifts])
    shifted = np.stack([np.roll(means, shift, (0, 1)) for shift in shifts])
    return _image(np.take_along_axis(shifted, variances.argmin(axis=0)[None, ..., None], axis=0)[0])


def _flat_regions(image: Image.Image) -> Image.Image:
    from skimage.color import label2rgb
    from skimage.segmentation import slic

    pixels = _floats(image)
    return _image(
        label2rgb(slic(pixels, n_segments=160, compactness=12, start_label=1), pixels, kind="avg", bg_label=0)
    )


def _ink(image: Image.Image) -> Image.Image:
    """Few levels with dark lines along the edges."""
    edges = _floats(image.convert("L").filter(ImageFilter.GaussianBlur(1)).filter(ImageFilter.FIND_EDGES))
    return _image(_floats(ImageOps.posterize(image, 2)) * (1 - np.clip(3 * edges, 0, 1))[..., None])


def _blurred(radius: int) -> Edit:
    return lambda image: image.filter(ImageFilter.BoxBlur(radius))


def _turned(degrees: float) -> Edit:
    """A rotation that mirrors the picture beyond its edges: black corners would give it away."""

    def turn(image: Image.Image) -> Image.Image:
        from scipy.ndimage import rotate

        return _image(rotate(_floats(image), degrees, reshape=False, order=1, mode="reflect"))

    return turn


def _upside_down(image: Image.Image) -> Image.Image:
    return image.transpose(Image.Transpose.ROTATE_180)


def _closer(factor: float) -> Edit:
    def crop(image: Image.Image) -> Image.Image:
        width, height = image.size
        left, top = (width - width / factor) / 2, (height - height / factor) / 2
        box = (left, top, width - left, height - top)
        return image.resize(image.size, Image.Resampling.BICUBIC, box=box)

    return crop


def _lit_from(x: float) -> Edit:
    """A pool of light around a place of the picture, dusk elsewhere."""

    def light(image: Image.Image) -> Image.Image:
        width, height = image.size
        across, down = np.arange(width) / width, np.arange(height)[:, None] / height
        spot = 0.35 + 1.1 * np.exp(-((across - x) ** 2 + (down - 0.4) ** 2) / 0.18)
        return _image(_floats(image) * spot[..., None])

    return light


# factor -> the values it takes, by name
EDITS: Mapping[str, Mapping[str, Edit]] = {
    "palette": {
        "own": untouched,
        "hue turned": _hue_turned,
        "red and blue swapped": _red_and_blue_swapped,
        "sepia": _faded_sepia,
    },
    "brightness": {"own": untouched, "dark": _gamma(2.4), "bright": _gamma(0.45)},
    "warmth": {"own": untouched, "warm": _light_of(1.5, 1, 0.5), "cold": _light_of(0.55, 1, 1.6)},
    "brush": {"photograph": untouched, "oil": _oil, "flat": _flat_regions, "ink": _ink},
    "blur": {"sharp": untouched, "soft": _blurred(4), "softer": _blurred(7)},
    "rotation": {"upright": untouched, "left": _turned(35), "right": _turned(-60), "upside down": _upside_down},
    "zoom": {"whole": untouched, "close": _closer(2.4)},
    "light_direction": {"left": _lit_from(0.1), "right": _lit_from(0.9)},
}

# What happens before the camera comes before what happens in it, and the hand that paints comes last.
EDIT_ORDER = ("zoom", "rotation", "light_direction", "brightness", "palette", "warmth", "brush", "blur")


def edited(photo: Image.Image, values: Mapping[str, str]) -> Image.Image:
    """Apply edits to a photograph.

    Args:
        photo: An RGB image.
        values: Factor → the name of its value in EDITS; factors left out stay as they are.

    Returns:
        An RGB image of the same size.

    Raises:
        KeyError: No such factor or value.
    """
    unknown = values.keys() - EDITS.keys()
    if unknown:
        raise KeyError(f"unknown factors {sorted(unknown)}; known are {', '.join(EDITS)}")
    for factor in EDIT_ORDER:
        if factor in values:
            photo = EDITS[factor][values[factor]](photo)
    return photo
