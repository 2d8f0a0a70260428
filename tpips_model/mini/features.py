"""What the bundled model knows of an image before any words: statistics of network, colour, layout, texture."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from tpips_model.mini.foreground import MAP_SIZE, foreground_maps, map_statistics
from tpips_model.mini.pixel_statistics import (
    cielab,
    color_statistics,
    edge_statistics,
    layout_statistics,
    pattern_statistics,
    spectrum_statistics,
)

__all__ = ["FEATURE_GROUPS", "FEATURE_VERSION", "INPUT_SIZE", "group_slices", "image_features"]

INPUT_SIZE = 160
# Raised whenever the same pixels give other features, so that a head is never used with features it was not made for.
FEATURE_VERSION = 1

# group -> number of features, in the order in which image_features returns them
FEATURE_GROUPS: Mapping[str, int] = {
    "stem": 64, "b0": 152, "b2": 324, "b4": 80, "b4 correlations": 780, "b4 grid": 640, "b7": 160, "b10": 224,
    "b10 grid": 1792, "b15": 640, "b15 grid": 2880, "head": 1280, "foreground b2": 372, "foreground b4": 160,
    "foreground b10": 224, "foreground b15": 640, "foreground map": 495, "color": 134, "foreground color": 268,
    "layout": 123, "edges": 292, "patterns": 20, "spectrum": 40,
}  # fmt: skip

_GRAY = (0.299, 0.587, 0.114)


def group_slices() -> dict[str, slice]:
    """Return where each group of FEATURE_GROUPS lies among the features."""
    slices: dict[str, slice] = {}
    start = 0
    for name, width in FEATURE_GROUPS.items():
        slices[name] = slice(start, start + width)
        start += width
    return slices


def image_features(backbone: nn.Module, batch: Tensor) -> Tensor:
    """Describe images.

    Args:
        backbone: An EfficientNetLite0.
        batch: uint8 (B, S, S, 3), RGB with S = INPUT_SIZE.

    Returns:
        float32 (B, F) with F the sum of FEATURE_GROUPS. An image's row does not depend on the rest of the batch
        beyond rounding.

    Raises:
        ValueError: Another shape or type.
    """
    if batch.dtype != torch.uint8 or batch.shape[1:] != (INPUT_SIZE, INPUT_SIZE, 3):
        raise ValueError(
            f"expected uint8 images of shape (B, {INPUT_SIZE}, {INPUT_SIZE}, 3), but got {batch.dtype} of shape "
            f"{tuple(batch.shape)}"
        )
    stages = backbone((batch.permute(0, 3, 1, 2).float() - 127.0) / 128.0)
    pixels = batch.permute(0, 3, 1, 2).float().contiguous() / 255
    lab = cielab(functional.avg_pool2d(pixels, INPUT_SIZE // MAP_SIZE))
    gray = (pixels * torch.tensor(_GRAY, device=batch.device).view(1, 3, 1, 1)).sum(1, keepdim=True)
    maps = foreground_maps(lab, stages["b4"])
    inside = maps[:, 2:] ** 2 + 1e-4
    outside = (1 - maps.amax(1, keepdim=True)) ** 4 + 1e-4
    groups = {
        **_network_groups(stages),
        **_foreground_groups(stages, inside, outside),
        "foreground map": map_statistics(maps),
        "color": color_statistics(lab.flatten(2), torch.ones_like(lab[:, 0]).flatten(1)),
        "foreground color": torch.cat(
            [color_statistics(lab.flatten(2), weight.flatten(1)) for weight in (inside, outside)], 1
        ),
        "layout": layout_statistics(lab),
        "edges": edge_statistics(gray, inside),
        "patterns": pattern_statistics(gray),
        "spectrum": spectrum_statistics(gray),
    }
    widths = {name: groups[name].shape[1] for name in FEATURE_GROUPS}
    if widths != dict(FEATURE_GROUPS):
        raise ValueError(f"the backbone's maps give groups of {widths} features, expected {dict(FEATURE_GROUPS)}")
    return torch.cat([groups[name] for name in FEATURE_GROUPS], 1)


def _network_groups(stages: Mapping[str, Tensor]) -> dict[str, Tensor]:
    groups = {name: _mean_and_spread(stages[name]) for name in ("stem", "b4", "b7", "b10", "b15")}
    for name in ("b0", "b2"):
        groups[name] = torch.cat([_mean_and_spread(stages[name]), _correlations(stages[name])], 1)
    groups["b4 correlations"] = _correlations(stages["b4"])
    for name, cells in (("b4", 4), ("b10", 4), ("b15", 3)):
        groups[f"{name} grid"] = functional.adaptive_avg_pool2d(stages[name], cells).flatten(1)
    groups["head"] = stages["head"].mean((2, 3))
    return groups


def _foreground_groups(stages: Mapping[str, Tensor], inside: Tensor, outside: Tensor) -> dict[str, Tensor]:
    """Statistics of stages over the foreground, and their difference from those over the background."""
    groups: dict[str, Tensor] = {}
    for name in ("b2", "b4", "b10", "b15"):
        stage = stages[name]
        near, far = (_share(weight, stage) for weight in (inside, outside))
        mean, spread = _weighted(stage, near)
        behind, behind_spread = _weighted(stage, far)
        if name == "b2":
            groups["foreground b2"] = torch.cat([mean, spread, behind, behind_spread, _correlations(stage, near)], 1)
        elif name == "b4":
            groups["foreground b4"] = torch.cat([mean, spread, behind, behind_spread], 1)
        else:
            groups[f"foreground {name}"] = torch.cat([mean, mean - behind], 1)
    return groups


def _share(weight: Tensor, stage: Tensor) -> Tensor:
    """A weight at a stage's resolution that sums to one, float32 (B, 1, H·W)."""
    pooled = functional.adaptive_avg_pool2d(weight, stage.shape[-1]).flatten(2)
    return pooled / pooled.sum(2, keepdim=True)


def _weighted(stage: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    flat = stage.flatten(2)
    mean = (flat * share).sum(2)
    return mean, (((flat - mean[..., None]) ** 2 * share).sum(2) + 1e-6).sqrt()


def _mean_and_spread(stage: Tensor) -> Tensor:
    spread, mean = torch.std_mean(stage, dim=(2, 3))
    return torch.cat([mean, spread], 1)


def _correlations(stage: Tensor, share: Tensor | None = None) -> Tensor:
    """Correlations between channels over all places, or over those of a share: the upper triangle."""
    flat = stage.flatten(2)
    if share is None:
        share = torch.full_like(flat[:, :1], 1 / flat.shape[2])
    centered = flat - (flat * share).sum(2, keepdim=True)
    covariance = (centered * share) @ centered.transpose(1, 2)
    spread = covariance.diagonal(dim1=1, dim2=2).clamp_min(1e-6).sqrt()
    correlation = covariance / (spread[:, :, None] * spread[:, None, :])
    rows, columns = torch.triu_indices(stage.shape[1], stage.shape[1], 1)
    return correlation[:, rows, columns]
