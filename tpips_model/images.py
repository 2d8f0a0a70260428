"""From anything a user has to RGB pixels.

The rules, in the order they are applied: the pixel bound, before anything is decoded; the first frame of an animation;
EXIF orientation; 16-bit and floating-point levels scaled to 8 bits; the embedded colour profile converted to sRGB;
transparency laid over white. No global state of Pillow is touched, so threads may call these functions at once.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO, TypeGuard, Union

import numpy as np
from PIL import Image, UnidentifiedImageError

from tpips_model.colour import to_srgb
from tpips_model.errors import ImageError
from tpips_model.pixel_arrays import array_size, array_to_pil
from tpips_model.png_exif import exif_behind_pixels

if TYPE_CHECKING:
    import torch

__all__ = ["IMAGE_SUFFIXES", "MAX_PIXELS", "ImageLike", "check_pixels", "header_size", "to_rgb", "to_rgb_with_size"]

ImageLike = Union[str, "os.PathLike[str]", bytes, Image.Image, np.ndarray, "torch.Tensor"]

# Twice Pillow's MAX_IMAGE_PIXELS: where Pillow itself turns from a warning to an error. Room for a 150-megapixel
# camera; about 0.7 GB while decoding.
MAX_PIXELS = 178_956_970

# Raster formats with a signature, decoded inside Pillow. Left out are those that start another program (EPS), that
# have no signature and so take other files for pictures (TGA), and those that no photograph comes in.
# JPEG takes MPO, the double pictures of some cameras, along.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP", "DIB", "AVIF", "JPEG2000", "PPM", "ICO", "QOI")
PHOTOGRAPH_SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".png", ".apng", ".webp", ".gif", ".avif", ".ico")
OTHER_SUFFIXES = (
    ".tif",
    ".tiff",
    ".bmp",
    ".dib",
    ".jp2",
    ".j2k",
    ".jpx",
    ".ppm",
    ".pgm",
    ".pbm",
    ".pnm",
    ".pfm",
    ".qoi",
)
IMAGE_SUFFIXES = frozenset({*PHOTOGRAPH_SUFFIXES, *OTHER_SUFFIXES})
HEIC_BRANDS = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1")

ORIENTATION_TAG = 0x0112
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def to_rgb(image: ImageLike, *, max_pixels: int = MAX_PIXELS, at_least: int | None = None) -> Image.Image:
    """Return ``image`` as a new PIL image of mode RGB, upright, in sRGB, over white.

    Args:
        image: One of

            - a path (``str`` or ``PathLike``; ``~`` is not expanded) or the bytes of an image file, in a raster format
              of ``FORMATS``. An animation gives its first frame; of a file with several pages, the first.
            - a PIL image of any mode, which is left as it was; of an animation, the frame it stands at.
              I;16 holds 0…65535. Modes I and F say nothing of their range: the smallest of 0…1 (F only), 0…255 and
              0…65535 that holds all values is taken; others are refused.
            - a numpy array (H, W), (H, W, C) or (C, H, W) with C in 1 (grey), 2 (grey, alpha), 3 (RGB), 4 (RGBA):
              uint8, uint16 (0…65535), floating point in [0, 1], or bool. Where both readings fit, a numpy array is
              (H, W, C).
            - a torch tensor of the same shapes and types; where both readings fit, it is (C, H, W).
        max_pixels: Bound on width × height, checked before a pixel is decoded. Pillow's own bound
            (twice ``PIL.Image.MAX_IMAGE_PIXELS``) holds for files besides.
        at_least: If given, a JPEG file may be decoded at 1/2, 1/4 or 1/8 scale, as long as both sides keep at least
            this many pixels. Much faster where a small picture is wanted; never enlarges; other formats are decoded
            in full.

    Raises:
        ImageError: The image cannot be found, read or decoded, is too large, is empty, or has values out of range.

    Examples:
        >>> to_rgb(np.full((2, 3), 65535, dtype=np.uint16)).getpixel((0, 0))
        (255, 255, 255)
    """
    return to_rgb_with_size(image, max_pixels=max_pixels, at_least=at_least)[0]


def to_rgb_with_size(
    image: ImageLike, *, max_pixels: int = MAX_PIXELS, at_least: int | None = None
) -> tuple[Image.Image, tuple[int, int]]:
    """Return ``to_rgb(image)`` and the upright (width, height) that it has when decoded in full."""
    if isinstance(image, np.ndarray) or _is_tensor(image):
        with _as_image_error(_describe(image)):
            check_pixels(array_size(image), max_pixels)
            pil = array_to_pil(image)
            return to_srgb(pil), pil.size
    if isinstance(image, Image.Image):
        with _as_image_error(_describe(image)):
            return _finish(image, max_pixels, at_least=None)
    name = _describe(image)
    data = _read(image, name)
    with _as_image_error(name), _open(io.BytesIO(data)) as opened:
        return _finish(opened, max_pixels, at_least)


def header_size(path: str | os.PathLike[str], *, max_pixels: int = MAX_PIXELS) -> tuple[int, int]:
    """Return the upright (width, height) of a picture file as ``to_rgb_with_size`` does, without decoding a pixel.

    (Icons are decoded, since Pillow opens them no other way.)

    Raises:
        ImageError: The file cannot be read, has no header of a picture, or ``to_rgb`` would refuse its size.
    """
    name = _describe(path)
    with _open_file(os.fspath(path), name) as file, _as_image_error(name), _open(file) as opened:
        check_pixels(opened.size, max_pixels)
        if opened.format == "TIFF":  # turned upright already
            return opened.size
        if opened.format == "PNG" and "exif" not in opened.info:  # to ask for it would decode the pixels
            opened.info["exif"] = exif_behind_pixels(file)
        return opened.size[::-1] if _orientation(opened) in (5, 6, 7, 8) else opened.size


def _finish(image: Image.Image, max_pixels: int, at_least: int | None) -> tuple[Image.Image, tuple[int, int]]:
    check_pixels(image.size, max_pixels)
    declared = image.size
    if at_least is not None and image.format in ("JPEG", "MPO"):
        image.draft(None, (at_least, at_least))  # None keeps the mode
    image.load()
    # Only after load(): there TIFF pages turn themselves upright, and PNG may keep its EXIF behind the pixels.
    orientation = _orientation(image)
    rgb = to_srgb(image)
    if orientation not in UPRIGHT:
        return rgb, declared
    return rgb.transpose(UPRIGHT[orientation]), declared[::-1] if orientation >= 5 else declared


def _orientation(image: Image.Image) -> int:
    """Return the EXIF orientation, 1 where there is none or the EXIF block is broken."""
    try:
        return int(image.getexif().get(ORIENTATION_TAG, 1))
    except Exception:  # Pillow lets many kinds through from a garbled block; the pixels are good all the same
        return 1


def _open(stream: BinaryIO) -> Image.Image:
    try:
        return Image.open(stream, formats=_readable_formats())
    except UnidentifiedImageError:
        stream.seek(0)
        data = stream.read(16)
        if data[4:8] == b"ftyp" and data[8:12] in HEIC_BRANDS:
            raise ImageError("HEIC pictures are not supported; convert them to JPEG or PNG") from None
        raise ImageError(
            f"it begins with {data!r}, which is none of the formats {', '.join(FORMATS)}, or its header is broken"
        ) from None


@lru_cache(maxsize=1)
def _readable_formats() -> tuple[str, ...]:
    """Return those of ``FORMATS`` that this build of Pillow has (AVIF and JPEG 2000 can be missing)."""
    Image.init()  # registers Pillow's own plugins, which Image.open would do at its first unknown file
    return tuple(name for name in FORMATS if name in Image.OPEN)


def check_pixels(size: tuple[int, int], max_pixels: int = MAX_PIXELS) -> None:
    """Refuse a picture of no pixels, or of too many.

    Args:
        size: (width, height).
        max_pixels: Bound on width × height.

    Raises:
        ImageError: It is such a picture.
    """
    width, height = size
    if width < 1 or height < 1:
        raise ImageError(f"it has no pixels ({width}×{height})")
    if width * height > max_pixels:
        raise ImageError(
            f"it has {width}×{height} pixels, over the bound of {max_pixels} (max_pixels); scale the image down"
        )


def _read(image: Any, name: str) -> bytes:
    if isinstance(image, (bytes, bytearray, memoryview)):
        data = bytes(image)
    elif isinstance(image, (str, os.PathLike)):
        with _open_file(os.fspath(image), name) as file, _as_image_error(name):
            data = file.read()
    else:
        raise ImageError(
            f"cannot read an image from {name}; give a path, the bytes of an image file, a PIL image, "
            "a numpy array or a torch tensor"
        )
    if not data:
        raise ImageError(f"cannot read image {name}: it is empty (0 bytes)")
    return data


def _open_file(path: str | bytes, name: str) -> BinaryIO:
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise ImageError(f"cannot read image {name}: it is a directory; give one picture in it")
        if not stat.S_ISREG(mode):
            raise ImageError(f"cannot read image {name}: it is not a regular file")
        return open(path, "rb")
    except OSError as error:
        raise ImageError(f"cannot read image {name}: {error.strerror or error}") from error
    except ValueError as error:  # a path that holds a null character
        raise ImageError(f"cannot read image {name}: {error}") from error


def _describe(image: Any) -> str:
    if isinstance(image, (bytes, bytearray, memoryview)):
        return f"bytes ({len(image)} bytes)"
    if isinstance(image, (str, os.PathLike)):
        return repr(os.fspath(image))
    if isinstance(image, Image.Image):
        name = getattr(image, "filename", "")
        return repr(os.fspath(name)) if name else f"PIL image (mode {image.mode}, {image.width}×{image.height})"
    if isinstance(image, np.ndarray) or _is_tensor(image):
        kind = "array" if isinstance(image, np.ndarray) else "tensor"
        return f"{kind} (shape {tuple(image.shape)}, {image.dtype})"
    return f"a value of type {type(image).__name__}"


def _is_tensor(image: object) -> TypeGuard[torch.Tensor]:
    # A tensor exists only where torch has been imported; while another thread imports it, it has no such class yet.
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return tensor is not None and isinstance(image, tensor)


@contextmanager
def _as_image_error(name: str) -> Iterator[None]:
    """Turn whatever a decoder raises into an ImageError that names the image.

    Decoders of untrusted bytes raise every built-in kind (OSError, SyntaxError, struct.error, MemoryError, …), and
    Pillow's size check a Warning or an Exception of its own, depending on the filters in force.
    """
    try:
        yield
    except Exception as error:
        reason = str(error) if isinstance(error, ImageError) else f"{error} ({type(error).__name__})"
        raise ImageError(f"cannot read image {name}: {reason}") from error
