"""How the paint is laid on: one function a technique, from the finished scene to the finished picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter

from indexer.gallery.palettes import Palette, mix
from indexer.gallery.surface import (
    Field,
    along,
    blurred,
    edges,
    emboss,
    enlarged,
    field_of,
    mask_image,
    shaded,
    smooth_noise,
    strokes_along_shapes,
    tones,
)

__all__ = ["BRUSHWORK"]


def _oil(picture: Image.Image, palette: Palette, rng: np.random.Generator) -> Image.Image:
    """Strokes that follow the shapes, in three sizes, with the marks of the bristles."""
    angle = strokes_along_shapes(picture, rng)
    canvas = picture.reduce(6).resize(_doubled(picture), Image.Resampling.BILINEAR)
    draw = ImageDraw.Draw(canvas)
    for x, y, colours, stroke in _layers(picture, palette, rng, ((9, 4, 0.0), (6, 2, 0.12), (3.6, 1, 0.28))):
        length, width = ((15, 12), (9, 7), (5, 4))[stroke]
        middles, reach = 2.0 * np.stack([x, y], axis=1), _heading(angle[y, x]) * length
        lines = np.concatenate([middles - reach, middles + reach], axis=1)
        for line, ink in zip(lines.tolist(), _inks(colours), strict=True):
            draw.line(line, fill=ink, width=width)
    painted = canvas.reduce(2)
    bristles = along(_grain(picture, rng), angle, 4)
    relief = emboss(bristles + tones(painted) * 5)
    return shaded(painted, np.clip(0.085 * relief, -0.22, 0.22), palette.ink, palette.paper)


def _pointillism(picture: Image.Image, palette: Palette, rng: np.random.Generator) -> Image.Image:
    """Round dots of purer colours than the eye sees from afar, on light ground."""
    coarse = picture.reduce(12)
    ground = Image.blend(coarse, Image.new("RGB", coarse.size, palette.paper), 0.4)
    canvas = ground.resize(_doubled(picture), Image.Resampling.BILINEAR)
    draw = ImageDraw.Draw(canvas)
    vivid = ImageEnhance.Color(picture).enhance(1.25)
    pure = np.array([palette.main, palette.second, palette.accent, palette.far, palette.shadow], dtype=np.float32)
    pure -= pure @ np.array([[0.299], [0.587], [0.114]], dtype=np.float32)  # hue alone: a dot is as light as its place
    for step, radius in ((6.0, 5.8), (5.2, 4.6)):
        x, y = _scattered(picture, step, rng)
        colours = np.asarray(vivid)[y, x].astype(np.float32)
        colours += pure[rng.integers(0, len(pure), len(x))] * 0.4 * (rng.random((len(x), 1)) < 0.35)
        colours += rng.normal(0, 17, (len(x), 1))
        middles = 2.0 * np.stack([x, y], axis=1)
        boxes = np.concatenate([middles - radius, middles + radius], axis=1)
        for box, ink in zip(boxes.tolist(), _inks(np.clip(colours, 0, 255).astype(np.uint8)), strict=True):
            draw.ellipse(box, fill=ink)
    return canvas.reduce(2)


def _watercolour(picture: Image.Image, palette: Palette, rng: np.random.Generator) -> Image.Image:
    """Thin washes that run and pool: dark rims, blooms, grain of the paper, a ragged white border."""
    width, height = picture.size
    shape = (height, width)
    wander = [smooth_noise(shape, 22, rng) * 4 + smooth_noise(shape, 6, rng) * 1.6 for _ in "yx"]
    rows = np.clip(np.arange(height, dtype=np.float32)[:, None] + wander[0], 0, height - 1).astype(np.int32)
    columns = np.clip(np.arange(width, dtype=np.float32)[None] + wander[1], 0, width - 1).astype(np.int32)
    run = Image.fromarray(np.asarray(picture).reshape(-1, 3).take(rows * width + columns, axis=0))
    run = ImageEnhance.Color(_soft(run, 1)).enhance(1.3)
    tone = tones(run)
    rim = np.clip(blurred(tone, 4) - tone, 0, 0.25)
    grain = smooth_noise(shape, 1.5, rng)
    washed = shaded(run, -1.5 * rim, mix(palette.shadow, palette.ink, 0.5), palette.paper)
    border = 11 + 5 * smooth_noise(shape, 12, rng) + 2.5 * grain
    y, x = np.ogrid[:height, :width]
    inside = np.minimum(np.minimum(x, width - 1 - x), np.minimum(y, height - 1 - y)) - border
    # Pigment thins out in blooms and gathers along the border, where the water dries last.
    pigment = 0.86 - 0.2 * smooth_noise(shape, 38, rng) + 0.1 * grain + 0.28 * np.exp(-((inside - 4) ** 2) / 10)
    paper = Image.new("RGB", picture.size, mix(palette.paper, (255, 255, 255), 0.4))
    return Image.composite(washed, paper, mask_image(np.clip(pigment, 0.55, 1) * np.clip(inside / 2, 0, 1)))


def _hatching(picture: Image.Image, palette: Palette, rng: np.random.Generator) -> Image.Image:
    """Pen lines in ink, crossing where it is darker, over a faint tint."""
    width, height = picture.size
    tone = _spread_tones(_soft(picture, 1))
    y, x = np.ogrid[:height, :width]
    wobble = smooth_noise((height, width), 18, rng) * 1.3
    ink = np.clip(edges(_soft(picture, 0.8)) * 2.6 - 0.3, 0, 1)
    for degrees, below, period in ((40, 0.8, 4.6), (-50, 0.52, 4.6), (85, 0.3, 3.8)):
        turn = np.radians(degrees)
        across = ((x * np.cos(turn) + y * np.sin(turn)).astype(np.float32) + wobble) / np.float32(period)
        distance = np.abs(across - np.floor(across) - 0.5) * period
        half_width = (0.35 + 1.1 * np.clip((below - tone) / 0.5, 0, 1)) * (tone < below)
        ink = np.maximum(ink, np.clip(half_width - distance + 0.5, 0, 1) * (half_width > 0))
    tint = Image.blend(picture, Image.new("RGB", picture.size, mix(palette.paper, (255, 255, 255), 0.3)), 0.52)
    return shaded(tint, -0.94 * ink, palette.ink, palette.paper)


def _flat_poster(picture: Image.Image, palette: Palette, rng: np.random.Generator) -> Image.Image:
    """A few flat colours with clean borders, as cut from paper."""
    calm = _soft(picture, 1.2)
    colours = calm.reduce(3).quantize(9, method=Image.Quantize.MEDIANCUT, kmeans=2, dither=Image.Dither.NONE)
    big = calm.resize(_doubled(picture), Image.Resampling.BICUBIC)
    flat = big.quantize(palette=colours, dither=Image.Dither.NONE).convert("RGB").reduce(2)
    return ImageEnhance.Color(flat).enhance(1.25)


def _mosaic(picture: Image.Image, palette: Palette, rng: np.random.Generator) -> Image.Image:
    """Square tiles with dark joints and a lit edge, no two quite alike."""
    tile = 6
    stones = np.asarray(ImageEnhance.Color(picture.reduce(tile)).enhance(1.25)).astype(np.float32)
    stones = np.clip(stones + rng.normal(0, 10, (*stones.shape[:2], 1)), 0, 255).astype(np.uint8)
    rows, columns = stones.shape[:2]
    face = np.zeros((tile, tile), dtype=np.float32)
    face[1, 1:], face[1:, 1], face[-1, 1:], face[1:, -1] = 0.28, 0.16, -0.16, -0.12
    face[0], face[:, 0] = -0.4, -0.4
    laid = Image.fromarray(stones.repeat(tile, axis=0).repeat(tile, axis=1))
    return shaded(laid, np.tile(face, (rows, columns)), palette.ink, palette.paper)


def _palette_knife(picture: Image.Image, palette: Palette, rng: np.random.Generator) -> Image.Image:
    """Thick angular slabs with a ridge of paint at their edge."""
    canvas = picture.reduce(8).resize(_doubled(picture), Image.Resampling.BILINEAR)
    heights = Image.new("L", canvas.size, 110)
    draw, lift = ImageDraw.Draw(canvas), ImageDraw.Draw(heights)
    for x, y, colours, slab in _layers(picture, palette, rng, ((14, 6, 0.0), (7.5, 3, 0.1), (4, 1, 0.3))):
        length, width = ((28, 14), (14, 7), (6, 3.5))[slab]
        ahead = _heading(rng.choice([-0.6, 0.45, 1.9], len(x)) + rng.normal(0, 0.18, len(x)))
        aside = ahead[:, ::-1] * (-width, width)
        ahead = ahead * length * rng.uniform(0.7, 1.1, (len(x), 1))
        middles, skew = 2.0 * np.stack([x, y], axis=1), rng.uniform(0.6, 1.0, (4, len(x), 1))
        corners = (-ahead - aside * skew[0], ahead * skew[1] - aside, ahead + aside * skew[2], aside - ahead * skew[3])
        slabs = np.concatenate([middles + corner for corner in corners], axis=1)
        levels = rng.integers(70, 200, len(x))
        for outline, ink, level in zip(slabs.tolist(), _inks(colours), levels.tolist(), strict=True):
            draw.polygon(outline, fill=ink)
            lift.polygon(outline, fill=level)
            lift.line(outline[2:6], fill=255, width=3)
    painted = canvas.reduce(2)
    thickness = field_of(heights.reduce(2))
    relief = emboss(thickness) + 0.8 * emboss(blurred(thickness, 1.5))
    return shaded(painted, np.clip(0.6 * relief, -0.4, 0.4), palette.ink, palette.paper)


def _charcoal(picture: Image.Image, palette: Palette, rng: np.random.Generator) -> Image.Image:
    """Dry sticks over rough paper: grain, smudges, broken contours, a breath of colour."""
    tone = _spread_tones(_soft(picture, 1.2))
    noise = _grain(picture, rng)
    sticks = sum(np.roll(noise, (-2 * step, round(1.6 * step)), axis=(0, 1)) for step in range(-3, 4)) / np.float32(
        np.sqrt(7)
    )
    grain = 0.5 + 0.17 * _grain(picture, rng) + 0.22 * sticks
    coverage = np.clip(1.05 - 1.15 * tone, 0, 1)
    mark = np.clip((coverage - grain) * 2.6 + 0.42, 0, 1) * (0.35 + 0.65 * coverage)
    contour = np.clip(edges(_soft(picture, 1.2)) * 3.2 - 0.25, 0, 1) * np.clip(1.3 - 0.9 * grain, 0, 1)
    chalk = Image.blend(_soft(picture, 2.5), Image.new("RGB", picture.size, palette.paper), 0.36)
    return shaded(chalk, -0.95 * np.maximum(mark, contour), palette.ink, palette.paper)


def _inks(colours: NDArray[np.uint8]) -> list[int]:
    """Return colours (N, 3) packed as ImageDraw takes them fastest: red in the lowest byte."""
    packed: list[int] = (colours.astype(np.int64) @ np.array([1, 1 << 8, 1 << 16])).tolist()
    return packed


def _soft(picture: Image.Image, radius: float) -> Image.Image:
    return picture.filter(ImageFilter.GaussianBlur(radius))


def _doubled(picture: Image.Image) -> tuple[int, int]:
    return picture.width * 2, picture.height * 2


def _heading(angle: NDArray[np.floating]) -> NDArray[np.floating]:
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _grain(picture: Image.Image, rng: np.random.Generator) -> Field:
    return rng.standard_normal((picture.height, picture.width), dtype=np.float32)


def _scattered(
    picture: Image.Image, step: float, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the columns and rows of a jittered grid's points, in random order."""
    rows, columns = np.meshgrid(np.arange(0, picture.height, step), np.arange(0, picture.width, step), indexing="ij")
    points = np.stack([columns.ravel(), rows.ravel()], axis=1) + rng.uniform(-0.5, 0.5, (rows.size, 2)) * step
    places = np.clip(rng.permutation(points), 0, (picture.width - 1, picture.height - 1)).astype(np.intp)
    return places[:, 0], places[:, 1]


