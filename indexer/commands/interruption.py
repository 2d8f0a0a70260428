"""Ctrl-C in the middle of long work: one line instead of a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from tpips_model.terminal import INTERRUPTED

__all__ = ["NOTHING_CHANGED", "interruptible"]

_GOES_ON = "what is finished is kept, and the same command goes on from there"
# Of a command that only looks.
NOTHING_CHANGED = "nothing was changed"


@contextmanager
def interruptible(left: str = _GOES_ON) -> Iterator[None]:
    """End the command with one line when the block is interrupted.

    Args:
        left: What is then true of the work.
    """
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"interrupted; {left}", err=True)
        raise typer.Exit(INTERRUPTED) from None
