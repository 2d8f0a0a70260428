"""The command ``tpips-index plan``."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from indexer.building.build_config import BuildConfig
from indexer.commands.build_options import (
    AspectWords,
    BatchSize,
    Codes,
    Data,
    MaxPixels,
    MaxTokensPerBatch,
    Model,
    Out,
    Progress,
    ShardSize,
    Thumbnails,
)
from indexer.commands.default_index import chosen_index
from indexer.commands.interruption import NOTHING_CHANGED, interruptible
from indexer.commands.word_remarks import tell_word_remarks
from indexer.directory import IndexDirectoryError, read_manifest
from indexer.given_path import given_path
from indexer.planning.plan import plan_build
from indexer.planning.table import plan_table
from indexer.planning.work import FEWEST_SAMPLES, MOST_SAMPLES, PlanConfig
from indexer.sources.folder import DEFAULT_SHARD_SIZE
from tpips_model.terminal import printable

__all__ = ["plan"]


def plan(
    directory: Annotated[
        Path | None,
        typer.Argument(
            metavar="INDEX",
            help="An index, to plan what add does with the pictures of --data; without it, what build does.",
            show_default=False,
        ),
    ] = None,
    data: Data = None,
    aspect: AspectWords = None,
    out: Out = None,
    model: Model = None,
    workers: Annotated[int, typer.Option(min=1, help="Among how many workers the work will be shared.")] = 1,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"How many pictures are read and embedded to measure; by default a tenth of them, {FEWEST_SAMPLES} to "
            f"{MOST_SAMPLES}.",
            show_default=False,
        ),
    ] = None,
    max_pixels: MaxPixels = None,
    max_tokens_per_batch: MaxTokensPerBatch = None,
    batch_size: BatchSize = 32,
    shard_size: ShardSize = DEFAULT_SHARD_SIZE,
    codes: Codes = None,
    thumbnails: Thumbnails = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    progress: Progress = True,
) -> None:
    """Tell what a build or an add would do, how long it would take and what would be on the disk, before it begins.

    Nothing is written. Of the pictures a sample is read, and nothing else is fetched but the model.
    """
    if directory is not None and out is not None:
        raise typer.BadParameter("give an index, as for add, or --out, as for build, not both")
    if directory is not None:
        index = given_path(directory, what="the index", kind=IndexDirectoryError)
        read_manifest(index)
    else:
        index = chosen_index(data, out)
    with interruptible(NOTHING_CHANGED):
        build = BuildConfig(
            out=index,
            data=data,
            new_source=directory is not None,
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
        tell_word_remarks(build)
        found = plan_build(PlanConfig(build, sample=sample))
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(found), indent=1, ensure_ascii=False))
        return
    console = Console()
    console.print(plan_table(found))
    for warning in found.warnings:
        console.print(Text(printable(f"note: {warning}")), soft_wrap=True)
