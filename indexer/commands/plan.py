"""The command ``tpips-index plan``."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from indexer.building.build_config import BuildConfig
from indexer.commands.interruption import interruptible
from indexer.planning.plan import plan_build
from indexer.planning.table import plan_table
from indexer.planning.work import PlanConfig
from indexer.sources.folder import DEFAULT_SHARD_SIZE
from indexer.thumbnails import MAX_SIDE, MIN_SIDE
from tpips_model.terminal import printable

__all__ = ["plan"]


def plan(
    data: Annotated[
        str | None, typer.Option(help="Where the pictures are, as for build; without it, aspects are added to --out.")
    ] = None,
    aspect: Annotated[
        list[str] | None, typer.Option(help="A sense of similarity in any words; may be given several times.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The index directory: what it has already is not planned again, and its disk is looked at."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="As for build: that of the index, or mini.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Among how many workers the work will be shared.")] = 1,
    sample: Annotated[int, typer.Option(min=1, help="How many pictures are read and embedded to measure.")] = 32,
    max_pixels: Annotated[
        int | None, typer.Option(min=1, help="Shrink larger pictures to this area for a Qwen3-VL model.")
    ] = None,
    max_tokens_per_batch: Annotated[
        int | None, typer.Option(min=1, help="Bound on the tokens that go through a Qwen3-VL model at once.")
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="How many pictures are embedded at once.")] = 32,
    shard_size: Annotated[
        int, typer.Option(min=1, help="How many files of a folder, or rows of a table, become one part.")
    ] = DEFAULT_SHARD_SIZE,
    codes: Annotated[bool | None, typer.Option(help="As for build.")] = None,
    thumbnails: Annotated[
        int | None,
        typer.Option(min=MIN_SIDE, max=MAX_SIDE, help="Also small pictures of so many pixels, as for build."),
    ] = None,
    new_source: Annotated[
        bool, typer.Option("--new-source", help="The pictures are to be added to an index of others, as by add.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Tell what a build would do, how long it would take and what would be on the disk, before it begins.

    Nothing is written. Of the pictures a sample is read, and nothing else is fetched but the model.
    """
    with interruptible():
        build = BuildConfig(
            out=out if out is not None else Path.cwd() / f".planned-{os.getpid()}",  # which is never made
            data=data,
            new_source=new_source,
            aspects=tuple(aspect or ()),
            model=model,
            max_pixels=max_pixels,
            max_tokens_per_batch=max_tokens_per_batch,
            batch_size=batch_size,
            shard_size=shard_size,
            codes=codes,
            workers=workers,
            thumbnails=thumbnails,
            progress=progress,
        )
        found = plan_build(PlanConfig(build, sample=sample))
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(found), indent=1, ensure_ascii=False))
        return
    console = Console()
    console.print(plan_table(found))
    for warning in found.warnings:
        console.print(Text(printable(f"note: {warning}")), soft_wrap=True)
