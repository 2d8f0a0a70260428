"""Late fusion as an embedder and a metric."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.fixtures.qwen import make_backbone, pictures
from tpips_model.embedder import Embedder
from tpips_model.errors import ImageError, ModelError
from tpips_model.metric import Metric
from tpips_model.qwen.adapters import LoraSettings, attach_lora
from tpips_model.qwen.backbone import Backbone
from tpips_model.qwen.backbone_loading import load_backbone
from tpips_model.qwen.late_fusion import LateFusion

ASPECTS = ["lighting", "overall"]
SIZES = [(256, 256), (420, 300), (40, 900), (300, 700), (256, 256)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_backbone(tmp_path_factory.mktemp("backbone"))


@pytest.fixture(scope="module")
def model(directory: Path) -> LateFusion:
    return LateFusion(load_backbone(directory, device="cpu"))


def with_adapters(backbone: Backbone, *, seed: int = 7, dropout: float = 0.0) -> LateFusion:
    attach_lora(backbone, LoraSettings(r=4, alpha=8, dropout=dropout, targets=("q_proj", "o_proj")))
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in backbone.named_parameters():
        if ".lora_" in name:
            parameter.data.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return LateFusion(backbone)


def test_it_is_an_embedder_and_a_metric(model: LateFusion) -> None:
    assert isinstance(model, Embedder)
    assert isinstance(model, Metric)
    assert model.prompt_template == "Represent the similarity of the image based on {aspect}."
    vectors = model.embed(pictures(SIZES), ASPECTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(SIZES), 2, model.dim)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), 1, atol=1e-5)
    assert model.embed([], ASPECTS).shape == (0, 2, model.dim)


def test_a_vector_does_not_depend_on_its_batch(directory: Path, model: LateFusion) -> None:
    images = pictures(SIZES)
    together = model.embed(images, ASPECTS)
    for index, image in enumerate(images):
        np.testing.assert_allclose(model.embed([image], ASPECTS)[0], together[index], atol=1e-5)
    np.testing.assert_allclose(model.embed(images, ASPECTS[:1])[:, 0], together[:, 0], atol=1e-5)
    np.testing.assert_allclose(model.embed(images, ASPECTS[::-1])[:, ::-1], together, atol=1e-5)
    np.testing.assert_allclose(model.embed(images[::-1], ASPECTS)[::-1], together, atol=1e-5)
    frugal = LateFusion(model.backbone, max_tokens_per_batch=300)
    np.testing.assert_allclose(frugal.embed(images, ASPECTS), together, atol=1e-5)
    assert np.abs(together[0] - together[4]).max() > 1e-2, "two pictures of one size are told apart"


def test_in_bfloat16_a_vector_depends_on_its_batch_by_no_more_than_rounding(directory: Path) -> None:
    model = LateFusion(load_backbone(directory, device="cpu", dtype="bfloat16"))
    images = pictures(SIZES[:3])
    together = model.embed(images, ASPECTS)
    for index, image in enumerate(images):
        np.testing.assert_allclose(model.embed([image], ASPECTS)[0], together[index], atol=2e-2)


def test_every_form_of_an_image_is_the_same_image(model: LateFusion, tmp_path: Path) -> None:
    (picture,) = pictures([(300, 260)])
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    path = tmp_path / "image.png"
    path.write_bytes(stream.getvalue())
    levels = np.array(picture)
    tensor = torch.from_numpy(levels).permute(2, 0, 1)
    forms = [picture, str(path), stream.getvalue(), levels, tensor, tensor.float() / 255]
    vectors = model.embed(forms, ASPECTS[:1])
    np.testing.assert_allclose(vectors, np.broadcast_to(vectors[:1], vectors.shape), atol=1e-5)


def test_similarity_is_the_cosine_and_keeps_gradients(model: LateFusion) -> None:
    a, b, c = pictures([(256, 256), (256, 320), (320, 256)])
    vectors = model.embed([a, b, c], ASPECTS)
    cosines = np.einsum("cad,cad->ac", np.stack([vectors[0], vectors[0]]), vectors[1:])
    scores = model.similarity(a, [b, c], ASPECTS)
    np.testing.assert_allclose(scores.numpy(), cosines, atol=1e-5)
    assert not scores.requires_grad
    np.testing.assert_allclose(model.distance(a, b, "lighting").numpy(), 1 - cosines[0, 0], atol=1e-5)
    assert abs(float(model.similarity(a, a, "lighting")) - 1) < 1e-5
    pixels = (torch.from_numpy(np.array(b)).permute(2, 0, 1).float() / 255).requires_grad_()
    loss = model.distance(a, pixels, "lighting")
    loss.backward()
    assert pixels.grad is not None
    assert float(pixels.grad.abs().sum()) > 0
    closer = pixels.detach() - 1e-3 * pixels.grad / pixels.grad.abs().max()
    assert float(model.distance(a, closer, "lighting")) < float(loss.detach())


def test_a_bad_image_is_an_error_that_names_it(model: LateFusion) -> None:
    with pytest.raises(ImageError, match=r"missing\.png"):
        model.embed([*pictures(SIZES[:1]), "missing.png"], ASPECTS)


def test_values_that_are_not_finite_are_refused(directory: Path) -> None:
    model = LateFusion(load_backbone(directory, device="cpu"))
    model.backbone.language_model.norm.weight.data.fill_(float("inf"))
    with pytest.raises(ModelError, match="not finite"):
        model.embed(pictures(SIZES[:1]), ASPECTS)


def test_embedding_knows_no_dropout(directory: Path) -> None:
    model = with_adapters(load_backbone(directory, device="cpu"), dropout=0.5)
    images = pictures(SIZES[:1])
    expected = model.eval().embed(images, ASPECTS)
    model.train()
    assert np.array_equal(model.embed(images, ASPECTS), expected)
    assert model.training
    assert not torch.equal(model(images, ASPECTS), torch.from_numpy(expected)), "training has dropout"


def test_merged_adapters_give_the_same_vectors_and_fingerprint(directory: Path) -> None:
    model = with_adapters(load_backbone(directory, device="cpu")).eval()
    images = pictures(SIZES[:2])
    apart, fingerprint = model.embed(images, ASPECTS), model.fingerprint
    bare = LateFusion(load_backbone(directory, device="cpu")).embed(images, ASPECTS)
    assert np.abs(apart - bare).max() > 1e-2, "the adapters do something"
    model.merge_adapters()
    np.testing.assert_allclose(model.embed(images, ASPECTS), apart, atol=1e-5)
    assert model.fingerprint == fingerprint
    assert not any("lora" in name for name in model.state_dict())


def test_the_fingerprint_tells_what_changes_vectors(directory: Path, tmp_path: Path) -> None:
    def load(**options: object) -> Backbone:
        return load_backbone(directory, device="cpu", **options)

    same = [LateFusion(load()), LateFusion(load(), max_tokens_per_batch=99, recommended_overall_penalty=0.1)]
    copy = LateFusion(load_backbone(make_backbone(tmp_path / "copy"), device="cpu"))
    assert len({each.fingerprint for each in (*same, copy)}) == 1, "equal weights from another place are equal"
    scaled = with_adapters(load())
    scaled.backbone.lora = LoraSettings(r=4, alpha=16)
    others = [
        LateFusion(load(), prompt="zero-shot"),
        LateFusion(load(), pooling="mean"),
        LateFusion(load(), instruction="Look."),
        LateFusion(load(max_pixels=200_000)),
        LateFusion(load(min_pixels=100_000)),
        LateFusion(load(dtype="bfloat16")),
        LateFusion(load_backbone(make_backbone(tmp_path / "other", seed=1), device="cpu")),
        with_adapters(load()),
        with_adapters(load(), seed=8),
        scaled,
    ]
    assert len({each.fingerprint for each in (same[0], *others)}) == 1 + len(others)


def test_training_forgets_the_fingerprint(directory: Path) -> None:
    model = with_adapters(load_backbone(directory, device="cpu")).eval()
    before = model.fingerprint
    model.train()
    with torch.no_grad():
        next(parameter for parameter in model.parameters() if parameter.requires_grad).add_(1)
    assert model.fingerprint != before
    assert model.eval().fingerprint != before


def test_unknown_settings_are_refused(model: LateFusion) -> None:
    with pytest.raises(ModelError, match="unknown prompt 'x'"):
        LateFusion(model.backbone, prompt="x")
    with pytest.raises(ModelError, match="pooling 'max'"):
        LateFusion(model.backbone, pooling="max")
    with pytest.raises(ModelError, match="no linear map z_proj"):
        attach_lora(model.backbone, LoraSettings(targets=("z_proj",)))
    with pytest.raises(ModelError, match="makes no adapter"):
        LoraSettings(r=0)
    with pytest.raises(ModelError, match="max_tokens_per_batch is 0"):
        LateFusion(model.backbone, max_tokens_per_batch=0).embed(pictures(SIZES[:1]), ASPECTS)
