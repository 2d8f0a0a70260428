"""What stands behind the subject: one function a background, each filling the whole canvas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from indexer.gallery.palettes import Colour, Palette, mix

__all__ = ["BACKGROUNDS", "Canvas"]


@dataclass(frozen=True)
class Canvas:
    """Where a background is painted.

    Attributes:
        image: The picture, mode RGB.
        draw: Draws on it.
        horizon: The row where far meets near.
        palette: The colours.
        rng: The chance of this painting.
    """

    image: Image.Image
    draw: ImageDraw.ImageDraw
    horizon: int
    palette: Palette
    rng: np.random.Generator

    @property
    def width(self) -> int:
        return self.image.width

    @property
    def height(self) -> int:
        return self.image.height

    @property
    def unit(self) -> float:
        """The shorter side: what sizes are given in."""
        return min(self.image.size)

    def fade(self, top: int, bottom: int, colours: Sequence[Colour]) -> None:
        """Fill the rows from ``top`` to ``bottom`` with a smooth run of colours."""
        rows = max(1, bottom - top)
        column = Image.fromarray(np.array(colours, dtype=np.uint8)[:, None])
        self.image.paste(column.resize((1, rows), Image.Resampling.BILINEAR).resize((self.width, rows)), (0, top))

    def oval(self, x: float, y: float, rx: float, ry: float, colour: Colour) -> None:
        self.draw.ellipse([x - rx, y - ry, x + rx, y + ry], fill=colour)

    def box(self, x0: float, y0: float, x1: float, y1: float, colour: Colour) -> None:
        self.draw.rectangle([min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)], fill=colour)

    def ridge(self, level: float, swell: float, colour: Colour, waves: float = 2.0) -> None:
        """Fill everything under a rolling line."""
        x = np.linspace(0, self.width, 48)
        phase = self.rng.uniform(0, 2 * np.pi, 3)
        y = level - swell * sum(
            np.sin(2 * np.pi * waves * rate * x / self.width + phase[part]) / (1 + part)
            for part, rate in enumerate((0.5, 1.0, 1.7))
        )
        line = np.stack([x, y], axis=1).ravel().tolist()
        self.draw.polygon([*line, self.width, self.height, 0, self.height], fill=colour)


def _plain(c: Canvas) -> None:
    p = c.palette
    c.fade(0, c.height, [mix(p.sky, p.paper, 0.35), p.sky, mix(p.sky, p.far, 0.5)])
    c.fade(c.horizon, c.height, [mix(p.ground, p.sky, 0.45), mix(p.ground, p.sky, 0.2)])


def _sky(c: Canvas) -> None:
    p = c.palette
    c.fade(0, c.height, [mix(p.sky, p.main, 0.28), p.sky, mix(p.sky, p.paper, 0.55)])
    for number in range(7):
        x, y = c.width * c.rng.random(), c.height * ((number + 0.7 * c.rng.random()) / 7)
        size = c.unit * c.rng.uniform(0.07, 0.13)
        puffs = [(dx, c.rng.uniform(0.55, 1.0)) for dx in (-1.9, -1.0, -0.1, 0.8, 1.7)]
        for shift, colour in ((0.32, mix(p.paper, p.far, 0.6)), (0.0, mix(p.paper, p.sky, 0.12))):
            for dx, swell in puffs:
                c.oval(x + dx * size, y + (shift - 0.4 * swell) * size, size * swell, size * swell * 0.8, colour)
            c.oval(x, y + (shift + 0.15) * size, size * 2.5, size * 0.42, colour)


def _hills(c: Canvas) -> None:
    p = c.palette
    c.fade(0, c.horizon, [p.sky, mix(p.sky, p.paper, 0.6)])
    c.ridge(c.horizon - 0.13 * c.unit, 0.06 * c.unit, mix(p.far, p.sky, 0.45))
    c.ridge(c.horizon - 0.04 * c.unit, 0.05 * c.unit, p.far, 1.4)
    near = mix(p.far, p.ground, 0.55)
    c.ridge(c.horizon + 0.03 * c.unit, 0.035 * c.unit, near, 1.8)
    for _ in range(16):
        x, y, size = c.width * c.rng.random(), c.horizon + 0.05 * c.unit * c.rng.random(), c.unit * 0.02
        c.oval(x, y - size, size, size * 1.3, mix(p.accent, p.shadow, 0.55))
    c.ridge(c.horizon + 0.12 * c.unit, 0.03 * c.unit, p.ground, 1.2)
    for row in range(7):
        y = c.horizon + (0.2 + 0.09 * row) * c.unit
        points = [(x, y + 0.03 * c.unit * np.sin(x / c.width * 4 + row)) for x in np.linspace(0, c.width, 20)]
        c.draw.line([tuple(map(float, point)) for point in points], fill=mix(p.ground, p.shadow, 0.28), width=4 + row)


def _sea(c: Canvas) -> None:
    p = c.palette
    c.fade(0, c.horizon, [mix(p.sky, p.far, 0.35), p.sky, mix(p.sky, p.paper, 0.75)])
    island = c.width * c.rng.uniform(0.1, 0.9)
    for dx, rx, ry in ((0.0, 0.2, 0.05), (0.12, 0.14, 0.035)):
        c.oval(island + dx * c.unit, c.horizon, rx * c.unit, ry * c.unit, mix(p.far, p.shadow, 0.35))
    water = mix(p.main, p.far, 0.5)
    c.fade(c.horizon, c.height, [mix(water, p.paper, 0.35), water, mix(water, p.ink, 0.4)])
    depth = c.height - c.horizon
    for row in range(15):
        share = (row + 0.5) / 15
        y, reach = c.horizon + depth * share**1.4, c.unit * (0.02 + 0.07 * share)
        for x in np.arange(-reach * c.rng.random(), c.width, reach * 2.6):
            start = float(x + reach * 0.8 * c.rng.random())
            colour = mix(water, p.paper, 0.75) if c.rng.random() < 0.45 else mix(water, p.shadow, 0.45)
            c.draw.arc(
                [start, y, start + 1.9 * reach, y + reach * 0.8], 200, 340, fill=colour, width=2 + round(5 * share)
            )
    for _ in range(4):
        x, y, s = c.width * c.rng.random(), c.horizon * c.rng.uniform(0.15, 0.7), c.unit * 0.03
        for side in (-1, 1):
            left = min(x, x + side * s)
            c.draw.arc([left, y, left + s, y + s * 0.8], 190, 350, fill=mix(p.ink, p.sky, 0.3), width=4)


def _city(c: Canvas) -> None:
    p = c.palette
    c.fade(0, c.horizon, [p.sky, mix(p.sky, p.paper, 0.45)])
    rows = (
        (mix(p.far, p.sky, 0.4), 0.30, 0.55, 0.09),
        (mix(p.far, p.shadow, 0.55), 0.16, 0.38, 0.12),
    )
    for wall, low, high, broad in rows:
        x = -0.05 * c.unit
        while x < c.width:
            wide, tall = c.unit * broad * c.rng.uniform(0.7, 1.3), c.unit * c.rng.uniform(low, high)
            c.box(x, c.horizon - tall, x + wide, c.horizon, mix(wall, p.shadow, 0.25 * c.rng.random()))
            if c.rng.random() < 0.35:
                c.box(x + wide * 0.45, c.horizon - tall - 0.06 * c.unit, x + wide * 0.5, c.horizon - tall, wall)
            pane = c.unit * 0.013
            for top in np.arange(c.horizon - tall + 2 * pane, c.horizon - 2 * pane, 2.6 * pane):
                for left in np.arange(x + pane, x + wide - 1.5 * pane, 2.2 * pane):
                    lit = mix(p.accent, p.paper, 0.45) if c.rng.random() < 0.5 else mix(wall, p.ink, 0.4)
                    c.box(left, top, left + pane, top + 1.4 * pane, lit)
            x += wide * 1.03
    c.fade(c.horizon, c.height, [mix(p.far, p.ground, 0.5), mix(p.ground, p.shadow, 0.25)])
    c.box(0, c.horizon, c.width, c.horizon + 0.012 * c.unit, mix(p.shadow, p.ink, 0.3))
    for step in range(9):
        share = (step / 9) ** 1.5
        x, y = c.width * 0.5, c.horizon + (c.height - c.horizon) * (0.12 + share)
        c.box(x - c.unit * (0.01 + 0.03 * share), y, x + c.unit * (0.01 + 0.03 * share), y + 0.03 * c.unit, p.paper)


def _forest(c: Canvas) -> None:
    p = c.palette
    c.fade(0, c.horizon, [mix(p.far, p.shadow, 0.25), mix(p.far, p.sky, 0.5), mix(p.sky, p.paper, 0.4)])
    c.fade(c.horizon, c.height, [mix(p.ground, p.far, 0.4), mix(p.ground, p.shadow, 0.45)])
    for depth, share in enumerate((0.3, 0.6, 0.9)):
        foot = c.horizon + 0.07 * c.unit * depth
        needles = mix(mix(p.far, p.accent, 0.25), mix(p.shadow, p.ink, 0.35), share)
        for x in np.arange(-0.05, c.width / c.unit + 0.1, 0.13 + 0.03 * depth):
            at, tall = (x + 0.07 * c.rng.random()) * c.unit, c.unit * c.rng.uniform(0.5, 0.75)
            c.box(at - 0.012 * c.unit, foot - tall * 0.3, at + 0.012 * c.unit, foot, mix(p.shadow, p.ink, share * 0.6))
            for tier in range(4):
                low, half = foot - tall * (0.12 + 0.2 * tier), c.unit * (0.1 - 0.02 * tier) * (0.7 + 0.3 * share)
                tip = low - tall * 0.36
                tone = mix(needles, p.paper, 0.05 * tier)
                c.draw.polygon([at - half, low, at, tip, at + half, low, at, low - 0.02 * c.unit], fill=tone)
    for _ in range(60):
        x, y = c.width * c.rng.random(), c.horizon + (c.height - c.horizon) * c.rng.uniform(0.25, 1)
        blade = mix(p.accent, p.ground, c.rng.random())
        for lean in (-0.02, 0, 0.02):
            c.draw.line([x, y, x + lean * c.unit, y - 0.04 * c.unit], fill=blade, width=3)


def _interior(c: Canvas) -> None:
    p, u = c.palette, c.unit
    wall = mix(p.far, p.sky, 0.5)
    c.fade(0, c.horizon, [mix(wall, p.shadow, 0.1), wall])
    for x in np.arange(0, c.width, 0.08 * u):
        c.box(x, 0, x + 0.03 * u, c.horizon, mix(wall, p.paper, 0.22))
    left = c.width * c.rng.uniform(0.06, 0.14)
    right, top, low = left + 0.4 * u, 0.09 * u, max(0.3 * u, c.horizon - 0.12 * u)
    c.box(left - 0.03 * u, top - 0.03 * u, right + 0.03 * u, low + 0.03 * u, mix(p.shadow, p.ground, 0.4))
    for number in range(4):
        x, y = left + (number % 2) * 0.205 * u, top + (number // 2) * ((low - top) / 2 + 0.008 * u)
        c.box(x, y, x + 0.195 * u, y + (low - top) / 2 - 0.008 * u, mix(p.paper, p.sky, 0.25 + 0.25 * (number // 2)))
    c.box(left - 0.06 * u, low + 0.03 * u, right + 0.06 * u, low + 0.06 * u, mix(p.paper, p.shadow, 0.25))
    for edge, lean in ((left, -1), (right, 1)):
        curtain = [edge - lean * 0.09 * u, top - 0.06 * u, edge + lean * 0.1 * u, top - 0.06 * u]
        c.draw.polygon(
            [*curtain, edge + lean * 0.12 * u, low + 0.05 * u, edge + lean * 0.01 * u, low + 0.02 * u],
            fill=mix(p.second, p.main, 0.4),
        )
    frame = c.width - 0.34 * u
    c.box(frame, 0.12 * u, frame + 0.25 * u, 0.36 * u, mix(p.shadow, p.accent, 0.25))
    c.box(frame + 0.02 * u, 0.14 * u, frame + 0.23 * u, 0.34 * u, p.paper)
    c.oval(frame + 0.13 * u, 0.23 * u, 0.05 * u, 0.05 * u, p.accent)
    c.box(frame + 0.02 * u, 0.27 * u, frame + 0.23 * u, 0.34 * u, mix(p.main, p.paper, 0.35))
    c.box(0, c.horizon - 0.035 * u, c.width, c.horizon, mix(p.paper, p.far, 0.3))
    c.fade(c.horizon, c.height, [p.ground, mix(p.ground, p.shadow, 0.35)])
    for step in np.linspace(-1.6, 1.6, 17):
        x = c.width / 2 + step * c.width
        c.draw.line(
            [c.width / 2 + step * c.width * 0.5, c.horizon, x, c.height], fill=mix(p.ground, p.shadow, 0.55), width=4
        )
    c.draw.line([0, c.horizon + 2, c.width, c.horizon + 2], fill=mix(p.shadow, p.ink, 0.3), width=5)


def _wallpaper(c: Canvas) -> None:
    p = c.palette
    ground = mix(p.far, p.ground, 0.3 * c.rng.random())
    c.box(0, 0, c.width, c.height, ground)
    step = c.unit * c.rng.uniform(0.15, 0.19)
    petal, heart, leaf = mix(p.paper, p.sky, 0.3), p.accent, mix(p.ground, p.shadow, 0.6)
    columns, rows = int(c.width / step) + 2, int(c.height / step) + 2
    for row in range(rows):
        for column in range(columns):
            x, y, r = (column + 0.5 * (row % 2)) * step, row * step, step * 0.17
            if (row + column) % 2 == 0:
                for dx, dy in ((-1, 0), (1, 0), (0, -1), (0, 1)):
                    c.oval(x + dx * r, y + dy * r, r * 0.85, r * 0.85, petal)
                c.oval(x, y, r * 0.7, r * 0.7, heart)
            else:
                c.draw.polygon([x - r, y, x, y - 2 * r, x + r, y, x, y + 2 * r], fill=leaf)
                c.oval(x, y, r * 0.4, r * 0.4, petal)


BACKGROUNDS: dict[str, Callable[[Canvas], None]] = {
    "plain": _plain,
    "sky": _sky,
    "hills": _hills,
    "sea": _sea,
    "city": _city,
    "forest": _forest,
    "interior": _interior,
    "wallpaper": _wallpaper,
}
