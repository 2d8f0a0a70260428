"""The command ``tpips-train convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["convert"]


def convert(
    source: Annotated[str, typer.Argument(help="A checkpoint of the authors' release: a directory or a hub id.")],
    out: Annotated[Path, typer.Argument(help="The directory to write; empty or not there yet.")],
) -> None:
    """Write a checkpoint of the authors' release as one of ours (config.json, safetensors, model card).

    The pickle in it is read by tensors alone and never executed; missing, unknown and mis-shaped tensors are an error
    that names them.
    """
    from tpips_model.qwen.conversion import convert_release_checkpoint

    written = convert_release_checkpoint(source, out)
    names = ", ".join(sorted(path.name for path in written.iterdir()))
    typer.echo(f"{written}: {names}")
