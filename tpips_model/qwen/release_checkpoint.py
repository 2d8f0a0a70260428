"""Checkpoints in the layout of the authors' release: ``config.json`` beside a pickled state dict ``model.pt``.

The pickle is read with ``weights_only=True``, which makes tensors and nothing else, and memory-mapped. Names lose the
release's wrappers and become ours (``RENAMED``); whatever is not recognised is an error that names it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tpips_model.errors import ModelError
from tpips_model.qwen.adapters import LANGUAGE_LINEARS, LoraSettings, canonical_name
from tpips_model.qwen.chat import DEFAULT_INSTRUCTION
from tpips_model.qwen.checkpoint import Checkpoint, backbone_place
from tpips_model.qwen.mid_fusion import DEFAULT_PROBES
from tpips_model.qwen.mid_fusion_head import probed_layers
from tpips_model.qwen.model_files import check_regular_file, find_model_files, read_json

__all__ = ["RELEASE_KINDS", "is_release_checkpoint", "read_release_checkpoint"]

RELEASE_KINDS = {"embedding": "late", "activation_dist": "mid", "early_fusion": "early"}
DEFAULT_RANKS = {"embedding": 16, "activation_dist": 16, "early_fusion": 64}
# More than any model has blocks.
MAX_PROBES = 1024
# The release's names, of whichever kind -> ours.
RENAMED = (
    (re.compile(r"^(?:extractor\.)?backbone\.(?:base_model\.)?(?:model\.){0,2}visual\."), "backbone.visual."),
    (
        re.compile(
            r"^(?:extractor\.)?backbone\.(?:base_model\.)?(?:model\.){0,2}language_model\.(?:base_model\.model\.)?"
        ),
        "backbone.language_model.",
    ),
    (re.compile(r"^(?=head\.|register_embed\.)"), ""),
)
# What the release can be told to do and its published checkpoints do not: refused rather than computed otherwise.
ONLY = {
    "activation_dist_tuning": ("channel_lora", "channel", "frozen"),
    "activation_dist_text_pool": ("mean",),
    "activation_dist_text_cond": (True,),
    "similarity_pooling": ("last_token", "mean"),
    "backbone_family": ("qwen3_vl_embed",),
}


def is_release_checkpoint(directory: str | os.PathLike[str]) -> bool:
    """Say whether a directory holds a checkpoint in the authors' layout."""
    directory = Path(directory)
    return (directory / "config.json").is_file() and isinstance(read_json(directory / "config.json").get("model"), dict)


def read_release_checkpoint(directory: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint in the authors' layout.

    Args:
        directory: Holds ``config.json`` and ``model.pt``; tokenizer and image settings beside them win over the
            backbone's. ``model.pt`` holds the whole model, or only what was trained (the rest is the backbone's).

    Returns:
        The checkpoint; its tensors are memory-mapped.

    Raises:
        ModelError: The files are damaged, the settings ask for what the published checkpoints never do, or a tensor
            has an unknown name.
    """
    directory = Path(directory)
    settings = read_json(directory / "config.json").get("model")
    if not isinstance(settings, dict) or str(settings.get("type")) not in RELEASE_KINDS or not settings.get("name"):
        raise ModelError(
            f"{directory / 'config.json'} names no model of type {', '.join(RELEASE_KINDS)} and its backbone; a "
            'checkpoint of the authors\' release has both under "model"'
        )
    for key, known in ONLY.items():
        if key in settings and settings[key] not in known:
            raise ModelError(f"{directory}: {key} is {settings[key]!r}; supported are {', '.join(map(repr, known))}")
    tensors = _renamed(_read_pickled_tensors(directory / "model.pt"), directory)
    _check_trained(settings, tensors, directory)
    backbone = backbone_place(directory, str(settings["name"]))
    of_backbone = any(name.startswith("backbone.") and ".lora_" not in name for name in tensors)
    return Checkpoint(
        kind=RELEASE_KINDS[settings["type"]],
        backbone=backbone,
        lora=_lora(settings, tensors, directory),
        settings=_settings(settings, tensors, backbone, directory),
        tensors={canonical_name(name): tensor for name, tensor in tensors.items()},
        whole=of_backbone,
        files=str(directory),
    )


def _read_pickled_tensors(path: Path) -> dict[str, Tensor]:
    check_regular_file(path)
    try:
        state = torch.load(path, weights_only=True, mmap=True, map_location="cpu")
    except Exception as error:  # a damaged or hostile pickle raises many kinds
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ModelError(f"cannot read {path} as a state dict of tensors alone: {reason}") from error
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise ModelError(f"{path} holds something other than named tensors; a state dict is expected")
    for name, tensor in state.items():
        if not tensor.is_floating_point() or tensor.layout != torch.strided or tensor.device.type != "cpu":
            raise ModelError(f"{path} holds {name!r:.200}, no dense tensor of floating-point numbers; they are needed")
    return {str(name): tensor for name, tensor in state.items()}


def _renamed(tensors: Mapping[str, Tensor], directory: Path) -> dict[str, Tensor]:
    ours: dict[str, Tensor] = {}
    unknown = []
    for name, tensor in tensors.items():
        found = next(((pattern, new) for pattern, new in RENAMED if pattern.match(name)), None)
        if found is None:
            unknown.append(name)
            continue
        renamed = found[0].sub(found[1], name, count=1)
        if renamed in ours:
            raise ModelError(f"{directory / 'model.pt'}: two tensors are both {renamed}")
        ours[renamed] = tensor
    if unknown or not ours:
        raise ModelError(
            f"{directory / 'model.pt'} has {len(tensors)} tensors, {len(unknown)} of unknown names: "
            f"{', '.join(unknown[:5])}"
        )
    return ours


def _lora(settings: Mapping[str, Any], tensors: Mapping[str, Tensor], directory: Path) -> LoraSettings | None:
    """Return what the adapters are like: where they are and their rank from the tensors, α from the settings."""
    ranks = {
        name.removeprefix("backbone.").partition(".lora_A.")[0]: tensor.shape[0] if tensor.ndim else 0
        for name, tensor in tensors.items()
        if ".lora_A." in name
    }
    if not ranks:
        return None
    r = _whole(settings, "lora_r", DEFAULT_RANKS[settings["type"]], directory)
    wrong = [name for name, rank in ranks.items() if rank != r]
    if wrong:
        raise ModelError(f"{directory}: lora_r is {r}, but {wrong[0]} has an adapter of rank {ranks[wrong[0]]}")
    return LoraSettings(
        r=r,
        alpha=_whole(settings, "lora_alpha", 2 * r, directory),
        dropout=settings.get("lora_dropout", 0.05),
        targets=_targets(ranks.keys(), tensors),
    )


def _targets(adapted: Any, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Return the shortest names for the adapted maps: last names where every block has one, else whole names."""
    layers = {name.split(".")[2] for name in adapted if name.startswith("language_model.layers.")}
    targets: list[str] = []
    for last in LANGUAGE_LINEARS:
        named = [name for name in adapted if name.startswith("language_model.") and name.endswith(f".{last}")]
        if named and len(named) == len(layers):
            targets.append(last)
    rest = [name for name in adapted if not (name.startswith("language_model.") and name.rsplit(".", 1)[-1] in targets)]
    return (*targets, *sorted(rest))


