"""The device that a model runs on, by the name a user gives it."""

from __future__ import annotations

import torch

from tpips_model.errors import ModelError

__all__ = ["chosen_device"]


def chosen_device(device: str | torch.device | None) -> torch.device:
    """Return the device asked for, or the best there is.

    Args:
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``, or None for a GPU of CUDA if there is one, else the CPU.

    Raises:
        ModelError: It is no such name, or there is no such device here.
    """
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise _unknown(device) from error
    # torch reads "cuda:300" as cuda:44.
    if str(chosen) != str(device) or chosen.type not in ("cpu", "cuda", "mps"):
        raise _unknown(device)
    count = _count(chosen.type)
    if (chosen.index or 0) >= count:
        there = f"the last of its kind here is '{chosen.type}:{count - 1}'" if count else "torch sees no such GPU here"
        raise ModelError(f"the device '{device}' was asked for, but {there}; give one that is there, such as 'cpu'")
    return chosen


def _count(kind: str) -> int:
    if kind == "cuda":
        return torch.cuda.device_count() if torch.cuda.is_available() else 0
    return int(kind == "cpu" or torch.backends.mps.is_available())


def _unknown(device: object) -> ModelError:
    return ModelError(f"{device!r:.80} is no device of a model; give 'cpu', 'cuda', 'cuda:1' or 'mps'")
