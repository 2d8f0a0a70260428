"""The paper's training runs: Table 8, and the ablations of Table 6.

Which linear maps get adapters follows the released checkpoints: all but the attention's output in late fusion, the
attention's four in mid fusion, all seven in early fusion. The paper says no more than "the language tower"; the
triplet head, which was not released, takes all seven.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from train.trainer.config import TrainingConfig
from train.trainer.errors import TrainingError
from train.trainer.preset_file import read_preset

__all__ = ["PRESETS", "preset"]

_LATE = TrainingConfig(
    kind="late",
    backbone="Qwen/Qwen3-VL-Embedding-8B",
    lora_rank=16,
    lora_targets=("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "down_proj"),
    lr=5e-5,
    effective_batch=128,
    temperature=0.05,
)
_MID = TrainingConfig(
    kind="mid",
    backbone="Qwen/Qwen3-VL-Embedding-8B",
    lora_rank=16,
    lora_targets=("q_proj", "k_proj", "v_proj", "o_proj"),
    lr=1e-4,
    effective_batch=32,
    temperature=0.0025,
    probes=20,
)

# name -> settings. Table 8 first, then the rows of Table 6.
PRESETS: Mapping[str, TrainingConfig] = {
    "late-fusion": _LATE,
    "mid-fusion": _MID,
    "early-fusion": TrainingConfig(
        kind="early",
        backbone="Qwen/Qwen3-VL-Embedding-8B",
        lora_rank=16,
        lr=1e-4,
        effective_batch=128,
        temperature=0.05,
    ),
    "triplet-head": TrainingConfig(
        kind="triplet",
        backbone="Qwen/Qwen3-VL-8B-Instruct",
        lora_rank=16,
        lr=3e-5,
        head_rate=5.0,
        effective_batch=32,
    ),
    "late-fusion-2b": replace(_LATE, backbone="Qwen/Qwen3-VL-Embedding-2B"),
    "late-fusion-data-20": replace(_LATE, data_fraction=0.2),
    "late-fusion-data-40": replace(_LATE, data_fraction=0.4),
    "late-fusion-data-60": replace(_LATE, data_fraction=0.6),
    "late-fusion-data-80": replace(_LATE, data_fraction=0.8),
    "mid-fusion-frozen-backbone": replace(_MID, lora_rank=0),
    "mid-fusion-no-aspect": replace(_MID, aspect_conditioned=False),
}


def preset(name: str) -> TrainingConfig:
    """Return a preset by name, or from a file such as the ``best.json`` of a sweep.

    Raises:
        TrainingError: There is none of that name, or the file holds none.
    """
    if name.endswith(".json"):
        return read_preset(Path(name))
    if name not in PRESETS:
        raise TrainingError(
            f"there is no preset {name!r}; choose one of {', '.join(PRESETS)}, or give a file that tpips-train sweep "
            "wrote (best.json)"
        )
    return PRESETS[name]
