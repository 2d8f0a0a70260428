"""The command ``tpips-index add``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from indexer.building.build import build as build_index
from indexer.building.build_config import BuildConfig
from indexer.commands.build import build_lines
from indexer.commands.build_options import BatchSize, Progress, ShardSize
from indexer.commands.interruption import interruptible
from indexer.commands.word_remarks import tell_word_remarks
from indexer.directory import IndexDirectoryError, read_manifest
from indexer.given_path import given_path
from indexer.sources.folder import DEFAULT_SHARD_SIZE

__all__ = ["add"]


def add(
    directory: Annotated[Path, typer.Argument(help="The index directory.")],
    data: Annotated[str, typer.Option(help="Where the pictures are, as for build.")],
    prefix: Annotated[
        str | None,
        typer.Option(
            help="What the keys of these pictures begin with, before a slash, so that none is another picture's; by "
            "default the name of their folder."
        ),
    ] = None,
    batch_size: BatchSize = 32,
    shard_size: ShardSize = DEFAULT_SHARD_SIZE,
    progress: Progress = True,
) -> None:
    """Index more pictures, from where the index's pictures are or from another place, under the same aspects.

    An index that keeps thumbnails gets those of the added pictures, too; tpips-index plan INDEX --data … tells
    beforehand what it takes. Who searches the index meanwhile sees it as it was, and the new pictures once it is opened
    or refreshed again.
    """
    folder = given_path(directory, what="the index", kind=IndexDirectoryError)
    read_manifest(folder)  # so that no index is made where there is none
    config = BuildConfig(
        out=folder,
        data=data,
        new_source=True,
        prefix=prefix,
        batch_size=batch_size,
        shard_size=shard_size,
        progress=progress,
    )
    with interruptible():
        tell_word_remarks(config)
        summary = build_index(config)
    for line in build_lines(summary, folder):
        typer.echo(line)
