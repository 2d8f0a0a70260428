"""From a model's name on the command line to a judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from tpips_model.errors import ModelError
from train.evaluation.judges import Judge

__all__ = ["MODEL_PREFIXES", "ModelPrefix", "check_model_names", "load_judge", "model_name_help"]


@dataclass(frozen=True)
class ModelPrefix:
    """What stands before the colon of a model's name.

    Attributes:
        load: ``"module:function"``; the function takes (name, what stands after the colon, device).
        example: A name.
        what: What such a model is.
        package: The module it needs, None if it is our own.
        install: The pip command that brings it.
    """

    load: str
    example: str
    what: str
    package: str | None = None
    install: str | None = None


MODEL_PREFIXES = {
    "zero-shot": ModelPrefix(
        "train.evaluation.own_models:load_zero_shot",
        "zero-shot:Qwen/Qwen3-VL-8B-Instruct",
        'a generative Qwen3-VL asked "Which image is the most different …?"',
    ),
    "zero-shot-rating": ModelPrefix(
        "train.evaluation.own_models:load_zero_shot_rating",
        "zero-shot-rating:Qwen/Qwen3-VL-8B-Instruct",
        "a generative Qwen3-VL that rates pairs from 0 to 10",
    ),
    "zero-shot-mid": ModelPrefix(
        "train.evaluation.own_models:load_zero_shot_mid",
        "zero-shot-mid:Qwen/Qwen3-VL-Embedding-8B",
        "a frozen backbone's activations, all weighing the same",
    ),
    "lpips": ModelPrefix(
        "train.evaluation.other_packages:load_lpips", "lpips:alex", "LPIPS", "lpips", "pip install lpips"
    ),
    "dreamsim": ModelPrefix(
        "train.evaluation.other_packages:load_dreamsim",
        "dreamsim:ensemble",
        "DreamSim",
        "dreamsim",
        "pip install dreamsim",
    ),
    "open_clip": ModelPrefix(
        "train.evaluation.other_packages:load_open_clip",
        "open_clip:ViT-B-32/laion2b_s34b_b79k",
        "OpenCLIP",
        "open_clip",
        "pip install open_clip_torch",
    ),
    "tpips": ModelPrefix(
        "train.evaluation.other_packages:load_tpips",
        "tpips:embedding",
        "the authors' package (Adobe Research License)",
        "tpips",
        "pip install tpips",
    ),
}


def model_name_help() -> str:
    """Return one line on the names that are known."""
    known = ", ".join(prefix.example for prefix in MODEL_PREFIXES.values())
    return f"mini, the directory or hub id of a model, or a prefix and a name: {known}"


def check_model_names(names: Sequence[str]) -> None:
    """Refuse what cannot be loaded, before anything is.

    Raises:
        ModelError: No name, an unknown prefix, a name given twice, or a package that is not installed.
    """
    if not names:
        raise ModelError(f"no model was named; give {model_name_help()}")
    if twice := [name for number, name in enumerate(names) if name in names[:number]]:
        raise ModelError(f"model {twice[0]!r} is named twice; name each once")
    for name in names:
        found = _split(name)
        if found is None:
            continue
        prefix, rest = found
        known = MODEL_PREFIXES.get(prefix)
        if known is None or not rest:
            raise ModelError(f"unknown model {name!r}; give {model_name_help()}")
        if known.package is not None and find_spec(known.package) is None:
            raise ModelError(
                f"model {name!r} needs the package {known.package!r}, which is not installed: {known.install}"
            )


def load_judge(name: str, *, device: str | None = None) -> Judge:
    """Load a model by its name.

    Args:
        name: What ``load_model`` takes, or one of ``MODEL_PREFIXES``, a colon and what it is to load.
        device: By default a GPU if there is one, else the CPU.

    Raises:
        ModelError: No such model, it is damaged, of another kind than the prefix asks for, or its package is missing.
    """
    check_model_names([name])
    found = _split(name)
    if found is None:
        return import_module("train.evaluation.own_models").load_own(name, device)
    prefix, rest = found
    module, function = MODEL_PREFIXES[prefix].load.split(":")
    return getattr(import_module(module), function)(name, rest, device)


def _split(name: str) -> tuple[str, str] | None:
    """Return prefix and rest, None where the name is a directory or has no colon before its options."""
    prefix, colon, rest = name.partition(":")
    if not colon or "?" in prefix or "/" in prefix or Path(name.split("?")[0]).exists():
        return None
    return prefix, rest
