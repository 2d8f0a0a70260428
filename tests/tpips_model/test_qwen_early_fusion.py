"""Early fusion is symmetric and preserves identity by construction, whatever the weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.fixtures.qwen import make_backbone, pictures
from tpips_model.comparison import compare
from tpips_model.metric import Metric, similarity_matrix
from tpips_model.qwen.backbone_loading import load_backbone
from tpips_model.qwen.early_fusion import EarlyFusion

ASPECTS = ["overall", "lighting", "the number of cups"]
# (width, height): the pairs below are of equal and of different sizes.
SIZES = [(256, 256), (256, 256), (352, 256), (256, 320)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_backbone(tmp_path_factory.mktemp("backbone"))


def load(directory: Path, dtype: torch.dtype = torch.float32, **options: int) -> EarlyFusion:
    model = EarlyFusion(load_backbone(directory, dtype=dtype, device="cpu"), **options)
    generator = torch.Generator().manual_seed(3)
    model.register_embed.weight.data.copy_(torch.randn(1, model.backbone.dim, generator=generator) * 0.3)
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def model(directory: Path) -> EarlyFusion:
    return load(directory)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.bfloat16, 1e-2)])
def test_symmetry_and_identity(directory: Path, dtype: torch.dtype, tolerance: float) -> None:
    images = pictures(SIZES)[1:]
    scores = similarity_matrix(load(directory, dtype), images, images, ASPECTS[:2]).double()
    assert (scores - scores.transpose(1, 2)).abs().max() <= tolerance
    assert (scores.diagonal(dim1=1, dim2=2) - 1).abs().max() <= tolerance
    others = scores[:, ~torch.eye(len(images), dtype=torch.bool)]
    assert others.max() < 0.995, "a model that finds everything alike would be symmetric, too"
    assert others.std() > 0.01


def test_identity_of_equal_copies_in_float64(directory: Path) -> None:
    (picture,) = pictures([(300, 200)])
    score = load(directory, torch.float64).similarity(picture, picture.copy(), "lighting")
    assert abs(float(score) - 1) <= 1e-9


def test_scores_do_not_depend_on_the_batch(directory: Path, model: EarlyFusion) -> None:
    a, b = pictures(SIZES), pictures(SIZES[::-1], seed=1)
    together = model.similarity(a, b, ASPECTS)
    assert together.shape == (3, 4)
    for row, aspect in enumerate(ASPECTS):
        alone = torch.stack([model.similarity(x, y, aspect) for x, y in zip(a, b, strict=True)])
        torch.testing.assert_close(together[row], alone, atol=1e-5, rtol=0)
    small = load(directory, max_tokens_per_batch=100)
    torch.testing.assert_close(small.similarity(a, b, ASPECTS), together, atol=1e-5, rtol=0)


def test_the_aspect_and_both_images_matter(model: EarlyFusion) -> None:
    a, b, c, _ = pictures(SIZES)
    scores = model.similarity(a, [b, c], ASPECTS)
    assert scores.flatten().unique().numel() == 6
    assert abs(float(scores[0, 0] - scores[1, 0])) > 1e-4


def test_attention_is_sdpa_with_the_mask(model: EarlyFusion, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor] = []
    original: Any = torch.nn.functional.scaled_dot_product_attention

    def spy(*args: Any, attn_mask: torch.Tensor | None = None, **kwargs: Any) -> torch.Tensor:
        if attn_mask is not None:
            seen.append(attn_mask)
        return original(*args, attn_mask=attn_mask, **kwargs)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    a, b, _, _ = pictures(SIZES)
    model.similarity(a, b)
    assert len(seen) == model.backbone.layers
    assert all(mask.dtype == torch.bool for mask in seen)
    assert not seen[0][0, 0, -1, -2], "a register does not see the other"


def test_every_patch_has_the_position_of_its_own_grid(model: EarlyFusion, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[torch.Tensor] = []
    encode = model.backbone.encode
    monkeypatch.setattr(model.backbone, "encode", lambda *args: (seen.append(args[1]), encode(*args))[1])
    # 8 × 11 tokens beside 10 × 8: each image's own columns give its lines their length.
    _, _, wide, tall = pictures(SIZES)
    model.similarity(wide, tall)
    ((times, heights, widths),) = (positions[:, 0].tolist() for positions in seen)
    patches = [(h, w) for t, h, w in zip(times, heights, widths, strict=True) if t == 0]
    grids = ((8, 11), (10, 8))
    assert patches == [(2 * h, 2 * w) for rows, columns in grids for h in range(rows) for w in range(columns)]
    assert times[-1] == times[-2] == max(times[:-2]) + 1


def test_interface(model: EarlyFusion, tmp_path: Path) -> None:
    a, b, _, _ = pictures(SIZES)
    a.save(tmp_path / "a.png")
    assert isinstance(model, Metric)
    score = model.similarity(a, b, "lighting")
    assert score.shape == ()
    assert score.dtype == torch.float32
    assert -1 <= score <= 1
    torch.testing.assert_close(model.distance(a, b, "lighting"), 1 - score)
    for form in (tmp_path / "a.png", (tmp_path / "a.png").read_bytes(), np.asarray(a)):
        torch.testing.assert_close(model.similarity(form, b, "lighting"), score)
    tensor = torch.from_numpy(np.array(a)).permute(2, 0, 1) / 255
    torch.testing.assert_close(model.similarity(tensor, b, "lighting"), score)
    torch.testing.assert_close(model.similarity(torch.stack([tensor] * 2), b, "lighting"), score.expand(2))


def test_compare_makes_the_table(model: EarlyFusion) -> None:
    a, b, c, d = pictures(SIZES)
    table = compare(a, [b, a, c, d], ASPECTS, metric=model)
    assert set(table.closest.values()) == {"candidate 2"}
    np.testing.assert_allclose(table.similarity[:, 1], 1, atol=1e-5)


def test_it_serves_as_a_loss(model: EarlyFusion) -> None:
    target = torch.from_numpy(np.array(pictures([(256, 256)], seed=5)[0])).permute(2, 0, 1) / 255
    image = torch.full((3, 256, 256), 0.5, requires_grad=True)
    before = model.distance(image, target, "lighting")
    before.backward()
    gradient = image.grad
    assert gradient is not None
    assert torch.isfinite(gradient).all()
    with torch.no_grad():
        stepped = image - 0.02 * gradient / gradient.abs().max()
    assert model.distance(stepped, target, "lighting") < before - 1e-5


def test_plain_use_builds_no_graph_and_leaves_the_mode(directory: Path) -> None:
    model = load(directory).requires_grad_(True).train()
    model.backbone.visual.eval()
    a, b, _, _ = pictures(SIZES)
    assert not model.similarity(a, b).requires_grad
    assert model.training
    assert model.backbone.language_model.training
    assert not model.backbone.visual.training


@pytest.mark.parametrize("size", [(1, 1), (1000, 2), (3, 900)])
def test_odd_shapes_are_no_error(model: EarlyFusion, size: tuple[int, int]) -> None:
    odd = Image.new("RGB", size, (200, 30, 30))
    other = pictures([(256, 256)])[0]
    assert torch.isfinite(model.similarity(odd, other))
    assert abs(float(model.similarity(odd, odd)) - 1) < 1e-5
