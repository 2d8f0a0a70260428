"""A training run from its first update to a model that ``load_model`` takes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from train.judgements.records import Judgement
from train.trainer.config import TrainingConfig
from train.trainer.decoding import DecodedPictures
from train.trainer.errors import TrainingError
from train.trainer.export import export_model, training_facts
from train.trainer.interruption import StopRequest, deferred_stop
from train.trainer.memory import memory_advised
from train.trainer.metrics_log import MetricsLog, checked_trackers
from train.trainer.order import ExampleOrder, MicroBatch, dealt, fingerprint
from train.trainer.plan import Measurement, Plan, measure
from train.trainer.processes import make_accelerator
from train.trainer.progress_bar import ProgressBar
from train.trainer.run_directory import RunDirectory
from train.trainer.run_report import RunReport
from train.trainer.run_state import Progress, gathered, latest_state, load_state, save_state
from train.trainer.scoring import JudgingModule
from train.trainer.trainable import build_trainable, parameter_groups
from train.trainer.update import Updater
from train.trainer.validation import Validation, validate

__all__ = ["Trainer", "TrainingResult"]


@dataclass(frozen=True)
class TrainingResult:
    """What a run came to.

    Attributes:
        progress: Steps, and what was counted on the way.
        last: Folder of the last model.
        best: Folder of the model of the best validation agreement, None without validation.
        validation: Of the last model, None without.
    """

    progress: Progress
    last: Path
    best: Path | None
    validation: Validation | None


class Trainer:
    """Trains a model of any of the four kinds (section 4, Appendix C.1), in one process or in many.

    Args:
        config: How.
        data: Examples to learn from.
        validation: Examples to choose the best model by; may be empty.
        out: Folder of the run, see ``run_directory``.
        resume: Go on with the run that the folder holds.
        facts: JSON values for the record, such as where the data is from; the same when a run is resumed.
        trackers: ``"tensorboard"``, ``"wandb"``.
        cpu: Stay on the CPU though there is a GPU.
        quiet: Show no progress.
        on_step: Called after every update with its number (from 1) and its loss.
        on_validation: Called after every validation with the updates done and what came out. An exception of
            either ends the run; its last state stays.

    Raises:
        TrainingError: The run cannot start; the message says why.
        ModelError: The model cannot be loaded.
    """

    def __init__(
        self,
        config: TrainingConfig,
        data: Sequence[Judgement],
        validation: Sequence[Judgement],
        out: Path,
        *,
        resume: bool = False,
        facts: Mapping[str, Any] | None = None,
        trackers: tuple[str, ...] = (),
        cpu: bool = False,
        quiet: bool = False,
        on_step: Callable[[int, float], None] | None = None,
        on_validation: Callable[[int, Validation], None] | None = None,
    ) -> None:
        _check_kinds(config, (*data, *validation))
        self.config = config
        self.order = ExampleOrder(data, config)
        self._data_validation = tuple(validation)
        self._directory = RunDirectory(out)
        self._facts = {
            **(facts or {}),
            "examples": len(self.order.judgements),
            "data fingerprint": fingerprint(data),
            "validation fingerprint": fingerprint(validation),
        }
        if resume:
            self._directory.check_same(config, self._facts)
        else:
            self._directory.check_new()
        self._quiet = quiet
        self._on_step = on_step
        self._on_validation = on_validation
        self._validated: Validation | None = None
        self.accelerator = make_accelerator(config, checked_trackers(trackers), out, cpu=cpu)
        self._build()
        self.progress = self._resumed() if resume else Progress()

    def _build(self) -> None:
        from transformers import get_cosine_schedule_with_warmup

        config = self.config
        trainable = build_trainable(config, self.accelerator.device)
        self._trainable = trainable
        judging = JudgingModule(trainable.model, config, trainable.computed_in)
        optimizer = torch.optim.AdamW(
            parameter_groups(trainable.model, config), lr=config.lr, weight_decay=config.weight_decay
        )
        self._module, prepared = self.accelerator.prepare(judging, optimizer)
        self._judging: JudgingModule = self.accelerator.unwrap_model(self._module)
        self._optimizer: torch.optim.Optimizer = prepared.optimizer
        self._scheduler = get_cosine_schedule_with_warmup(
            self._optimizer, math.ceil(config.warmup * self.order.steps), self.order.steps
        )
        self._update = Updater(self._module, self._optimizer, self._scheduler, self.accelerator, config)

    def _resumed(self) -> Progress:
        place = latest_state(self._directory.states)
        if place is None:
            return Progress()  # ended before its first state: from the start
        progress = load_state(place, self._judging, self._optimizer, self._scheduler, steps=self.order.steps)
        for group, rate in zip(self._optimizer.param_groups, self._scheduler.get_last_lr(), strict=True):
            group["lr"] = rate
        return progress

    def plan(self, *, measured: bool = True) -> Plan:
        """Say what the run will take.

        Args:
            measured: Compute a few micro-batches for memory and time.
        """
        config, examples = self.config, self.order.judgements
        sizes = [(parameter.numel(), parameter.requires_grad) for parameter in self._judging.parameters()]
        return Plan(
            kind=config.kind,
            items=len({(one.item, one.pictures) for one in examples}),
            judgements=len(examples),
            pictures=len({picture for one in examples for picture in one.pictures}),
            validation=len(self._data_validation),
            examples=self.order.examples,
            steps=self.order.steps,
            done=self.progress.step,
            effective_batch=config.effective_batch,
            processes=self.accelerator.num_processes,
            passes=len(self._share(0)),
            trainable=sum(size for size, learns in sizes if learns),
            parameters=sum(size for size, _ in sizes),
            computed_in=str(self._trainable.computed_in).removeprefix("torch."),
            measured=self._measured() if measured else None,
        )

    def _measured(self) -> Measurement:
        with memory_advised():
            return measure(self._module, self._share(0), self.accelerator, workers=self.config.workers)

    def run(self) -> TrainingResult:
        """Train to the end.

        Raises:
            TrainingError: Too many losses or gradients are no finite numbers; the examples are named.
            ImageError: A picture cannot be read; it is named.
            KeyboardInterrupt: A signal asked for an end; the state after the last whole update is saved.
        """
        accelerator, directory = self.accelerator, self._directory
        accelerator.wait_for_everyone()  # every process has looked at the folder before one writes
        if accelerator.is_main_process and not directory.run.exists():
            directory.begin(self.config, self._facts)
        if accelerator.log_with:
            accelerator.init_trackers("tpips", init_kwargs={"tensorboard": {"purge_step": self.progress.step + 1}})
        log = MetricsLog(directory.metrics, accelerator, step=self.progress.step)
        quiet = self._quiet or not accelerator.is_main_process
        try:
            with deferred_stop() as stop, ProgressBar(self.config.kind, self.order.steps, quiet) as bar:
                bar.begin(self.progress.step)
                report = RunReport(
                    self.progress,
                    self.config,
                    log,
                    bar,
                    speaks=accelerator.is_main_process,
                    processes=accelerator.num_processes,
                )
                with memory_advised():
                    self._train(report, stop)
        finally:
            log.close()
            for tracker in accelerator.trackers:
                tracker.finish()
        best = directory.best if self._data_validation else None
        return TrainingResult(self.progress, directory.last, best, self._validated)

    def _train(self, report: RunReport, stop: StopRequest) -> None:
        config, progress, steps = self.config, self.progress, self.order.steps
        self._module.train()
        with DecodedPictures(config.workers) as decoding:
            for step in range(progress.step, steps):
                began = time.perf_counter()
                share, ahead = self._share(step), self._share(step + 1) if step + 1 < steps else []
                outcome = self._update(share, decoding.of(share, ahead), stop=stop.asked)
                report.update(outcome, self.order.update(step), time.perf_counter() - began)
                done = progress.step == steps
                if self._data_validation and (done or progress.step % config.validate_every == 0):
                    self._validate(report)
                if done or outcome.stopping or progress.step % config.save_every == 0:
                    self._save()
                if self._on_step is not None:
                    self._on_step(progress.step, outcome.loss)
                if outcome.stopping and not done:
                    raise KeyboardInterrupt
        if self._data_validation and self._validated is None:  # it had ended before it was resumed
            self._validated = self._judged()

    def _share(self, step: int) -> list[MicroBatch]:
        return dealt(self.order.update(step), self.accelerator.process_index, self.accelerator.num_processes)

    def _judged(self) -> Validation:
        return validate(self._module, self._data_validation, self.accelerator, workers=self.config.workers)

    def _validate(self, report: RunReport) -> None:
        self._validated = self._judged()
        if report.validation(self._validated):
            self._export(self._directory.best)
        if self._on_validation is not None:
            self._on_validation(self.progress.step, self._validated)

    def _save(self) -> None:
        """Write the last model, then the state, so that whoever finds the state finds the model."""
        self._export(self._directory.last)
        trained, moments = self._gathered()
        if self.accelerator.is_main_process:
            scheduler = self._scheduler.state_dict()
            save_state(
                self._directory.states, trained=trained, moments=moments, scheduler=scheduler, progress=self.progress
            )
        self.accelerator.wait_for_everyone()

    def _gathered(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return what learns and its moments; all processes have the whole, so all find what is not finite."""
        trained, moments = gathered(self._judging, self._optimizer)
        for name, tensor in (*trained.items(), *moments.items()):
            if not torch.isfinite(tensor).all():
                raise TrainingError(
                    f"step {self.progress.step}: what was trained is no finite number any more ({name} is the first "
                    "such tensor), and is not written; the model and the state before it stay. Train anew with a lower "
                    "lr, weight_decay or clip, or in float32, and another --out"
                )
        return trained, moments

    def _export(self, folder: Path) -> None:
        trained, _ = self._gathered()
        if self.accelerator.is_main_process:
            export_model(
                folder,
                self._trainable.model,
                trained=trained,
                backbone_tensors=self._trainable.backbone_tensors,
                facts=training_facts(self.config, self._facts, self.progress, self._validated),
            )


def _check_kinds(config: TrainingConfig, judgements: Sequence[Judgement]) -> None:
    if config.kind != "triplet":
        return
    others = [one for one in judgements if one.kind != "odd-one-out"]
    if others:
        raise TrainingError(
            f"a triplet head decides which of three is the odd one out, but {len(others):,} judgements are 2AFC "
            f"({others[0].item} is the first); train late, mid or early fusion on them"
        )
