"""A trained model on disk: settings, adapter and head weights, and a card that says where they come from.

directory/
  config.json           kind, backbone (id and revision, or a path), adapters, settings, image budget, training facts
  adapter.safetensors   adapters and heads, by the names of ``canonical_name``
  backbone.safetensors  only if training changed the backbone itself: the tensors that it changed
  README.md             the model card
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from tpips_model.durable_files import TEMPORARY_SUFFIX, flush_to_disk
from tpips_model.errors import ModelError
from tpips_model.qwen.adapters import LoraSettings, attach_lora, canonical_name, trained_tensors
from tpips_model.qwen.backbone_loading import load_backbone
from tpips_model.qwen.model_card import model_card
from tpips_model.qwen.model_files import check_regular_file, read_json

__all__ = ["FORMAT", "KINDS", "Checkpoint", "build_model", "read_checkpoint", "save_model"]

FORMAT = "tpips-model"
FORMAT_VERSION = 1
# Of adapters whose tensors do not say it.
_MAX_RANK = 1024
# kind -> "module:class"; each class takes the backbone and its own ``settings`` as keywords.
KINDS = {
    "late": "tpips_model.qwen.late_fusion:LateFusion",
    "mid": "tpips_model.qwen.mid_fusion:MidFusion",
    "early": "tpips_model.qwen.early_fusion:EarlyFusion",
    "triplet": "tpips_model.qwen.triplet_head:TripletHead",
}


@dataclass(frozen=True)
class Checkpoint:
    """What makes a trained model out of a backbone.

    Attributes:
        kind: One of ``KINDS``.
        backbone: A directory, or a hub id.
        revision: The commit of the hub repository.
        lora: What the adapters are like.
        settings: Keyword arguments of the kind's class.
        min_pixels: Image budget; None is the backbone's own.
        max_pixels: Image budget; None is the backbone's own.
        tensors: Adapters, heads, and backbone weights that replace the backbone's, by canonical name.
        training: Facts of the training run, for the record.
        whole: Whether the tensors must hold every weight of the backbone.
        files: A directory whose tokenizer and image settings win over the backbone's.
    """

    kind: str
    backbone: str
    tensors: Mapping[str, Tensor] = field(repr=False)
    revision: str | None = None
    lora: LoraSettings | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    min_pixels: int | None = None
    max_pixels: int | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = False
    files: str | None = None


def read_checkpoint(directory: str | os.PathLike[str]) -> Checkpoint:
    """Read one of our checkpoints.

    Raises:
        ModelError: It is damaged, of another format version, or of an unknown kind.
    """
    directory = Path(directory)
    config = read_json(directory / "config.json")
    if config.get("format") != FORMAT or config.get("format_version") != FORMAT_VERSION:
        raise ModelError(
            f"{directory} has format {config.get('format')!r} version {config.get('format_version')!r}; this release "
            f"reads {FORMAT!r} version {FORMAT_VERSION}"
        )
    if not isinstance(config.get("kind"), str) or config["kind"] not in KINDS:
        raise ModelError(f"{directory} is of kind {config.get('kind')!r}; known kinds are {', '.join(KINDS)}")
    tensors = _read_tensors(directory / "adapter.safetensors")
    if (directory / "backbone.safetensors").is_file():
        tensors |= _read_tensors(directory / "backbone.safetensors")
    try:
        backbone, lora = config["backbone"], config["lora"]
        return Checkpoint(
            kind=config["kind"],
            backbone=backbone_place(directory, backbone["name"]),
            revision=backbone["revision"],
            lora=None if lora is None else LoraSettings(**lora),
            settings=dict(config["settings"]),
            min_pixels=config["preprocessing"]["min_pixels"],
            max_pixels=config["preprocessing"]["max_pixels"],
            tensors=tensors,
            training=dict(config["training"]),
            files=str(directory),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{directory / 'config.json'} is damaged: {type(error).__name__} {error}") from error


def backbone_place(directory: Path, name: str) -> str:
    """Return a backbone's directory, looked for from the checkpoint first, or its hub id as it is."""
    beside = directory / name
    try:
        return str(beside) if beside.is_dir() else name
    except OSError:  # such as a name too long for a path; whoever looks for it says so
        return name


def build_model(
    checkpoint: Checkpoint,
    *,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    attention: str = "sdpa",
    min_pixels: int | None = None,
    max_pixels: int | None = None,
    max_tokens_per_batch: int | None = None,
) -> Any:
    """Load a checkpoint's backbone and make the trained model, frozen and in evaluation mode.

    Args:
        checkpoint: As ``read_checkpoint`` or ``read_release_checkpoint`` gives it.
        device: As in ``load_backbone``; so are ``dtype`` and ``attention``.
        dtype: Of the backbone and its adapters; heads stay in float32.
        attention: Which attention.
        min_pixels: Wins over the checkpoint's.
        max_pixels: Wins over the checkpoint's.
        max_tokens_per_batch: The model's own default if None.

    Returns:
        A ``LateFusion``, ``MidFusion``, ``EarlyFusion`` or ``TripletHead``.

    Raises:
        ModelError: The backbone cannot be loaded, or the tensors are not this model's; they are named.
    """
    ranks = {
        tensor.shape[0]
        for name, tensor in checkpoint.tensors.items()
        if name.endswith(".lora_A.weight") and tensor.ndim == 2
    }
    if checkpoint.lora is not None and checkpoint.lora.r > max(ranks, default=_MAX_RANK):
        raise ModelError(  # before memory is taken for it
            f"the adapters are of rank {checkpoint.lora.r:.4g} by the checkpoint's settings, but its tensors of rank "
            f"{', '.join(map(str, sorted(ranks)[:5])) or 'none'}; restore one that belongs to the other"
        )
    backbone = load_backbone(
        checkpoint.backbone,
        revision=checkpoint.revision,
        device=device,
        dtype=dtype,
        attention=attention,
        min_pixels=checkpoint.min_pixels if min_pixels is None else min_pixels,
        max_pixels=checkpoint.max_pixels if max_pixels is None else max_pixels,
        files_that_win=checkpoint.files,
    )
    if checkpoint.lora is not None:
        attach_lora(backbone, checkpoint.lora)
    module, name = KINDS[checkpoint.kind].split(":")
    if "max_tokens_per_batch" in checkpoint.settings:
        raise ModelError("the checkpoint's settings hold max_tokens_per_batch, which is for the caller to give")
    budget = {} if max_tokens_per_batch is None else {"max_tokens_per_batch": max_tokens_per_batch}
    try:
        model = getattr(import_module(module), name)(backbone, **checkpoint.settings, **budget)
    except TypeError as error:
        raise ModelError(
            f"settings {dict(checkpoint.settings)} do not fit a {checkpoint.kind} model: {error}"
        ) from error
    _fill(model, checkpoint.tensors, whole=checkpoint.whole)
    return model.eval().requires_grad_(False)


