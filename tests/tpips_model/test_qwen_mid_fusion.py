"""Mid fusion is a distance over the backbone's own hidden states."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import Qwen3VLModel

from tests.fixtures.qwen import make_backbone, pictures
from tpips_model.aspects import late_fusion_prompt
from tpips_model.errors import ModelError
from tpips_model.metric import Metric, similarity_matrix
from tpips_model.qwen.backbone_loading import load_backbone
from tpips_model.qwen.mid_fusion import MidFusion
from tpips_model.qwen.mid_fusion_head import Activations

ASPECTS = ["overall", "lighting", "the number of cups"]
SIZES = [(256, 256), (256, 256), (352, 256), (256, 320)]
LAYERS = [1, 3, 4]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_backbone(tmp_path_factory.mktemp("backbone"))


def load(directory: Path, dtype: torch.dtype = torch.float32, **options: Any) -> MidFusion:
    torch.manual_seed(0)
    model = MidFusion(load_backbone(directory, dtype=dtype, device="cpu"), layers=LAYERS, **options)
    if model.head is not None:
        model.head.layer_logits.data.copy_(torch.tensor([0.3, -0.5, 0.8]))
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def model(directory: Path) -> MidFusion:
    return load(directory)


@pytest.fixture(autouse=True)
def resizing_is_expected() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="mid fusion compares images of one size")
        yield


def as_tensor(picture: object) -> torch.Tensor:
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1) / 255


@pytest.mark.parametrize("learned_weights", [True, False])
def test_it_is_a_distance(directory: Path, learned_weights: bool) -> None:
    images = pictures(SIZES)
    distances = -similarity_matrix(load(directory, learned_weights=learned_weights), images, images, ASPECTS)
    assert (distances >= 0).all()
    assert (distances.diagonal(dim1=1, dim2=2) == 0).all()
    torch.testing.assert_close(distances, distances.transpose(1, 2), atol=1e-6, rtol=0)
    others = distances[:, ~torch.eye(len(images), dtype=torch.bool)]
    assert others.min() > 1e-3
    assert others.std() > 1e-3


def test_identical_images_are_at_zero_whatever_they_come_as(model: MidFusion) -> None:
    (picture,) = pictures([(300, 200)])
    assert model.distance(picture, picture.copy(), "lighting") == 0
    assert model.distance(as_tensor(picture), as_tensor(picture), "lighting") == 0
    assert model.distance(as_tensor(picture), picture, "lighting") < 1e-9


def features_by_the_library(directory: Path, model: MidFusion, picture: Any, aspect: str) -> Activations:
    """The probed states from ``Qwen3VLModel.forward``, which finds its own positions and places for the image."""
    library = Qwen3VLModel.from_pretrained(directory).eval()
    patches = model.backbone.preprocess(picture)
    tokenizer = model.backbone.chat.tokenizer
    image = "<|vision_start|>" + "<|image_pad|>" * patches.tokens + "<|vision_end|>"
    text = f"<|im_start|>user\n{late_fusion_prompt(aspect)}{image}<|im_end|>\n"
    ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
    visual = ids[0] == library.config.image_token_id
    states: dict[int, torch.Tensor] = {}
    for number, block in enumerate(library.language_model.layers, start=1):
        block.register_forward_hook(lambda _, __, output, number=number: states.__setitem__(number, output[0]))
    with torch.no_grad():
        final = library(
            input_ids=ids,
            pixel_values=patches.values,
            image_grid_thw=torch.tensor([[1, *patches.grid]]),
            mm_token_type_ids=visual[None].long(),
        ).last_hidden_state[0]
    probed = [final if number == len(states) else states[number] for number in LAYERS]
    return Activations(torch.stack([s[visual] for s in probed]), torch.stack([s[~visual].mean(0) for s in probed]))


def test_it_compares_the_states_of_the_librarys_own_forward(directory: Path, model: MidFusion) -> None:
    a, b = pictures([(256, 320), (256, 320)])
    first, second = (features_by_the_library(directory, model, picture, "lighting") for picture in (a, b))
    assert model.head is not None
    with torch.no_grad():
        expected = model.head([first], [second])[0]
    torch.testing.assert_close(model.distance(a, b, "lighting"), expected, atol=1e-6, rtol=0)


def test_the_larger_image_is_resized_to_the_smaller(model: MidFusion) -> None:
    (small,) = pictures([(300, 210)])
    # Hard edges, which bicubic resizing overshoots.
    large = np.random.default_rng(0).choice(np.array([0, 255], np.uint8), (330, 320, 3)).repeat(2, 0)
    resized = torch.nn.functional.interpolate(as_tensor(large)[None], size=(210, 300), mode="bicubic", antialias=True)
    expected = resized[0].clamp(0, 1)
    with pytest.warns(UserWarning, match="images of one size"):
        distance = model.distance(small, large, "lighting")
    torch.testing.assert_close(distance, model.distance(as_tensor(small), expected, "lighting"))
    assert model.distance(large, small, "lighting") == distance


def test_distances_do_not_depend_on_the_batch(directory: Path, model: MidFusion) -> None:
    # Pairs of one size each, so that sequences of several lengths share a batch.
    a, b = pictures(SIZES), pictures(SIZES, seed=1)
    together = model.distance(a, b, ASPECTS[:2])
    for row, aspect in enumerate(ASPECTS[:2]):
        alone = torch.stack([model.distance(x, y, aspect) for x, y in zip(a, b, strict=True)])
        torch.testing.assert_close(together[row], alone, atol=1e-5, rtol=0)
    small = load(directory, max_tokens_per_batch=100)
    torch.testing.assert_close(small.distance(a, b, ASPECTS[:2]), together, atol=1e-5, rtol=0)


def test_bfloat16_is_close_and_keeps_the_head_in_float32(directory: Path, model: MidFusion) -> None:
    a, b, c, _ = pictures(SIZES)
    narrow = load(directory, torch.bfloat16)
    assert narrow.head is not None
    assert narrow.head.layer_logits.dtype == torch.float32
    wide = model.distance(a, [b, c], ASPECTS[:2])
    torch.testing.assert_close(narrow.distance(a, [b, c], ASPECTS[:2]), wide, atol=1e-2, rtol=0)


def test_the_head_sees_the_aspect(model: MidFusion) -> None:
    a, b = pictures(SIZES[:2])
    assert model.distance(a, b, ASPECTS).unique().numel() == 3


def test_threads_do_not_see_each_others_states(model: MidFusion) -> None:
    images = pictures([(256, 256)] * 6)
    expected = [model.distance(images[0], image, "lighting") for image in images]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda image: model.distance(images[0], image, "lighting"), images))
    torch.testing.assert_close(torch.stack(found), torch.stack(expected), atol=1e-6, rtol=0)
    assert not any(block._forward_hooks for block in model.backbone.language_model.layers)


def test_it_serves_as_a_loss(model: MidFusion) -> None:
    target = as_tensor(pictures([(256, 256)], seed=5)[0])
    image = torch.full((3, 256, 256), 0.5, requires_grad=True)
    before = model.distance(image, target, "lighting")
    before.backward()
    gradient = image.grad
    assert gradient is not None
    assert torch.isfinite(gradient).all()
    with torch.no_grad():
        stepped = image - 0.02 * gradient / gradient.abs().max()
    assert model.distance(stepped, target, "lighting") < before - 1e-5
    assert not model.distance(target, stepped).requires_grad


def test_interface(model: MidFusion) -> None:
    a, b, _, _ = pictures(SIZES)
    assert isinstance(model, Metric)
    distance = model.distance(a, [b, b], ASPECTS)
    assert distance.shape == (3, 2)
    assert distance.dtype == torch.float32
    torch.testing.assert_close(model.similarity(a, [b, b], ASPECTS), -distance)
    assert model.settings == {"layers": LAYERS, "learned_weights": True, "aspect_conditioned": True}


def test_layers_are_checked(directory: Path) -> None:
    backbone = load_backbone(directory, device="cpu")
    assert MidFusion(backbone).layers == (1, 2, 3, 4)
    for layers in ([], [0, 1], [2, 1], [1, 1], [5]):
        with pytest.raises(ModelError, match="has blocks 1 to 4"):
            MidFusion(backbone, layers=layers)
