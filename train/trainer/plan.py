"""What a run will take, said before it starts: examples, steps, memory and time, the last two from a measurement."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch

from train.trainer.decoding import DecodedPictures
from train.trainer.order import MicroBatch

if TYPE_CHECKING:
    from accelerate import Accelerator
    from rich.table import Table

__all__ = ["Measurement", "Plan", "measure", "plan_table"]

_MEASURED = 3  # micro-batches, after one that warms up
_MOMENTS = 8  # bytes of AdamW's two moments for each float32 that learns


@dataclass(frozen=True)
class Measurement:
    """What some micro-batches of a run took on one process, updates left out.

    Attributes:
        seconds_per_example: Forward and backward.
        peak_bytes: The process's memory at its highest, weights included.
    """

    seconds_per_example: float
    peak_bytes: int


@dataclass(frozen=True)
class Plan:
    """What a run will do.

    Attributes:
        kind: Of model.
        items: Items of the training data.
        judgements: Their examples.
        pictures: Their pictures.
        validation: Examples of the validation data.
        examples: Examples that the run takes in.
        steps: Updates.
        done: Updates done by the run that is resumed.
        effective_batch: Examples an update.
        processes: How many work on it.
        passes: Forward passes of one process in the first update.
        trainable: Numbers that learn.
        parameters: All numbers of the model.
        computed_in: Type of most computing.
        measured: None if it was not asked for.
    """

    kind: str
    items: int
    judgements: int
    pictures: int
    validation: int
    examples: int
    steps: int
    done: int
    effective_batch: int
    processes: int
    passes: int
    trainable: int
    parameters: int
    computed_in: str
    measured: Measurement | None

    @property
    def expected_bytes(self) -> int | None:
        """Memory of one process: what was measured, and the optimizer's moments, which do not exist yet."""
        return None if self.measured is None else self.measured.peak_bytes + _MOMENTS * self.trainable

    @property
    def expected_seconds(self) -> float | None:
        """Time of the updates that are left, validation and saving not counted."""
        if self.measured is None:
            return None
        left = self.examples - min(self.done * self.effective_batch, self.examples)
        return self.measured.seconds_per_example * left / self.processes


def measure(
    module: torch.nn.Module, share: Sequence[MicroBatch], accelerator: Accelerator, *, workers: int
) -> Measurement:
    """Compute a few micro-batches, forward and backward, and throw the gradients away.

    The run is not changed by it: every micro-batch has a seed of its own, and no weight moves.

    Args:
        module: A ``JudgingModule`` as accelerate prepared it.
        share: This process's part of an update.
        accelerator: Of the run.
        workers: Threads that decode.
    """
    share = share[:_MEASURED]
    cuda = accelerator.device.type == "cuda"
    if cuda:
        torch.cuda.reset_peak_memory_stats(accelerator.device)
    module.train()
    began, examples = 0.0, 0
    with DecodedPictures(workers) as decoding:
        pictures = decoding.of(share)
        for number, batch in enumerate([share[0], *share]):
            if number == 1:
                began = _now(cuda)
            with accelerator.no_sync(module):
                accelerator.backward(module(batch, pictures).losses.sum())
            examples += len(batch.judgements) if number else 0
    seconds = _now(cuda) - began
    module.zero_grad(set_to_none=True)
    if cuda:
        peak = torch.cuda.max_memory_allocated(accelerator.device)
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Measurement(seconds / examples, peak)


def plan_table(plan: Plan) -> Table:
    """Return a plan as a table for the terminal."""
    from rich.table import Table

    table = Table("plan", "", title=f"tpips-train run: {plan.kind}", show_header=False)
    per_process = f"{plan.passes} forward passes on each of {plan.processes}" if plan.processes > 1 else plan.passes
    rows: list[tuple[str, Any]] = [
        ("data", f"{plan.items:,} items, {plan.judgements:,} examples, {plan.pictures:,} pictures"),
        ("validation", f"{plan.validation:,} examples" if plan.validation else "none: no best model is kept"),
        ("run", f"{plan.steps:,} steps, {plan.examples:,} examples" + (f", {plan.done:,} done" if plan.done else "")),
        ("effective batch", f"{plan.effective_batch} examples; first step: {per_process}"),
        ("trainable", f"{plan.trainable:,} of {plan.parameters:,} ({plan.trainable / plan.parameters:.2%})"),
        ("computed in", plan.computed_in),
    ]
    if plan.measured is not None:
        assert plan.expected_bytes is not None
        assert plan.expected_seconds is not None
        rate = plan.processes / plan.measured.seconds_per_example
        rows += [
            ("expected memory", f"{plan.expected_bytes / 2**30:.1f} GiB a process"),
            (
                "expected time",
                f"{timedelta(seconds=round(plan.expected_seconds))} at {rate:.1f} examples/s, and validation",
            ),
        ]
    for name, value in rows:
        table.add_row(name, str(value))
    return table


def _now(cuda: bool) -> float:
    if cuda:
        torch.cuda.synchronize()
    return time.perf_counter()
