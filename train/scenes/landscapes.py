"""Pictures with the statistics of photographs: layered scenery, still lifes, close-ups, and heaps of things.

Each is painted on a canvas larger than the picture, out of which a camera takes a turned or closer view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from train.scenes.colors import color
from train.scenes.raster import FloatMap, Mask, blurred, from_image, gradient, noise, screen, to_image
from train.scenes.shapes import Outline, circle
from train.scenes.subjects import SUBJECTS

__all__ = ["CANVAS", "LANDSCAPES", "SPAN", "landscape"]

CANVAS = 320
# The canvas is this many picture widths wide.
SPAN = 1.6

Landscape = Callable[[FloatMap, FloatMap, np.random.Generator], FloatMap]


def _hue(rng: np.random.Generator, hue: tuple[float, float], *ranges: tuple[float, float]) -> FloatMap:
    return color(float(rng.uniform(*hue) % 1), rng, *ranges)


def _rough(
    u: FloatMap,
    v: FloatMap,
    rng: np.random.Generator,
    tint: FloatMap,
    contrast: float = 0.5,
    roughness: float = 0.9,
    scale: float = 1.0,
) -> FloatMap:
    """A surface of one colour broken by fractal noise."""
    tone = 1 + contrast * (noise(u, v, rng, scale, roughness) - np.float32(0.5))
    return tint * tone[..., None]


def _ridge(u: FloatMap, rng: np.random.Generator, scale: float, height: float, roughness: float = 1.3) -> FloatMap:
    line = noise(u[:1], np.zeros_like(u[:1]), rng, scale, roughness) - np.float32(0.5)
    return np.broadcast_to(height * line, u.shape)


def _sky(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    top = (
        _hue(rng, (0.52, 0.66), (0.2, 0.75), (0.35, 0.95))
        if rng.random() < 0.75
        else _hue(rng, (0.95, 1.12), (0.3, 0.7), (0.5, 0.9))
    )
    low = top + (1 - top) * np.float32(rng.uniform(0.3, 0.8))
    height = np.clip(v + 0.6, 0, 1)[..., None]
    sky = top * (1 - height) + low * height
    cloud = np.clip(rng.uniform(1.0, 3.0) * (noise(u * 0.5, v, rng, 0.8, 1.2) - rng.uniform(0.4, 0.8)), 0, 1)[..., None]
    return sky * (1 - cloud) + np.float32(0.96) * cloud


def _over(pixels: FloatMap, where: Mask, layer: FloatMap) -> FloatMap:
    return np.where(where[..., None], layer, pixels)


def _polygons(pixels: FloatMap, outlines: Sequence[tuple[Outline, FloatMap]]) -> FloatMap:
    """Fill outlines given in scene coordinates."""
    image = to_image(pixels)
    draw = ImageDraw.Draw(image)
    for outline, tint in outlines:
        points = ((outline / SPAN + 0.5) * CANVAS).tolist()
        draw.polygon([(x, y) for x, y in points], fill=tuple(int(c * 255) for c in np.clip(tint, 0, 1)))
    return from_image(image)


def _planted(
    pixels: FloatMap, names: Sequence[str], spots: Sequence[tuple[float, float, float]], rng: np.random.Generator
) -> FloatMap:
    """Draw subjects at (x, y of the centre, radius), each in colours of its own, with shading and rough surface."""
    outlines: list[tuple[Outline, FloatMap]] = []
    for x, y, radius in spots:
        name = names[int(rng.integers(len(names)))]
        main = (
            _hue(rng, (0.2, 0.42), (0.3, 0.8), (0.2, 0.6))
            if name in ("tree", "fir", "palm")
            else color(float(rng.uniform(0, 1)), rng, (0.2, 0.9), (0.25, 0.95))
        )
        shades = {
            "main": main,
            "dark": main * 0.55,
            "light": main + (1 - main) * 0.5,
            "accent": color(float(rng.uniform(0, 1)), rng),
            "ink": np.full(3, 0.08, np.float32),
            "paper": np.full(3, 0.92, np.float32),
        }
        outlines += [(outline * radius + [x, y], shades[tone]) for outline, tone in SUBJECTS[name](rng)]
    drawn = _polygons(pixels, outlines)
    cover = (np.abs(drawn - pixels).sum(-1) > 0.02).astype(np.float32)
    dx, dy = gradient(blurred(cover, 4) * cover)
    tone = np.clip(1 + 4 * (dx * rng.uniform(-1, 1) + dy), 0.6, 1.4)
    u, v = screen(CANVAS)
    tone = tone * (0.85 + 0.3 * noise(u, v, rng, 1.5, 0.8))
    return np.where(cover[..., None] > 0, drawn * tone[..., None], pixels)


def _mountain_lake(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    pixels = _sky(u, v, rng)
    tint = _hue(rng, (0.5, 0.75), (0.1, 0.5), (0.3, 0.7))
    for depth, level in enumerate((-0.18, -0.05, 0.06)):
        layer = _rough(u, v, rng, tint * (1 - 0.25 * depth), 0.9, 1.0)
        pixels = _over(pixels, v > level + _ridge(u, rng, 0.5, 0.42 - 0.1 * depth), layer)
    lake = _rough(u * 0.2, v * 2, rng, pixels[::-1].mean((0, 1)), 0.6, 1.0)
    return _over(pixels, v > rng.uniform(0.1, 0.25), lake)


def _seaside(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    level = rng.uniform(-0.15, 0.05)
    sea = _rough(u * 0.25, v * 1.8, rng, _hue(rng, (0.45, 0.62), (0.3, 0.8), (0.3, 0.8)), 0.7, 0.9)
    pixels = _over(_sky(u, v, rng), v > level, sea)
    pixels = _planted(
        pixels, ("sailing boat", "steamer"), [(rng.uniform(-0.4, 0.4), level - 0.05, rng.uniform(0.08, 0.2))], rng
    )
    sand = _rough(u, v, rng, _hue(rng, (0.08, 0.13), (0.2, 0.5), (0.6, 0.9)), 0.35, 0.5)
    return _over(pixels, v > rng.uniform(0.2, 0.35) + 0.15 * u + _ridge(u, rng, 0.4, 0.1), sand)


def _desert(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    pixels = _sky(u, v, rng)
    tint = _hue(rng, (0.04, 0.13), (0.4, 0.8), (0.55, 0.95))
    for depth in range(4):
        crest = -0.05 + 0.13 * depth + _ridge(u, rng, 0.35, 0.25, 2.0)
        shade = np.clip(1 - 2 * (v - crest), 0.45, 1.1)[..., None]
        pixels = _over(pixels, v > crest, _rough(u, v, rng, tint, 0.2, 0.5) * shade)
    return pixels


def _canyon(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    walls = np.abs(u + _ridge(v.T, rng, 0.5, 0.3).T) > 0.05 + 0.3 * np.clip(0.4 - v, 0, 1)
    strata = np.sin((v + 0.1 * noise(u, v, rng, 0.5)) * 60) * 0.15
    rock = _rough(u, v, rng, _hue(rng, (0.0, 0.08), (0.4, 0.7), (0.4, 0.8)), 0.8, 0.9) * (1 + strata)[..., None]
    return _over(_sky(u, v, rng), walls, rock)


def _meadow(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    level = rng.uniform(-0.1, 0.1)
    grass = _rough(u * 1.5, v * 0.5, rng, _hue(rng, (0.18, 0.35), (0.35, 0.8), (0.35, 0.75)), 0.8, 0.6)
    pixels = _over(_sky(u, v, rng), v > level + _ridge(u, rng, 0.3, 0.1), grass)
    spots = [
        (x, level + 0.05 + y, 0.08 + 0.5 * max(y, 0.02)) for x, y in rng.uniform((-0.75, -0.05), (0.75, 0.3), (5, 2))
    ]
    return _planted(
        pixels, ("tree", "fir", "tree", "cottage", "dog", "rabbit"), sorted(spots, key=lambda spot: spot[1]), rng
    )


def _orchard(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    ground = _rough(u, v * 0.4, rng, _hue(rng, (0.15, 0.3), (0.3, 0.7), (0.3, 0.6)), 0.6, 0.7)
    pixels = _over(_sky(u, v, rng), v > -0.1, ground)
    rows = [(x * (0.4 + y), -0.1 + 0.55 * y, 0.06 + 0.16 * y) for y in (0.1, 0.35, 0.7) for x in np.linspace(-1, 1, 6)]
    return _planted(pixels, ("tree",), rows, rng)


def _woods(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    pixels = _rough(u, v, rng, _hue(rng, (0.2, 0.4), (0.3, 0.8), (0.25, 0.6)), 1.2, 0.8)
    for depth in range(3):
        shade = 0.25 + 0.2 * (2 - depth)
        bark = _rough(u * 1.4, v * 0.2, rng, _hue(rng, (0.05, 0.12), (0.2, 0.5), (shade, shade + 0.15)), 0.9, 0.8)
        stems = np.zeros(u.shape, bool)
        for x in rng.uniform(-0.75, 0.75, 5):
            stems |= np.abs(u - x - 0.05 * np.sin(v * 4 + x)) < 0.012 + 0.018 * depth
        pixels = _over(pixels, stems, bark)
    floor = _rough(u, v, rng, _hue(rng, (0.05, 0.3), (0.3, 0.6), (0.25, 0.5)), 0.9, 0.5)
    return _over(pixels, v > 0.28 + _ridge(u, rng, 0.4, 0.12), floor)


def _street(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    pixels = _sky(u, v, rng)
    edge = -0.85
    grain = 0.85 + 0.3 * noise(u, v, rng, 1.0, 0.6)[..., None]
    while edge < 0.85:
        wide, top = rng.uniform(0.14, 0.34), rng.uniform(-0.5, 0.0)
        front = (u > edge) & (u < edge + wide) & (v > top)
        wall = color(float(rng.uniform(0, 1)), rng, (0.05, 0.5), (0.3, 0.85)) * grain
        panes = (((u - edge) * 18) % 1 > 0.5) & (((v - top) * 14) % 1 > 0.45)
        pixels = _over(_over(pixels, front, wall), front & panes, wall * np.float32(rng.choice([0.35, 1.5])))
        edge += wide
    pixels = _over(pixels, v > 0.27, _rough(u, v, rng, np.full(3, rng.uniform(0.25, 0.5), np.float32), 0.3, 0.4))
    return _planted(
        pixels, ("car", "bus", "person", "bicycle"), [(x, 0.26, 0.13) for x in rng.uniform(-0.5, 0.5, 3)], rng
    )


def _bridge(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    water = _rough(u * 0.3, v * 2, rng, _hue(rng, (0.5, 0.65), (0.2, 0.6), (0.3, 0.7)), 0.5, 0.9)
    pixels = _over(_sky(u, v, rng), v > 0.18, water)
    stone = _rough(u, v, rng, _hue(rng, (0.02, 0.12), (0.1, 0.4), (0.35, 0.75)), 0.5, 0.6)
    arch = np.hypot(((u * 2.2) % 1 - 0.5) * 0.9, v - 0.22) < 0.3
    return _over(pixels, (v > -0.12 + 0.15 * u**2) & (v < 0.22) & ~arch, stone)


def _night(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    pixels = _rough(u, v, rng, _hue(rng, (0.55, 0.8), (0.4, 0.8), (0.06, 0.25)), 0.8, 1.3)
    lamps = [
        (circle(x, y, size), color(float(rng.uniform(0, 1)), rng, (0.1, 0.8), (0.7, 1.0)))
        for x, y, size in rng.uniform((-0.7, -0.7, 0.004), (0.7, 0.7, 0.04), (36, 3))
    ]
    light = to_image(_polygons(np.zeros_like(pixels), lamps))
    glow = from_image(light.filter(ImageFilter.GaussianBlur(2))) + 1.5 * from_image(
        light.filter(ImageFilter.GaussianBlur(9))
    )
    return np.clip(pixels + glow, 0, 1)


def _cloudscape(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    billow = noise(u * 0.8, v, rng, 0.8, 1.25)
    shade = noise(u * 0.8 + 0.02, v + 0.04, rng, 0.8, 1.25)
    return _sky(u, v, rng) * (1 - billow[..., None]) + (0.6 + 0.4 * shade)[..., None] * billow[..., None]


def _still_life(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    wall = _rough(u, v, rng, color(float(rng.uniform(0, 1)), rng, (0.1, 0.6), (0.2, 0.85)), 0.4, 1.3)
    table = _rough(u * 0.3, v * 2, rng, _hue(rng, (0.03, 0.12), (0.3, 0.7), (0.3, 0.75)), 0.6, 0.9)
    pixels = _over(wall, v > rng.uniform(0.0, 0.15), table)
    spots = [(x, rng.uniform(0.0, 0.2), rng.uniform(0.12, 0.22)) for x in rng.permutation(np.linspace(-0.42, 0.42, 5))]
    return _planted(pixels, ("mug", "bottle", "teapot", "apple", "lamp", "clock", "gift", "blossom"), spots, rng)


def _portrait(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    pixels = _rough(u, v, rng, color(float(rng.uniform(0, 1)), rng, (0.1, 0.7), (0.2, 0.85)), 0.7, 1.5)
    spot = (rng.uniform(-0.12, 0.12), rng.uniform(-0.08, 0.12), rng.uniform(0.28, 0.46))
    return _planted(pixels, tuple(SUBJECTS), [spot], rng)


def _leaves(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    pixels = np.full((*u.shape, 3), 0.3, np.float32)
    base, spread = rng.uniform(0, 1), rng.uniform(0.03, 0.4)
    outlines = []
    angle = np.linspace(0, 2 * np.pi, 14)
    for _ in range(260):
        radius = 0.03 / rng.uniform(0.12, 1.0)
        x, y, squash, turn = *rng.uniform(-0.85, 0.85, 2), rng.uniform(0.4, 1), rng.uniform(0, 3)
        px, py = radius * np.cos(angle), radius * squash * np.sin(angle)
        tint = color(float((base + rng.normal(0, spread)) % 1), rng, (0.1, 0.8), (0.2, 0.95))
        outlines.append(
            (np.stack([x + px * np.cos(turn) - py * np.sin(turn), y + px * np.sin(turn) + py * np.cos(turn)], 1), tint)
        )
    return _polygons(pixels, outlines) * (0.75 + 0.5 * noise(u, v, rng, 1.0, 0.8))[..., None]


def _flower_bed(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    pixels = _rough(u, v, rng, _hue(rng, (0.22, 0.38), (0.4, 0.8), (0.25, 0.55)), 1.0, 0.8)
    spots = [
        (x, y, 0.05 + 0.12 * (y + 0.8))
        for x, y in sorted(rng.uniform(-0.7, 0.7, (16, 2)).tolist(), key=lambda spot: spot[1])
    ]
    return _planted(pixels, ("blossom", "blossom", "mushroom", "butterfly"), spots, rng)


def _stones(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    tint = color(float(rng.uniform(0, 1)), rng, (0.05, 0.35), (0.4, 0.85))
    relief = noise(u, v, rng, rng.uniform(0.6, 1.5), rng.uniform(0.7, 1.3))
    dx, dy = gradient(relief)
    slope = np.clip(1 + 12 * (dx + dy), 0.3, 1.8)
    return tint * (slope * (0.5 + 0.7 * relief))[..., None]


def _washes(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    share = [noise(u, v, rng, rng.uniform(0.4, 1.0), rng.uniform(1.2, 2.0))[..., None] ** 3 + 0.01 for _ in range(4)]
    tints = [color(float(rng.uniform(0, 1)), rng, (0.2, 0.95), (0.2, 1.0)) for _ in range(4)]
    return np.sum([s * t for s, t in zip(share, tints, strict=True)], axis=0) / np.sum(share, axis=0)


def _herd(u: FloatMap, v: FloatMap, rng: np.random.Generator) -> FloatMap:
    pixels = _over(
        _sky(u, v, rng), v > -0.1, _rough(u, v, rng, _hue(rng, (0.08, 0.32), (0.3, 0.7), (0.35, 0.75)), 0.6, 0.7)
    )
    name = str(rng.choice(["dog", "elephant", "turtle", "duck", "rabbit", "bird", "person", "cat"]))
    spots = [
        (x, y, 0.1 + 0.3 * (y + 0.1))
        for x, y in sorted(rng.uniform((-0.5, 0.0), (0.5, 0.35), (4, 2)).tolist(), key=lambda spot: spot[1])
    ]
    return _planted(pixels, (name,), spots, rng)


LANDSCAPES: dict[str, Landscape] = {
    "mountain lake": _mountain_lake, "seaside": _seaside, "desert": _desert, "canyon": _canyon, "meadow": _meadow,
    "orchard": _orchard, "woods": _woods, "street": _street, "bridge": _bridge, "night": _night,
    "cloudscape": _cloudscape, "still life": _still_life, "portrait": _portrait, "leaves": _leaves,
    "flower bed": _flower_bed, "stones": _stones, "washes": _washes, "herd": _herd,
}  # fmt: skip


def landscape(kind: str, seed: int) -> Image.Image:
    """Paint one scene; the same kind and seed give the same picture, RGB (CANVAS, CANVAS)."""
    x, y = screen(CANVAS)
    rng = np.random.default_rng([seed, 5])
    painted = LANDSCAPES[kind](x * np.float32(SPAN), y * np.float32(SPAN), rng).astype(np.float32)
    # As sharp as a photograph reduced to this size, whose pixels average over those of the original.
    return to_image(painted).filter(ImageFilter.GaussianBlur(0.5))
