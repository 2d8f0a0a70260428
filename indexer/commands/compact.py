"""The command ``tpips-index compact``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from indexer.commands.interruption import interruptible
from indexer.compacting.compaction import Compaction, compact_parts
from indexer.directory import IndexDirectoryError, read_manifest
from indexer.given_path import given_path
from indexer.output_folder import output_folder
from tpips_model.counted import counted

__all__ = ["compact"]

ROWS = 65536


def compact(
    directory: Annotated[Path, typer.Argument(help="The index directory.")],
    rows: Annotated[
        int, typer.Option(min=1, help="Parts of one source are put together up to so many images a part.")
    ] = ROWS,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Put an index's small parts together, and give the room of removed images back.

    Answers stay as they are. Who searches the index meanwhile goes on with the old files, which are deleted once nobody
    reads them any more. Running the same command again goes on where it was stopped.
    """
    folder = given_path(directory, what="the index", kind=IndexDirectoryError)
    read_manifest(folder)  # so that no folder is made where there is no index
    with interruptible(), output_folder(folder) as index:
        assert index is not None
        done = compact_parts(index, rows=rows, progress=progress)
    for line in _lines(done):
        typer.echo(line)


def _lines(done: Compaction) -> list[str]:
    index = done.index
    lines = [_changed(done)]
    if done.dropped:
        stored = counted(done.dropped, "removed image is no longer stored", "removed images are no longer stored")
        lines[0] += f"; {stored}"
    if done.in_use:
        lines.append(
            "the old files stay until the programs that read the index as it was are done with it; the next command "
            "that writes to the index deletes them"
        )
    parts = counted(len(index.manifest.parts), "part")
    return [*lines, f"{index.path} holds {counted(index.live_count, 'image')} in {parts}"]


def _changed(done: Compaction) -> str:
    if not done.written:
        return "nothing to compact"
    if done.written == done.replaced:  # each by itself, without what was removed from it
        return f"wrote {counted(done.written, 'part')} anew"
    left = len(done.index.manifest.parts) - done.written
    others = (
        f", {left:,} {'was' if left == 1 else 'were'} left as {'it was' if left == 1 else 'they were'}" if left else ""
    )
    return f"{counted(done.replaced, 'part')} became {done.written:,}{others}"
