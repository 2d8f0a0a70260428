"""The command ``tpips-index verify``."""

from __future__ import annotations

import dataclasses
import json
import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from indexer.commands.data_root import DataRoots, given_data_root
from indexer.commands.interruption import NOTHING_CHANGED, interruptible
from indexer.verifying.verify import Verification, VerifyConfig
from indexer.verifying.verify import verify as verify_index
from tpips_model.terminal import printable

__all__ = ["verification_table", "verify"]

SHOWN_NOTES = 3


def verify(
    directory: Annotated[Path, typer.Argument(help="The index directory.")],
    sample: Annotated[
        int, typer.Option(min=1, help="How many items are decoded and embedded again, spread over all parts.")
    ] = 32,
    model: Annotated[
        str | None, typer.Option(help="The model that made the index, if not where the index says.")
    ] = None,
    data_root: DataRoots = None,
    no_model: Annotated[
        bool, typer.Option("--no-model", help="Do without the model: the sample is decoded, and not embedded again.")
    ] = False,
    tolerance: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="How far the cosine of a vector made again may be below 1."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    progress: Annotated[bool, typer.Option(help="Show progress bars.")] = True,
) -> None:
    """Check everything about an index that can be checked; the exit status is 1 if anything is wrong.

    Every file is read. Nothing is written, and other programs may use the index meanwhile.
    """
    if no_model and model is not None:
        raise typer.BadParameter("give --model or --no-model, not both")
    config = VerifyConfig(
        index=directory,
        sample=sample,
        model=model,
        use_model=not no_model,
        data_root=given_data_root(data_root),
        tolerance=tolerance,
        progress=progress,
    )
    with interruptible(NOTHING_CHANGED):
        found = verify_index(config)
    if as_json:
        record = {**dataclasses.asdict(found), "ok": found.ok}
        typer.echo(json.dumps(record, indent=1, ensure_ascii=False))
    else:
        _print(found)
    if not found.ok:
        raise typer.Exit(1)


def _print(found: Verification) -> None:
    console = Console()
    console.print(verification_table(found))
    for check in found.checks:
        for text in (*check.failures, *check.notes[:SHOWN_NOTES]):
            console.print(Text(printable(f"{check.name}: {text}")), soft_wrap=True)
        if len(check.notes) > SHOWN_NOTES:
            console.print(Text(f"{check.name}: {len(check.notes) - SHOWN_NOTES:,} more (--json lists them)"))
        if check.failed > len(check.failures):
            console.print(Text(f"{check.name}: {check.failed - len(check.failures):,} more"))
    if found.ok:
        console.print(Text("nothing wrong was found"))
    else:
        failed = ", ".join(check.name for check in found.checks if check.state == "failed")
        again = f"tpips-index verify {shlex.quote(found.index)}"
        console.print(
            Text(f"failed: {failed}. Copy the index again if it is a copy, or build it anew; then: {again}"),
            soft_wrap=True,
        )


def verification_table(found: Verification) -> Table:
    """Return the checks as a table: name, result, and what was looked at or why it was not."""
    table = Table("check", "result", "what was looked at", title=found.index, title_justify="left")
    for check in found.checks:
        state = check.state if check.state != "failed" else f"failed: {check.failed:,}"
        colour = {"ok": "green", "failed": "bold red"}.get(check.state, "yellow")
        table.add_row(check.name, Text(state, style=colour), Text(printable(check.told), overflow="fold"))
    return table
