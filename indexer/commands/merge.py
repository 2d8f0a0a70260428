"""The command ``tpips-index merge``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from indexer.commands.interruption import interruptible
from indexer.merging.config import MergeConfig, MergeSummary
from indexer.merging.merge import merge_indices
from tpips_model.counted import counted

__all__ = ["merge"]


def merge(
    index: Annotated[list[Path], typer.Argument(help="The index directories, which are only read.")],
    out: Annotated[Path, typer.Option(help="The index directory to make.")],
    aspect: Annotated[
        list[str] | None,
        typer.Option(help="Take these aspects only, which all indices must have; may be given several times."),
    ] = None,
    prefix: Annotated[
        list[str] | None,
        typer.Option(
            help="What the keys of a further index begin with; given once for each index but the first, in their "
            "order. By default the names of their pictures' folders. Not used where an index before it has the same "
            "pictures' folder."
        ),
    ] = None,
    link: Annotated[
        bool, typer.Option("--link", help="Hard-link what stays as it is, instead of copying and checking it.")
    ] = False,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Make one index of several that one model made; or of all slices that build --shard-slice made.

    Neither the pictures nor the model are needed. Running the same command again goes on where it was stopped.
    """
    config = MergeConfig(
        indices=tuple(index),
        out=out,
        aspects=tuple(aspect or ()),
        prefixes=tuple(prefix or ()),
        link=link,
        progress=progress,
    )
    with interruptible():
        summary = merge_indices(config)
    for line in _lines(summary, out):
        typer.echo(line)


def _lines(summary: MergeSummary, out: Path) -> list[str]:
    where = shlex.quote(str(out))
    lines = [f"wrote {counted(summary.written, 'part')}" if summary.written else "nothing was missing"]
    if summary.repeats:
        told = counted(
            summary.repeats, "image was there already and is left out", "images were there already and are left out"
        )
        lines.append(f"{told}; which: tpips-index info --errors {where}")
    if summary.removed:
        lines.append(counted(summary.removed, "removed image is left out", "removed images are left out"))
    codes = [what for what in summary.left_out if what != "thumbnails"]
    if codes:
        lines.append(f"the indices' {' and '.join(codes)} differ; make new ones: tpips-index codes {where}")
    elif summary.needs_codes:
        lines.append(f"make codes for so many images, as a build does: tpips-index codes {where}")
    if "thumbnails" in summary.left_out:
        lines.append(f"the indices' thumbnails differ; make new ones: tpips-index thumbnails {where}")
    if summary.galleries:
        lines.append(f"pictures lie in {', '.join(map(str, summary.galleries))}; keep what the new index needs there")
    lines.append(f"{out} holds {counted(summary.images, 'image')}")
    return lines
