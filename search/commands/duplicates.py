"""The command ``tpips-index duplicates``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from indexer.commands.data_root import DataRoots, given_data_root
from indexer.commands.interruption import NOTHING_CHANGED, interruptible
from indexer.directory import IndexDirectory
from search.duplicates.groups import DuplicateGroup, DuplicateReport, find_duplicates
from search.terms import QueryError
from tpips_model.counted import counted
from tpips_model.terminal import printable

__all__ = ["duplicates"]

SHOWN_GROUPS = 20
SHOWN_KEYS = 5
SHOWN_UNREADABLE = 3


def duplicates(
    directory: Annotated[Path, typer.Argument(help="The index directory.")],
    cosine: Annotated[
        float, typer.Option(help="From which overall similarity on two images are near, above 0 and at most 1.")
    ] = 0.98,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    keys_only: Annotated[
        bool,
        typer.Option(
            "--keys-only",
            help="Print nothing but the keys of all but the first of each group, one a line, as tpips-index remove "
            "takes them.",
        ),
    ] = False,
    null: Annotated[
        bool,
        typer.Option("--null", "-0", help="End every key with a null character, since a key may hold line breaks."),
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"Print so many groups of each kind, the largest; by default {SHOWN_GROUPS} in a table and else all.",
            show_default=False,
        ),
    ] = None,
    data_root: DataRoots = None,
    progress: Annotated[bool, typer.Option(help="Show progress bars.")] = True,
) -> None:
    """Find images that are in the index more than once: the same bytes, or overall hardly to be told apart.

    Nothing is removed. The first of a group is the one of the most pixels, and everything else in it is near that one.
    """
    if null and not keys_only:
        raise typer.BadParameter("--null is for --keys-only")
    if as_json and keys_only:
        raise typer.BadParameter("give --json or --keys-only, not both")
    with interruptible(NOTHING_CHANGED):
        report = find_duplicates(
            IndexDirectory.open(directory, data_root=given_data_root(data_root)), cosine=cosine, progress=progress
        )
    if keys_only:
        keys = report.spare_keys(limit)
        broken = next((key for key in keys if "\n" in key or "\r" in key), None)
        if broken is not None and not null:
            raise QueryError(
                f"the key {broken!r} holds a line break, and would be taken for two; give --null here and to "
                "tpips-index remove"
            )
        for key in keys:
            typer.echo(key, nl=not null)
            if null:
                typer.echo("\0", nl=False)
        _tell_unread(report, err=True)  # standard output is for another program
    elif as_json:
        typer.echo(json.dumps(_as_json(report, limit), indent=1, ensure_ascii=False))
    else:
        _print(report, SHOWN_GROUPS if limit is None else limit, shlex.quote(str(directory)))


def _as_json(report: DuplicateReport, limit: int | None) -> dict[str, Any]:
    return {
        "items": report.items,
        "cosine": report.cosine,
        "identical": _kind_as_json(report.identical, limit),
        "near": None if report.near is None else _kind_as_json(report.near, limit),
        "exact": report.exact,
        "compared": report.compared,
        "unreadable": [{"key": key, "reason": reason} for key, reason in report.unreadable],
        "away": list(report.away),
        "without_picture": report.without_picture,
    }


def _kind_as_json(groups: Sequence[DuplicateGroup], limit: int | None) -> dict[str, Any]:
    return {
        "groups": len(groups),
        "spare_items": sum(len(group.keys) - 1 for group in groups),
        "spare_bytes": sum(group.saved for group in groups),
        "found": [
            {"keys": list(group.keys), "bytes": list(group.sizes), "cosines": list(group.cosines)}
            for group in groups[:limit]
        ],
    }


def _print(report: DuplicateReport, limit: int, index: str) -> None:
    console = Console()
    kinds = [("of the same bytes", report.identical)]
    if report.near is not None:
        kinds.append((f"overall similar by {report.cosine:g} or more", report.near))
    for words, groups in kinds:
        spare = sum(len(group.keys) - 1 for group in groups)
        saved = sum(group.saved for group in groups)
        typer.echo(
            f"{words}: {counted(len(groups), 'group')} among {counted(report.items, 'image')}; {spare:,} could go, "
            f"{counted(saved, 'byte')}"
        )
        if groups:
            console.print(_table(groups[:limit]))
        if len(groups) > limit:
            typer.echo(f"and {counted(len(groups) - limit, 'more group')} (--limit, or --json for all)")
    if report.near is None:
        typer.echo("the index has no overall vectors, so near images were not looked for")
    elif not report.exact:
        typer.echo("near images were found approximately, by the codes; a few may be missing")
    if report.without_picture:
        have = "has" if report.without_picture == 1 else "have"
        typer.echo(f"{counted(report.without_picture, 'image')} {have} vectors alone, so there are no bytes to compare")
    _tell_unread(report, err=False)
    if report.identical or report.near:
        typer.echo("to keep the first of each group only:")
        typer.echo(f"  tpips-index duplicates {index} --keys-only | tpips-index remove {index} --keys-from -")


def _tell_unread(report: DuplicateReport, *, err: bool) -> None:
    """Tell whose bytes were not compared, or would not have been."""
    if report.away:
        folders = printable(", ".join(report.away))
        typer.echo(
            f"no folder {folders}: no picture in it can be read, and those of different sizes were told apart by what "
            "the index says of them; say with --data-root where the pictures are now",
            err=err,
        )
    if report.unreadable:
        typer.echo(f"{len(report.unreadable):,} could not be read, so their bytes were not compared, such as:", err=err)
        for _, reason in report.unreadable[:SHOWN_UNREADABLE]:
            typer.echo(f"  {printable(reason)}", err=err)


def _table(groups: Sequence[DuplicateGroup]) -> Table:
    table = Table("stays", "could go")
    table.add_column("least cosine", justify="right")
    table.add_column("bytes", justify="right")
    for group in groups:
        others = ", ".join(group.keys[1 : SHOWN_KEYS + 1])
        more = len(group.keys) - 1 - SHOWN_KEYS
        shown = printable(others) + (f" and {more:,} more" if more > 0 else "")
        table.add_row(
            Text(printable(group.keys[0]), overflow="fold"),
            Text(shown, overflow="fold"),
            f"{min(group.cosines):.4f}",
            f"{group.saved:,}",
        )
    return table
