"""The commands of ``tpips-train``."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tpips_model.progress_bar import ProgressBar
from tpips_model.terminal import run_command
from train.convert import convert
from train.data_command import app as data_app
from train.evaluation_command import evaluation_command
from train.sweep_command import sweep
from train.trainer_command import presets, run

__all__ = ["app", "main"]

app = typer.Typer(
    name="tpips-train",
    help="Train and measure models of perceptual similarity.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)

# Minutes instead of the better part of an hour; such a model only shows that everything runs.
QUICK_FAMILIES, QUICK_STEPS, QUICK_PHRASES = 32, 60, 500


app.command()(convert)
app.add_typer(data_app, name="data")
app.command("eval")(evaluation_command)
app.command()(run)
app.command()(presets)
app.command()(sweep)


@app.callback()
def command() -> None:
    """Train and measure models of perceptual similarity."""


@app.command()
def mini(
    out: Annotated[Path, typer.Option(help="Directory for backbone, text table and head.")],
    seed: Annotated[int, typer.Option(min=0, max=999, help="Draws the pictures, first weights and their order.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A short run that only shows that everything works.")] = False,
    cache: Annotated[
        Path | None, typer.Option(help="Directory of the pictures' features, to resume from.  [default: OUT/cache]")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that draw pictures.")] = 2,
) -> None:
    """Make the weights of the bundled model "mini", in under an hour on two cores."""
    from train.mini_build import MiniBuild, build_mini
    from train.mini_training import MiniTrainingConfig

    kept = cache or out / "cache"
    if quick:
        training = MiniTrainingConfig(seed=seed, families=QUICK_FAMILIES, steps=QUICK_STEPS)
        build = MiniBuild(out, kept, training, phrases=QUICK_PHRASES, workers=workers)
    else:
        build = MiniBuild(out, kept, MiniTrainingConfig(seed=seed), workers=workers)
    with ExitStack() as stack:
        build_mini(build, on_progress=_progress_bars(stack))
    typer.echo(f"wrote {out}; to measure it: tpips-train mini-eval --weights {out}; {kept} may be deleted")


@app.command("mini-eval")
def mini_eval(
    weights: Annotated[
        Path | None, typer.Option(help="Directory of the three weight files.  [default: those that ship]")
    ] = None,
    cache: Annotated[Path, typer.Option(help="Directory for the pictures' features.")] = Path("scratch/mini-eval"),
    families: Annotated[int, typer.Option(min=1, help="Procedural families of eight pictures, twice.")] = 192,
    seed: Annotated[int, typer.Option(min=0, max=999, help="Draws families and trials.")] = 1,
    photos: Annotated[
        Path | None, typer.Option(help="Folder of photographs to edit.  [default: those inside scikit-image]")
    ] = None,
    classes: Annotated[Path | None, typer.Option(help='Folder of class folders, to measure "subject" on.')] = None,
    sheets: Annotated[Path | None, typer.Option(help="Folder for contact sheets of retrievals.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="File for all figures.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that draw pictures.")] = 2,
) -> None:
    """Measure the bundled model against its bars, on pictures and words that its training never saw."""
    from tpips_model.mini.embedder import WEIGHTS
    from train.mini_evaluation import MiniEvaluationConfig, evaluate_mini
    from train.mini_report import evaluation_tables

    config = MiniEvaluationConfig(
        cache=cache,
        weights=weights or WEIGHTS,
        families=families,
        seed=seed,
        photos=photos,
        classes=classes,
        sheets=sheets,
        workers=workers,
    )
    with ExitStack() as stack:
        show = _progress_bars(stack)
        evaluation = evaluate_mini(config, on_shard=lambda done, total: show("pictures", done, total))
    Console().print(evaluation_tables(evaluation))
    if json_file:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps(evaluation.to_json(), indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Run the command; a fault of the user's is one line on standard error and exit status 1."""
    run_command(app)


def _progress_bars(stack: ExitStack) -> Callable[[str, int, int], None]:
    """Return a callback that shows one bar a stage, closed with the stack."""
    bars: dict[str, ProgressBar] = {}

    def show(stage: str, done: int, total: int) -> None:
        bar = bars.get(stage)
        if bar is None:
            # initial: what an earlier run has left counts as done, not as done at lightning speed
            bar = bars[stage] = stack.enter_context(ProgressBar(desc=stage, total=total, initial=done))
        bar.update(done - bar.n)

    return show
