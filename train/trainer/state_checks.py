"""Whether what a state's files hold can be what a run wrote: the types and ranges of its counts and tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from train.trainer.run_state import Progress

__all__ = ["check_progress", "check_tensors"]

# Far above what a run sees, far below what overflows.
_MOST = 2**53


def check_progress(progress: Progress, *, steps: int) -> None:
    """Raise a ``ValueError`` that names the first count which no run of so many steps can have."""
    _check_count("step", progress.step, 1, steps)
    for name, most in (("examples", _MOST), ("bad_steps", progress.step), ("spikes", progress.step), ("padded", _MOST)):
        _check_count(name, getattr(progress, name), 0, most)
    if (progress.best is None) != (progress.best_step is None):
        raise ValueError(f"best is {progress.best!r} and best_step {progress.best_step!r}")
    if progress.best is not None:
        _check_count("best_step", progress.best_step, 1, progress.step)
        if not (_is_finite(progress.best) and 0 <= progress.best <= 1):
            raise ValueError(f"best is {progress.best!r}, not a share")
    if not (isinstance(progress.losses, list) and all(_is_finite(loss) for loss in progress.losses)):
        raise ValueError("losses is no list of finite numbers")


def check_tensors(
    trained: Mapping[str, Tensor], moments: Mapping[str, Tensor], first: Mapping[str, Tensor], *, updates: int
) -> None:
    """Raise a ``ValueError`` that names the first tensor which AdamW cannot have left.

    Args:
        trained: By name, of the names and shapes of ``first``.
        moments: ``exp_avg/NAME``, ``exp_avg_sq/NAME`` and ``step/NAME`` of every name that has learnt.
        first: What ``trained`` was before the first update.
        updates: How many were made.
    """
    expected: dict[str, tuple[torch.Size, torch.dtype]] = {}
    for name, parameter in first.items():
        expected[name] = parameter.shape, parameter.dtype
        # What no gradient reaches (blocks beyond the last probe of mid fusion) has no moments, and stays as it was.
        still = f"step/{name}" not in moments and torch.equal(trained[name].to(parameter.dtype), parameter)
        if updates and not still:
            expected |= {f"{moment}/{name}": expected[name] for moment in ("exp_avg", "exp_avg_sq")}
            expected[f"step/{name}"] = torch.Size(()), torch.float32
    found = {**trained, **moments}
    if found.keys() != expected.keys():
        other = min(found.keys() ^ expected.keys())
        raise ValueError(f"tensor {other} is {'missing' if other in expected else 'not expected'}")
    for name, (shape, dtype) in expected.items():
        tensor = found[name]
        if (tensor.shape, tensor.dtype) != (shape, dtype):
            raise ValueError(f"tensor {name} is {tensor.dtype} {tuple(tensor.shape)}, not {dtype} {tuple(shape)}")
        if not torch.isfinite(tensor).all():
            raise ValueError(f"tensor {name} holds what is no finite number")
        if name.startswith("exp_avg_sq/") and (tensor < 0).any():
            raise ValueError(f"tensor {name} holds a negative mean of squares")
        if name.startswith("step/") and not 1 <= tensor.item() <= updates:
            raise ValueError(f"tensor {name} is {tensor.item()} after {updates} updates")


def _check_count(name: str, value: Any, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name} is {value!r}, not a whole number from {least} to {most}")


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)
