"""Checkpoints that somebody else has written: one clear error each, before memory or time is taken for them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.fixtures.qwen import make_backbone
from tpips_model.errors import ModelError
from tpips_model.loading import load_model
from tpips_model.qwen.adapters import LoraSettings, attach_lora
from tpips_model.qwen.backbone_loading import load_backbone
from tpips_model.qwen.checkpoint import save_model
from tpips_model.qwen.late_fusion import LateFusion


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_backbone(tmp_path_factory.mktemp("hostile") / "backbone", layers=2)


@pytest.fixture(scope="module")
def trained(backbone: Path) -> Path:
    model = load_backbone(backbone, device="cpu")
    attach_lora(model, LoraSettings(r=4, alpha=8))
    save_model(LateFusion(model), backbone.parent / "trained")
    return backbone.parent / "trained"


def changed(source: Path, file: str, at: str, value: Any) -> Path:
    """Return a copy beside ``source`` with one setting changed; a dot leads into an object."""
    folder = shutil.copytree(source, source.parent / "changed", dirs_exist_ok=True)
    settings = json.loads((source / file).read_text(encoding="utf-8"))
    place = settings
    *path, last = at.split(".")
    for name in path:
        place = place[name]
    place[last] = value
    (folder / file).write_text(json.dumps(settings), encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def clean(backbone: Path) -> Any:
    yield
    shutil.rmtree(backbone.parent / "changed", ignore_errors=True)


@pytest.mark.parametrize(
    ("file", "at", "value", "message"),
    [
        ("config.json", "text_config.num_hidden_layers", 10**7, "asks for text_config with num_hidden_layers of"),
        ("config.json", "vision_config.depth", 10**7, "asks for vision_config with depth of 10000000, and they are"),
        ("config.json", "text_config.vocab_size", 10**9, "vocab_size × hidden_size of 1000000000 × 64"),
        ("config.json", "text_config.hidden_size", -1, r"hidden_size of \[\d+, -1\]; expected whole numbers"),
        ("config.json", "text_config.intermediate_size", "big", "'big', 64.*; expected whole numbers"),
        ("config.json", "text_config", None, 'has no "text_config"'),
        ("config.json", "vision_config", [], 'has no "vision_config"'),
        ("preprocessor_config.json", "temporal_patch_size", 10**9, "frames is 1000000000; expected 1 to 64"),
        ("preprocessor_config.json", "patch_size", 8, r"\(8, 2, 2\).* vision tower reads \(16, 2, 2\)"),
        ("preprocessor_config.json", "merge_size", 1.5, r"\(16, 1, 2\).* vision tower reads \(16, 2, 2\)"),
    ],
)
def test_a_backbones_settings_that_its_weights_do_not_bear_out(
    backbone: Path, file: str, at: str, value: Any, message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        load_model(changed(backbone, file, at, value), device="cpu")


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        ("kind", [], r"is of kind \[\]; known kinds are"),
        ("lora.r", 10**9, "are of rank 1e.09 by the checkpoint's settings, but its tensors of rank 4"),
        ("lora.r", "4", "makes no adapter"),
        ("lora.alpha", 10**400, "makes no adapter"),
        ("lora.alpha", float("nan"), "makes no adapter"),
        ("lora.alpha", 0, "makes no adapter"),
        ("lora.targets", [[]], "makes no adapter"),
        ("lora.targets", "q_proj", "makes no adapter"),
        ("settings.instruction", 3, "the instruction is 3; expected words"),
        ("settings.instruction", "x" * 10_001, "expected words of at most 10,000 characters"),
        ("settings.recommended_overall_penalty", float("nan"), "penalty is nan; expected a number from 0 to 1"),
        ("settings.recommended_overall_penalty", -9, "penalty is -9; expected a number from 0 to 1"),
    ],
)
def test_settings_that_no_checkpoint_of_ours_has(trained: Path, at: str, value: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_model(changed(trained, "config.json", at, value), device="cpu")


@pytest.mark.parametrize("kind", [torch.int8, torch.bool])
def test_weights_that_are_no_floating_point_numbers(backbone: Path, trained: Path, kind: torch.dtype) -> None:
    def converted(source: Path, file: str) -> Path:
        folder = shutil.copytree(source, source.parent / "changed", dirs_exist_ok=True)
        save_file({name: tensor.to(kind) for name, tensor in load_file(folder / file).items()}, folder / file)
        return folder

    with pytest.raises(ModelError, match="are needed, so give a model that is not quantized"):
        load_model(converted(backbone, "model.safetensors"), device="cpu")
    with pytest.raises(ModelError, match="floating-point weights are needed"):
        load_model(converted(trained, "adapter.safetensors"), device="cpu")


@pytest.mark.parametrize("file", ["config.json", "preprocessor_config.json"])
def test_settings_nested_without_end(backbone: Path, file: str) -> None:
    folder = shutil.copytree(backbone, backbone.parent / "changed")
    (folder / file).write_text("[" * 200_000, encoding="utf-8")
    with pytest.raises(ModelError, match="nested too deeply"):
        load_model(folder, device="cpu")
