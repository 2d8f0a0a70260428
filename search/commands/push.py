"""The command ``tpips-index push``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from indexer import IndexDirectory
from indexer.commands.interruption import interruptible
from search.milvus.address import MilvusAddress
from search.milvus.push import FLAT_UP_TO_ROWS, INDEX_TYPES, push_index

__all__ = ["push"]


def push(
    directory: Annotated[Path, typer.Argument(help="The index directory.")],
    to: Annotated[
        str,
        typer.Argument(
            metavar="ADDRESS",
            help="milvus://HOST:19530/COLLECTION for a server, with ?db=NAME or ?tls=true as needed, or "
            "milvus:FILE.db/COLLECTION for Milvus Lite. The token, or user:password, is read from MILVUS_TOKEN.",
        ),
    ],
    aspect: Annotated[
        list[str] | None,
        typer.Option(
            help="An indexed aspect; may be given several times. By default all, which a server may refuse: it holds 4 "
            "in a collection as installed, and 10 at most."
        ),
    ] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="A column that came with the data; may be given several times. By default all."
        ),
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE",
            help=f"How the vectors are searched: {', '.join(INDEX_TYPES)}. By default flat, whose answers are proven, "
            f"in Milvus Lite and up to {FLAT_UP_TO_ROWS:,} pictures, and hnsw beyond.",
            show_default=False,
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Drop what an earlier push of something else made under this name.")
    ] = False,
    progress: Annotated[bool, typer.Option(help="Show a progress bar.")] = True,
) -> None:
    """Copy an index to Milvus, to be searched from anywhere; its pictures stay where they are.

    For example: tpips-index push index milvus://localhost:19530/paintings

    Running the same command again after a crash goes on where it stopped.
    """
    address = MilvusAddress.parse(to)
    with interruptible():
        pushed = push_index(
            IndexDirectory.open(directory),
            address,
            aspects=aspect,
            metadata=metadata,
            index_type=index,
            replace_old=replace,
            progress=progress,
        )
    if pushed.sent:
        typer.echo(f"{address} holds {pushed.rows:,} pictures, searched by {pushed.index_type}")
    else:
        typer.echo(f"{address} holds all {pushed.rows:,} pictures already")
    typer.echo(f"search them: tpips-index query {shlex.quote(to)} --term … or in Python Searcher.open({to!r})")
