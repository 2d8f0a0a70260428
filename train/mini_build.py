"""Makes the three weight files of the bundled model, from pretrained packages and procedural pictures to the head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tpips_model.mini.embedder import WEIGHT_FILES
from tpips_model.mini.text import TextTable
from train.mini_assets import pretrained_backbone, write_backbone
from train.mini_dataset import FamilyData, ShardPlan, load_shards, make_shards
from train.mini_training import MiniTrainingConfig, fit_head, new_head, save_head
from train.paraphrases import HELD_PARAPHRASES, PARAPHRASES
from train.text_distillation import write_text_table

__all__ = ["MiniBuild", "build_mini"]

# Enough for a steady covariance of each group, and no more than fits in memory in single precision.
_WHITENING_PICTURES = 12_000

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class MiniBuild:
    """What the weights are made from.

    Attributes:
        out: Directory for the three files; made if missing. What is there already is written anew.
        cache: Directory of the procedural features, which a killed run takes up again.
        training: Of the head.
        phrases: How many the text table is distilled from.
        workers: Processes that draw pictures.
    """

    out: Path
    cache: Path
    training: MiniTrainingConfig = field(default_factory=MiniTrainingConfig)
    phrases: int = 24_000
    workers: int = 2


def build_mini(build: MiniBuild, *, on_progress: Progress = lambda stage, done, total: None) -> Path:
    """Make backbone, text table and head.

    Args:
        build: What from.
        on_progress: Called with the stage ("text table", "pictures", "training"), what is done of it, and its total.

    Returns:
        The directory of the three files.

    Raises:
        TpipsError: A package with pretrained weights is missing.
    """
    build.out.mkdir(parents=True, exist_ok=True)
    backbone, text, head_path = (build.out / name for name in WEIGHT_FILES)
    write_backbone(backbone)
    on_progress("text table", 0, 1)
    # The words that an evaluation asks with are kept out here as well, so that it measures unseen words.
    held = [words for paraphrases in HELD_PARAPHRASES.values() for words in paraphrases]
    write_text_table(text, excluded=held, phrases=build.phrases)
    on_progress("text table", 1, 1)

    plan = ShardPlan(build.cache, backbone, build.training.seed, build.training.families)
    make_shards(plan, workers=build.workers, on_shard=lambda done, total: on_progress("pictures", done, total))
    data = load_shards(plan)
    head = new_head(_typical(data, build.training.seed), pretrained_backbone()["_fc.weight"], build.training.seed)
    fit_head(
        head,
        data,
        PARAPHRASES,
        TextTable.from_file(text).encode,
        build.training,
        on_step=lambda step, loss: on_progress("training", step, build.training.steps),
    )
    save_head(head, head_path, build.training)
    return build.out


def _typical(data: FamilyData, seed: int) -> Tensor:
    count = len(data.features)
    rows = np.random.default_rng(seed).choice(count, min(_WHITENING_PICTURES, count), replace=False)
    return torch.from_numpy(data.features[np.sort(rows)]).float()
