"""Numpy arrays and torch tensors of pixels as 8-bit PIL images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tpips_model.errors import ImageError

if TYPE_CHECKING:
    import torch

__all__ = ["array_size", "array_to_pil", "check_dense", "to_8_bit"]

CHANNELS_TO_MODE = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
# Rounding in float16 and bfloat16 arithmetic; more than this out of [0, 1] is another convention, not an error.
SLACK = 1e-2


def array_to_pil(array: NDArray[Any] | torch.Tensor) -> Image.Image:
    """Return an array as a PIL image of mode L, LA, RGB or RGBA.

    Args:
        array: (H, W), (H, W, C) or (C, H, W), C in 1…4; uint8, uint16, floating point in [0, 1] or bool. Where both
            readings fit, numpy arrays are (H, W, C) and torch tensors (C, H, W), as is usual for each.

    Raises:
        ImageError: Another shape or type, no pixels, or values that are not finite or out of range.
    """
    width, height = array_size(array)
    if not width or not height:
        raise ImageError("it has no pixels")
    levels = array if isinstance(array, np.ndarray) else _tensor_to_numpy(array)
    if levels.ndim == 3 and _channels_first(array):
        levels = np.moveaxis(levels, 0, 2)
    if levels.ndim == 3 and levels.shape[2] == 1:
        levels = levels[:, :, 0]
    return Image.fromarray(np.ascontiguousarray(to_8_bit(levels)))


def array_size(array: NDArray[Any] | torch.Tensor) -> tuple[int, int]:
    """Return the (width, height) of an array that ``array_to_pil`` takes, by its shape alone.

    Raises:
        ImageError: Another shape.
    """
    shape = tuple(array.shape)
    if len(shape) not in (2, 3):
        hint = "; pass the images of a batch one by one" if len(shape) == 4 else ""
        raise ImageError(f"expected the shape (H, W), (H, W, C) or (C, H, W){hint}")
    if len(shape) == 2:
        return shape[1], shape[0]
    return (shape[2], shape[1]) if _channels_first(array) else (shape[1], shape[0])


def _channels_first(array: NDArray[Any] | torch.Tensor) -> bool:
    first, last = array.shape[0] in CHANNELS_TO_MODE, array.shape[2] in CHANNELS_TO_MODE
    if not first and not last:
        raise ImageError("neither the first nor the last axis has 1, 2, 3 or 4 channels")
    return first and (not last or not isinstance(array, np.ndarray))


def check_dense(tensor: torch.Tensor) -> None:
    """Refuse a tensor whose values cannot be read as they are.

    Raises:
        ImageError: It is sparse, quantized, or on the device ``meta``, which holds no values.
    """
    if str(tensor.layout) != "torch.strided" or tensor.is_quantized or tensor.is_meta:
        raise ImageError(
            "it is sparse, quantized or without values (device meta); give a dense tensor, such as to_dense() or "
            "dequantize() return"
        )


def _tensor_to_numpy(tensor: torch.Tensor) -> NDArray[Any]:
    check_dense(tensor)
    # torch notes a conjugation or a sign that is still to be applied, and numpy cannot
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    # numpy has no bfloat16
    return (tensor.float() if tensor.is_floating_point() else tensor).numpy()


def to_8_bit(levels: NDArray[Any]) -> NDArray[np.uint8]:
    """Scale levels to 0…255, rounded: uint16 from 0…65535, floating point from 0…1, bool from False, True.

    Raises:
        ImageError: Another type, or a value that is not finite or out of range.
    """
    if levels.dtype == np.uint8:
        return levels
    if levels.dtype == np.bool_:
        return levels.astype(np.uint8) * np.uint8(255)
    if levels.dtype.kind == "u" and levels.dtype.itemsize == 2:
        # v·255/65535 = v/257 exactly, since 65535 = 255·257
        return ((levels.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if levels.dtype.kind != "f":
        raise ImageError(f"values of type {levels.dtype}; expected uint8, uint16, floating point in [0, 1] or bool")
    low, high = float(levels.min()), float(levels.max())
    if not (np.isfinite(low) and np.isfinite(high)):  # min and max hand on any NaN
        raise ImageError("it holds NaN or infinite values")
    if low < -SLACK or high > 1 + SLACK:
        raise ImageError(
            f"floating-point values from {low:.4g} to {high:.4g}; expected [0, 1]. Divide levels of 0…255 by 255, "
            "or undo the model's normalisation"
        )
    return (np.clip(levels.astype(np.float32), 0, 1) * 255 + 0.5).astype(np.uint8)
