"""``tpips-train eval``: how well models agree with people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tpips_model.errors import TpipsError
from tpips_model.progress_bar import ProgressBar

__all__ = ["evaluation_command"]


def evaluation_command(
    model: Annotated[
        list[str],
        typer.Option(
            help='A model, several times for several: "mini", a directory or hub id, zero-shot:NAME, '
            "zero-shot-rating:NAME, zero-shot-mid:NAME, lpips:alex, dreamsim:ensemble, open_clip:MODEL/TAG, "
            "tpips:embedding."
        ),
    ],
    data: Annotated[
        list[str],
        typer.Option(
            help="Judgements, several times for several sets: FILE.jsonl, a folder of shards, bapps:DIR, nights:DIR, "
            "procedural:families=64, or qare:DIR."
        ),
    ],
    images_root: Annotated[
        Path | None, typer.Option(help="What paths in JSON lines are relative to.  [default: the file's folder]")
    ] = None,
    allow_refusals: Annotated[
        bool, typer.Option("--allow-refusals", help="Measure on what can be used, though some lines cannot.")
    ] = False,
    cache: Annotated[
        Path | None, typer.Option(help="Folder that keeps each model's scores; a stopped run goes on from there.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="File for all figures.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="File for all tables, with the paper's rows beside.")] = None,
    latex: Annotated[Path | None, typer.Option(help="File for the agreement table in the shape of Table 3.")] = None,
    plot: Annotated[Path | None, typer.Option(help="File for the curve of Figure 11: .png, .pdf or .svg.")] = None,
    aspects: Annotated[int, typer.Option(min=0, help="How many aspects the terminal shows.")] = 20,
    device: Annotated[
        str | None,
        typer.Option(help='"cpu", or a GPU such as "cuda:1"; mini takes the CPU.  [default: a GPU if there is one]'),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Items scored at a time.")] = 16,
    workers: Annotated[int, typer.Option(min=1, help="Threads that decode pictures.")] = 2,
) -> None:
    """Measure how well models agree with people, as Tables 3 to 5 and Figure 11 of the paper do."""
    from train.evaluation import (
        EvaluationConfig,
        ScoringConfig,
        evaluate,
        latex_table,
        markdown_report,
        print_tables,
        results_json,
    )
    from train.evaluation.curve_plot import check_plot, plot_curves
    from train.evaluation.figures import confidence_curve

    if plot is not None:
        check_plot(plot)
    if (latex or plot) and all(spec.startswith("qare:") for spec in data):
        raise TpipsError("--latex and --plot show agreement with judgements, but the data hold none besides QARE-Bench")
    for path in (json_file, markdown, latex, plot):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
    config = EvaluationConfig(
        models=tuple(model),
        data=tuple(data),
        images_root=images_root,
        allow_refusals=allow_refusals,
        device=device,
        scoring=ScoringConfig(cache=cache, batch=batch, workers=workers),
    )
    try:
        with _ProgressBar() as bar:
            evaluation = evaluate(config, on_progress=bar.show)
    except KeyboardInterrupt:
        kept = "nothing is kept without --cache" if cache is None else f"the same command goes on from {cache}"
        typer.echo(f"stopped; {kept}", err=True)
        raise
    print_tables(evaluation, Console(), aspects=aspects)
    if json_file is not None:
        json_file.write_text(json.dumps(results_json(evaluation), indent=1) + "\n", encoding="utf-8")
    if markdown is not None:
        markdown.write_text(markdown_report(evaluation), encoding="utf-8")
    if latex is not None:
        latex.write_text(latex_table(evaluation), encoding="utf-8")
    if plot is not None:
        plot_curves([confidence_curve(points) for points in evaluation.points], plot)


class _ProgressBar:
    """A bar with rate and remaining time, begun when the number of answers is known."""

    def __init__(self) -> None:
        self._bar: ProgressBar | None = None

    def __enter__(self) -> _ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def show(self, done: int, total: int) -> None:
        if self._bar is None:
            # initial: what the cache held counts as done, not as done at lightning speed
            self._bar = ProgressBar(desc="items × models", total=total, initial=done, unit="answer")
        self._bar.update(done - self._bar.n)
