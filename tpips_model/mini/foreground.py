"""Where the main object of a picture is, from contrast with the picture's border, and statistics of that map."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["MAP_SIZE", "MAP_STATISTICS", "foreground_maps", "map_statistics"]

MAP_SIZE = 40
_NEAREST = 3
_THRESHOLDS = (0.2, 0.35, 0.5, 0.65)
_GRID = 10

# Widths of what map_statistics returns: coarse map, profiles, moments, and counts at every threshold.
MAP_STATISTICS = _GRID * _GRID + 2 * 20 + 9 + 4 * len(_THRESHOLDS)


def foreground_maps(lab: Tensor, maps: Tensor) -> Tensor:
    """Rate every place by how unlike the border of the picture it is, in colour and in a network's response.

    A place's contrast is its distance to the third nearest of the samples along the border, so that a background of
    several colours is still background, and an object that touches the border is not.

    Args:
        lab: float32 (B, 3, MAP_SIZE, MAP_SIZE), CIELAB.
        maps: float32 (B, C, h, w), a stage of the backbone.

    Returns:
        float32 (B, 3, MAP_SIZE, MAP_SIZE) in [0, 1]: by colour, by response, and the two together; each map's
        largest value is 1 unless the picture is even.
    """
    color = _contrast(lab / 100, stride=3, noise=0.02)
    scale = maps.flatten(2).std(2).mean(1).clamp_min(1e-3)
    response = _contrast(maps / scale[:, None, None, None], stride=2, noise=0.5)
    response = functional.interpolate(
        response[:, None], size=(MAP_SIZE, MAP_SIZE), mode="bilinear", align_corners=False
    )[:, 0]
    joint = (color * response).sqrt()
    return torch.stack([_stretched(color), _stretched(response), _stretched(joint)], 1)


def _contrast(maps: Tensor, stride: int, noise: float) -> Tensor:
    """Distance of every place beyond what is usual at the border, float32 (B, h, w)."""
    batch, _, height, width = maps.shape
    border = torch.cat(
        [maps[:, :, 0, ::stride], maps[:, :, -1, ::stride], maps[:, :, ::stride, 0], maps[:, :, ::stride, -1]], 2
    )
    places = maps.flatten(2)
    squared = (places**2).sum(1)[:, :, None] + (border**2).sum(1)[:, None] - 2 * places.transpose(1, 2) @ border
    distance = squared.clamp_min(0).topk(_NEAREST, dim=2, largest=False).values[..., -1].sqrt()
    distance = distance.view(batch, height, width)
    rim = torch.cat([distance[:, 0], distance[:, -1], distance[:, :, 0], distance[:, :, -1]], 1)
    usual = rim.mean(1) + rim.std(1) + noise
    return (distance - usual[:, None, None]).clamp_min(0)


def _stretched(maps: Tensor) -> Tensor:
    smooth = functional.avg_pool2d(functional.pad(maps[:, None], (1, 1, 1, 1), mode="replicate"), 3, 1)[:, 0]
    return smooth / smooth.amax((1, 2), keepdim=True).clamp_min(1e-3)


def map_statistics(maps: Tensor) -> Tensor:
    """Describe maps of where the object is: where, how large, how spread, in how many pieces.

    Args:
        maps: float32 (B, M, MAP_SIZE, MAP_SIZE) in [0, 1].

    Returns:
        float32 (B, M · MAP_STATISTICS).
    """
    batch, count = maps.shape[:2]
    flat = maps.reshape(batch * count, MAP_SIZE, MAP_SIZE)
    coarse = functional.avg_pool2d(flat[:, None], MAP_SIZE // _GRID).flatten(1)
    across, down = flat.mean(1).view(-1, 20, 2).mean(2), flat.mean(2).view(-1, 20, 2).mean(2)
    parts = [coarse, across, down, _moments(flat), *(_pieces(flat > threshold) for threshold in _THRESHOLDS)]
    return torch.cat(parts, 1).view(batch, count * MAP_STATISTICS)


def _moments(maps: Tensor) -> Tensor:
    line = (torch.arange(MAP_SIZE, device=maps.device) + 0.5) / MAP_SIZE - 0.5
    weight = maps**2
    mass = weight.sum((1, 2)).clamp_min(1e-4)
    x, y = line[None, None, :], line[None, :, None]
    mean_x, mean_y = (weight * x).sum((1, 2)) / mass, (weight * y).sum((1, 2)) / mass
    dx, dy = x - mean_x[:, None, None], y - mean_y[:, None, None]
    var_x, var_y = (weight * dx**2).sum((1, 2)) / mass, (weight * dy**2).sum((1, 2)) / mass
    covariance = (weight * dx * dy).sum((1, 2)) / mass
    spread_x, spread_y = (var_x + 1e-4).sqrt(), (var_y + 1e-4).sqrt()
    area = weight.mean((1, 2))
    return torch.stack(
        [
            mean_x,
            mean_y,
            spread_x.log(),
            spread_y.log(),
            covariance / (spread_x * spread_y),
            (spread_x / spread_y).log(),
            (area + 1e-3).log(),
            maps.mean((1, 2)),
            ((dx**2 + dy**2) ** 2 * weight).sum((1, 2)) / mass / (var_x + var_y + 1e-4) ** 2,
        ],
        1,
    )


def _pieces(mask: Tensor) -> Tensor:
    """Area, boundary and Euler number (pieces less holes) of masks bool (N, H, W), from counts of 2 × 2 blocks."""
    bits = functional.pad(mask.float(), (1, 1, 1, 1))
    a, b, c, d = bits[:, :-1, :-1], bits[:, :-1, 1:], bits[:, 1:, :-1], bits[:, 1:, 1:]
    total = a + b + c + d
    ones, threes = (total == 1).sum((1, 2)), (total == 3).sum((1, 2))
    diagonal = ((a == d) & (b == c) & (a != b)).sum((1, 2))
    euler = (ones - threes - 2 * diagonal).float() / 4
    area = mask.float().mean((1, 2))
    boundary = ((total > 0) & (total < 4)).float().mean((1, 2))
    pieces = euler.clamp(-6, 12)
    return torch.stack(
        [(area + 1e-3).log(), (boundary + 1e-3).log(), pieces, (area / pieces.clamp_min(1) + 1e-3).log()], 1
    )