def _layers(
    picture: Image.Image, palette: Palette, rng: np.random.Generator, layers: tuple[tuple[float, int, float], ...]
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.uint8], int]]:
    """Give columns, rows and colours of the strokes of each layer, coarse ones first.

    Args:
        picture: What is painted.
        palette: Its palette.
        rng: Chance.
        layers: For each layer, the pixels between strokes, the pixels (a side) their colour is averaged over, and how
            much detail, in [0, 1], there must be for a stroke of this layer to be set.
    """
    detail = enlarged(np.clip(blurred(edges(picture.reduce(2)), 1.5) * 2.2, 0, 1), picture.size)
    pure = np.array([palette.main, palette.second, palette.paper, palette.shadow], dtype=np.float32)
    for number, (step, cell, least) in enumerate(layers):
        x, y = _scattered(picture, step, rng)
        keep = detail[y, x] >= least
        x, y = x[keep], y[keep]
        colours = np.asarray(picture.reduce(cell))[y // cell, x // cell].astype(np.float32)
        colours += (pure[rng.integers(0, len(pure), len(x))] - colours) * rng.uniform(0, 0.1, (len(x), 1))
        colours += rng.normal(0, 8, (len(x), 1))
        yield x, y, np.clip(colours, 0, 255).astype(np.uint8), number


def _spread_tones(picture: Image.Image) -> Field:
    """Return the luminance with its 3rd and 97th percentile moved towards black and white."""
    tone = tones(picture)
    low, high = np.percentile(tone[::4, ::4], (3, 97))
    spread = np.clip((tone - low) / np.float32(max(0.05, high - low)), 0, 1)
    return 0.6 * spread + 0.4 * tone


BRUSHWORK: dict[str, Callable[[Image.Image, Palette, np.random.Generator], Image.Image]] = {
    "oil strokes": _oil,
    "pointillism": _pointillism,
    "watercolour wash": _watercolour,
    "ink hatching": _hatching,
    "flat poster": _flat_poster,
    "mosaic": _mosaic,
    "palette knife": _palette_knife,
    "charcoal": _charcoal,
}
