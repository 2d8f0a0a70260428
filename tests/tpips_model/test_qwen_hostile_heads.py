"""Checkpoints of pairs and triplets that somebody else has written, in both layouts: one clear error each."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.fixtures.qwen import make_backbone, pictures
from tpips_model.errors import ModelError
from tpips_model.loading import load_model
from tpips_model.qwen.adapters import LoraSettings, attach_lora
from tpips_model.qwen.backbone_loading import load_backbone
from tpips_model.qwen.checkpoint import save_model
from tpips_model.qwen.early_fusion import EarlyFusion
from tpips_model.qwen.late_fusion import LateFusion
from tpips_model.qwen.mid_fusion import MidFusion
from tpips_model.qwen.triplet_head import TripletHead

OURS = {"late": LateFusion, "mid": MidFusion, "early": EarlyFusion, "triplet": TripletHead}
RELEASED = {"late": "embedding", "mid": "activation_dist", "early": "early_fusion"}
GONE = object()
Change = Callable[[dict[str, Tensor]], dict[str, Tensor]]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a checkpoint of every kind, and "release-KIND" in the authors' layout."""
    root = tmp_path_factory.mktemp("hostile")
    backbone = make_backbone(root / "backbone", layers=2)
    for kind, made in OURS.items():
        loaded = load_backbone(backbone, device="cpu")
        attach_lora(loaded, LoraSettings(r=4, alpha=8))
        model = made(loaded)
        save_model(model, root / kind)
        if kind in RELEASED:
            write_release(root / f"release-{kind}", RELEASED[kind], model.state_dict())
    return root


def write_release(folder: Path, kind: str, state: dict[str, Tensor]) -> None:
    folder.mkdir()
    settings = {"type": kind, "name": "../backbone", "lora_r": 4, "lora_alpha": 8}
    if kind == "activation_dist":
        settings["activation_dist_layers"] = [1, 2]
    (folder / "config.json").write_text(json.dumps({"model": settings}), encoding="utf-8")
    language = "backbone.language_model.base_model.model."
    torch.save({name.replace("backbone.language_model.", language): tensor for name, tensor in state.items()},
               folder / "model.pt")  # fmt: skip


@pytest.fixture
def copied(sound: Path) -> Any:
    """Copies a checkpoint beside the sound one."""
    places = []

    def copy(name: str) -> Path:
        places.append(shutil.copytree(sound / name, sound / "changed"))
        return places[0]

    yield copy
    for place in places:
        shutil.rmtree(place)


def with_settings(folder: Path, **changes: Any) -> Path:
    """Change settings; two underscores lead into an object."""
    settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for at, value in changes.items():
        *path, last = at.split("__")
        place = settings
        for name in path:
            place = place[name]
        if value is GONE:
            place.pop(last, None)
        else:
            place[last] = value
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def with_tensors(folder: Path, change: Change) -> Path:
    if (folder / "model.pt").exists():
        state = torch.load(folder / "model.pt", weights_only=True)
        torch.save(change(state), folder / "model.pt")
    else:
        state = load_file(folder / "adapter.safetensors")
        save_file(change(state), folder / "adapter.safetensors")
    return folder


def of(part: str, change: Callable[[Tensor], Tensor]) -> Change:
    """Change the tensors whose name has a part."""
    return lambda state: {name: change(tensor) if part in name else tensor for name, tensor in state.items()}


