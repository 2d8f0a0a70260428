"""A sweep's trials as a table."""

from __future__ import annotations

from optuna.trial import TrialState
from rich.table import Table

from train.sweep.study import SweepStudy
from train.trainer.presets import PRESETS

__all__ = ["trial_table"]

# The presets that are Table 8's columns.
TABLE_8 = {"late": "late-fusion", "mid": "mid-fusion", "early": "early-fusion", "triplet": "triplet-head"}


def trial_table(study: SweepStudy, *, shown: int = 20) -> Table:
    """Return the best trials, best first, and the paper's choice (Table 8) below them.

    Args:
        study: The sweep.
        shown: How many trials.
    """
    names = list(study.config.space)
    table = Table("trial", *names, "agreement", title=f"{study.config.out}", title_justify="left")
    trials = sorted(study.trials, key=lambda trial: (trial.state != TrialState.COMPLETE, -(trial.value or 0.0)))
    for trial in trials[:shown]:
        value = trial.value if trial.state == TrialState.COMPLETE else None
        outcome = trial.state.name.lower() if value is None else f"{100 * value:.1f}"
        table.add_row(str(trial.number), *(_written(trial.params.get(name)) for name in names), outcome)
    if len(trials) > shown:
        table.add_row(f"{len(trials) - shown} more")
    table.add_section()
    chosen = PRESETS[TABLE_8[study.config.base.kind]]
    table.add_row("Table 8", *(_written(getattr(chosen, name)) for name in names), "")
    return table


def _written(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
