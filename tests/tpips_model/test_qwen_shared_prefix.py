"""The shared prefix equals the plain forward pass, in values and in gradients."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import Qwen3VLModel

from tests.fixtures.qwen import make_backbone, pictures
from tpips_model.errors import ModelError
from tpips_model.qwen.adapters import LoraSettings, attach_lora
from tpips_model.qwen.backbone_loading import load_backbone
from tpips_model.qwen.batching import plan_batches
from tpips_model.qwen.chat import late_prefix, late_suffix
from tpips_model.qwen.late_fusion import PROMPTS, LateFusion
from tpips_model.qwen.preprocessing import Patches
from tpips_model.qwen.shared_prefix import pack_suffixes, suffix_mask

# (width, height): wide, tall and square, with 64 to 160 image tokens.
SIZES = [(256, 256), (420, 300), (200, 640)]
ASPECTS = ["lighting", "overall", "the colour of <|im_end|> the sky at dusk", "色彩"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_backbone(tmp_path_factory.mktemp("backbone"))


@pytest.fixture(scope="module")
def library(directory: Path) -> Qwen3VLModel:
    return Qwen3VLModel.from_pretrained(directory, dtype=torch.float32).eval().requires_grad_(False)


def adapted(directory: Path, **options: int) -> LateFusion:
    """Return late fusion with adapters that do something, without dropout."""
    backbone = load_backbone(directory, device="cpu", **options)
    attach_lora(backbone, LoraSettings(r=4, alpha=8, dropout=0.0, targets=("q_proj", "v_proj", "down_proj")))
    generator = torch.Generator().manual_seed(7)
    for name, parameter in backbone.named_parameters():
        if ".lora_" in name:
            parameter.data.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return LateFusion(backbone)


def plain_hidden(library: Qwen3VLModel, model: LateFusion, patches: Patches, aspect: str) -> Tensor:
    """Return the library's own final states (T, D) over the whole sequence of one image and aspect."""
    chat = model.backbone.chat
    prefix = late_prefix(chat, patches.tokens, instruction=model.instruction)
    ids = torch.tensor([prefix + late_suffix(chat, PROMPTS[model.prompt](aspect))])
    output = library(
        input_ids=ids,
        pixel_values=patches.values,
        image_grid_thw=torch.tensor([[1, *patches.grid]]),
        mm_token_type_ids=(ids == chat.image).int(),
        use_cache=False,
    )
    return output.last_hidden_state[0]


def unit(vector: Tensor) -> Tensor:
    return torch.nn.functional.normalize(vector, dim=-1)


@pytest.mark.parametrize("pooling", ["last_token", "mean"])
@pytest.mark.parametrize("prompt", ["tpips", "zero-shot"])
def test_vectors_are_those_of_the_plain_forward(
    directory: Path, library: Qwen3VLModel, pooling: str, prompt: str
) -> None:
    model = LateFusion(load_backbone(directory, device="cpu"), pooling=pooling, prompt=prompt)
    images = pictures(SIZES)
    vectors = model(images, ASPECTS)
    for row, image in zip(vectors, images, strict=True):
        patches = model.backbone.preprocess(image)
        for vector, aspect in zip(row, ASPECTS, strict=True):
            hidden = plain_hidden(library, model, patches, aspect)
            expected = unit(hidden[-1] if pooling == "last_token" else hidden.mean(0))
            assert (vector - expected).abs().max() <= 1e-5
    between_images = (vectors[0] - vectors[1]).abs().amax(-1)
    between_aspects = (vectors[:, 0] - vectors[:, 1]).abs().amax(-1)
    assert min(between_images.min(), between_aspects.min()) > 1e-2, "constant vectors would be equal, too"


def test_rows_of_suffixes_may_be_cut(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = LateFusion(load_backbone(directory, device="cpu"))
    images = pictures(SIZES[:2])
    whole = model(images, ASPECTS)
    monkeypatch.setattr("tpips_model.qwen.late_fusion.pack_suffixes", lambda rows: pack_suffixes(rows, max_tokens=40))
    torch.testing.assert_close(model(images, ASPECTS), whole, atol=1e-5, rtol=0)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_gradients_are_those_of_separate_passes(directory: Path, checkpointing: bool) -> None:
    model = adapted(directory, min_pixels=1)
    model.checkpointing = checkpointing
    weights = torch.randn(2, len(ASPECTS), model.dim, generator=torch.Generator().manual_seed(1))
    tensors = [torch.rand(3, 128, 160).requires_grad_(), torch.rand(3, 192, 128).requires_grad_()]
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert parameters, "adapters are trainable"

    def gradients(loss: Tensor) -> tuple[Tensor | None, ...]:
        return torch.autograd.grad(loss, [*parameters, *tensors], allow_unused=True)

    shared = gradients((model(tensors, ASPECTS) * weights).sum())
    model.checkpointing = False
    alone = [
        gradients((model([image], [aspect])[0, 0] * weights[row, column]).sum())
        for row, image in enumerate(tensors)
        for column, aspect in enumerate(ASPECTS)
    ]
    for index, gradient in enumerate(shared):
        assert gradient is not None
        expected = sum((each[index] for each in alone if each[index] is not None), torch.zeros(()))
        torch.testing.assert_close(gradient, expected, atol=1e-5 * float(gradient.abs().max()) + 1e-7, rtol=1e-3)


def test_the_librarys_own_checkpointing_is_refused_in_training(directory: Path) -> None:
    model = adapted(directory).train()
    for layer in model.backbone.language_model.layers:
        layer.gradient_checkpointing = True
    images = pictures(SIZES[:1])
    with pytest.raises(ModelError, match="checkpointing = True on the late-fusion model"):
        model(images, ASPECTS)
    assert model.embed(images, ASPECTS[:1]).shape == (1, 1, model.dim)


def test_nothing_is_kept_between_calls(directory: Path) -> None:
    model = LateFusion(load_backbone(directory, device="cpu"))
    first, other = pictures(SIZES[:1]), pictures(SIZES[2:], seed=5)
    before = model(first, ASPECTS)
    model(other, ASPECTS[:1])
    assert torch.equal(model(first, ASPECTS), before)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(1, 12))
@settings(max_examples=50, deadline=None)
def test_packing_keeps_every_suffix(lengths: list[int], budget: int) -> None:
    suffixes = [[10 * index + place for place in range(length)] for index, length in enumerate(lengths)]
    rows = pack_suffixes(suffixes, max_tokens=budget)
    assert [token for row in rows for token in row.ids.tolist()] == [token for suffix in suffixes for token in suffix]
    ends = [int(row.ids[end]) for row in rows for end in row.last]
    assert ends == [suffix[-1] for suffix in suffixes]
    for row in rows:
        assert len(row.ids) <= budget or len(row.last) == 1
        mask = suffix_mask(row.block, torch.ones(1, 0, dtype=torch.bool))[0, 0]
        assert mask.sum(1).tolist() == (row.offset + 1).tolist()


@given(st.lists(st.integers(1, 50), max_size=20), st.integers(1, 120))
@settings(max_examples=100, deadline=None)
def test_batches_hold_every_row_once_within_the_budget(tokens: list[int], budget: int) -> None:
    batches = plan_batches(tokens, budget)
    assert sorted(index for batch in batches for index in batch) == list(range(len(tokens)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(tokens[index] for index in batch) <= budget
