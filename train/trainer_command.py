"""``tpips-train run``: train a model of any of the four kinds, and ``tpips-train presets``: what it can start from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from train.trainer.config import TrainingConfig
    from train.trainer.trainer import Trainer

__all__ = ["presets", "run"]


def run(
    out: Annotated[Path, typer.Option(help="Folder of the run: states, metrics, and the models last/ and best/.")],
    data: Annotated[
        str | None,
        typer.Option(help="What to learn from: FILE.jsonl, a folder of .tar, procedural:families=64, …"),
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Settings to begin with; see: tpips-train presets.")] = None,
    validation: Annotated[str | None, typer.Option(help="Judgements to choose the best model by; as --data.")] = None,
    images_root: Annotated[
        Path | None,
        typer.Option(help="Where picture paths in JSON lines begin.  [default: the file's folder]"),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="One setting, as in --set lr=1e-4; give it as often as needed.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in OUT; all else is as it was begun with.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and train nothing.")] = False,
    track: Annotated[
        list[str] | None, typer.Option(help="Send metrics to tensorboard or wandb; metrics.jsonl is always written.")
    ] = None,
    cpu: Annotated[bool, typer.Option("--cpu", help="Stay on the CPU though there is a GPU.")] = False,
) -> None:
    """Train late, mid or early fusion or the triplet head; with several GPUs by way of accelerate launch."""
    from rich.console import Console

    from train.trainer.plan import plan_table

    request = _request(out, data, preset, validation, images_root, settings or [], resume=resume)
    trainer = _trainer(*request, out=out, resume=resume, trackers=tuple(track or ()), cpu=cpu)
    plan = trainer.plan()
    speaks = trainer.accelerator.is_main_process
    if speaks:
        Console(stderr=True).print(plan_table(plan))
    if dry_run:
        return
    try:
        result = trainer.run()
    except KeyboardInterrupt:
        if speaks:
            typer.echo(f"stopped; go on with: tpips-train run --out {out} --resume", err=True)
        raise
    if speaks:
        for line in _outcome(result):
            typer.echo(line)
    trainer.accelerator.end_training()


def presets() -> None:
    """List the presets of tpips-train run: the paper's final settings and its ablations."""
    from train.trainer.presets import PRESETS

    # Lines and no table: however narrow the terminal, a name can be copied into --preset and a setting into --set.
    for name, config in PRESETS.items():
        shown = ["kind", "backbone", "lora_rank", "lr", "effective_batch"]
        shown += ["head_rate"] if config.kind == "triplet" else ["temperature"]
        shown += ["probes"] if config.kind == "mid" else []
        shown += ["data_fraction"] if config.data_fraction != 1.0 else []
        shown += ["aspect_conditioned"] if not config.aspect_conditioned else []
        typer.echo(f"{name}: {' '.join(f'{setting}={getattr(config, setting)}' for setting in shown)}")
    typer.echo("Tables 8 and 6 of the paper; any setting can be changed with --set name=value")


def _request(
    out: Path,
    data: str | None,
    preset: str | None,
    validation: str | None,
    images_root: Path | None,
    settings: Sequence[str],
    *,
    resume: bool,
) -> tuple[TrainingConfig, dict[str, Any]]:
    """Return the config, and where the data is from; a resumed run has both from its folder."""
    from train.trainer.errors import TrainingError
    from train.trainer.overrides import with_overrides
    from train.trainer.presets import preset as preset_of
    from train.trainer.run_directory import read_run

    if resume:
        config, facts = read_run(out)
        config = with_overrides(config if preset is None else preset_of(preset), settings)
        facts = {name: facts.get(name) for name in ("data", "validation", "images root")}
    elif data is None or preset is None:
        raise TrainingError(
            "a new run needs --preset and --data, such as --preset late-fusion --data train.jsonl; to go on with one, "
            "give --resume"
        )
    else:
        config, facts = with_overrides(preset_of(preset), settings), {}
    given = {"data": data, "validation": validation, "images root": None if images_root is None else str(images_root)}
    facts |= {name: value for name, value in given.items() if value is not None or name not in facts}
    if facts["data"] is None:
        raise TrainingError(f"the run in {out} does not say what it learns from; give it by --data")
    return config, facts


def _trainer(
    config: TrainingConfig, facts: dict[str, Any], *, out: Path, resume: bool, trackers: tuple[str, ...], cpu: bool
) -> Trainer:
    from train.judgements.registry import load_judgements
    from train.trainer.trainer import Trainer

    root = None if facts["images root"] is None else Path(facts["images root"])
    training = load_judgements(facts["data"], images_root=root)
    held_out = None if facts["validation"] is None else load_judgements(facts["validation"], images_root=root)
    return Trainer(
        config,
        training.judgements,
        () if held_out is None else held_out.judgements,
        out,
        resume=resume,
        facts=facts,
        trackers=trackers,
        cpu=cpu,
    )


def _outcome(result: Any) -> list[str]:
    progress, found = result.progress, result.validation
    lines = [f"wrote {result.last}: the model after {progress.step:,} steps"]
    if found is not None:
        lines[0] += f", agreement {found.agreement.mean:.1%} ± {found.agreement.standard_error:.1%}"
        lines[0] += f" (people among themselves {found.consensus:.1%})"
        lines.append(f"wrote {result.best}: the best, {progress.best:.1%} after {progress.best_step:,} steps")
    counts = {"updates left out": progress.bad_steps, "loss spikes": progress.spikes}
    lines += [f"{name}: {count}" for name, count in counts.items() if count]
    return lines
