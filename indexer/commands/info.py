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
from tpips_model.terminal import printable

__all__ = ["info"]


def info(
    directory: Annotated[Path, typer.Argument(help="The index directory.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    verify: Annotated[
        bool, typer.Option(help="Also check checksums, vectors, items and codes; tpips-index verify checks more.")
    ] = False,
    errors: Annotated[
        bool, typer.Option("--errors", help="Also list every picture that could not be indexed, with its reason.")
    ] = False,
) -> None:
    """Tell what an index holds: model, source, aspects, pictures, and what could not be indexed."""
    index = IndexDirectory.open(directory, verify=verify)
    summary = summarise(index, read_vectors=verify)
    lines = index.errors().to_pylist() if errors else []
    if as_json:
        record = dataclasses.asdict(summary) | ({"error_lines": lines} if errors else {})
        typer.echo(json.dumps(record, indent=1, ensure_ascii=False))
        return
    console = Console()
    for table in _info_tables(summary):
        console.print(table)
    for line in lines:
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
        ("images", f"{summary.images:,} in {summary.parts:,} part{'s' if summary.parts != 1 else ''}"),
        *([("removed", f"{summary.removed:,}, stored still")] if summary.removed else []),
        ("errors", f"{summary.errors:,}"),
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
    if not summary.errors:
        return [facts, aspects]
    errors = Table("count", "reason", "such as", title="Not indexed, or not wholly", title_justify="left")
    for reason, count in summary.errors_by_reason.items():
        examples = ", ".join(summary.error_examples[reason])
        errors.add_row(f"{count:,}", Text(printable(reason)), Text(printable(examples), overflow="fold"))
    return [facts, aspects, errors]
