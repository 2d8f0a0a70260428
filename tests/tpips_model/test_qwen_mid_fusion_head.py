"""Mid fusion's head is a distance, and the one Equation 3 writes as the release computes it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tpips_model.qwen.mid_fusion_head import Activations, MidFusionHead, probed_layers, uniform_distance

L, D = 3, 24


def activations(seed: int, tokens: int = 5) -> Activations:
    generator = torch.Generator().manual_seed(seed)
    return Activations(torch.randn(L, tokens, D, generator=generator), torch.randn(L, D, generator=generator))


def channel_mlp(head: MidFusionHead, layer: int) -> list[Any]:
    return list(head.get_submodule(f"layer_heads.{layer}.channel_mlp").children())


@pytest.fixture
def head() -> MidFusionHead:
    torch.manual_seed(0)
    made = MidFusionHead(D, L)
    with torch.no_grad():
        made.layer_logits.copy_(torch.tensor([0.5, -1.0, 0.2]))
    return made


def test_it_is_the_formula(head: MidFusionHead) -> None:
    a, b = activations(1), activations(2)
    expected = 0.0
    mix = head.layer_logits.softmax(0)
    for layer in range(L):
        x, y = (one.patches[layer] / one.patches[layer].norm(dim=-1, keepdim=True) for one in (a, b))
        first, _, second = channel_mlp(head, layer)
        hidden = torch.nn.functional.gelu(first((a.text[layer] + b.text[layer]) / 2))
        weights = 1 / (1 + torch.exp(-second(hidden)))
        expected += mix[layer] * sum((weights * (x[t] - y[t]) ** 2).sum() for t in range(5)) / 5
    torch.testing.assert_close(head([a], [b])[0], torch.as_tensor(expected))


def test_it_is_symmetric_positive_and_zero_on_the_diagonal(head: MidFusionHead) -> None:
    a, b, c = activations(1), activations(2), activations(3, tokens=7)
    d = head([a, b, a, c], [b, a, a, c])
    assert d[0] > 0
    assert d[0] == d[1]
    assert d[2] == d[3] == 0


@pytest.mark.parametrize("distance", ["head", "uniform"])
def test_the_length_of_an_activation_does_not_matter(head: MidFusionHead, distance: str) -> None:
    a, b = activations(1), activations(2)
    longer = Activations(a.patches * 7.0, a.text)
    function = head if distance == "head" else uniform_distance
    torch.testing.assert_close(function([longer], [b]), function([a], [b]))


def test_uniform_is_lpips_with_all_weights_one() -> None:
    a, b = activations(1), activations(2)
    x, y = (torch.nn.functional.normalize(one.patches, dim=-1) for one in (a, b))
    torch.testing.assert_close(uniform_distance([a], [b])[0], (x - y).square().sum(-1).mean())


def test_bottleneck_follows_the_release() -> None:
    assert channel_mlp(MidFusionHead(64, 1), 0)[0].weight.shape == (16, 64)
    assert channel_mlp(MidFusionHead(256, 1), 0)[0].weight.shape == (64, 256)


def test_pairs_of_different_sizes_are_a_bug(head: MidFusionHead) -> None:
    with pytest.raises(ValueError, match="activations differ"):
        head([activations(1)], [activations(2, tokens=6)])


@given(st.integers(1, 80), st.integers(1, 80))
def test_probes_are_spread_over_all_blocks(n_layers: int, n_probes: int) -> None:
    if n_probes > n_layers:
        with pytest.raises(ValueError, match="probes were asked"):
            probed_layers(n_layers, n_probes)
        return
    probes = probed_layers(n_layers, n_probes)
    assert len(set(probes)) == n_probes
    assert list(probes) == sorted(probes)
    assert probes[-1] == n_layers
    assert n_probes == 1 or probes[0] == 1
    gaps = {after - before for before, after in pairwise(probes)}
    assert not gaps or max(gaps) - min(gaps) <= 1
