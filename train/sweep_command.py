"""``tpips-train sweep``: search the settings of a training run."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from tpips_model.extras import install_extra

__all__ = ["sweep"]


def sweep(
    out: Annotated[Path, typer.Option(help="Folder of the sweep; the same command goes on with the one it holds.")],
    preset: Annotated[str, typer.Option(help="Settings that are not searched; see: tpips-train presets.")],
    data: Annotated[str, typer.Option(help="What to learn from, as of tpips-train run.")],
    validation: Annotated[str, typer.Option(help="Judgements that a trial is judged by, as of tpips-train run.")],
    trials: Annotated[int, typer.Option(min=1, help="How many trials, all runs and workers together.")] = 50,
    workers: Annotated[int, typer.Option(min=1, help="Processes; several GPUs are dealt out to them.")] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting to hold fast, as in --set effective_batch=32: it is not searched then."),
    ] = None,
    images_root: Annotated[
        Path | None, typer.Option(help="Where picture paths in JSON lines begin.  [default: the file's folder]")
    ] = None,
    validations: Annotated[int, typer.Option(min=1, help="How often a trial is judged on its way.")] = 10,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Of the settings that are drawn.")] = 0,
    cpu: Annotated[bool, typer.Option("--cpu", help="Stay on the CPU though there is a GPU.")] = False,
) -> None:
    """Search learning rate, rank, batch, temperature and probes (Table 7) by agreement on validation."""
    from train.trainer.errors import TrainingError

    if find_spec("optuna") is None:
        raise TrainingError(f"a sweep needs Optuna, which is not installed: {install_extra('train')}")
    from rich.console import Console

    from train.sweep import SEARCH_SPACES, SweepConfig, run_sweep
    from train.sweep.objective import training_objective
    from train.sweep.report import trial_table
    from train.trainer.overrides import with_overrides
    from train.trainer.presets import preset as preset_of

    base = with_overrides(preset_of(preset), settings or [])
    fixed = {setting.partition("=")[0].strip().replace("-", "_") for setting in settings or []}
    space = {name: dimension for name, dimension in SEARCH_SPACES[base.kind].items() if name not in fixed}
    config = SweepConfig(
        base=base,
        space=space,
        data=data,
        validation=validation,
        out=out,
        trials=trials,
        images_root=images_root,
        validations=validations,
        seed=seed,
        cpu=cpu,
    )
    try:
        study = run_sweep(config, training_objective, workers=workers, on_trial=_say)
    except KeyboardInterrupt:
        typer.echo("stopped; the same command goes on with the sweep", err=True)
        raise
    Console().print(trial_table(study))
    typer.echo(f"wrote {out / 'best.json'}; to train with it: tpips-train run --preset {out / 'best.json'} …")


def _say(number: int, outcome: str) -> None:
    typer.echo(f"trial {number}: {outcome}", err=True)
