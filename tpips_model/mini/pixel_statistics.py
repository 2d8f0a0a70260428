"""Colour, light, edge and frequency statistics of pixels, without any network."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

__all__ = [
    "cielab",
    "color_statistics",
    "edge_statistics",
    "layout_statistics",
    "pattern_statistics",
    "spectrum_statistics",
]

_AB_BINS, _AB_LIMIT = 9, 64.0
_LEVELS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)


def cielab(pixels: Tensor) -> Tensor:
    """Turn sRGB float32 (B, 3, H, W) in [0, 1] into CIELAB (D65), same shape; L in [0, 100]."""
    linear = torch.where(pixels > 0.04045, ((pixels + 0.055) / 1.055) ** 2.4, pixels / 12.92)
    to_xyz = torch.tensor(
        [[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0178, 0.1095, 0.8728]], device=pixels.device
    )
    xyz = torch.einsum("ij,bjhw->bihw", to_xyz, linear)
    root = torch.where(xyz > 0.008856, xyz.clamp_min(1e-8) ** (1 / 3), 7.787 * xyz + 16 / 116)
    x, y, z = root.unbind(1)
    return torch.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], 1)


def _memberships(values: Tensor, low: float, high: float, bins: int) -> Tensor:
    """Share every value between its two neighbouring bins: float32 (..., bins)."""
    centers = torch.linspace(low, high, bins, device=values.device)
    width = (high - low) / (bins - 1)
    return (1 - (values.clamp(low, high)[..., None] - centers).abs() / width).clamp_min(0)


def color_statistics(lab: Tensor, weight: Tensor) -> Tensor:
    """Describe colours where a weight is large.

    Args:
        lab: float32 (B, 3, N), CIELAB of N places.
        weight: float32 (B, N), at least 0.

    Returns:
        float32 (B, 134): histograms over a and b, lightness, chroma and hue; means, spreads.
    """
    share = weight / weight.sum(1, keepdim=True).clamp_min(1e-6)
    light, a, b = lab.unbind(1)
    chroma = (a**2 + b**2).sqrt()
    along_a = _memberships(a, -_AB_LIMIT, _AB_LIMIT, _AB_BINS) * share[..., None]
    plane = torch.einsum("bni,bnj->bij", along_a, _memberships(b, -_AB_LIMIT, _AB_LIMIT, _AB_BINS)).flatten(1)
    lightness = (_memberships(light, 0, 100, 12) * share[..., None]).sum(1)
    chromas = (_memberships(chroma, 0, 80, 8) * share[..., None]).sum(1)
    # Hue histogram from harmonics: cheap, smooth, and blind to the hue of greys.
    angle, order = torch.atan2(b, a), torch.arange(1, 5, device=lab.device)
    turns = order[None, None] * angle[..., None]
    pull = (share * chroma / 40)[..., None]
    hue = torch.cat([(turns.cos() * pull).sum(1), (turns.sin() * pull).sum(1)], 1)
    mean = (lab * share[:, None]).sum(2)
    centered = lab - mean[..., None]
    spread = ((centered**2 * share[:, None]).sum(2) + 1e-3).sqrt()
    mixed = [
        (centered[:, i] * centered[:, j] * share).sum(1) / (spread[:, i] * spread[:, j])
        for i, j in ((0, 1), (0, 2), (1, 2))
    ]
    cumulated = (_memberships(light, 0, 100, 17) * share[..., None]).sum(1).cumsum(1)
    return torch.cat(
        [
            plane.sqrt(),
            lightness.sqrt(),
            chromas.sqrt(),
            hue,
            mean / 50,
            spread / 25,
            torch.stack(mixed, 1),
            cumulated[:, :16],
        ],
        1,
    )


@lru_cache(maxsize=2)
def _planes(size: int) -> Tensor:
    line = torch.linspace(-1, 1, size)
    x, y = line[None, :].expand(size, size), line[:, None].expand(size, size)
    return torch.stack([x, y, x**2 + y**2 - 0.68, x * y, x**2 - y**2]).flatten(1)


def layout_statistics(lab: Tensor) -> Tensor:
    """Describe how colour, lightness and contrast are spread: float32 (B, 3, 40, 40) CIELAB → (B, 128)."""
    grid = functional.adaptive_avg_pool2d(lab, 5).flatten(1) / 50
    light = lab[:, :1]
    local = (light - functional.avg_pool2d(light, 5, 1, 2, count_include_pad=False)).abs()
    contrast = functional.adaptive_avg_pool2d(local, 5).flatten(1)
    planes = _planes(lab.shape[-1]).to(lab.device)
    tilt = (light.flatten(2) @ planes.T)[:, 0] / planes.shape[1] / 10
    # Ratios of light: a lamp multiplies, so its side shows in the logarithm whatever the picture's darkness.
    logs = (light.clamp_min(0) + 6).log().flatten(2)
    ratio = ((logs - logs.mean(2, keepdim=True)) @ planes.T)[:, 0] / planes.shape[1] * 4
    sides = logs.view(-1, *lab.shape[-2:])
    rings = [
        sides[:, :8].mean((1, 2)),
        sides[:, -8:].mean((1, 2)),
        sides[:, :, :8].mean((1, 2)),
        sides[:, :, -8:].mean((1, 2)),
    ]
    peaks = functional.adaptive_max_pool2d(functional.avg_pool2d(light, 5, 1, 2), 3).flatten(1) / 50
    return torch.cat(
        [grid, (contrast + 0.3).log(), tilt, ratio, torch.stack(rings, 1) - sides.mean((1, 2))[:, None], (peaks)], 1
    )


def edge_statistics(gray: Tensor, weight: Tensor) -> Tensor:
    """Describe edges at four scales, over the whole picture, its parts, and where a weight is large.

    Args:
        gray: float32 (B, 1, H, W) in [0, 1].
        weight: float32 (B, 1, h, w), at least 0.

    Returns:
        float32 (B, F): orientation harmonics (the first tells shading, the second direction, the fourth grids),
        strength and its peakedness.
    """
    parts: list[Tensor] = []
    level = gray
    for scale in range(4):
        dx = functional.pad(level[:, :, 1:-1, 2:] - level[:, :, 1:-1, :-2], (1, 1, 1, 1))
        dy = functional.pad(level[:, :, 2:, 1:-1] - level[:, :, :-2, 1:-1], (1, 1, 1, 1))
        strength = (dx**2 + dy**2 + 1e-8).sqrt()
        cos, sin = dx / strength, dy / strength
        cos2, sin2 = cos**2 - sin**2, 2 * cos * sin
        fields = [dx, dy, strength * cos2, strength * sin2, strength * (cos2**2 - sin2**2), strength * 2 * cos2 * sin2]
        stack = torch.cat([*fields, strength, strength**2], 1)
        parts.append(_normalised(stack.mean((2, 3))))
        local = functional.adaptive_avg_pool2d(
            stack, weight.shape[-1] if level.shape[-1] > weight.shape[-1] else level.shape[-1]
        )
        share = functional.adaptive_avg_pool2d(weight, local.shape[-1])
        share = share / share.sum((2, 3), keepdim=True).clamp_min(1e-6)
        parts.append(_normalised((local * share).sum((2, 3))))
        if scale in (0, 1, 2):
            parts.append(_normalised(functional.adaptive_avg_pool2d(stack, 3)).flatten(1))
        smaller = functional.avg_pool2d(level, 2)
        detail = level - functional.interpolate(smaller, scale_factor=2, mode="bilinear", align_corners=False)
        size, power = detail.abs().mean((1, 2, 3)), (detail**2).mean((1, 2, 3))
        parts.append(torch.stack([(size + 3e-4).log(), (power / (size**2 + 1e-6)).clamp(0, 30) / 10], 1))
        inside = functional.adaptive_avg_pool2d(detail.abs(), local.shape[-1])
        parts.append(((inside * share).sum((1, 2, 3)) + 3e-4).log()[:, None])
        level = smaller
    return torch.cat(parts, 1)


def _normalised(stack: Tensor) -> Tensor:
    """Divide the six harmonics (channels) by the strength; take the strength's logarithm and peakedness."""
    strength, power = stack[:, 6:7], stack[:, 7:8]
    return torch.cat([stack[:, :6] / (strength + 1e-3), (strength + 1e-3).log(), power / (strength**2 + 1e-4)], 1)


