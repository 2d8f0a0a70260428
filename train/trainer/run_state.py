"""What a run must remember to go on as if nothing had happened.

``states/step-00000040/``: ``trained.safetensors`` (adapters and head), ``optimizer.safetensors`` (AdamW's moments),
``state.json`` (the step, the scheduler, the counts). No random numbers: every micro-batch draws from a seed of its
own, which follows from the run's seed and the step, so that the place in the data is the step, too.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from tpips_model.durable_files import replace_file
from train.trainer.durable import mended_folder, write_folder
from train.trainer.errors import DAMAGES, TrainingError
from train.trainer.state_checks import check_progress, check_tensors

__all__ = ["Progress", "gathered", "latest_state", "load_state", "save_state", "whole"]

FORMAT, FORMAT_VERSION = "tpips-training-state", 1


@dataclass
class Progress:
    """How far a run is.

    Attributes:
        step: Updates done.
        examples: Examples seen, those of updates left out included.
        bad_steps: Updates left out because a number was not finite.
        spikes: Loss spikes reported.
        padded: Repeats of weight 0 that kept processes in step.
        best: The best validation agreement, None before the first.
        best_step: Where it was reached.
        losses: The last losses, for the detection of spikes.
    """

    step: int = 0
    examples: int = 0
    bad_steps: int = 0
    spikes: int = 0
    padded: int = 0
    best: float | None = None
    best_step: int | None = None
    losses: list[float] = field(default_factory=list)


def whole(tensor: Tensor) -> Tensor:
    """Return a tensor of which every process holds a part (FSDP) as one; all processes must ask."""
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def gathered(module: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return what learns and the optimizer's moments by name, on the CPU; all processes must ask."""
    trained: dict[str, Tensor] = {}
    moments: dict[str, Tensor] = {}
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            continue
        trained[name] = whole(parameter.detach()).cpu().contiguous()
        for key, value in optimizer.state.get(parameter, {}).items():
            moments[f"{key}/{name}"] = whole(value.detach()).cpu().contiguous()
    return trained, moments


def save_state(
    folder: Path,
    *,
    trained: Mapping[str, Tensor],
    moments: Mapping[str, Tensor],
    scheduler: Mapping[str, Any],
    progress: Progress,
) -> None:
    """Write a state, then remove older ones."""

    def fill(place: Path) -> None:
        save_file(dict(trained), place / "trained.safetensors")
        save_file(dict(moments), place / "optimizer.safetensors")
        facts = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "scheduler": dict(scheduler),
            "progress": asdict(progress),
        }
        replace_file(place / "state.json", (json.dumps(facts, indent=1) + "\n").encode())

    folder.mkdir(parents=True, exist_ok=True)
    write_folder(folder / _name(progress.step), fill)
    for other in folder.glob("step-*"):
        if other.name != _name(progress.step):
            shutil.rmtree(other)


def latest_state(folder: Path) -> Path | None:
    """Return the newest complete state, after finishing what a kill left half done."""
    for left in folder.glob("step-*.complete"):
        mended_folder(left.with_suffix(""))
    complete = [place for place in folder.glob("step-*") if not place.suffix]
    return max(complete, default=None)


def load_state(
    place: Path,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LambdaLR,
    *,
    steps: int,
) -> Progress:
    """Put a state into a model, its optimizer and its scheduler, and return the progress.

    Args:
        place: The state.
        module: What learns.
        optimizer: Of it.
        scheduler: Of its rate, as it is before the first update.
        steps: Updates of the whole run.

    Raises:
        TrainingError: The state is damaged, or of another model.
    """
    learning = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    first = {name: whole(parameter.detach()).cpu() for name, parameter in learning.items()}
    try:
        facts = json.loads((place / "state.json").read_text(encoding="utf-8"))
        trained = load_file(place / "trained.safetensors")
        moments = load_file(place / "optimizer.safetensors")
        if (facts["format"], facts["format_version"]) != (FORMAT, FORMAT_VERSION):
            raise ValueError(f"format {facts['format']!r} version {facts['format_version']!r}")
        progress = Progress(**facts["progress"])
        check_progress(progress, steps=steps)
        if place.name != _name(progress.step):
            raise ValueError(f"it holds step {progress.step}")
        shapes = {name: tuple(parameter.shape) for name, parameter in learning.items()}
        if shapes != {name: tuple(tensor.shape) for name, tensor in trained.items()}:
            raise ValueError("it is of another model: its tensors have other names or shapes")
        check_tensors(trained, moments, first, updates=progress.step - progress.bad_steps)
        _load_schedule(scheduler, facts["scheduler"], progress.step)
    except (SafetensorError, *DAMAGES) as error:
        raise TrainingError(
            f"the state {place} is damaged ({error}); train anew with another --out, or go on from the model in "
            f"{place.parent.parent / 'last'} with start=…"
        ) from error
    with torch.no_grad():
        for name, parameter in learning.items():
            parameter.copy_(_spread(trained[name], parameter))
            optimizer.state[parameter] = {
                key.partition("/")[0]: _spread(tensor, parameter)
                for key, tensor in moments.items()
                if key.partition("/")[2] == name
            }
    return progress


def _load_schedule(scheduler: torch.optim.lr_scheduler.LambdaLR, saved: Mapping[str, Any], step: int) -> None:
    """Set a scheduler to a step; its other values follow from the settings, and must be those that were saved."""
    bases, rates = scheduler.base_lrs, saved["_last_lr"]
    reached = [base * shape(step) for base, shape in zip(bases, scheduler.lr_lambdas, strict=True)]
    found = (saved["last_epoch"], saved["_step_count"], saved["base_lrs"], rates)
    if found != (step, step + 1, bases, reached):
        raise ValueError(f"its learning rates are {rates!r} where step {step} has {reached}")
    counts = {"last_epoch": step, "_step_count": step + 1, "_last_lr": reached}
    scheduler.load_state_dict({**scheduler.state_dict(), **counts})


def _spread(tensor: Tensor, like: Tensor) -> Tensor:
    """Bring a whole tensor to where a parameter is, spread as it is spread; step counters stay on the CPU."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if tensor.ndim == 0:
        return tensor
    if isinstance(like, DTensor):
        return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements)
    return tensor.to(like.device)


def _name(step: int) -> str:
    return f"step-{step:08d}"
