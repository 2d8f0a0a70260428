"""Ctrl-C in the middle of long work: one line instead of a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from tpips_model.terminal import INTERRUPTED

__all__ = ["interruptible"]


@contextmanager
def interruptible() -> Iterator[None]:
    """End the command with one line when the block is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("interrupted; what is finished is kept, and the same command goes on from there", err=True)
        raise typer.Exit(INTERRUPTED) from None
