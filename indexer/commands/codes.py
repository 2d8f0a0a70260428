"""The command ``tpips-index codes``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from indexer.clustering import MAX_LISTS
from indexer.codes import make_codes, outgrown, remove_codes
from indexer.commands.interruption import interruptible
from indexer.directory import IndexDirectory, IndexDirectoryError, read_manifest
from indexer.given_path import given_path
from indexer.index_codes import IndexCodes
from indexer.index_summary import codes_bytes, lists_bytes
from indexer.lists import LISTS_FROM_ROWS, lists_to_make, make_lists, remove_lists
from indexer.output_folder import output_folder
from tpips_model.aspects import Aspect
from tpips_model.counted import counted

__all__ = ["codes"]


def codes(
    directory: Annotated[Path, typer.Argument(help="The index directory.")],
    aspect: Annotated[
        list[str] | None, typer.Option(help="An indexed aspect; may be given several times. By default all.")
    ] = None,
    lists: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=MAX_LISTS,
            help="Also sort the images into so many inverted lists, of which a search looks into the nearest only; 0 "
            f"takes them away. By default up to 4 times the square root of the images, from {LISTS_FROM_ROWS:,} on.",
        ),
    ] = None,
    retrain: Annotated[
        bool,
        typer.Option("--retrain", help="Fit the codes, and lists, anew to the images that are in the index now."),
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take the codes away, and the lists with the last.")] = False,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Make what a large index needs for approximate search: half a byte for every four dimensions of a vector.

    Neither the pictures nor the model are needed. Running the same command again does only what is missing.
    """
    if retrain and remove:
        raise typer.BadParameter("give --retrain or --remove, not both")
    if (lists is not None and remove) or (lists == 0 and retrain):
        raise typer.BadParameter(f"give --lists or {'--remove' if remove else '--retrain'}, not both")
    folder = given_path(directory, what="the index", kind=IndexDirectoryError)
    read_manifest(folder)  # so that no folder is made where there is no index
    with interruptible(), output_folder(folder, checked=not remove and lists != 0) as index:
        assert index is not None
        if remove:
            removed = tuple(map(index.indexed_aspect, aspect)) if aspect else index.manifest.aspects
            index = remove_codes(index, removed)
            lines = [f"no codes any more under: {', '.join(one.text for one in removed)}"]
            if index.manifest.lists is not None and not index.manifest.quantizers:
                remove_lists(index)
                lines.append("no lists any more")
        elif lists == 0:
            remove_lists(index)
            lines = ["no lists any more"]
        else:
            asked = tuple(map(index.indexed_aspect, aspect)) if aspect else index.aspects
            index = make_codes(index, asked, retrain=retrain, progress=progress)
            anew = retrain and not aspect
            if count := lists_to_make(index.manifest, wanted=lists, anew=anew):
                index = make_lists(index, count, anew=anew, progress=progress)
            lines = [*_codes_lines(index, asked), *_lists_lines(index, lists)]
            where = shlex.quote(str(index.path))
            lines.append(
                f"search with them: tpips-index query {where} --term … --approximate, or in Python exact=False"
            )
    for line in lines:
        typer.echo(line)


def _codes_lines(index: IndexDirectory, aspects: Sequence[Aspect]) -> list[str]:
    lines = []
    for aspect in aspects:
        quantizer = IndexCodes(index).quantizer(aspect)
        lines.append(f"{aspect.text}: {quantizer.code_bytes:,} bytes an image, {codes_bytes(index, aspect):,} in all")
        if outgrown(quantizer, index.rows):
            lines[-1] += (
                f"; fitted to {quantizer.trained_on:,} of {counted(index.rows, 'image')} (--retrain fits them to all)"
            )
    return lines


def _lists_lines(index: IndexDirectory, asked: int | None) -> list[str]:
    count = index.manifest.list_count
    lines = []
    if asked is not None and count < asked:
        there = counted(index.rows, "image")
        are = "is" if index.rows == 1 else "are"
        lines.append(f"there {are} only {there}, so {counted(count, 'list')} instead of {asked:,}")
    if count:
        mean = counted(round(index.rows / count), "image")
        lines.append(f"{counted(count, 'list')} of {mean} in the mean, {lists_bytes(index):,} bytes in all")
    return lines
