"""From a model's name to a model."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, urlencode

from tpips_model.embedder import Embedder
from tpips_model.errors import ModelError

__all__ = ["BUNDLED_MODELS", "load_embedder", "load_model"]

# name -> "module:function"; the module is imported only when its model is asked for, since it brings torch.
BUNDLED_MODELS = {"mini": "tpips_model.mini.embedder:load"}
# What may follow a name after "?", and how it is read.
NAME_OPTIONS = {"revision": str, "dtype": str, "min_pixels": int, "max_pixels": int}


def load_model(
    name_or_path: str | os.PathLike[str] = "mini",
    *,
    revision: str | None = None,
    device: str | None = None,
    dtype: str | None = None,
    attention: str = "sdpa",
    min_pixels: int | None = None,
    max_pixels: int | None = None,
    max_tokens_per_batch: int | None = None,
    merge_adapters: bool = False,
) -> Any:
    """Load a model by name.

    Args:
        name_or_path: One of

            - ``"mini"``, the bundled starter model, which takes none of the options below but the device, and
              computes on the CPU whatever that is;
            - the directory or hub id of a trained model, ours (``tpips-train``) or in the layout of the authors'
              release: late, mid or early fusion, or a triplet head;
            - the directory or hub id of a Qwen3-VL or Qwen3-VL-Embedding backbone without adapters, such as
              ``"Qwen/Qwen3-VL-Embedding-2B"``: the zero-shot embedding baseline of Appendix C.3.

            After a "?" it may carry options that change vectors, as a model's own ``name`` does:
            ``"DIR?max_pixels=262144&dtype=bfloat16"``. A keyword argument wins over them.
        revision: A branch, tag or commit of the hub repository.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``; by default a GPU if there is one, else the CPU.
        dtype: ``"float32"``, ``"bfloat16"`` or ``"float16"``; by default bfloat16 on a GPU, float32 on the CPU. Part of
            the fingerprint.
        attention: ``"sdpa"``, or ``"flash_attention_2"`` for the vision tower (needs flash-attn).
        min_pixels: Smaller pictures are enlarged to this area. Part of the fingerprint.
        max_pixels: Larger pictures are shrunk to this area; 32 × 32 pixels are one token. Part of the fingerprint.
        max_tokens_per_batch: Bound on the tokens that go through the model at once; a matter of memory alone.
        merge_adapters: Add late fusion's adapters into the weights: faster, equal up to rounding.

    Returns:
        An ``Embedder`` (mini, late fusion, zero-shot), a ``Metric`` of pairs (mid and early fusion), or a
        ``TripletHead``. Its ``name`` loads it again with the same vectors.

    Raises:
        ModelError: No such model, or it is damaged, or there is no such device; the message says what.
    """
    name, options = _split(os.fspath(name_or_path))
    given = {"revision": revision, "dtype": dtype, "min_pixels": min_pixels, "max_pixels": max_pixels}
    options |= {key: value for key, value in given.items() if value is not None}
    if name in BUNDLED_MODELS:
        for_qwen = {
            "max_tokens_per_batch": max_tokens_per_batch is not None,
            "attention": attention != "sdpa",
            "merge_adapters": merge_adapters,
        }
        if named := [*options, *(option for option, told in for_qwen.items() if told)]:
            raise ModelError(f"the bundled model {name!r} takes no {', '.join(named)}; these are for Qwen3-VL models")
        if device is not None:
            import_module("tpips_model.devices").chosen_device(device)
        module, function = BUNDLED_MODELS[name].split(":")
        return getattr(import_module(module), function)()
    loading = import_module("tpips_model.qwen.model_loading")
    model = loading.load_qwen_model(
        name,
        device=device,
        attention=attention,
        max_tokens_per_batch=max_tokens_per_batch,
        merge_adapters=merge_adapters,
        **options,
    )
    options["dtype"] = str(model.backbone.dtype).removeprefix("torch.")
    if model.revision is not None:
        options["revision"] = model.revision
    model.name = f"{name}?{urlencode(options)}"
    return model


def load_embedder(name_or_path: str | os.PathLike[str] = "mini", **options: Any) -> Embedder:
    """Load a model that turns an image into a vector; arguments as of ``load_model``.

    Raises:
        ModelError: No such model, or one that compares pairs or triplets and has no vectors.
    """
    model = load_model(name_or_path, **options)
    if not isinstance(model, Embedder):
        raise ModelError(
            f"{os.fspath(name_or_path)} is a {type(model).__name__}, which compares images and makes no vectors; an "
            "index needs a late-fusion model"
        )
    return model


def _split(name: str) -> tuple[str, dict[str, Any]]:
    """Split ``"NAME?max_pixels=262144"`` into the name and its options; a directory of that very name is a name."""
    base, mark, query = name.rpartition("?")
    if not mark or os.path.isdir(name):
        return name, {}
    options: dict[str, Any] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in NAME_OPTIONS:
            raise ModelError(f"unknown option {key!r} in the model name {name!r}; known are {', '.join(NAME_OPTIONS)}")
        try:
            options[key] = NAME_OPTIONS[key](value)
        except ValueError as error:
            raise ModelError(f"option {key} in the model name {name!r} is {value!r}; give a whole number") from error
    return base, options
