"""A painting: its factors, and how they become a picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from indexer.gallery.backgrounds import BACKGROUNDS, Canvas
from indexer.gallery.brushwork import BRUSHWORK
from indexer.gallery.compositions import COMPOSITIONS
from indexer.gallery.lighting import LIGHTING, Scene
from indexer.gallery.palettes import PALETTES, Palette
from indexer.gallery.pen import Pen
from indexer.gallery.subjects import SUBJECTS
from indexer.gallery.surface import Field, blurred, field_of, shaded

__all__ = ["FACTORS", "FORMATS", "Painting", "paint"]

# factor -> its values; each is chosen independently of the others.
FACTORS: dict[str, tuple[str, ...]] = {
    "subject": tuple(SUBJECTS),
    "palette": tuple(PALETTES),
    "brushwork": tuple(BRUSHWORK),
    "composition": tuple(COMPOSITIONS),
    "lighting": tuple(LIGHTING),
    "background": tuple(BACKGROUNDS),
}
FORMATS = {"landscape": (384, 288), "portrait": (288, 384), "square": (336, 336)}
# How far the background fades into the sky's colour, as distance does, so that the subject stands out from it.
HAZE = 0.2
# Shapes are drawn at twice the size and averaged, which smooths their borders.
OVERSAMPLING = 2


@dataclass(frozen=True)
class Painting:
    """What a painting shows and how it is made.

    Args:
        subject: One of ``FACTORS["subject"]``, and so on for the next five.
        format: ``"landscape"``, ``"portrait"`` or ``"square"``.
        seed: The chance in everything else.
    """

    subject: str
    palette: str
    brushwork: str
    composition: str
    lighting: str
    background: str
    format: str = "landscape"
    seed: int = 0


def paint(painting: Painting) -> Image.Image:
    """Paint a picture; the same painting gives the same pixels.

    Returns:
        A PIL image of mode RGB and of the format's size.
    """
    palette = PALETTES[painting.palette]
    # A stream of its own for each layer, so that changing one factor leaves the rest of the picture alone.
    ground, figure, surface = (np.random.default_rng([painting.seed, layer]) for layer in range(3))
    picture, scene = _draw(painting, palette, ground, figure)
    light = np.clip(LIGHTING[painting.lighting](scene) - 0.3 * _halo(scene), -0.96, 0.9)
    return BRUSHWORK[painting.brushwork](shaded(picture, light, palette.ink, palette.paper), palette, surface)


def _draw(
    painting: Painting, palette: Palette, ground: np.random.Generator, figure: np.random.Generator
) -> tuple[Image.Image, Scene]:
    width, height = FORMATS[painting.format]
    composition = COMPOSITIONS[painting.composition]
    size = (width * OVERSAMPLING, height * OVERSAMPLING)
    image = Image.new("RGB", size)
    canvas = Canvas(image, ImageDraw.Draw(image), round(size[1] * composition.horizon), palette, ground)
    BACKGROUNDS[painting.background](canvas)

    image = Image.blend(image, Image.new("RGB", size, palette.sky), HAZE)

    layer = Image.new("RGBA", size)
    mirrored = bool(figure.random() < 0.5)
    chance = int(figure.integers(2**31))
    for place in composition.places:
        pen = Pen(
            ImageDraw.Draw(layer), place.x * size[0], place.y * size[1], place.size * min(size), mirrored=mirrored
        )
        SUBJECTS[painting.subject](pen, palette, np.random.default_rng(chance))
    mask = layer.getchannel("A")
    image.paste(layer, mask=mask)
    nearest = composition.places[-1]
    scene = Scene(
        mask=field_of(mask.reduce(OVERSAMPLING)),
        horizon=height * composition.horizon,
        x=nearest.x * width,
        y=nearest.y * height,
        size=nearest.size * min(width, height),
    )
    return image.reduce(OVERSAMPLING), scene


def _halo(scene: Scene) -> Field:
    """Return the faint shade around the subject that sets it off from what lies behind, in [0, 1]."""
    return blurred(scene.mask, 4) * (1 - scene.mask)
