"""The commands of ``tpips-index`` that need no searching."""

from __future__ import annotations

import typer

from indexer.add_command import add
from indexer.build_command import build
from indexer.codes_command import codes
from indexer.compact_command import compact
from indexer.export_command import export
from indexer.import_command import import_embeddings
from indexer.info_command import info
from indexer.merge_command import merge
from indexer.plan_command import plan
from indexer.thumbnails_command import thumbnails
from indexer.verify_command import verify

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Index pictures once per aspect, and find them by it.")
app.command()(build)
app.command()(add)
app.command()(codes)
app.command()(info)
app.command()(compact)
app.command()(merge)
app.command()(export)
app.command()(import_embeddings)
app.command()(plan)
app.command()(thumbnails)
app.command()(verify)
