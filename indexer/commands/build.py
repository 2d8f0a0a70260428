"""The command ``tpips-index build``."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from indexer.building.build import build as build_index
from indexer.building.build_config import BuildConfig, BuildError, BuildSummary
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
from indexer.commands.interruption import interruptible
from indexer.commands.word_remarks import tell_word_remarks
from indexer.directory import MANIFEST_FILE
from indexer.sources.folder import DEFAULT_SHARD_SIZE
from tpips_model.counted import counted

__all__ = ["build", "build_lines"]

# From so many on it takes seconds to open an index and to answer the first query.
MANY_PARTS = 1000


def build(
    data: Data = None,
    aspect: AspectWords = None,
    out: Out = None,
    model: Model = None,
    max_pixels: MaxPixels = None,
    max_tokens_per_batch: MaxTokensPerBatch = None,
    batch_size: BatchSize = 32,
    shard_size: ShardSize = DEFAULT_SHARD_SIZE,
    codes: Codes = None,
    thumbnails: Thumbnails = None,
    engine: Annotated[
        str, typer.Option(help="Where pictures are embedded: local, processes of this machine, or ray, a cluster.")
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="How many processes embed; by default one for each GPU, else this one alone."),
    ] = None,
    ray_address: Annotated[
        str | None,
        typer.Option(help="The Ray cluster: auto, HOST:PORT or ray://HOST:PORT; by default one is started here."),
    ] = None,
    shard_slice: Annotated[
        str | None,
        typer.Option(
            help="Index the i-th of n slices of the data, as 2/8, to be put together by tpips-index merge.",
            metavar="I/N",
        ),
    ] = None,
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed", help="Also read again the pictures of --data that could not be indexed (info --errors)."
        ),
    ] = False,
    progress: Progress = True,
) -> None:
    """Index pictures under every aspect asked for, and under "overall".

    Running the same command again does only what is missing: pictures that are new, or aspects that were not there.

    For example: tpips-index build --aspect brushwork --data wikiart
    """
    index = chosen_index(data, out)
    begun = "going on with" if (index / MANIFEST_FILE).exists() else "making"

    def tell_index() -> None:
        if out is None:
            typer.echo(f"{begun} the index {index} (--out gives another place)")

    config = BuildConfig(
        out=index,
        data=data,
        aspects=tuple(aspect or ()),
        model=model,
        max_pixels=max_pixels,
        max_tokens_per_batch=max_tokens_per_batch,
        batch_size=batch_size,
        shard_size=shard_size,
        codes=codes,
        retry_failed=retry_failed,
        progress=progress,
        engine=engine,
        workers=workers,
        ray_address=ray_address,
        shard_slice=None if shard_slice is None else _slice(shard_slice),
        thumbnails=thumbnails,
    )
    with interruptible():
        tell_word_remarks(config)
        summary = build_index(config, on_accepted=tell_index)
    for line in build_lines(summary, index):
        typer.echo(line)


def _slice(given: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", given)
    if match is None:
        raise BuildError(f"--shard-slice {given!r} is no slice; give I/N, such as 2/8 for the second of eight")
    return int(match[1]), int(match[2])


def build_lines(summary: BuildSummary, out: Path) -> list[str]:
    """Return what to tell of a build that has ended."""
    lines = []
    where = shlex.quote(str(out))
    if summary.images or summary.parts:
        rate = summary.images / summary.seconds if summary.seconds else 0.0
        lines.append(f"indexed {counted(summary.images, 'image')} in {summary.seconds:.1f} s ({rate:.1f} images/s)")
    if summary.aspects_added:
        lines.append(f"added to the images there before: {', '.join(aspect.text for aspect in summary.aspects_added)}")
    if summary.aspects_coded:
        lines.append(f"made codes for approximate search: {', '.join(aspect.text for aspect in summary.aspects_coded)}")
    if summary.mended:
        lines.append(f"{summary.mended:,} that could not be indexed before, and now indexed or no longer there")
    if not lines:
        lines.append("nothing was missing")
    if summary.errors:
        what = counted(
            summary.errors,
            "could not be indexed, or not wholly, or was there already",
            "could not be indexed, or not wholly, or were there already",
        )
        lines.append(
            f"{what}; which and why: tpips-index info --errors {where}; once mended, the same command with "
            "--retry-failed reads them again"
        )
    if summary.changed or summary.vanished:
        lines.append(
            f"{counted(summary.changed, 'indexed image')} changed and {summary.vanished:,} vanished since; the index "
            f"keeps them as they were. Restore them; say where they are now: tpips-index moved {where} FOLDER; or "
            f"take them out: tpips-index remove {where} --vanished, or --changed --again and this command once more"
        )
    if summary.total_parts > MANY_PARTS:
        lines.append(
            f"the index has {summary.total_parts:,} parts, and opens and answers faster with fewer: "
            f"tpips-index compact {where}"
        )
    lines.append(f"{out} holds {counted(summary.total_images, 'image')}")
    return lines
