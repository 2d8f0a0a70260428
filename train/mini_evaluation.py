"""Measures every bar of the bundled model."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from tpips_model.images import ImageLike
from tpips_model.mini.embedder import WEIGHT_FILES, WEIGHTS, MiniEmbedder
from train.class_evaluation import find_classes, same_class_share
from train.contact_sheet import write_photo_sheets, write_scene_sheets
from train.mini_dataset import FamilyData, ShardPlan, load_shards, make_shards
from train.mini_figures import PENALTIES, MiniEvaluation, Speed, SubjectRetrieval
from train.paraphrases import HELD_PARAPHRASES
from train.photo_evaluation import cross_content, load_photos, photo_odd_one_out, plan_trials
from train.retrieval_views import backbone_view, model_view
from train.scene_evaluation import odd_one_out_accuracy, retrieval_precision

__all__ = ["MiniEvaluationConfig", "evaluate_mini", "measure_speed"]

EIGHT_ASPECTS = (
    "subject",
    "color palette",
    "brushwork",
    "lighting",
    "composition",
    "texture",
    "background",
    "overall",
)


@dataclass(frozen=True)
class MiniEvaluationConfig:
    """What is measured.

    Attributes:
        weights: Directory of the three weight files.
        cache: Directory where procedural features are kept between runs.
        families: Procedural families of eight pictures, for seen values and again for held-out ones.
        seed: Draws families and trials; they are apart from those of training for every seed.
        photos: Folder of photographs; None for those inside scikit-image.
        classes: Folder of class folders for "subject"; None leaves that bar out.
        sheets: Folder for contact sheets; None for none.
        workers: Processes that draw.
    """

    cache: Path
    weights: Path = WEIGHTS
    families: int = 192
    seed: int = 1
    photos: Path | None = None
    classes: Path | None = None
    sheets: Path | None = None
    workers: int = 2


def evaluate_mini(
    config: MiniEvaluationConfig, *, on_shard: Callable[[int, int], None] | None = None
) -> MiniEvaluation:
    """Measure every bar of the bundled model.

    Args:
        config: What is measured.
        on_shard: Called with the procedural shards done and their number.

    Raises:
        TpipsError: A weight file or a folder is missing or unusable.
    """
    model = MiniEmbedder.from_directory(config.weights)
    photos = load_photos(config.photos, seed=config.seed)
    # Before the long part, so that a folder without classes is told at once.
    subject = _subject_retrieval(model, config.classes)
    plans = [_plan(config, held) for held in (False, True)]
    seen, held = (_families(plan, config.workers, on_shard) for plan in plans)
    seen_view, plain = model_view(model, seen.features), backbone_view(seen.features)
    bank, trials = plan_trials(photos, seed=config.seed)
    pictures = bank.pictures()
    features = _described(model, pictures)
    bank_view, plain_bank = model_view(model, features), backbone_view(features)
    if config.sheets:
        config.sheets.mkdir(parents=True, exist_ok=True)
        write_scene_sheets(config.sheets, seen_view, seen, plans[0])
        write_photo_sheets(config.sheets, bank_view, bank, pictures)
    return MiniEvaluation(
        scenes=odd_one_out_accuracy(seen_view, seen),
        held_values=odd_one_out_accuracy(model_view(model, held.features), held),
        backbone_scenes=odd_one_out_accuracy(plain, seen),
        retrieval=retrieval_precision(seen_view, seen, penalties=PENALTIES),
        backbone_retrieval=retrieval_precision(plain, seen),
        photos=photo_odd_one_out(bank_view, trials),
        backbone_photos=photo_odd_one_out(plain_bank, trials),
        cross_content=cross_content(bank_view, trials),
        cross_subject=cross_content(bank_view, trials, by_subject=True),
        photo_count=len(photos),
        subject=subject,
        speed=measure_speed(model, photos),
        weight_bytes={name: (config.weights / name).stat().st_size for name in WEIGHT_FILES},
    )


def measure_speed(model: MiniEmbedder, photos: Sequence[Image.Image], *, images: int = 32) -> Speed:
    """Measure the way from JPEG bytes of 1024 × 768 pixels to vectors, on one thread.

    Processor time is counted, so that other programs on the machine do not matter.
    """
    jpegs = [_jpeg(photos[number % len(photos)], number) for number in range(images)]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model.embed(jpegs[:8], EIGHT_ASPECTS)  # the first call of every kernel is slower
        seconds: dict[int, float] = {}
        for _ in range(3):
            for aspects in (EIGHT_ASPECTS, EIGHT_ASPECTS[:1]):
                start = time.process_time()
                model.embed(jpegs, aspects)
                taken = time.process_time() - start
                seconds[len(aspects)] = min(taken, seconds.get(len(aspects), taken))
    finally:
        torch.set_num_threads(threads)
    return Speed(images / seconds[len(EIGHT_ASPECTS)], seconds[len(EIGHT_ASPECTS)] / seconds[1])


def _jpeg(photo: Image.Image, seed: int) -> bytes:
    large = np.asarray(photo.resize((1024, 768), Image.Resampling.BICUBIC)).astype(np.int16)
    # An enlarged picture would be easier to decode than one from a camera, whose pixels are noisy.
    noisy = large + np.random.default_rng(seed).integers(-6, 7, large.shape, dtype=np.int16)
    file = io.BytesIO()
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=90)
    return file.getvalue()


def _plan(config: MiniEvaluationConfig, held: bool) -> ShardPlan:
    backbone = config.weights / WEIGHT_FILES[0]
    return ShardPlan(config.cache, backbone, config.seed, config.families, evaluation=True, held=held)


def _families(plan: ShardPlan, workers: int, on_shard: Callable[[int, int], None] | None) -> FamilyData:
    make_shards(plan, workers=workers, on_shard=on_shard)
    return load_shards(plan)


def _described(model: MiniEmbedder, images: Sequence[ImageLike], batch: int = 32) -> torch.Tensor:
    return torch.cat([model.describe(images[start : start + batch]) for start in range(0, len(images), batch)])


def _subject_retrieval(model: MiniEmbedder, classes: Path | None) -> SubjectRetrieval | None:
    if classes is None:
        return None
    folder = find_classes(classes)
    features = _described(model, folder.paths)
    view = model_view(model, features)
    return SubjectRetrieval(
        same_class=same_class_share(view, folder.classes, ["subject"]),
        unseen_words=same_class_share(view, folder.classes, HELD_PARAPHRASES["subject"]),
        backbone=same_class_share(backbone_view(features), folder.classes, ["subject"]),
        classes=len(set(folder.classes)),
        pictures=len(folder.paths),
    )
