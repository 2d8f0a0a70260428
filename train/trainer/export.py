"""From a run to a model on disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from tpips_model.qwen.adapters import canonical_name
from tpips_model.qwen.checkpoint import save_model
from train.trainer.config import TrainingConfig
from train.trainer.durable import write_folder
from train.trainer.run_state import Progress
from train.trainer.validation import Validation

__all__ = ["export_model", "training_facts"]


def export_model(
    folder: Path,
    model: Any,
    *,
    trained: Mapping[str, Tensor],
    backbone_tensors: Mapping[str, Tensor],
    facts: Mapping[str, Any],
) -> None:
    """Write a checkpoint that ``load_model`` takes, in place of the one that may be there.

    Args:
        folder: Where.
        model: Of one of the four kinds.
        trained: What learnt, whole, by its name in the ``JudgingModule``.
        backbone_tensors: Weights of the backbone that an earlier training changed.
        facts: For the model card.
    """
    tensors = {canonical_name(name.removeprefix("model.")): tensor for name, tensor in trained.items()}
    write_folder(
        folder,
        lambda place: save_model(
            model, place, training=facts, tensors=tensors, backbone_tensors=backbone_tensors or None
        ),
    )


def training_facts(
    config: TrainingConfig, facts: Mapping[str, Any], progress: Progress, validation: Validation | None
) -> dict[str, Any]:
    """Return what the model card says of a run."""
    facts = {
        **facts,
        "steps": progress.step,
        "examples seen": progress.examples,
        "effective batch": config.effective_batch,
        "learning rate": config.lr,
        "temperature": config.choice_temperature,
        "aspects per step": config.aspects_per_step,
        "seed": config.seed,
        "updates left out": progress.bad_steps,
        "loss spikes": progress.spikes,
    }
    if config.aspect_contrast:
        facts["aspect contrast"] = config.aspect_contrast
    if config.matryoshka_dims:
        facts["matryoshka dims"] = list(config.matryoshka_dims)
    if validation is not None:
        facts |= {
            "validation agreement": validation.agreement.mean,
            "validation standard error": validation.agreement.standard_error,
            "validation human consensus": validation.consensus,
            "validation examples": validation.agreement.count,
        }
    return facts