def _check_trained(settings: Mapping[str, Any], tensors: Mapping[str, Tensor], directory: Path) -> None:
    """Refuse a state dict without what its settings say was trained: the rest would pass for the model."""
    tuning = settings.get("activation_dist_tuning")
    otherwise = not settings.get("use_lora", True) or settings.get("full_finetune") or tuning in ("channel", "frozen")
    adapted = "lora_r" in settings and not otherwise
    has_adapters, has_head = (any(sign in name for name in tensors) for sign in (".lora_A.", "head."))
    # Mid fusion never has adapters alone.
    headed = settings["type"] == "activation_dist" and (tuning in ("channel_lora", "channel") or has_adapters)
    for needed, there, what in ((adapted, has_adapters, "adapters"), (headed, has_head, "head")):
        if needed and not there:
            raise ModelError(
                f"{directory / 'model.pt'} has no {what}, which a model of these settings has; restore the file"
            )


def _whole(settings: Mapping[str, Any], key: str, otherwise: int, directory: Path) -> int:
    value = settings.get(key, otherwise)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ModelError(f"{directory}: {key} is {value!r:.80}; expected a whole number")
    return value


def _block_count(backbone: str) -> int:
    directory = find_model_files(backbone).directory
    text = read_json(directory / "config.json").get("text_config")
    return _whole(text if isinstance(text, dict) else {}, "num_hidden_layers", 0, directory)


def _layers(settings: Mapping[str, Any], backbone: str, directory: Path) -> list[int]:
    """Return the blocks that mid fusion compares, as they are named, or so many evenly spaced ones."""
    layers = settings.get("activation_dist_layers")
    if layers is None:
        probes = _whole(settings, "activation_dist_num_probes", DEFAULT_PROBES, directory)
        blocks = _block_count(backbone)
        if not 1 <= probes <= min(blocks, MAX_PROBES):
            raise ModelError(
                f"{directory}: activation_dist_num_probes is {probes}, and the backbone has {blocks} blocks; expected "
                f"1 to {min(blocks, MAX_PROBES)}"
            )
        return list(probed_layers(blocks, probes))
    if not isinstance(layers, list) or not all(type(layer) is int for layer in layers):
        raise ModelError(f"{directory}: activation_dist_layers is {layers!r:.80}; expected a list of whole numbers")
    return sorted(layers)


def _settings(
    settings: Mapping[str, Any], tensors: Mapping[str, Tensor], backbone: str, directory: Path
) -> dict[str, Any]:
    """Return the keyword arguments of our class that the release's settings stand for."""
    kind = settings["type"]
    if kind == "embedding":
        return {
            "instruction": settings.get("instruction", DEFAULT_INSTRUCTION),
            "pooling": settings.get("similarity_pooling", "last_token"),
        }
    if kind == "activation_dist":
        return {
            "layers": _layers(settings, backbone, directory),
            "learned_weights": any(name.startswith("head.") for name in tensors),
        }
    return {}
