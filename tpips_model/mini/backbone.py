"""EfficientNet-Lite0, frozen: the convolutional network whose stage maps the bundled model describes an image with."""

from __future__ import annotations

import os
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from tpips_model.errors import ModelError
from tpips_model.mini.tensor_files import read_tensors

__all__ = ["STAGES", "STAGE_CHANNELS", "EfficientNetLite0", "MBConv", "SameConv2d"]

# (expansion, kernel, stride, input channels, output channels) of the sixteen blocks; stem and head keep the widths of
# EfficientNet-B0, as every Lite variant does.
BLOCKS = (
    (1, 3, 1, 32, 16),
    (6, 3, 2, 16, 24),
    (6, 3, 1, 24, 24),
    (6, 5, 2, 24, 40),
    (6, 5, 1, 40, 40),
    (6, 3, 2, 40, 80),
    (6, 3, 1, 80, 80),
    (6, 3, 1, 80, 80),
    (6, 5, 1, 80, 112),
    (6, 5, 1, 112, 112),
    (6, 5, 1, 112, 112),
    (6, 5, 2, 112, 192),
    (6, 5, 1, 192, 192),
    (6, 5, 1, 192, 192),
    (6, 5, 1, 192, 192),
    (6, 3, 1, 192, 320),
)
STEM_CHANNELS = 32
HEAD_CHANNELS = 1280

# Block number -> the stage name its output is returned under.
_NAMED_BLOCKS = {0: "b0", 2: "b2", 4: "b4", 7: "b7", 10: "b10", 15: "b15"}
STAGES = ("stem", *_NAMED_BLOCKS.values(), "head")
STAGE_CHANNELS: Mapping[str, int] = {
    "stem": STEM_CHANNELS,
    **{name: BLOCKS[number][4] for number, name in _NAMED_BLOCKS.items()},
    "head": HEAD_CHANNELS,
}


class SameConv2d(nn.Conv2d):
    """A convolution with TensorFlow's "same" padding and the following batch normalisation folded into it.

    TensorFlow pads so that the output has ⌈size / stride⌉ pixels and puts the odd pixel at the bottom right; the
    weights were trained so, and PyTorch's symmetric padding would shift every strided map by half a pixel.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        # With stride 1 and an odd kernel both paddings agree, so the convolution itself can pad.
        padding = kernel // 2 if stride == 1 else 0
        super().__init__(inputs, outputs, kernel, stride=stride, padding=padding, groups=groups, bias=True)

    def forward(self, maps: Tensor) -> Tensor:
        """Convolve float (B, C, H, W) to (B, C', ⌈H / stride⌉, ⌈W / stride⌉)."""
        if self.stride[0] > 1:
            bottom_right = [_same_padding(size, self.kernel_size[0], self.stride[0]) for size in maps.shape[-2:]]
            (top, bottom), (left, right) = bottom_right
            maps = functional.pad(maps, (left, right, top, bottom))
        return super().forward(maps)


def _same_padding(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return the pixels that TensorFlow's "same" puts before and after an axis."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


class MBConv(nn.Module):
    """An inverted bottleneck: widen, convolve each channel by itself, narrow; no squeeze-and-excitation (Lite)."""

    def __init__(self, expansion: int, kernel: int, stride: int, inputs: int, outputs: int) -> None:
        super().__init__()
        wide = inputs * expansion
        self.expand = SameConv2d(inputs, wide, 1) if expansion > 1 else None
        self.depthwise = SameConv2d(wide, wide, kernel, stride=stride, groups=wide)
        self.project = SameConv2d(wide, outputs, 1)
        self.skips = stride == 1 and inputs == outputs

    def forward(self, maps: Tensor) -> Tensor:
        """Map float (B, C, H, W) to (B, C', H', W')."""
        wide = maps if self.expand is None else functional.relu6(self.expand(maps), inplace=True)
        narrow: Tensor = self.project(functional.relu6(self.depthwise(wide), inplace=True))
        return narrow.add_(maps) if self.skips else narrow


class EfficientNetLite0(nn.Module):
    """The pretrained EfficientNet-Lite0 without its classifier, for inference only.

    Batch normalisations are folded into the convolutions when the weights are converted (``train.mini_assets``), so
    the network here has none and always behaves as in evaluation.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stem = SameConv2d(3, STEM_CHANNELS, 3, stride=2)
        self.blocks = nn.ModuleList(MBConv(*block) for block in BLOCKS)
        self.head = SameConv2d(BLOCKS[-1][4], HEAD_CHANNELS, 1)
        self.requires_grad_(False).eval()

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> EfficientNetLite0:
        """Load the network from a safetensors file (float16 on disk, float32 in memory).

        Raises:
            ModelError: The file is missing, damaged, or holds other tensors than this network's.
        """
        # Built without memory first: random initialisation would cost more than reading the file.
        with torch.device("meta"):
            network = cls()
        tensors, _ = read_tensors(path)
        weights = {name: tensor.float() for name, tensor in tensors.items()}
        try:
            network.load_state_dict(weights, strict=True, assign=True)
        except RuntimeError as error:
            raise ModelError(f"{path} does not hold EfficientNet-Lite0's weights; reinstall the package") from error
        return network.requires_grad_(False)

    @staticmethod
    def normalised(pixels: Tensor) -> Tensor:
        """Turn uint8 RGB (B, H, W, 3) into the network's input, float32 (B, 3, H, W) in [−1, 1]: (x − 127) / 128."""
        # permute leaves the channels innermost in memory, which is the layout the convolutions run fastest in.
        return (pixels.permute(0, 3, 1, 2).float() - 127.0) / 128.0

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        """Compute the stage maps.

        Args:
            images: float32 (B, 3, H, W) as ``normalised`` returns them.

        Returns:
            Stage name → float32 (B, C, H', W') with C of ``STAGE_CHANNELS``: "stem" (half the size), "b0" (half),
            "b2" (a quarter), "b4" (an eighth), "b7" and "b10" (a sixteenth), "b15" and "head" (a thirty-second). Block
            outputs are linear (before any activation), stem and head lie in [0, 6].
        """
        maps = functional.relu6(self.stem(images), inplace=True)
        stages = {"stem": maps}
        for number, block in enumerate(self.blocks):
            maps = block(maps)
            if number in _NAMED_BLOCKS:
                stages[_NAMED_BLOCKS[number]] = maps
        stages["head"] = functional.relu6(self.head(maps), inplace=True)
        return stages
