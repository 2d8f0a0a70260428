"""The commands of ``tpips-index`` that need no searching."""

from __future__ import annotations

import typer

from indexer.build_command import build
from indexer.codes_command import codes
from indexer.info_command import info

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Index pictures once per aspect, and find them by it.")
app.command()(build)
app.command()(codes)
app.command()(info)
