"""From a checkpoint in the authors' layout to one of ours."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor

from tpips_model.errors import ModelError
from tpips_model.qwen.adapters import canonical_name
from tpips_model.qwen.backbone_loading import load_backbone
from tpips_model.qwen.checkpoint import Checkpoint, build_model, save_model
from tpips_model.qwen.model_files import find_model_files
from tpips_model.qwen.release_checkpoint import is_release_checkpoint, read_release_checkpoint

__all__ = ["convert_release_checkpoint"]


def convert_release_checkpoint(source: str | os.PathLike[str], out: str | os.PathLike[str]) -> Path:
    """Write a checkpoint of the authors' release as one of ours, in the type it is stored in.

    A release file that holds the whole model is compared with its backbone: what is the backbone's own is left to the
    backbone, and only weights that differ are written besides adapters and heads.

    Args:
        source: A directory or hub id in the authors' layout.
        out: The directory to write; it must be empty or not there.

    Raises:
        ModelError: ``source`` is no such checkpoint, its tensors do not fit, or ``out`` holds files.
    """
    files = find_model_files(source)
    if not is_release_checkpoint(files.directory):
        raise ModelError(f"{files.name} is not in the layout of the authors' release; there is nothing to convert")
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ModelError(f"{out} is there already and not an empty directory; give another place")
    checkpoint = read_release_checkpoint(files.directory)
    dtype = _stored_type(checkpoint)
    # First with all tensors, so that missing and mis-shaped ones are found before anything is written.
    model = build_model(checkpoint, device="cpu", dtype=dtype)
    changed = _changed(checkpoint, dtype)
    training = {"converted from": files.name, "revision": files.revision or "none"}
    return save_model(model, out, training=training, backbone_tensors=changed)


def _stored_type(checkpoint: Checkpoint) -> torch.dtype:
    """Return the type of the adapters or backbone weights; heads alone are float32 whatever these are."""
    types = {tensor.dtype for name, tensor in checkpoint.tensors.items() if name.startswith("backbone.")}
    if len(types) > 1:
        raise ModelError(f"the checkpoint mixes types: {', '.join(sorted(map(str, types)))}; one is expected")
    return types.pop() if types else torch.float32


def _changed(checkpoint: Checkpoint, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return the backbone weights of the checkpoint that differ from the backbone's own."""
    if not checkpoint.whole:
        return {}
    own = load_backbone(checkpoint.backbone, revision=checkpoint.revision, device="cpu", dtype=dtype)
    return {
        name: checkpoint.tensors[name]
        for name, tensor in own.state_dict(prefix="backbone.").items()
        if not torch.equal(tensor, checkpoint.tensors[canonical_name(name)])
    }
