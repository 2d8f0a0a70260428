"""Checkpoints: ours, the authors' layout, and the way from one to the other."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from typer.testing import CliRunner

from tests.fixtures.qwen import make_backbone, pictures
from tpips_model.errors import ModelError
from tpips_model.loading import load_embedder, load_model
from tpips_model.metric import similarity_matrix
from tpips_model.qwen.adapters import LoraSettings, attach_lora
from tpips_model.qwen.backbone_loading import load_backbone
from tpips_model.qwen.checkpoint import save_model
from tpips_model.qwen.conversion import convert_release_checkpoint
from tpips_model.qwen.early_fusion import EarlyFusion
from tpips_model.qwen.late_fusion import LateFusion
from tpips_model.qwen.mid_fusion import MidFusion
from tpips_model.qwen.triplet_head import TripletHead
from train.commands import app

RELEASE = Path(__file__).resolve().parents[3] / "shared" / "spec" / "tiny"
needs_release = pytest.mark.skipif(not RELEASE.is_dir(), reason="the release's tiny checkpoints are not here")
ASPECTS = ["lighting", "overall"]
IMAGES = pictures([(256, 256), (256, 320)])
LORA = LoraSettings(r=4, alpha=8, targets=("q_proj", "up_proj"))
KINDS = {"late": LateFusion, "mid": MidFusion, "early": EarlyFusion, "triplet": TripletHead}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_backbone(tmp_path_factory.mktemp("models") / "backbone")


def trained(directory: Path, kind: str = "late") -> Any:
    backbone = load_backbone(directory, device="cpu", max_pixels=200_000)
    attach_lora(backbone, LORA)
    model = KINDS[kind](backbone)
    generator = torch.Generator().manual_seed(5)
    for name, parameter in model.named_parameters():
        if ".lora_" in name or not name.startswith("backbone."):
            parameter.data.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return model.eval().requires_grad_(False)


def scores(model: Any) -> np.ndarray:
    if isinstance(model, TripletHead):
        return model.odd_one_out([*IMAGES, IMAGES[0]], ASPECTS).numpy()
    return similarity_matrix(model, IMAGES[:1], [*IMAGES[:1], IMAGES[0].rotate(90)], ASPECTS).numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_survives_the_way_to_disk(directory: Path, kind: str, tmp_path: Path) -> None:
    model = trained(directory, kind)
    saved = save_model(model, directory.parent / f"saved-{kind}", training={"steps": 12})
    again = load_model(saved, device="cpu")
    assert type(again) is KINDS[kind]
    assert again.settings == model.settings
    assert again.backbone.lora == LORA
    assert again.backbone.preprocess == model.backbone.preprocess
    np.testing.assert_allclose(scores(again), scores(model), atol=1e-6)
    assert {path.name for path in saved.iterdir()} == {"config.json", "adapter.safetensors", "README.md"}
    assert "| steps | 12 |" in (saved / "README.md").read_text(encoding="utf-8")
    # the pair moves together: the backbone is named from the checkpoint
    config = json.loads((saved / "config.json").read_text(encoding="utf-8"))
    assert config["backbone"] == {"name": "../backbone", "revision": None}


def test_a_models_name_loads_the_same_vectors(directory: Path, tmp_path: Path) -> None:
    saved = save_model(trained(directory), tmp_path / "saved")
    model = load_model(saved, device="cpu", dtype="bfloat16", max_pixels=100_000, max_tokens_per_batch=500)
    assert model.name == f"{saved}?dtype=bfloat16&max_pixels=100000"
    again = load_model(model.name, device="cpu")
    assert (again.name, again.fingerprint) == (model.name, model.fingerprint)
    assert again.backbone.preprocess.max_pixels == 100_000
    with pytest.raises(ModelError, match="unknown option 'pixels'"):
        load_model(f"{saved}?pixels=3")
    with pytest.raises(ModelError, match="give a whole number"):
        load_model(f"{saved}?max_pixels=many")


def test_the_bundled_model_takes_no_options() -> None:
    with pytest.raises(ModelError, match="takes no max_pixels, max_tokens_per_batch"):
        load_model("mini", max_pixels=65536, max_tokens_per_batch=9)
    with pytest.raises(ModelError, match="there is no directory 'maxi'"):
        load_model("maxi")


def test_a_bare_backbone_is_the_zero_shot_baseline(directory: Path) -> None:
    model = load_model(directory, device="cpu", max_tokens_per_batch=77)
    assert model.prompt_template == "Represent the visual similarity of this image in terms of {aspect}."
    assert model.recommended_overall_penalty == 0
    assert model.max_tokens_per_batch == 77


def test_an_index_needs_a_model_of_vectors(directory: Path, tmp_path: Path) -> None:
    save_model(trained(directory, "mid"), tmp_path / "mid")
    with pytest.raises(ModelError, match="MidFusion, which compares images and makes no vectors"):
        load_embedder(tmp_path / "mid", device="cpu")
    merged = save_model(trained(directory), tmp_path / "late")
    embedder = load_embedder(merged, device="cpu", merge_adapters=True)
    np.testing.assert_allclose(
        embedder.embed(IMAGES, ASPECTS), load_embedder(merged, device="cpu").embed(IMAGES, ASPECTS), atol=1e-5
    )
    with pytest.raises(ModelError, match="have been merged"):
        save_model(embedder, tmp_path / "merged")


def test_tensors_that_do_not_fit_are_named(directory: Path, tmp_path: Path) -> None:
    saved = save_model(trained(directory), tmp_path / "saved")
    tensors = load_file(saved / "adapter.safetensors")
    name = "backbone.language_model.layers.1.mlp.up_proj.lora_B.weight"
    broken = dict(tensors)
    broken["backbone.surprise.weight"] = broken.pop(name)
    broken["backbone.language_model.layers.0.self_attn.q_proj.lora_A.weight"] = torch.zeros(3, 64)
    save_file(broken, saved / "adapter.safetensors")
    with pytest.raises(ModelError, match=r"missing: .*1.mlp.up_proj.lora_B.*unknown: .*surprise.*mis-shaped: .*q_proj"):
        load_model(saved, device="cpu")
    (saved / "adapter.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ModelError, match="cannot read the weights"):
        load_model(saved, device="cpu")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 2}, "version 2; this release reads"),
        ({"kind": "later"}, "kind 'later'; known kinds are late"),
        ({"lora": {"rank": 3}}, "is damaged"),
        ({"settings": {"colour": "red"}}, "do not fit a late model"),
        ({"backbone": {"name": "no such place", "revision": None}}, "no directory 'no such place'"),
    ],
)
def test_damaged_settings_are_explained(directory: Path, tmp_path: Path, change: dict, message: str) -> None:
    saved = save_model(trained(directory), tmp_path / "saved")
    config = json.loads((saved / "config.json").read_text(encoding="utf-8"))
    (saved / "config.json").write_text(json.dumps(config | change), encoding="utf-8")
    with pytest.raises(ModelError, match=message):
        load_model(saved, device="cpu")


# --- the authors' layout


def release_state(model: LateFusion) -> dict[str, Tensor]:
    """Return a late-fusion model's state under the release's names."""
    return {
        name.replace("backbone.visual.", "backbone.model.visual.").replace(
            "backbone.language_model.", "backbone.model.language_model.base_model.model."
        ): tensor
        for name, tensor in model.state_dict().items()
    }


def write_release(directory: Path, backbone: Path, state: Any, **settings: Any) -> Path:
    directory.mkdir()
    model = {
        "type": "embedding",
        "backbone_family": "qwen3_vl_embed",
        "name": os.path.relpath(backbone, directory),
        "lora_r": 4,
        "lora_alpha": 8,
    }
    (directory / "config.json").write_text(json.dumps({"model": model | settings}), encoding="utf-8")
    torch.save(state, directory / "model.pt")
    return directory


@pytest.mark.parametrize("part", ["whole", "trained part"])
def test_the_authors_layout_is_read_and_converted(directory: Path, tmp_path: Path, part: str) -> None:
    model = trained(directory)
    model.backbone.preprocess = load_backbone(directory, device="cpu").preprocess
    state = release_state(model)
    if part != "whole":
        state = {name: tensor for name, tensor in state.items() if ".lora_" in name}
    source = write_release(tmp_path / "release", directory, state)
    loaded = load_model(source, device="cpu")
    assert loaded.backbone.lora.targets == LORA.targets
    assert loaded.fingerprint == model.fingerprint
    np.testing.assert_array_equal(loaded.embed(IMAGES, ASPECTS), model.embed(IMAGES, ASPECTS))
    ran = CliRunner().invoke(app, ["convert", str(source), str(tmp_path / "ours")])
    assert ran.exit_code == 0, ran.output
    ours = load_model(tmp_path / "ours", device="cpu")
    assert ours.fingerprint == model.fingerprint
    assert not (tmp_path / "ours" / "backbone.safetensors").exists()
    assert not list((tmp_path / "ours").glob("*.pt"))


def test_conversion_keeps_a_changed_backbone(directory: Path, tmp_path: Path) -> None:
    model = trained(directory)
    model.backbone.language_model.norm.weight.data.mul_(1.5)
    source = write_release(tmp_path / "release", directory, release_state(model))
    out = convert_release_checkpoint(source, tmp_path / "ours")
    changed = load_file(out / "backbone.safetensors")
    assert list(changed) == ["backbone.language_model.norm.weight"]
    np.testing.assert_array_equal(
        load_model(out, device="cpu").embed(IMAGES, ASPECTS), load_model(source, device="cpu").embed(IMAGES, ASPECTS)
    )
    with pytest.raises(ModelError, match="not an empty directory"):
        convert_release_checkpoint(source, out)
    with pytest.raises(ModelError, match="not in the layout"):
        convert_release_checkpoint(out, tmp_path / "again")


NORM = "backbone.model.language_model.base_model.model.norm.weight"
LORA_A = "backbone.model.language_model.base_model.model.layers.0.self_attn.q_proj.lora_A.default.weight"


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        ({NORM: None}, {}, "missing: backbone.language_model.norm.weight"),
        ({NORM: torch.ones(3)}, {}, r"mis-shaped: backbone.language_model.norm.weight \(3,\) instead of \(64,\)"),
        ({"backbone.model.language_model.extra": torch.ones(3)}, {}, "unknown: backbone.language_model.extra"),
        ({"something.else": torch.ones(3)}, {}, "unknown names: something.else"),
        ({LORA_A: torch.ones(2, 64)}, {}, "lora_r is 4, but .* rank 2"),
        ({}, {"lora_r": 8}, "lora_r is 8, but .* rank 4"),
        ({}, {"type": "newest"}, "names no model of type embedding"),
        ({}, {"similarity_pooling": "max"}, "similarity_pooling is 'max'"),
    ],
)
def test_the_authors_layout_is_checked(
    directory: Path, tmp_path: Path, change: dict, settings: dict, message: str
) -> None:
    state = release_state(trained(directory)) | change
    state = {name: tensor for name, tensor in state.items() if tensor is not None}
    source = write_release(tmp_path / "release", directory, state, **settings)
    with pytest.raises(ModelError, match=message):
        load_model(source, device="cpu")


class Hostile:
    """A pickle that would make a file if it were executed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_a_hostile_pickle_is_not_executed(directory: Path, tmp_path: Path) -> None:
    source = write_release(tmp_path / "release", directory, {"x": Hostile(tmp_path / "owned")})
    with pytest.raises(ModelError, match="as a state dict of tensors alone"):
        load_model(source, device="cpu")
    assert not (tmp_path / "owned").exists()
    torch.save([torch.zeros(1)], source / "model.pt")
    with pytest.raises(ModelError, match="something other than named tensors"):
        load_model(source, device="cpu")


