"""One update: the gradients of its micro-batches added up over all processes, and a step of AdamW."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from PIL import Image
from torch import Tensor, nn

from train.judgements.records import PictureSource
from train.trainer.config import TrainingConfig
from train.trainer.order import MicroBatch
from train.trainer.run_state import whole
from train.trainer.scoring import Scored

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["Outcome", "Updater"]


@dataclass(frozen=True)
class Outcome:
    """What an update came to.

    Attributes:
        loss: Mean over its examples of what is made small.
        choice: Mean over its examples of Equation 2 alone.
        gradient_norm: Before it was cut.
        rate: Learning rate of the adapters.
        bad: Names of examples with a loss that is no finite number, or of all if only the gradient is none; empty
            where the update was made.
        stopping: Whether any process was asked to stop.
    """

    loss: float
    choice: float
    gradient_norm: float
    rate: float
    bad: tuple[str, ...]
    stopping: bool


class Updater:
    """Makes updates.

    Args:
        module: A ``JudgingModule`` as accelerate prepared it.
        optimizer: Of what learns.
        scheduler: Of its rate.
        accelerator: Of the run.
        config: Of the run.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        scheduler: torch.optim.lr_scheduler.LRScheduler,
        accelerator: Accelerator,
        config: TrainingConfig,
    ) -> None:
        self._module = module
        self._optimizer = optimizer
        self._scheduler = scheduler
        self._accelerator = accelerator
        self._config = config

    def __call__(
        self, share: Sequence[MicroBatch], pictures: Mapping[PictureSource, Image.Image], *, stop: bool
    ) -> Outcome:
        """Make one update, or leave it out where a loss or the gradient is no finite number.

        The learning rate moves on either way, so that a run has the steps it was planned with.

        Args:
            share: This process's micro-batches; weights of all processes' sum, examples counted, to one.
            pictures: Theirs, decoded.
            stop: Whether this process was asked to stop.
        """
        rate = float(self._scheduler.get_last_lr()[0])
        totals, bad = self._gradients(share, pictures)
        loss, choice, stopping = self._over_processes([*totals, float(stop)])
        parameters = [parameter for parameter in self._module.parameters() if parameter.requires_grad]
        norm = float(whole(self._accelerator.clip_grad_norm_(parameters, self._config.clip)))
        if math.isfinite(loss) and math.isfinite(norm):
            self._optimizer.step()
            names: tuple[str, ...] = ()
        else:
            names = self._named(bad or [name for batch in share for name in _names(batch)])
        self._optimizer.zero_grad(set_to_none=True)
        self._scheduler.step()
        return Outcome(loss, choice, norm, rate, names, stopping > 0)

    def _gradients(
        self, share: Sequence[MicroBatch], pictures: Mapping[PictureSource, Image.Image]
    ) -> tuple[list[float], list[str]]:
        """Add up gradients; return this process's parts of the losses, and examples whose loss is not finite."""
        # DDP and FSDP take the mean over processes; the update is the sum.
        processes = self._accelerator.num_processes
        totals: list[Tensor] = []
        bad: list[str] = []
        for number, batch in enumerate(share):
            last = number == len(share) - 1
            with nullcontext() if last else self._accelerator.no_sync(self._module):
                scored: Scored = self._module(batch, pictures)
                self._accelerator.backward(scored.losses.sum() * (batch.weight * processes))
            losses = torch.stack([scored.losses.detach().sum(), scored.choice.detach().sum()])
            totals.append(losses * batch.weight)
            if batch.weight:
                finite = torch.isfinite(scored.losses.detach()).tolist()
                bad += [name for name, good in zip(_names(batch), finite, strict=True) if not good]
        return torch.stack(totals).sum(0).tolist(), bad

    def _over_processes(self, values: list[float]) -> list[float]:
        if self._accelerator.num_processes == 1:
            return values
        summed: Tensor = self._accelerator.reduce(torch.tensor(values, device=self._accelerator.device), "sum")
        return summed.tolist()

    def _named(self, names: list[str]) -> tuple[str, ...]:
        if self._accelerator.num_processes == 1:
            return tuple(names)
        from accelerate.utils import gather_object

        return tuple(gather_object(names))


def _names(batch: MicroBatch) -> list[str]:
    return [f"{judgement.item} ({judgement.aspect})" for judgement in batch.judgements]
