"""The options that ``tpips-index build``, ``plan`` and ``add`` have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from indexer.codes import CODES_FROM_ROWS
from indexer.thumbnails import MAX_SIDE, MIN_SIDE

__all__ = [
    "AspectWords",
    "BatchSize",
    "Codes",
    "Data",
    "MaxPixels",
    "MaxTokensPerBatch",
    "Model",
    "Out",
    "Progress",
    "ShardSize",
    "Thumbnails",
]

Data = Annotated[
    str | None,
    typer.Option(
        help="Where the pictures are: folder:PATH, webdataset:PATTERN such as shards/{000..127}.tar, parquet:PATTERN, "
        "csv:FILE, hf:ID, wikiart[:PATH], openimages[:PATH][?split=NAME], demo, or a bare path or address. Without it, "
        "aspects are added to the pictures of an index.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        help="The index directory to make or to go on with; by default the name of the data with -index behind it, in "
        "the current folder: wikiart-index, Pictures-index.",
        show_default=False,
    ),
]
AspectWords = Annotated[
    list[str] | None, typer.Option(help="A sense of similarity in any words; may be given several times.")
]
Model = Annotated[
    str | None,
    typer.Option(
        help="mini, or the directory or hub id of a Qwen3-VL model; by default that of the index, or mini for a "
        "new one."
    ),
]
MaxPixels = Annotated[
    int | None,
    typer.Option(min=1, help="Shrink larger pictures to this area for a Qwen3-VL model (32 x 32 are one token)."),
]
MaxTokensPerBatch = Annotated[
    int | None, typer.Option(min=1, help="Bound on the tokens that go through a Qwen3-VL model at once.")
]
BatchSize = Annotated[int, typer.Option(min=1, help="How many pictures are embedded at once.")]
ShardSize = Annotated[int, typer.Option(min=1, help="How many files of a folder, or rows of a table, become one part.")]
Codes = Annotated[
    bool | None,
    typer.Option(
        help=f"Make codes for approximate search; by default from {CODES_FROM_ROWS:,} images on, and where the index "
        "has some already."
    ),
]
Thumbnails = Annotated[
    int | None,
    typer.Option(
        min=MIN_SIDE,
        max=MAX_SIDE,
        help="Keep a small picture of every item, of so many pixels at most, so that the index can be browsed away "
        "from its images.",
    ),
]
Progress = Annotated[bool, typer.Option(help="Show a progress bar.")]
