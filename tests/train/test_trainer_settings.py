"""Presets are the paper's, and settings are checked before anything is loaded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from train.trainer import PRESETS, TrainingConfig, TrainingError, preset
from train.trainer.overrides import with_overrides

# Table 8: rank, learning rate, effective batch, τ, epochs.
TABLE_8 = {
    "late-fusion": (16, 5e-5, 128, 0.05, 1.0),
    "early-fusion": (16, 1e-4, 128, 0.05, 1.0),
    "triplet-head": (16, 3e-5, 32, 1.0, 1.0),
    "mid-fusion": (16, 1e-4, 32, 0.0025, 1.0),
}


@pytest.mark.parametrize("name", TABLE_8)
def test_presets_are_table_8(name: str) -> None:
    config = preset(name)
    found = (config.lora_rank, config.lr, config.effective_batch, config.choice_temperature, config.epochs)
    assert found == TABLE_8[name]


@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_presets_share_appendix_c(config: TrainingConfig) -> None:
    assert (config.weight_decay, config.clip, config.warmup, config.lora_dropout) == (0.01, 1.0, 0.03, 0.05)
    assert config.alpha == 2 * config.lora_rank
    assert config.aspects_per_step == 1  # every aspect an example of its own
    assert not config.aspect_contrast
    assert not config.matryoshka_dims
    assert config.head_rate == (5.0 if config.kind == "triplet" else 1.0)
    assert config.backbone.endswith("Instruct" if config.kind == "triplet" else ("8B", "2B"))


def test_ablations_turn_one_knob_each() -> None:
    late, mid = preset("late-fusion"), preset("mid-fusion")
    assert [preset(f"late-fusion-data-{share}").data_fraction for share in (20, 40, 60, 80)] == [0.2, 0.4, 0.6, 0.8]
    assert preset("late-fusion-2b").backbone == "Qwen/Qwen3-VL-Embedding-2B"
    assert preset("mid-fusion-frozen-backbone").lora_rank == 0
    assert not preset("mid-fusion-no-aspect").aspect_conditioned
    for name, config in PRESETS.items():
        base = {"late": late, "mid": mid}.get(config.kind)
        if base is not None:
            turned = [field for field in vars(config) if getattr(config, field) != getattr(base, field)]
            assert len(turned) == (0 if config is base else 1), name


def test_overrides_are_typed() -> None:
    config = with_overrides(
        preset("late-fusion"),
        [
            "lr=1e-4",
            "effective-batch=64",
            "matryoshka_dims=512, 256",
            "steps=10",
            "checkpointing=no",
            "lora_alpha=none",
        ],
    )
    assert (config.lr, config.effective_batch, config.matryoshka_dims) == (1e-4, 64, (512, 256))
    assert (config.steps, config.checkpointing, config.lora_alpha) == (10, False, None)
    assert with_overrides(config, ["steps=none", "dtype=bfloat16", "lr=1", "lr=2"]).lr == 2


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("rate=1", "'rate=1' is unknown; give name=value with one of kind"),
        ("lr", "'lr' is unknown"),
        ("lr=fast", "'lr=fast' cannot be read"),
        ("steps=2.5", "'steps=2.5' cannot be read"),
        ("checkpointing=maybe", "true or false is expected"),
        ("lr=0", "lr is 0.0; give a number above 0"),
        ("lr=nan", "lr is nan"),
        ("data_fraction=1.5", "at most 1"),
        ("steps=0", "steps is 0"),
        ("lr=inf", "lr is inf; give a finite number above 0"),
        ("lr=1e400", "lr is inf"),
        ("weight_decay=inf", "weight_decay is inf"),
        ("temperature=inf", "temperature is inf"),
        ("effective_batch=" + "9" * 30, "at most 100,000$"),
        ("lora_rank=1000000", "at most 4,096"),
        ("lora_alpha=0", "lora_alpha is 0"),
        ("steps=" + "9" * 400, "at most 1,000,000,000"),
        ("epochs=1e300", "at most 1,000,000"),
        ("kind=middle", "kind 'middle'"),
        ("dtype=float16", "dtypes float32 and bfloat16"),
        ("aspect_contrast=0.1", "aspects_per_step is 1"),
    ],
)
def test_a_wrong_setting_is_one_clear_error(override: str, message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        with_overrides(preset("late-fusion"), [override])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("probes", 1.5),
        ("steps", "3"),
        ("seed", True),
        ("lora_targets", 5),
        ("matryoshka_dims", ("a",)),
        ("backbone", ("a",)),
        ("checkpointing", "no"),
        ("lr", None),
    ],
)
def test_a_setting_is_of_its_type(name: str, value: Any) -> None:
    with pytest.raises(TrainingError, match=f"^{name} is .*; give a value of type "):
        replace(preset("late-fusion"), **{name: value})


def test_only_late_fusion_has_vectors_to_cut() -> None:
    with pytest.raises(TrainingError, match="only late fusion has vectors to cut"):
        with_overrides(preset("mid-fusion"), ["matryoshka_dims=8"])


def test_an_unknown_preset_names_the_known_ones() -> None:
    with pytest.raises(TrainingError, match="no preset 'late'; choose one of late-fusion"):
        preset("late")