def without(part: str) -> Change:
    return lambda state: {name: tensor for name, tensor in state.items() if part not in name}


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("mid", {"kind": "early"}, "do not fit a early model"),
        ("early", {"kind": "triplet"}, "missing: head.bias, head.weight; unknown: register_embed.weight"),
        ("triplet", {"kind": "mid"}, "do not fit the model .*mis-shaped|do not fit the model .*missing: head.layer"),
        ("early", {"backbone__name": "x" * 5000}, "cannot be looked at .*File name too long"),
        ("mid", {"lora__r": True}, "makes no adapter"),
        ("early", {"lora__alpha": True}, "makes no adapter"),
        ("triplet", {"settings": {"max_tokens_per_batch": "x"}}, "max_tokens_per_batch, which is for the caller"),
        ("early", {"preprocessing__max_pixels": float("nan")}, "max_pixels is nan; give a whole number"),
        ("mid", {"preprocessing__min_pixels": 10**15}, "every picture would be enlarged to"),
        ("mid", {"settings__layers": [1.0, 2.0]}, r"compares blocks \[1.0, 2.0\], but .* has blocks 1 to 2"),
        ("mid", {"settings__layers": [True, 2]}, r"compares blocks \[True, 2\]"),
        ("mid", {"settings__layers": [1] * 10**5}, r"compares blocks .{200}, but"),
        ("mid", {"settings__learned_weights": "no"}, "learned_weights is 'no' .*; expected true or false"),
        ("mid", {"settings__aspect_conditioned": "no"}, "aspect_conditioned 'no'; expected true or false"),
        ("release-mid", {"model__type": []}, "names no model of type"),
        ("release-early", {"model__name": "../" * 3000}, "cannot be looked at .*File name too long"),
        ("release-early", {"model__lora_r": None}, "lora_r is None; expected a whole number"),
        ("release-early", {"model__lora_r": 4.7}, "lora_r is 4.7; expected a whole number"),
        ("release-late", {"model__lora_alpha": 8.9}, "lora_alpha is 8.9; expected a whole number"),
        ("release-late", {"model__lora_alpha": 10**400}, "makes no adapter"),
        ("release-mid", {"model__lora_dropout": "x"}, "makes no adapter"),
        ("release-mid", {"model__activation_dist_layers": "12"}, "layers is '12'; expected a list of whole numbers"),
        ("release-mid", {"model__activation_dist_layers": [1.5, 2]}, "expected a list of whole numbers"),
        ("release-mid", {"model__activation_dist_layers": GONE}, "num_probes is 20, and the backbone has 2 blocks"),
        (
            "release-mid",
            {"model__activation_dist_layers": GONE, "model__activation_dist_num_probes": []},
            "num_probes is \\[\\]; expected a whole number",
        ),
    ],
)
def test_settings_that_no_checkpoint_has(
    copied: Callable[[str], Path], kind: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        load_model(with_settings(copied(kind), **changes), device="cpu")


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (
            "mid",
            of("layer_logits", lambda one: one * float("nan")),
            "1 tensors with .* not finite .*: head.layer_logits",
        ),
        ("early", of("register", lambda one: one / 0), "not finite in torch.float32: register_embed.weight; load it"),
        ("triplet", of("head.bias", lambda one: one / 0), "not finite in torch.float32: head.bias"),
        ("late", of("layers.0.mlp.up_proj.lora_A", lambda one: one / 0), r"not finite .*layers.0.mlp.up_proj.lora_A"),
        ("early", of("register", lambda one: one.double() * 1e300), "not finite in torch.float32: register_embed"),
        ("release-late", of(".norm.weight", lambda one: one / 0), "not finite in .*: backbone.language_model.norm"),
        ("release-mid", of("head.", lambda one: one.to(torch.int32)), "no dense tensor of floating-point numbers"),
        ("release-mid", of("head.", lambda one: one.to(torch.complex64)), "no dense tensor of floating-point numbers"),
        ("release-early", of("register", lambda one: one.to_sparse()), "no dense tensor of floating-point numbers"),
        ("release-early", of("register", lambda one: one.to("meta")), "no dense tensor of floating-point numbers"),
        ("release-late", of("lora_A", lambda one: one[0, 0].clone()), "lora_r is 4, but .* rank 0"),
        ("release-late", of("lora_A", lambda one: torch.zeros(1).expand(10**9, 64)), "but .* rank 1000000000"),
        ("release-mid", without("head."), "has no head, which a model of these settings has"),
        ("release-mid", without("lora_"), "has no adapters, which a model of these settings has"),
        ("release-early", without("lora_"), "has no adapters, which a model of these settings has"),
        ("release-early", without("register"), "missing: register_embed.weight"),
    ],
)
def test_tensors_that_are_no_models(copied: Callable[[str], Path], kind: str, change: Change, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_model(with_tensors(copied(kind), change), device="cpu")


@pytest.mark.parametrize(
    ("kind", "file"),
    [("mid", "adapter.safetensors"), ("release-mid", "model.pt"), ("backbone", "model.safetensors")],
)
def test_a_named_pipe_is_not_waited_for(copied: Callable[[str], Path], kind: str, file: str) -> None:
    folder = copied(kind)
    (folder / file).unlink()
    os.mkfifo(folder / file)
    with pytest.raises(ModelError, match=rf"{file} is no regular file"):
        load_model(folder, device="cpu")


@pytest.mark.parametrize(
    "changes", [{"use_lora": False}, {"full_finetune": True}, {"activation_dist_tuning": "channel"}]
)
def test_a_release_whose_settings_say_that_it_has_no_adapters_needs_none(
    copied: Callable[[str], Path], changes: dict[str, Any]
) -> None:
    folder = with_tensors(copied("release-mid"), without("lora_"))
    with_settings(folder, **{f"model__{name}": value for name, value in changes.items()})
    assert load_model(folder, device="cpu").backbone.lora is None


@pytest.mark.parametrize("kind", ["mid", "triplet"])
def test_scores_that_are_not_finite_are_an_error(sound: Path, kind: str) -> None:
    model = load_model(sound / kind, device="cpu")
    with torch.no_grad():
        next(model.head.parameters()).fill_(float("nan"))
    images = pictures([(32, 32)] * 3)
    with pytest.raises(ModelError, match="gave scores that are not finite"):
        model.odd_one_out(images) if kind == "triplet" else model.similarity(images[0], images[1])
