"""What a sweep makes large: the agreement on validation that a training run reaches."""

from __future__ import annotations

import gc
import shutil
from dataclasses import replace
from pathlib import Path

import torch

from train.judgements import Judgement, JudgementDataError, load_judgements
from train.sweep.config import Objective, Report, SweepConfig, TrialFailed
from train.trainer.config import TrainingConfig
from train.trainer.errors import TrainingError
from train.trainer.order import ExampleOrder
from train.trainer.trainer import Trainer
from train.trainer.validation import Validation

__all__ = ["training_objective"]


def training_objective(sweep: SweepConfig, *, quiet: bool = False) -> Objective:
    """Load a sweep's data, and return the objective that trains on them.

    Args:
        sweep: The sweep.
        quiet: Show no progress bars.

    Raises:
        JudgementDataError: The data cannot be used.
    """
    training = load_judgements(sweep.data, images_root=sweep.images_root).judgements
    validation = load_judgements(sweep.validation, images_root=sweep.images_root).judgements
    if sweep.base.kind == "triplet" and any(one.kind == "2afc" for one in (*training, *validation)):
        raise JudgementDataError("a triplet head learns from odd-one-out alone, but the data hold 2AFC; leave them out")

    def objective(config: TrainingConfig, folder: Path, report: Report) -> float:
        return _train(_judged(config, training, sweep.validations), training, validation, folder, report)

    def _train(
        config: TrainingConfig,
        training: tuple[Judgement, ...],
        validation: tuple[Judgement, ...],
        folder: Path,
        report: Report,
    ) -> float:
        begun = (folder / "run.json").exists()
        if not begun:
            shutil.rmtree(folder, ignore_errors=True)  # what a kill left before the run was begun

        def judged(step: int, found: Validation) -> None:
            report(-(-step // config.validate_every), found.agreement.mean)

        trainer = Trainer(
            config, training, validation, folder, resume=begun, cpu=sweep.cpu, quiet=quiet, on_validation=judged
        )
        try:
            progress = trainer.run().progress
        except (TrainingError, torch.OutOfMemoryError) as error:
            raise TrialFailed(str(error).splitlines()[0]) from error
        finally:
            trainer.accelerator.free_memory()
            del trainer
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        assert progress.best is not None
        return progress.best

    return objective


def _judged(config: TrainingConfig, training: tuple[Judgement, ...], validations: int) -> TrainingConfig:
    """Return the settings with as many validations, evenly spread: trials of other batches have other steps."""
    steps = ExampleOrder(training, config).steps
    return replace(config, validate_every=max(steps // validations, 1))
