"""PIL images of every mode, with their colour profile and transparency, as sRGB over white."""

from __future__ import annotations

from functools import lru_cache
from io import BytesIO

import numpy as np
from PIL import Image, ImageCms

from tpips_model.errors import ImageError
from tpips_model.pixel_arrays import to_8_bit

__all__ = ["to_srgb"]

# The profile's colour space that describes an image of each mode.
PROFILE_SPACES = {"L": "GRAY", "RGB": "RGB ", "CMYK": "CMYK"}
DEEP_MODES = ("I;16", "I;16L", "I;16B", "I;16N", "I", "F")


def to_srgb(image: Image.Image) -> Image.Image:
    """Return a decoded image as a new one of mode RGB, in sRGB, over white, with no metadata left.

    A colour profile that is broken, or that describes another kind of image than it is embedded in, is ignored: the
    levels are then taken as sRGB (CMYK as plain inks on white).
    """
    colour, alpha = _colour_and_alpha(image)
    profile = image.info.get("icc_profile")
    transform = _transform_to_srgb(profile, colour.mode) if isinstance(profile, bytes) and profile else None
    rgb = colour.convert("RGB") if transform is None else transform.apply(colour)
    rgb.info = {}  # a profile or orientation left here would be applied a second time
    if alpha is None:
        return rgb
    canvas = Image.new("RGB", rgb.size, "white")
    canvas.paste(rgb, mask=alpha)
    return canvas


def _colour_and_alpha(image: Image.Image) -> tuple[Image.Image, Image.Image | None]:
    """Return the colour as 8-bit L, RGB, CMYK or LAB, and the alpha band (mode L) if the image has transparency."""
    if image.mode in DEEP_MODES:
        return _deep_colour_and_alpha(image)
    if image.mode in ("CMYK", "LAB"):
        return image, None
    grey = image.mode in ("1", "L", "LA", "La")
    if not image.has_transparency_data:
        return _in_mode(image, "L" if grey else "RGB"), None
    if isinstance(image.info.get("transparency"), tuple):
        image = _with_8_bit_key(image)
    layered = image.convert("LA" if grey else "RGBA")
    return layered.convert("L" if grey else "RGB"), layered.getchannel("A")


def _in_mode(image: Image.Image, mode: str) -> Image.Image:
    return image if image.mode == mode else image.convert(mode)


def _deep_colour_and_alpha(image: Image.Image) -> tuple[Image.Image, Image.Image | None]:
    levels = np.asarray(image)
    key = image.info.get("transparency")  # of a 16-bit grey PNG: the level that is transparent
    alpha = Image.fromarray(np.where(levels == key, 0, 255).astype(np.uint8)) if isinstance(key, int) else None
    if image.mode in ("I", "F"):
        levels = _with_known_range(levels)
    return Image.fromarray(to_8_bit(levels)), alpha


def _with_known_range(levels: np.ndarray) -> np.ndarray:
    low, high = float(levels.min()), float(levels.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ImageError("it holds NaN or infinite values")
    if low < 0 or high > 65535:
        raise ImageError(f"values from {low:.6g} to {high:.6g}; expected 0…1, 0…255 or 0…65535, so scale them first")
    if levels.dtype.kind == "f":
        return levels / np.float32(1 if high <= 1 else 255 if high <= 255 else 65535)
    return levels.astype(np.uint8 if high <= 255 else np.uint16)


def _with_8_bit_key(image: Image.Image) -> Image.Image:
    """Return the image with its transparent colour in 8 bits: a 16-bit PNG is decoded to 8, its key is not."""
    key = image.info["transparency"]
    if max(key) > 255:
        image = image.copy()
        image.info["transparency"] = tuple(level >> 8 for level in key)
    return image


@lru_cache(maxsize=16)
def _transform_to_srgb(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    """Return the transform from an embedded profile to sRGB, or None where none is needed or possible."""
    try:
        source = ImageCms.ImageCmsProfile(BytesIO(profile))
        if source.profile.xcolor_space != PROFILE_SPACES.get(mode):
            return None
        transform = ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB")
    except (OSError, ValueError, ImageCms.PyCMSError):
        return None
    return None if _is_identity(transform, mode) else transform


def _is_identity(transform: ImageCms.ImageCmsTransform, mode: str) -> bool:
    """Return whether a transform moves no colour of a probe by more than one level, as that of sRGB itself does."""
    if mode == "CMYK":
        return False
    ramp = np.linspace(0, 255, 18).round().astype(np.uint8)
    if mode == "L":
        probe = Image.fromarray(ramp[None])
    else:
        cube = np.stack(np.meshgrid(ramp, ramp, ramp, indexing="ij"), axis=-1)
        probe = Image.fromarray(cube.reshape(1, -1, 3))
    before = np.asarray(probe.convert("RGB")).astype(np.int16)
    after = np.asarray(transform.apply(probe)).astype(np.int16)
    return bool(np.abs(after - before).max() <= 1)
