"""From a config to a model of which only adapters and head learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tpips_model.errors import ModelError
from tpips_model.loading import BUNDLED_MODELS
from tpips_model.qwen.adapters import LoraSettings, attach_lora
from tpips_model.qwen.backbone_loading import chosen_dtype, load_backbone
from tpips_model.qwen.checkpoint import FORMAT, build_model, read_checkpoint
from tpips_model.qwen.early_fusion import EarlyFusion
from tpips_model.qwen.late_fusion import LateFusion
from tpips_model.qwen.mid_fusion import MidFusion
from tpips_model.qwen.mid_fusion_head import probed_layers
from tpips_model.qwen.model_files import find_model_files, read_json
from tpips_model.qwen.triplet_head import TripletHead
from train.trainer.config import TrainingConfig
from train.trainer.errors import TrainingError

__all__ = ["Trainable", "build_trainable", "parameter_groups"]


@dataclass(frozen=True)
class Trainable:
    """A model ready to learn.

    Attributes:
        model: Of one of the four kinds; what learns requires a gradient and is float32.
        backbone_tensors: Weights of the backbone that an earlier training changed, to be saved with it again.
        computed_in: The type of the frozen weights and of most computing.
    """

    model: Any
    backbone_tensors: Mapping[str, Tensor]
    computed_in: torch.dtype


def build_trainable(config: TrainingConfig, device: torch.device) -> Trainable:
    """Load the backbone or the trained model to start from, and make adapters and head learn.

    Raises:
        TrainingError: The model is of another kind, cannot be trained, or its adapters are not those of the config.
        ModelError: It cannot be loaded.
    """
    torch.manual_seed(config.seed)
    dtype = chosen_dtype(config.dtype, device)
    model, tensors = _started(config, device, dtype) if config.start else (_new(config, device, dtype), {})
    learning = _let_learn(model)
    if not learning:
        raise TrainingError(
            f"nothing of this {config.kind} model learns: it has neither adapters nor a head; give a "
            "lora_rank of at least 1"
        )
    model.max_tokens_per_batch = config.max_tokens_per_batch
    if dtype != torch.float32:
        _leave_types_to_autocast(model)
    _set_checkpointing(model, config.checkpointing)
    if config.matryoshka_dims and max(config.matryoshka_dims) >= model.dim:
        raise TrainingError(f"matryoshka_dims {config.matryoshka_dims} must be below the model's {model.dim} dims")
    return Trainable(model, tensors, dtype)


def parameter_groups(model: Any, config: TrainingConfig) -> list[dict[str, Any]]:
    """Return AdamW's groups: adapters at ``lr``, the head at ``head_rate`` times that (Appendix C.1)."""
    learning = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    groups = [
        {"params": [parameter for name, parameter in learning if ".lora_" in name], "lr": config.lr},
        {
            "params": [parameter for name, parameter in learning if ".lora_" not in name],
            "lr": config.lr * config.head_rate,
        },
    ]
    return [group for group in groups if group["params"]]


def _new(config: TrainingConfig, device: torch.device, dtype: torch.dtype) -> Any:
    if config.backbone in BUNDLED_MODELS:
        raise TrainingError(
            f"the bundled model {config.backbone!r} is trained by 'tpips-train mini', not here; give a "
            "Qwen3-VL backbone"
        )
    files = find_model_files(config.backbone, revision=config.revision)
    if read_json(files.directory / "config.json").get("format") == FORMAT:
        raise TrainingError(
            f"{config.backbone} is a trained model, not a backbone; go on training it with start={config.backbone}"
        )
    backbone = load_backbone(
        config.backbone,
        revision=config.revision,
        device=device,
        dtype=dtype,
        min_pixels=config.min_pixels,
        max_pixels=config.max_pixels,
    )
    if config.lora_rank:
        attach_lora(backbone, _lora(config))
    if config.kind == "late":
        return LateFusion(backbone)
    if config.kind == "mid":
        layers = probed_layers(backbone.layers, min(config.probes, backbone.layers))
        return MidFusion(backbone, layers=layers, aspect_conditioned=config.aspect_conditioned)
    return EarlyFusion(backbone) if config.kind == "early" else TripletHead(backbone)


def _started(config: TrainingConfig, device: torch.device, dtype: torch.dtype) -> tuple[Any, Mapping[str, Tensor]]:
    """Return a trained model and the backbone weights that its training changed."""
    assert config.start is not None
    files = find_model_files(config.start)
    if read_json(Path(files.directory) / "config.json").get("format") != FORMAT:
        raise TrainingError(
            f"{config.start} is no trained model of ours; convert a checkpoint of the authors' release with "
            "'tpips-train convert', or give a backbone as backbone=…"
        )
    checkpoint = read_checkpoint(files.directory)
    if checkpoint.kind != config.kind:
        raise TrainingError(
            f"{config.start} is a {checkpoint.kind} model and the run trains a {config.kind} one; give a model of that "
            "kind, or the preset of its own"
        )
    if checkpoint.lora != (_lora(config) if config.lora_rank else None):
        raise TrainingError(
            f"{config.start} has the adapters {checkpoint.lora}, the run asks for {_lora(config)}; set lora_rank, "
            "lora_alpha, lora_dropout and lora_targets to the model's"
        )
    model = build_model(
        checkpoint, device=device, dtype=dtype, min_pixels=config.min_pixels, max_pixels=config.max_pixels
    )
    changed = {
        name: tensor
        for name, tensor in checkpoint.tensors.items()
        if name.startswith("backbone.") and ".lora_" not in name
    }
    return model, changed


def _lora(config: TrainingConfig) -> LoraSettings:
    try:
        return LoraSettings(config.lora_rank, config.alpha, config.lora_dropout, config.lora_targets)
    except ModelError as error:
        raise TrainingError(str(error)) from error


def _let_learn(model: nn.Module) -> list[nn.Parameter]:
    """Make adapters and head learn, in float32: steps of 1e-5 would be lost in bfloat16's three digits."""
    learning = []
    for name, parameter in model.named_parameters():
        learns = ".lora_" in name or not name.startswith("backbone.")
        parameter.requires_grad_(learns)
        if learns:
            parameter.data = parameter.data.float()
            learning.append(parameter)
    return learning


def _leave_types_to_autocast(model: nn.Module) -> None:
    """Keep the adapters from widening their inputs to float32, which autocast would narrow again."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    for module in model.modules():
        if isinstance(module, BaseTunerLayer):
            setattr(module, "cast_input_dtype_enabled", False)  # noqa: B010  (no declared attribute)


def _set_checkpointing(model: Any, wanted: bool) -> None:
    if isinstance(model, LateFusion):
        model.checkpointing = wanted  # the library's own would drop the shared prefix's keys
    elif wanted:
        model.backbone.language_model.activation_checkpointing_enable({"use_reentrant": False})
