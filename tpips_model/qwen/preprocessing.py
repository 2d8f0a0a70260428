"""Pixels as Qwen3-VL takes them, in torch alone: the stock processor needs torchvision, and its PIL route gives other
values than the authors' models were trained on.

The size rule, in order:

1. A picture longer than 200 times its width (or the other way round) is padded along its short side, both edges
   repeated outwards, to 200 : 1.
2. Both sides are rounded to multiples of 32. If the area then lies over ``max_pixels`` the picture is shrunk, under
   ``min_pixels`` enlarged, its proportions kept as nearly as multiples of 32 allow.
3. Where both cannot be had, ``max_pixels`` wins: over the usual ``min_pixels``, and over the proportions of very long
   pictures. A ``min_pixels`` of more than that and ``max_pixels``, which would enlarge every picture, is refused.

For every picture that the authors' release accepts, and budgets as published, this is the release's own size. The
release refuses pictures of more than 8,192 image tokens and proportions over 200 : 1; here the former are shrunk to
8,192 tokens, with a warning, and the latter padded.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from tpips_model.errors import ImageError, ModelError
from tpips_model.images import ImageLike, check_pixels, to_rgb
from tpips_model.pixel_arrays import check_dense

__all__ = ["DEFAULT_MAX_PIXELS", "DEFAULT_MIN_PIXELS", "Patches", "Preprocessor"]

DEFAULT_MIN_PIXELS = 65536
# 8,192 image tokens of 32 × 32 pixels, the longest sequence that the release computes.
DEFAULT_MAX_PIXELS = 8192 * 32 * 32
MAX_PROPORTION = 200
# Of patch and merge size and frames; a Qwen3-VL has 16, 2 and 2.
MAX_COUNT = 64
# Levels this far out of [0, 1] are another convention, not the overshoot of a generator.
SLACK = 0.5


@dataclass(frozen=True)
class Patches:
    """One picture, cut up.

    Attributes:
        values: float32 (P, C · 2 · p · p): P patches of p × p pixels, normalised, in the order of the vision tower
            (the four patches of one token side by side).
        grid: (rows, columns) of patches, so that P = rows · columns.
        merge_size: Patches along each side of one token.
    """

    values: Tensor
    grid: tuple[int, int]
    merge_size: int = 2

    @property
    def merged_grid(self) -> tuple[int, int]:
        """(rows, columns) of image tokens."""
        return self.grid[0] // self.merge_size, self.grid[1] // self.merge_size

    @property
    def tokens(self) -> int:
        """T, how many image tokens the language model sees."""
        rows, columns = self.merged_grid
        return rows * columns


@dataclass(frozen=True)
class Preprocessor:
    """The size rule, the normalisation and the cutting into patches.

    Args:
        min_pixels: Smaller pictures are enlarged to at least this area.
        max_pixels: Larger pictures are shrunk to at most this area; one image token stands for 32 × 32 pixels.
        mean: Of the three channels, in [0, 1].
        std: Of the three channels.
        patch_size: p, the side of a patch in pixels.
        merge_size: Patches along each side of one image token.
        frames: Copies of a still picture along the time axis of a patch.

    Raises:
        ModelError: ``max_pixels`` is less than one token, ``min_pixels`` is not positive or beyond ``max_pixels``, or
            another setting is out of range.
    """

    min_pixels: int = DEFAULT_MIN_PIXELS
    max_pixels: int = DEFAULT_MAX_PIXELS
    mean: tuple[float, float, float] = (0.5, 0.5, 0.5)
    std: tuple[float, float, float] = (0.5, 0.5, 0.5)
    patch_size: int = 16
    merge_size: int = 2
    frames: int = 2

    def __post_init__(self) -> None:
        counts = {"patch_size": self.patch_size, "merge_size": self.merge_size, "frames": self.frames}
        for name, count in counts.items():
            if not 1 <= count <= MAX_COUNT:
                raise ModelError(f"the image settings' {name} is {count}; expected 1 to {MAX_COUNT}")
        if not all(map(math.isfinite, (*self.mean, *self.std))) or min(self.std) <= 0:
            raise ModelError(
                f"the image settings' mean {self.mean} and std {self.std} must be finite, and std above zero"
            )
        for name, bound in (("min_pixels", self.min_pixels), ("max_pixels", self.max_pixels)):
            if not isinstance(bound, int):
                raise ModelError(f"{name} is {bound!r:.80}; give a whole number of pixels")
        if self.max_pixels < self.factor**2:
            raise ModelError(
                f"max_pixels is {self.max_pixels}, but one image token covers {self.factor**2} pixels; "
                f"give at least that, for example {256 * self.factor**2} for 256 tokens an image"
            )
        if self.min_pixels < 1:
            raise ModelError(f"min_pixels is {self.min_pixels}; give a positive number of pixels")
        if self.min_pixels > max(self.max_pixels, DEFAULT_MIN_PIXELS):
            raise ModelError(
                f"min_pixels is {self.min_pixels:,}, beyond max_pixels, so that every picture would be enlarged to "
                f"{self.max_pixels:,} pixels ({self.max_pixels // self.factor**2:,} tokens); give a smaller one, as "
                f"'NAME?min_pixels={DEFAULT_MIN_PIXELS}' does, or correct \"shortest_edge\" in the image settings"
            )

    @property
    def factor(self) -> int:
        """The side of one image token in pixels."""
        return self.patch_size * self.merge_size

    def __call__(self, image: ImageLike, *, size: tuple[int, int] | None = None) -> Patches:
        """Cut one picture into patches.

        Args:
            image: As ``pixels`` takes it.
            size: (height, width) in pixels to bring the picture to, multiples of 32; by default ``target_size``.

        Returns:
            The patches; gradients flow back to a float tensor.
        """
        return self.patchify(self.resize(self.pixels(image), size=size))

    def pixels(self, image: ImageLike) -> Tensor:
        """Return a picture as float32 (3, H, W) in [0, 1].

        Args:
            image: A floating-point tensor (3, H, W) in [0, 1] is taken as it is, gradients and device kept (values
                a little out of the range, as generators make them, are not clamped); anything else that ``to_rgb``
                takes goes through its rules.

        Raises:
            ImageError: The picture cannot be read, or the tensor has another shape or range.
        """
        opened = self.opened(image)
        if isinstance(opened, Tensor):
            return _checked_levels(opened)
        rgb = np.array(opened)
        return torch.from_numpy(rgb).permute(2, 0, 1).float() / 255

    @staticmethod
    def opened(image: ImageLike) -> Tensor | Image.Image:
        """Return a floating-point tensor (3, H, W) as it is, anything else as an RGB picture of 8 bits.

        Raises:
            ImageError: The picture cannot be read, has no pixels or too many, or is no dense tensor.
        """
        if isinstance(image, Tensor) and image.is_floating_point() and image.ndim == 3 and image.shape[0] == 3:
            try:
                check_dense(image)
                check_pixels((image.shape[2], image.shape[1]))
            except ImageError as error:
                raise ImageError(f"a tensor of shape {tuple(image.shape)} cannot be used: {error}") from error
            return image
        return to_rgb(image)

    def target_size(self, height: int, width: int) -> tuple[int, int]:
        """Return the (height, width) in pixels that a picture of this size is brought to.

        >>> Preprocessor().target_size(256, 320), Preprocessor().target_size(10, 5000)
        ((256, 320), (32, 4992))
        >>> Preprocessor(max_pixels=256 * 1024).target_size(3000, 4000)
        (416, 576)
        """
        short, long = sorted((height, width))
        if long > MAX_PROPORTION * short:
            short = math.ceil(long / MAX_PROPORTION)
            height, width = (short, long) if height <= width else (long, short)
        factor = self.factor
        rows, columns = round(height / factor), round(width / factor)
        area, most = height * width, self.max_pixels // factor**2
        if rows * columns > most:
            scale = math.sqrt(self.max_pixels / area) / factor
            rows, columns = math.floor(height * scale), math.floor(width * scale)
        elif rows * columns * factor**2 < self.min_pixels:
            scale = math.sqrt(self.min_pixels / area) / factor
            rows, columns = math.ceil(height * scale), math.ceil(width * scale)
        rows, columns = self._within(max(rows, 1), max(columns, 1), most)
        return rows * factor, columns * factor

    @staticmethod
    def _within(rows: int, columns: int, most: int) -> tuple[int, int]:
        """Shrink a grid of tokens to at most ``most`` tokens where rounding up, or a side of one token, burst it."""
        if rows * columns <= most:
            return rows, columns
        scale = math.sqrt(most / (rows * columns))
        rows, columns = max(math.floor(rows * scale), 1), max(math.floor(columns * scale), 1)
        return min(rows, most), min(columns, most // min(rows, most))

    def tokens(self, height: int, width: int) -> int:
        """Return how many image tokens a picture of this size becomes.

        >>> Preprocessor().tokens(1024, 1024)
        1024
        """
        rows, columns = self.target_size(height, width)
        return rows * columns // self.factor**2

    def resize(self, pixels: Tensor, *, size: tuple[int, int] | None = None) -> Tensor:
        """Bring float (3, H, W) to ``size``, by default ``target_size``: bicubic, antialiased, not clamped."""
        height, width = pixels.shape[-2:]
        if size is None:
            size = self.target_size(height, width)
            if height * width > self.max_pixels == DEFAULT_MAX_PIXELS:
                warnings.warn(
                    f"pictures of more than {DEFAULT_MAX_PIXELS} pixels are shrunk to that (8,192 image tokens)",
                    stacklevel=2,
                )
            pixels = _padded_to_proportion(pixels)
        if tuple(pixels.shape[-2:]) == size:
            return pixels
        return nn.functional.interpolate(pixels[None], size=size, mode="bicubic", antialias=True, align_corners=False)[
            0
        ]

    def patchify(self, pixels: Tensor) -> Patches:
        """Normalise float (3, H, W), H and W multiples of 32, and cut it into patches."""
        channels, height, width = pixels.shape
        p, m = self.patch_size, self.merge_size
        rows, columns = height // p, width // p
        mean, std = (pixels.new_tensor(values)[:, None, None] for values in (self.mean, self.std))
        cut = ((pixels - mean) / std).reshape(channels, rows // m, m, p, columns // m, m, p)
        # (token row, token column, patch row, patch column, channel, pixel row, pixel column)
        cut = cut.permute(1, 4, 2, 5, 0, 3, 6).reshape(rows * columns, channels, 1, p, p)
        values = cut.expand(-1, -1, self.frames, -1, -1).reshape(rows * columns, -1)
        return Patches(values=values, grid=(rows, columns), merge_size=m)

    @staticmethod
    def grid_tensor(patches: Sequence[Patches], device: torch.device) -> Tensor:
        """Return int64 (B, 3): (frames of patches, rows, columns) for each picture."""
        return torch.tensor([[1, *each.grid] for each in patches], device=device)


def _checked_levels(pixels: Tensor) -> Tensor:
    pixels = pixels.float()
    low, high = (float(level) for level in torch.aminmax(pixels.detach()))
    if not -SLACK <= low <= high <= 1 + SLACK:  # false for NaN, too
        raise ImageError(
            f"a tensor of shape {tuple(pixels.shape)} has values from {low:.4g} to {high:.4g}; expected [0, 1]. "
            "Divide levels of 0…255 by 255, and map [−1, 1] by (x + 1) / 2"
        )
    return pixels


def _padded_to_proportion(pixels: Tensor) -> Tensor:
    """Repeat the edges of float (3, H, W) outwards until neither side is over 200 times the other."""
    height, width = pixels.shape[-2:]
    need_height = max(math.ceil(width / MAX_PROPORTION) - height, 0)
    need_width = max(math.ceil(height / MAX_PROPORTION) - width, 0)
    if not need_height and not need_width:
        return pixels
    left, top = need_width // 2, need_height // 2
    return nn.functional.pad(pixels[None], (left, need_width - left, top, need_height - top), mode="replicate")[0]