def pattern_statistics(gray: Tensor) -> Tensor:
    """Count local binary patterns (how many of eight neighbours are lighter, uniform ones apart) at two scales."""
    parts: list[Tensor] = []
    level = gray
    for _ in range(2):
        height, width = level.shape[-2:]
        center = level[:, :, 1:-1, 1:-1] + 0.01
        around = ((0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0))
        lighter = [level[:, :, dy : height - 2 + dy, dx : width - 2 + dx] > center for dy, dx in around]
        count = torch.stack(lighter).sum(0, dtype=torch.uint8)
        changes = torch.stack([lighter[i] ^ lighter[i - 1] for i in range(8)]).sum(0, dtype=torch.uint8)
        code = torch.where(changes <= 2, count, torch.full_like(count, 9)).flatten(1)
        parts.append(torch.stack([(code == k).float().mean(1) for k in range(10)], 1).sqrt())
        level = functional.avg_pool2d(level, 2)
    return torch.cat(parts, 1)


@lru_cache(maxsize=2)
def _bands(size: int) -> tuple[Tensor, Tensor]:
    """The window of a spectrum and the shares of its frequencies in 16 rings and 12 directions of two ring ranges."""
    window = torch.hann_window(size)
    fy = torch.fft.fftfreq(size)[:, None] * size
    fx = torch.fft.rfftfreq(size)[None] * size
    radius = (fx**2 + fy**2).sqrt()
    edges = torch.logspace(math.log10(1.5), math.log10(size / 2), 17)
    rings = [((radius >= low) & (radius < high)) for low, high in itertools.pairwise(edges)]
    angle = torch.remainder(torch.atan2(fy.expand_as(radius), fx.expand_as(radius)), math.pi)
    sector = (angle * (12 / math.pi)).long().clamp_max(11)
    for low, high in ((3, 12), (12, 60)):
        rings += [(radius >= low) & (radius < high) & (sector == k) for k in range(12)]
    shares = torch.stack([ring.float().flatten() / ring.sum().clamp_min(1) for ring in rings], 1)
    return window[:, None] * window, shares


def spectrum_statistics(gray: Tensor) -> Tensor:
    """Describe the power spectrum of float32 (B, 1, S, S): (B, 40), log power by frequency and by direction."""
    window, shares = (constant.to(gray.device) for constant in _bands(gray.shape[-1]))
    plain = gray[:, 0] - gray.mean((1, 2, 3))[:, None, None]
    power = torch.fft.rfft2(plain * window).abs() ** 2
    log = ((power.flatten(1) @ shares) + 1e-2).log()
    rings, coarse, fine = log[:, :16], log[:, 16:28], log[:, 28:]
    return torch.cat([rings / 4, coarse - coarse.mean(1, keepdim=True), fine - fine.mean(1, keepdim=True)], 1)
