"""Mid fusion's distance between activations (Equation 3), as the authors' release computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

__all__ = ["Activations", "MidFusionHead", "probed_layers", "uniform_distance"]


@dataclass(frozen=True)
class Activations:
    """What the head compares of one image under one aspect.

    Attributes:
        patches: floating point (L, T, D): the image tokens after each of L probed blocks.
        text: floating point (L, D): the mean over all other tokens, after the same blocks.
    """

    patches: torch.Tensor
    text: torch.Tensor


def probed_layers(n_layers: int, n_probes: int) -> tuple[int, ...]:
    """Return the blocks whose outputs are compared, evenly spaced over 1 … n_layers with both ends, rounded.

    Raises:
        ValueError: Fewer than one probe, or more probes than blocks.

    Examples:
        >>> probed_layers(36, 20)
        (1, 3, 5, 7, 8, 10, 12, 14, 16, 18, 19, 21, 23, 25, 27, 29, 30, 32, 34, 36)
    """
    if not 1 <= n_probes <= n_layers:
        raise ValueError(f"{n_probes} probes were asked of a model with {n_layers} blocks")
    if n_probes == 1:
        return (n_layers,)
    return tuple(round(1 + probe * (n_layers - 1) / (n_probes - 1)) for probe in range(n_probes))


class ChannelWeights(nn.Module):
    """w(c): one weight in (0, 1) for each channel of one layer, from the layer's mean text state."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        bottleneck = max(dim // 4, 16)
        self.channel_mlp = nn.Sequential(nn.Linear(dim, bottleneck), nn.GELU(), nn.Linear(bottleneck, dim))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Map text states (…, D) to weights (…, D)."""
        return torch.sigmoid(self.channel_mlp(text))


class SharedChannelWeights(nn.Module):
    """One weight in (0, 1) for each channel of one layer, whatever the text: the ablation of Table 6."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.channel_logits = nn.Parameter(torch.zeros(dim))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Return the weights (…, D) for text states (…, D), of which only the shape counts."""
        return torch.sigmoid(self.channel_logits).expand_as(text)


class MidFusionHead(nn.Module):
    """The learned part of mid fusion: channel weights conditioned on the text, and a mix of the layers.

    d = Σ_l softmax(m)_l · 1/T Σ_t Σ_d w_l(c)_d · (φ_l(x₁)_td − φ_l(x₂)_td)², φ unit-normalised over channels. The
    paper's Equation 3 squares w and sums the layers; this follows the release, whose checkpoints were trained so. The
    text state is the mean over the text of both images' sequences.

    Its parameters are named as in the release: ``layer_logits`` (L,), ``layer_heads.I.channel_mlp.{0,2}``. They stay in
    float32 whatever the backbone's type is, and so does what is computed with them, mixed precision or not.

    Args:
        dim: D of the language model.
        n_probes: L.
        aspect_conditioned: False makes the channel weights the same for all texts (``SharedChannelWeights``).
    """

    def __init__(self, dim: int, n_probes: int, *, aspect_conditioned: bool = True) -> None:
        super().__init__()
        weights = ChannelWeights if aspect_conditioned else SharedChannelWeights
        self.layer_logits = nn.Parameter(torch.zeros(n_probes))
        self.layer_heads = nn.ModuleList(weights(dim) for _ in range(n_probes))

    def forward(self, firsts: Sequence[Activations], seconds: Sequence[Activations]) -> torch.Tensor:
        """Return the distances of P pairs.

        Args:
            firsts: P activations; those of a pair have equal T.
            seconds: P activations.

        Returns:
            float32 or wider (P,), each ≥ 0, and 0 where both activations are equal.
        """
        with torch.autocast(self.layer_logits.device.type, enabled=False):
            text = torch.stack([(a.text + b.text) / 2 for a, b in zip(firsts, seconds, strict=True)], dim=1)
            text = text.to(self.layer_logits.dtype)
            weights = torch.stack([head(state) for head, state in zip(self.layer_heads, text, strict=True)], dim=1)
            mix = self.layer_logits.softmax(0)
            differences = (mean_squared_differences(a, b) for a, b in zip(firsts, seconds, strict=True))
            return torch.stack([(mix[:, None] * w * d).sum() for w, d in zip(weights, differences, strict=True)])


def uniform_distance(firsts: Sequence[Activations], seconds: Sequence[Activations]) -> torch.Tensor:
    """Return the distances with all weights 1 and all layers alike: the frozen baseline of Appendix C.3.

    Args:
        firsts: P pairs' first images, the activations of each layer.
        seconds: Their second images, in the same order.

    Returns:
        float (P,), at least 0.
    """
    return torch.stack([mean_squared_differences(a, b).mean(0).sum() for a, b in zip(firsts, seconds, strict=True)])


def mean_squared_differences(first: Activations, second: Activations) -> torch.Tensor:
    """Return 1/T Σ_t (φ(x₁)_t − φ(x₂)_t)² for every layer and channel, float32 or wider (L, D)."""
    if first.patches.shape != second.patches.shape:
        raise ValueError(f"the pair's activations differ: {first.patches.shape} and {second.patches.shape}")
    layers = zip(first.patches, second.patches, strict=True)
    # One layer at a time: normalised float32 copies of all of them would triple the memory.
    return torch.stack([(_unit(a) - _unit(b)).square().mean(0) for a, b in layers])


def _unit(patches: torch.Tensor) -> torch.Tensor:
    wide = patches.to(torch.promote_types(patches.dtype, torch.float32))
    return nn.functional.normalize(wide, dim=-1)