@needs_release
@pytest.mark.parametrize(("dtype", "tag", "tolerance"), [("float32", "fp32", 2e-4), ("bfloat16", "bf16", 1e-2)])
def test_late_fusion_agrees_with_the_release(dtype: str, tag: str, tolerance: float) -> None:
    with np.load(RELEASE / "reference.npz", allow_pickle=False) as reference:
        images = [RELEASE / "images" / f"{name}.png" for name in reference["image_names"]]
        aspects = [str(aspect) for aspect in reference["aspects"]]
        model = load_model(RELEASE / "embedding", device="cpu", dtype=dtype)
        vectors = model.embed(images, aspects).transpose(1, 0, 2)
        for name in ("embed", "embed_batch"):
            expected = reference[f"embedding_{tag}_{name}"]
            expected = expected / np.linalg.norm(expected, axis=-1, keepdims=True)
            np.testing.assert_allclose(vectors, expected, atol=tolerance, rtol=0)
        similarity = similarity_matrix(model, images, images, aspects).numpy()
        np.testing.assert_allclose(similarity, reference[f"embedding_{tag}_similarity"], atol=tolerance, rtol=0)


@needs_release
@pytest.mark.parametrize("kind", ["embedding", "early_fusion", "activation_dist"])
def test_converted_checkpoints_of_the_release_score_alike(kind: str, tmp_path: Path) -> None:
    shutil.copytree(RELEASE / "backbone", tmp_path / "backbone")
    shutil.copytree(RELEASE / kind, tmp_path / kind)
    out = convert_release_checkpoint(tmp_path / kind, tmp_path / "ours")
    np.testing.assert_allclose(
        scores(load_model(out, device="cpu")), scores(load_model(tmp_path / kind, device="cpu")), atol=1e-6
    )
