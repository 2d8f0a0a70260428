"""What is no batch of images, no list of aspects or no picture is one error, whichever model it is given to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.fixtures.qwen import make_backbone
from tpips_model.comparison import compare
from tpips_model.errors import AspectError, ImageError, ModelError
from tpips_model.frames import over_frames
from tpips_model.images import to_rgb
from tpips_model.loading import load_embedder
from tpips_model.metric import as_metric
from tpips_model.qwen.preprocessing import Preprocessor

PICTURE = Image.new("RGB", (40, 30), (200, 30, 20))
HUGE = 2**20  # squared, far over the bound on pixels; the arrays below repeat one value and take no memory


@pytest.fixture(scope="module", params=["mini", "late"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    name = "mini" if request.param == "mini" else str(make_backbone(tmp_path_factory.mktemp("qwen"), layers=2))
    return load_embedder(name)


@pytest.mark.parametrize(
    "aspects", [None, 3, "color", b"color", {"color"}], ids=["nothing", "number", "words", "bytes", "set"]
)
def test_aspects_that_are_no_list_are_refused(model: Any, aspects: Any) -> None:
    with pytest.raises(AspectError, match=r"the aspects are .* of type \w+; give a list, such as \['color palette'\]"):
        model.embed([PICTURE], aspects)


@pytest.mark.parametrize("aspect", [None, 3, b"color", {"color"}], ids=["nothing", "number", "bytes", "set"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda metric, aspect: metric.similarity(PICTURE, PICTURE, aspect),
        lambda metric, aspect: compare(PICTURE, [PICTURE], aspect, metric=metric),
        lambda metric, aspect: over_frames([PICTURE], aspect, metric=metric),
    ],
    ids=["similarity", "compare", "over_frames"],
)
def test_a_metrics_aspect_is_words_or_a_list(model: Any, aspect: Any, ask: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(AspectError, match=r"the aspects are .* give a list"):
        ask(as_metric(model), aspect)


@pytest.mark.parametrize(
    "images",
    [
        None,
        3,
        PICTURE,
        "a.png",
        b"GIF89a",
        {"a.png"},
        {"a": PICTURE},
        np.zeros((3, 4, 3), np.uint8),
        torch.zeros(3, 4, 4),
    ],
    ids=["nothing", "number", "picture", "path", "bytes", "set", "mapping", "array", "tensor"],
)
def test_images_that_are_no_list_are_refused(model: Any, images: Any) -> None:
    with pytest.raises(ImageError, match=r"one value of type \w+; give a list, though it holds one image"):
        model.embed(images, ["color"])


def test_what_can_be_gone_through_is_a_list(model: Any) -> None:
    expected = model.embed([PICTURE, PICTURE], ["color", "shape"])
    assert expected.shape == (2, 2, model.dim)
    pixels = np.asarray(PICTURE)
    for images in ((PICTURE, PICTURE), (one for one in (PICTURE, PICTURE)), np.stack([pixels, pixels])):
        aspects = (one for one in ("color", "shape"))
        np.testing.assert_allclose(model.embed(images, aspects), expected, atol=1e-5)
    np.testing.assert_array_equal(model.embed([PICTURE], np.array(["color"])), model.embed([PICTURE], ["color"]))
    assert model.embed([], ["color"]).shape == (0, 1, model.dim)
    assert model.embed([PICTURE], []).shape == (1, 0, model.dim)


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.rand(3, 8, 8).to_sparse(), "give a dense tensor"),
        (torch.empty(3, 8, 8, device="meta"), "give a dense tensor"),
        (torch.rand(1, 1, 1).expand(3, HUGE, HUGE), "over the bound"),
        (torch.zeros(1, 1, 1, dtype=torch.uint8).expand(3, HUGE, HUGE), "over the bound"),
        (torch.rand(3, 0, 8), "no pixels"),
        (torch.zeros(3, 8, 8, dtype=torch.complex64).conj(), "values of type complex64"),
    ],
    ids=["sparse", "meta", "huge", "huge bytes", "empty", "complex"],
)
def test_tensors_that_are_no_pictures_are_refused_unread(model: Any, tensor: torch.Tensor, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        as_metric(model).similarity(tensor, PICTURE)


def test_an_array_is_measured_before_its_values_are_touched() -> None:
    for shape in ((HUGE, HUGE), (HUGE, HUGE, 3), (4, HUGE, HUGE)):
        for value in (np.uint8(3), np.float64(0.5), np.uint16(9)):
            with pytest.raises(ImageError, match=f"it has {HUGE}×{HUGE} pixels, over the bound"):
                to_rgb(np.broadcast_to(value, shape))


def test_a_nested_tensor_is_no_batch(model: Any) -> None:
    nested = torch.nested.nested_tensor([torch.rand(3, 8, 8), torch.rand(3, 9, 8)], layout=torch.jagged)
    with pytest.raises(ImageError, match="nested tensor; give a list"):
        as_metric(model).similarity(nested, PICTURE)
    with pytest.raises(ImageError, match="give a list"):
        model.embed(nested, ["color"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"patch_size": 0}, "patch_size is 0; expected 1 to 64"),
        ({"merge_size": -2}, "merge_size is -2; expected 1 to 64"),
        ({"frames": 10**9}, "frames is 1000000000; expected 1 to 64"),
        ({"std": (0.5, 0.0, 0.5)}, "std above zero"),
        ({"mean": (float("nan"), 0.5, 0.5)}, "must be finite"),
    ],
)
def test_image_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Preprocessor(**settings)
