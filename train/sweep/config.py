"""What a sweep is, and what goes wrong with one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tpips_model.errors import TpipsError
from train.sweep.spaces import Dimension
from train.trainer.config import TrainingConfig

__all__ = ["Objective", "Report", "SweepConfig", "SweepError", "TrialFailed"]

# Takes how many of the validations are done, and the agreement; raises optuna.TrialPruned to end the trial.
Report = Callable[[int, float], None]
# Trains by a config in a folder, which an interrupted trial may have left, and returns the best validation agreement.
Objective = Callable[[TrainingConfig, Path, Report], float]


class SweepError(TpipsError):
    """A sweep that cannot start or go on; the message says what to do."""


class TrialFailed(Exception):  # noqa: N818 - an outcome of a trial, not an error of the sweep
    """Settings with which a training came to nothing, such as a rate at which the loss is no number any more."""


@dataclass(frozen=True)
class SweepConfig:
    """A sweep.

    Attributes:
        base: Settings that are not searched.
        space: Setting → what it may be.
        data: What to learn from, a spec of ``load_judgements``.
        validation: What to judge a trial by.
        out: The sweep's folder.
        trials: How many, all runs together.
        images_root: What paths in JSON lines are relative to.
        validations: How often a trial is judged on its way; between them it can be pruned.
        seed: Of the sampler.
        cpu: Stay on the CPU though there is a GPU.
    """

    base: TrainingConfig
    space: Mapping[str, Dimension]
    data: str
    validation: str
    out: Path
    trials: int
    images_root: Path | None = None
    validations: int = 10
    seed: int = 0
    cpu: bool = False

    @property
    def identity(self) -> dict[str, Any]:
        """What may not change when a sweep is gone on with, as JSON has it."""
        space = {name: asdict(dimension) for name, dimension in self.space.items()}
        searched = {name: value for name, value in asdict(self.base).items() if name not in self.space}
        root = None if self.images_root is None else str(self.images_root)
        facts = {"data": self.data, "validation": self.validation, "images root": root}
        return {"settings": searched, "space": space, **facts, "validations": self.validations, "seed": self.seed}
