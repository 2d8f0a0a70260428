"""How the light falls: each function gives, for every pixel, how far it goes to the palette's ink or paper.

H, W are the picture's height and width. A value of −1 is ink, 0 the colour as drawn, +1 paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageFilter

from indexer.gallery.surface import Field, blurred, enlarged, field_of, mask_image

__all__ = ["LIGHTING", "Scene"]


@dataclass(frozen=True)
class Scene:
    """What the light falls on.

    Attributes:
        mask: float32 (H, W) in [0, 1], where the subject is.
        horizon: The row where far meets near.
        x: Column of the middle of the nearest subject.
        y: Row of its foot.
        size: Pixels in one unit of it.
    """

    mask: Field
    horizon: float
    x: float
    y: float
    size: float

    def relief(self, dx: float, dy: float) -> Field:
        """Return how much each pixel of the rounded subject faces the light that comes from (dx, dy), in [−1, 1]."""
        height, width = self.mask.shape
        small = mask_image(self.mask).reduce(2).filter(ImageFilter.GaussianBlur(0.045 * self.size))
        slope_y, slope_x = np.gradient(field_of(small))
        facing = np.clip(-(slope_x * dx + slope_y * dy) * 0.125 * self.size, -1, 1)
        return enlarged(facing, (width, height)) * self.mask

    def cast(self, lean: float, length: float) -> Field:
        """Return the shadow that the nearest subject throws on the ground, in [0, 1]."""
        height, width = self.mask.shape
        columns = np.arange(width, dtype=np.float32)
        nearest = self.mask * (np.abs(columns - self.x) < 0.6 * self.size)
        # Row y of the shadow shows the subject's row foot − (y's distance to the foot) / length, shifted by lean.
        squash = 1 / length
        shear = (1, lean * squash, -lean * squash * self.y, 0, squash, self.y * (1 - squash))
        thrown = mask_image(nearest).transform(
            (width, height), Image.Transform.AFFINE, shear, Image.Resampling.BILINEAR
        )
        soft = field_of(thrown.filter(ImageFilter.GaussianBlur(2)))
        rows = np.arange(height, dtype=np.float32)[:, None]
        return soft * (1 - self.mask) * (rows > self.horizon)

    def spot(self, radius: float, rise: float) -> Field:
        """Return a soft round glow, 1 at its middle ``rise`` units above the subject's foot."""
        height, width = self.mask.shape
        rows, columns = np.arange(height, dtype=np.float32)[:, None], np.arange(width, dtype=np.float32)[None]
        reach = radius * self.size
        return np.exp(-(((rows - self.y) / reach + rise / radius) ** 2)) * np.exp(-(((columns - self.x) / reach) ** 2))

    def across(self) -> Field:
        """Return a ramp from −1 at the left border to +1 at the right."""
        return np.broadcast_to(np.linspace(-1, 1, self.mask.shape[1], dtype=np.float32), self.mask.shape)


def _front(scene: Scene) -> Field:
    return 0.1 * scene.mask + 0.22 * scene.relief(0, -0.4) - 0.3 * scene.cast(0.0, 0.12)


def _from_side(scene: Scene, side: float) -> Field:
    ramp = side * scene.across()
    # Shade darkens more than light whitens, so that the colours stay.
    wide = np.where(ramp > 0, 0.3 * ramp, 0.55 * ramp)
    return wide + 0.62 * scene.relief(side, -0.35) - 0.5 * scene.cast(1.1 * side, 0.3)


def _left(scene: Scene) -> Field:
    return _from_side(scene, -1.0)


def _right(scene: Scene) -> Field:
    return _from_side(scene, 1.0)


def _backlit(scene: Scene) -> Field:
    glow = scene.spot(0.62, 0.5)
    behind = -0.74 + 1.5 * glow
    rim = np.clip(scene.mask - blurred(scene.mask, 0.016 * scene.size), 0, 1) * 1.6
    return behind * (1 - scene.mask) + (-0.74 + rim) * scene.mask


def _high_key(scene: Scene) -> Field:
    return 0.64 - 0.34 * scene.mask + 0.1 * scene.relief(0, -1)


def _low_key(scene: Scene) -> Field:
    spot = scene.spot(0.65, 0.55)
    around, subject = -0.86 + 0.45 * spot, -0.5 + 0.6 * spot
    return around * (1 - scene.mask) + subject * scene.mask + 0.45 * scene.relief(-0.5, -0.8)


LIGHTING: dict[str, Callable[[Scene], Field]] = {
    "front": _front,
    "from the left": _left,
    "from the right": _right,
    "backlit dusk": _backlit,
    "high key": _high_key,
    "low key": _low_key,
}
