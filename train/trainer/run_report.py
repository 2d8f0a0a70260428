"""Counts what happens in a run, writes it down, and says what is out of the ordinary."""

from __future__ import annotations

import math
from collections.abc import Sequence

from train.trainer.config import TrainingConfig
from train.trainer.errors import TrainingError
from train.trainer.metrics_log import MetricsLog
from train.trainer.order import MicroBatch
from train.trainer.progress_bar import ProgressBar
from train.trainer.run_state import Progress
from train.trainer.spikes import SPIKE_MEMORY, is_spike
from train.trainer.update import Outcome
from train.trainer.validation import Validation

__all__ = ["RunReport"]

_NAMED = 5  # examples that a message names


class RunReport:
    """Keeps a run's counts, its log and its bar in step.

    Args:
        progress: The counts, changed in place.
        config: Of the run.
        log: Where records go.
        bar: What the terminal shows.
        speaks: Whether this process is the one that prints.
        processes: How many there are.
    """

    def __init__(
        self,
        progress: Progress,
        config: TrainingConfig,
        log: MetricsLog,
        bar: ProgressBar,
        *,
        speaks: bool,
        processes: int,
    ) -> None:
        self._progress = progress
        self._config = config
        self._log = log
        self._bar = bar
        self._speaks = speaks
        self._processes = processes

    def update(self, outcome: Outcome, batches: Sequence[MicroBatch], seconds: float) -> None:
        """Count an update.

        Args:
            outcome: What it came to.
            batches: What it was computed from, in all processes.
            seconds: How long it took.

        Raises:
            TrainingError: It was left out, and so were too many before.
        """
        progress = self._progress
        examples = sum(len(batch.judgements) for batch in batches)
        progress.step += 1
        progress.examples += examples
        progress.padded += -len(batches) % self._processes
        values = {
            "loss": outcome.loss,
            "choice_loss": outcome.choice,
            "gradient_norm": outcome.gradient_norm,
            "learning_rate": outcome.rate,
            "examples": progress.examples,
            "seconds": seconds,
            "examples_per_second": examples / seconds,
        }
        self._log.write("train", progress.step, values)
        if outcome.bad:
            self._bad(outcome)
        else:
            self._good(outcome, batches)
        self._bar.advance(outcome.loss, progress.best)

    def validation(self, found: Validation) -> bool:
        """Write a validation down; return whether it is the best so far."""
        progress = self._progress
        values = {
            "agreement": found.agreement.mean,
            "standard_error": found.agreement.standard_error,
            "consensus": found.consensus,
            "loss": found.loss,
        }
        self._log.write("validation", progress.step, values)
        if progress.best is not None and found.agreement.mean <= progress.best:
            return False
        progress.best, progress.best_step = found.agreement.mean, progress.step
        return True

    def _good(self, outcome: Outcome, batches: Sequence[MicroBatch]) -> None:
        progress = self._progress
        if is_spike(outcome.loss, progress.losses, factor=self._config.spike_factor):
            progress.spikes += 1
            named = [f"{one.item} ({one.aspect})" for batch in batches for one in batch.judgements][:_NAMED]
            self._tell(
                f"step {progress.step}: loss spike, {outcome.loss:.3f}; its examples begin with {', '.join(named)}"
            )
        progress.losses = [*progress.losses, outcome.loss][-SPIKE_MEMORY:]

    def _bad(self, outcome: Outcome) -> None:
        progress, limit = self._progress, self._config.max_bad_steps
        progress.bad_steps += 1
        what = "gradient" if math.isfinite(outcome.loss) else "loss"
        more = f" and {len(outcome.bad) - _NAMED} more" if len(outcome.bad) > _NAMED else ""
        text = (
            f"step {progress.step}: the {what} is no finite number; examples: {', '.join(outcome.bad[:_NAMED])}{more}"
        )
        if progress.bad_steps > limit:
            self._log.write("event", progress.step, {"text": text})
            raise TrainingError(
                f"{text}. Such steps: {progress.bad_steps}, allowed: {limit}. Look at these examples, lower lr, or "
                "train in float32; or allow more with max_bad_steps and --resume"
            )
        self._tell(f"{text}; the update is left out ({progress.bad_steps} of at most {limit})")

    def _tell(self, text: str) -> None:
        self._log.write("event", self._progress.step, {"text": text})
        if self._speaks:
            self._bar.say(text)
