"""From a directory or hub id to a model on Qwen3-VL, whichever layout it is in."""

from __future__ import annotations

import os
from typing import Any

from tpips_model.errors import ModelError
from tpips_model.qwen.backbone_loading import load_backbone
from tpips_model.qwen.checkpoint import FORMAT, build_model, read_checkpoint
from tpips_model.qwen.late_fusion import LateFusion
from tpips_model.qwen.model_files import find_model_files, read_json
from tpips_model.qwen.release_checkpoint import is_release_checkpoint, read_release_checkpoint

__all__ = ["load_qwen_model"]


def load_qwen_model(
    name: str | os.PathLike[str],
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
    """Load a trained model of ours, one in the authors' layout, or a bare backbone; arguments as of ``load_model``.

    Raises:
        ModelError: No such model, or it is none of the three.
    """
    files = find_model_files(name, revision=revision)
    config = read_json(files.directory / "config.json")
    options: dict[str, Any] = {
        "device": device,
        "dtype": dtype,
        "attention": attention,
        "min_pixels": min_pixels,
        "max_pixels": max_pixels,
    }
    if config.get("format") == FORMAT or is_release_checkpoint(files.directory):
        read = read_checkpoint if config.get("format") == FORMAT else read_release_checkpoint
        model = build_model(read(files.directory), max_tokens_per_batch=max_tokens_per_batch, **options)
    elif config.get("model_type") == "qwen3_vl":
        backbone = load_backbone(name, revision=files.revision, **options)
        model = LateFusion(backbone, prompt="zero-shot", recommended_overall_penalty=0.0).eval()
        if max_tokens_per_batch is not None:
            model.max_tokens_per_batch = max_tokens_per_batch
    else:
        raise ModelError(
            f"{files.name} is neither a trained model nor a Qwen3-VL backbone: its config.json has model_type "
            f'{config.get("model_type")!r}, and no "format": "{FORMAT}"'
        )
    if merge_adapters and isinstance(model, LateFusion):
        model.merge_adapters()
    model.revision = files.revision
    return model