def _fill(model: nn.Module, tensors: Mapping[str, Tensor], *, whole: bool) -> None:
    """Copy tensors into a model: adapters and heads all, of the backbone's weights all (``whole``) or any.

    Raises:
        ModelError: Some are missing, unknown, of another shape, or not finite in the model's type.
    """
    places = {canonical_name(name): tensor for name, tensor in model.state_dict().items()}
    needed = places if whole else trained_tensors(model)
    faults = {
        "missing": sorted(needed.keys() - tensors.keys()),
        "unknown": sorted(tensors.keys() - places.keys()),
        "mis-shaped": [
            f"{name} {tuple(tensor.shape)} instead of {tuple(places[name].shape)}"
            for name, tensor in sorted(tensors.items())
            if name in places and tensor.shape != places[name].shape
        ],
    }
    if any(faults.values()):
        named = "; ".join(
            f"{fault}: {', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}"
            for fault, names in faults.items()
            if names
        )
        raise ModelError(f"the checkpoint's tensors do not fit the model ({named})")
    with torch.no_grad():
        for name, tensor in tensors.items():
            places[name].copy_(tensor)
        broken = [name for name in sorted(tensors) if not bool(places[name].isfinite().all())]
    if broken:
        raise ModelError(
            f"the checkpoint has {len(broken):,} tensors with values that are not finite in {places[broken[0]].dtype}: "
            f"{', '.join(broken[:5])}; load it with dtype='bfloat16' or 'float32', and if that does not help, it is "
            "damaged"
        )


def save_model(
    model: Any,
    directory: str | os.PathLike[str],
    *,
    training: Mapping[str, Any] | None = None,
    tensors: Mapping[str, Tensor] | None = None,
    backbone_tensors: Mapping[str, Tensor] | None = None,
) -> Path:
    """Write a trained model as a checkpoint that ``load_model`` takes.

    Args:
        model: A model of one of ``KINDS``.
        directory: Made if it is not there. A backbone in a local directory is named relative to it.
        training: JSON values for the record: data, steps, learning rate, agreement reached.
        tensors: Adapters and heads by canonical name, where those of the model are spread over several processes; by
            default the model's own.
        backbone_tensors: Backbone weights that training changed, by canonical name.

    Raises:
        ModelError: The adapters have been merged, so that they cannot be written apart.
    """
    directory = Path(directory)
    trained = trained_tensors(model) if tensors is None else tensors
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in trained.items()}
    backbone = model.backbone
    if backbone.lora is not None and not any(".lora_" in name for name in tensors):
        raise ModelError("the adapters have been merged into the backbone; save the model before merging them")
    directory.mkdir(parents=True, exist_ok=True)
    name = backbone.name
    if backbone.revision is None:
        name = Path(os.path.relpath(Path(name).resolve(), directory.resolve())).as_posix()
    config = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": model.kind,
        "backbone": {"name": name, "revision": backbone.revision},
        "lora": None if backbone.lora is None else asdict(backbone.lora),
        "settings": model.settings,
        "preprocessing": {"min_pixels": backbone.preprocess.min_pixels, "max_pixels": backbone.preprocess.max_pixels},
        "training": dict(training or {}),
    }
    _write(directory / "adapter.safetensors", lambda path: save_file(tensors, path, metadata={"format": "pt"}))
    if backbone_tensors:
        changed = {name: tensor.detach().cpu().contiguous() for name, tensor in backbone_tensors.items()}
        _write(directory / "backbone.safetensors", lambda path: save_file(changed, path, metadata={"format": "pt"}))
    card = model_card(config)
    _write(directory / "README.md", lambda path: path.write_text(card, encoding="utf-8"))
    settings = json.dumps(config, indent=1, ensure_ascii=False) + "\n"
    _write(directory / "config.json", lambda path: path.write_text(settings, encoding="utf-8"))
    return directory


def _write(path: Path, write: Any) -> None:
    """Write a file under another name first, so that whatever ends the run leaves no half of it."""
    partial = path.with_name(path.name + TEMPORARY_SUFFIX)
    write(partial)
    flush_to_disk(partial)
    os.replace(partial, path)
    flush_to_disk(path.parent)


def _read_tensors(path: Path) -> dict[str, Tensor]:
    check_regular_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ModelError(f"cannot read the weights {path}: {error}") from error
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise ModelError(f"{path} holds {name} of type {tensor.dtype}; floating-point weights are needed")
    return tensors
