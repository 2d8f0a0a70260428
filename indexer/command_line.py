"""The commands of ``tpips-index`` that need no searching."""

from __future__ import annotations

import typer

from indexer.commands.add import add
from indexer.commands.build import build
from indexer.commands.codes import codes
from indexer.commands.compact import compact
from indexer.commands.export import export
from indexer.commands.import_embeddings import import_embeddings
from indexer.commands.info import info
from indexer.commands.merge import merge
from indexer.commands.moved import moved
from indexer.commands.plan import plan
from indexer.commands.thumbnails import thumbnails
from indexer.commands.verify import verify

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Index pictures once per aspect, and find them by it.")
app.command()(build)
app.command()(add)
app.command()(codes)
app.command()(info)
app.command()(compact)
app.command()(merge)
app.command()(moved)
app.command()(export)
app.command()(import_embeddings)
app.command()(plan)
app.command()(thumbnails)
app.command()(verify)
