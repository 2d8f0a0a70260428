"""``tpips-train data``: look at judgements before anything is trained on them, and bring them into another layout."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tpips_model.progress_bar import ProgressBar

if TYPE_CHECKING:
    from train.judgements import Refusal
    from train.judgements.statistics import SubsetCounts

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Check human judgements, and bring them into another layout.")

Source = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        help="FILE.jsonl, a folder of it or of .tar shards, procedural:families=64,seed=3, votes:FILE.jsonl, "
        "bapps:DIR, nights:DIR, or several joined by +.",
    ),
]
ImagesRoot = Annotated[
    Path | None, typer.Option(help="What paths in JSON lines are relative to; by default the file's folder.")
]


@app.command()
def check(
    spec: Source,
    images_root: ImagesRoot = None,
    images: Annotated[bool, typer.Option("--images/--no-images", help="Also decode every picture.")] = True,
    refused: Annotated[Path | None, typer.Option(help="File for everything that is refused, as JSON lines.")] = None,
    show: Annotated[int, typer.Option(min=0, help="How many refusals to show here.")] = 10,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads; by default one a processor.")] = None,
) -> None:
    """Count what a source holds, as Table 1 of the paper does, and tell all that cannot be used and why.

    Ends with status 1 if something is refused.
    """
    from train.judgements import load_judgements
    from train.judgements.picture_check import distinct_pictures, undecodable
    from train.judgements.statistics import count_judgements

    found = load_judgements(spec, images_root=images_root, allow_refusals=True)
    refusals = list(found.refusals)
    if images:
        with ProgressBar(total=len(distinct_pictures(found)), desc="pictures", unit=" pictures") as bar:
            refusals += undecodable(found, workers=workers, on_picture=bar.update)
    console = Console()
    rows = count_judgements(found)
    for kind in dict.fromkeys(row.kind for row in rows):
        console.print(_counts_table(f"{found.name}: {kind}", [row for row in rows if row.kind == kind]))
    if found.dropped:
        console.print(_dropped_table(found.dropped))
    if refused is not None:
        lines = [json.dumps({"where": one.where, "reason": one.reason}, ensure_ascii=False) + "\n" for one in refusals]
        refused.write_text("".join(lines), encoding="utf-8")
    if refusals:
        _show_refusals(console, refusals, show, refused)
        raise typer.Exit(1)
    console.print("nothing is refused" if images else "nothing is refused; pictures were found, but not decoded")


@app.command()
def export(
    spec: Source,
    out: Annotated[
        Path,
        typer.Option(
            help="FOLDER/NAME.jsonl for JSON lines with pictures beside them, or FOLDER for shards; new or empty."
        ),
    ],
    images_root: ImagesRoot = None,
    per_shard: Annotated[int, typer.Option(min=1, help="Triplets in a shard, at most.")] = 1000,
) -> None:
    """Write the judgements of any source as JSON lines in the authors' layout, or as shards; whole or not at all."""
    from train.judgements import load_judgements
    from train.judgements.export import export_judgements
    from train.judgements.statistics import count_judgements

    found = load_judgements(spec, images_root=images_root)
    counts = count_judgements(found)
    total = sum(row.items for row in counts if row.subset is not None)
    with ProgressBar(total=total, desc="triplets", unit=" triplets") as bar:
        folder = export_judgements(found, out, per_shard=per_shard, on_item=bar.update)
    typer.echo(f"wrote {len(found.judgements):,} judgements on {total:,} triplets to {folder}")


def _counts_table(title: str, rows: Sequence[SubsetCounts]) -> Table:
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("subset", overflow="fold")
    for column in ("triplets", "triplet-\naspects", "aspects", "human\nvotes", "pictures", "consensus\n%"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            Text("total" if row.subset is None else row.subset or "–"),
            f"{row.items:,}",
            f"{row.judgements:,}",
            f"{row.aspects:,}",
            "unknown" if row.votes is None else f"{row.votes:,}",
            f"{row.pictures:,}",
            f"{100 * row.consensus.mean:.1f}",
            style="bold" if row.subset is None else "",
        )
    return table


def _dropped_table(dropped: Mapping[str, int]) -> Table:
    table = Table("count", "rule", title="dropped by rule", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for rule, count in dropped.items():
        table.add_row(f"{count:,}", Text(rule))
    return table


def _show_refusals(console: Console, refusals: Sequence[Refusal], show: int, refused: Path | None) -> None:
    console.print(f"{len(refusals):,} refused:", style="bold red")
    for one in refusals[:show]:
        console.print(Text(f"  {one.where}: {one.reason}"), soft_wrap=True)
    if len(refusals) > show:
        listed = f"all are in {refused}" if refused else "for all of them: --refused FILE"
        console.print(Text(f"  and {len(refusals) - show:,} more; {listed}"), soft_wrap=True)
