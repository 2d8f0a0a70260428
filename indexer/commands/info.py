"""The command ``tpips-index info``."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from indexer.directory import IndexDirectory
from indexer.index_summary import IndexSummary, summarise
from indexer.ledger_kinds import LedgerKind, ledger_kind
from tpips_model.counted import counted
from tpips_model.terminal import printable

__all__ = ["info"]

LEDGER_TITLES: dict[LedgerKind, str] = {
    "error": "Not indexed, or not wholly",
    "repeat": "Left out, since they were there already",
    "removed": "Removed",
}


def info(
    directory: Annotated[Path, typer.Argument(help="The index directory.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    verify: Annotated[
        bool, typer.Option(help="Also check checksums, vectors, items and codes; tpips-index verify checks more.")
    ] = False,
    errors: Annotated[
        bool,
        typer.Option(
            "--errors",
            help="Also list every picture that could not be indexed, was there already, or was removed, with its "
            "reason.",
        ),
    ] = False,
) -> None:
    """Tell what an index holds: model, source, aspects, pictures, and what could not be indexed."""
    index = IndexDirectory.open(directory, verify=verify)
    summary = summarise(index, read_vectors=verify)
    lines = [{**line, "kind": ledger_kind(line["reason"])} for line in index.errors().to_pylist()] if errors else []
    if as_json:
        record = dataclasses.asdict(summary) | ({"error_lines": lines} if errors else {})
        typer.echo(json.dumps(record, indent=1, ensure_ascii=False))
        return
    console = Console()
    for table in _info_tables(summary):
        console.print(table)
    for kind, title in LEDGER_TITLES.items():
        of_kind = [line for line in lines if line["kind"] == kind]
        if of_kind:
            console.print(Text(f"{title}: {len(of_kind):,}"))
        for line in of_kind:
            console.print(Text(printable(f"{line['key']}: {line['reason']}")), soft_wrap=True)
    if summary.complete_with is not None:
        console.print(Text(f"An aspect is incomplete; to complete it: {summary.complete_with}"), soft_wrap=True)
    for text in summary.same_vectors:
        console.print(Text(f"All images have the same vector under {text!r}: the model that made them is broken"))


def _info_tables(summary: IndexSummary) -> list[Table]:
    facts = Table(show_header=False, title="Index", title_justify="left")
    for name, value in (
        ("directory", summary.path),
        ("model", f"{summary.model}, {summary.dim} dimensions"),
        ("fingerprint", summary.fingerprint),
        ("recommended overall penalty", f"{summary.recommended_overall_penalty:g}"),
        ("source", summary.source),
        ("images", f"{summary.images:,} in {counted(summary.parts, 'part')}"),
        ("errors", f"{summary.errors:,}"),
        *([("repeats left out", f"{summary.repeats:,}")] if summary.repeats else []),
        *([("removed", _removed(summary))] if summary.removed or summary.removed_lines else []),
        ("lists", f"{summary.lists:,}, {summary.lists_bytes:,} bytes" if summary.lists_bytes else "none"),
    ):
        facts.add_row(name, Text(printable(value), overflow="fold"))
    aspects = Table("aspect", "folder", "bytes", "state", "codes", title="Aspects", title_justify="left")
    for aspect in summary.aspects:
        state = "complete" if aspect.complete else "incomplete"
        codes = f"{aspect.codes_bytes:,} bytes" + ("" if aspect.coded else ", incomplete")
        aspects.add_row(
            Text(aspect.text), Text(aspect.slug), f"{aspect.bytes:,}", state, codes if aspect.codes_bytes else "none"
        )
    tables = [facts, aspects]
    if summary.errors:
        tables.append(_reasons_table("error", summary.errors_by_reason, summary.error_examples))
    if summary.repeats:
        tables.append(_reasons_table("repeat", summary.repeats_by_reason, summary.repeat_examples))
    return tables


def _removed(summary: IndexSummary) -> str:
    told = [f"{summary.removed_lines:,} in the ledger"] if summary.removed_lines else []
    return ", ".join([*told, *([f"{summary.removed:,} stored still"] if summary.removed else [])])


def _reasons_table(kind: LedgerKind, counts: dict[str, int], examples: dict[str, list[str]]) -> Table:
    table = Table("count", "reason", "such as", title=LEDGER_TITLES[kind], title_justify="left")
    for reason, count in counts.items():
        shown = Text(printable(", ".join(examples[reason])), overflow="fold")
        table.add_row(f"{count:,}", Text(printable(reason)), shown)
    return table
