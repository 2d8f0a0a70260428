"""The command ``tpips-index export``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from indexer.directory import IndexDirectory
from indexer.exporting.export import ROWS_PER_FILE, ExportSummary, export_index
from tpips_model.counted import counted
from tpips_model.terminal import INTERRUPTED

__all__ = ["export"]


def export(
    directory: Annotated[Path, typer.Argument(help="The index directory.")],
    to: Annotated[Path, typer.Option(help="The file or folder to write: a new one, or an empty folder.")],
    layout: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="parquet|npy|laion",
            help="parquet: one file. npy: a folder of one array an aspect. laion: a folder an aspect, as "
            "clip-retrieval and autofaiss read it.",
        ),
    ] = "parquet",
    aspect: Annotated[
        list[str] | None, typer.Option(help="An indexed aspect; may be given several times. By default all.")
    ] = None,
    dtype: Annotated[
        str,
        typer.Option(metavar="float16|float32", help="The type of the vectors; the index itself has float16."),
    ] = "float16",
    rows_per_file: Annotated[
        int, typer.Option(min=1, help="How many images a file of the layout laion holds.")
    ] = ROWS_PER_FILE,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Write keys, metadata and vectors for other programs, without the pictures and without what was removed.

    tpips-index import-embeddings makes an index of it again, with the same vectors to the last bit.
    """
    index = IndexDirectory.open(directory)
    try:
        summary = export_index(
            index, to, layout=layout, aspects=aspect or (), dtype=dtype, rows_per_file=rows_per_file, progress=progress
        )
    except KeyboardInterrupt:
        typer.echo("interrupted; nothing stays of the export", err=True)
        raise typer.Exit(INTERRUPTED) from None
    for line in _export_lines(summary, layout):
        typer.echo(line)


def _export_lines(summary: ExportSummary, layout: str) -> list[str]:
    names = ", ".join(aspect.text for aspect in summary.aspects)
    place = shlex.quote(str(summary.path))
    reads = {
        "parquet": "read it with pandas, DuckDB or pyarrow",
        "npy": "read it with numpy.load(…, mmap_mode='r')",
        "laion": "each folder in it is one that autofaiss and clip-retrieval read",
    }
    return [
        f"wrote {counted(summary.items, 'image')} under {names} to {place}: {summary.bytes:,} bytes",
        f"{reads[layout]}; an index of it again: tpips-index import-embeddings --from {place} --out …",
    ]
