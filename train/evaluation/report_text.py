"""The evaluation as tables: for a terminal, as Markdown, and as LaTeX in the shape of Table 3."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from train.agreement import Estimate
from train.evaluation.comparison_table import ComparisonTable, comparison_table, table_columns
from train.evaluation.evaluate import Evaluation
from train.evaluation.figures import Curve, Figure, confidence_curve, figures_by
from train.evaluation.paper_figures import HUMAN_CONSENSUS, TABLE_5, MeanAndError
from train.evaluation.qare import QARE_ATTRIBUTES, QareFigures

__all__ = ["latex_table", "markdown_report", "print_tables", "terminal_tables"]

Style = Literal["terminal", "markdown", "latex"]
Rows = list[list[str]]

# How narrow a column of words, and one of figures with a long heading, may become in a terminal.
LEAST_WORDS, LEAST_HEADING = 16, 10

TITLE = "Agreement with people, per cent ± standard error"
CURVE_TITLE = "Where people are at least so sure (Figure 11)"
QARE_TITLE = "QARE-Bench: mAP in per cent, and AIS (Table 5)"
PAPER_NOTE = "Rows marked (paper) are the figures of its Tables 3 and 4, on its own test sets."
MARKS_NOTE = "Bold and underlined: best and second best of a type."
DASH = "–"
LATEX_SPECIAL = str.maketrans(
    {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "–": "--"}
    | {character: f"\\{character}" for character in "&%$#_{}"}
)
ESCAPES: dict[Style, Callable[[str], str]] = {
    "terminal": escape,
    "markdown": lambda text: text.replace("|", "\\|"),
    "latex": lambda text: text.translate(LATEX_SPECIAL),
}
EMPHASIS: dict[Style, dict[str, str]] = {
    "terminal": {"best": "[bold]{}[/bold]", "second": "[underline]{}[/underline]", "": "{}"},
    "markdown": {"best": "**{}**", "second": "<u>{}</u>", "": "{}"},
    "latex": {"best": r"\textbf{{{}}}", "second": r"\underline{{{}}}", "": "{}"},
}


def terminal_tables(evaluation: Evaluation, *, aspects: int = 20) -> list[Table]:
    """Return the tables for a terminal: data, agreement, each kind's most frequent aspects and curve, and QARE.

    Args:
        evaluation: What was measured.
        aspects: How many aspects are shown; Markdown and JSON have them all.
    """
    tables = [_rich("Data", _data_rows(evaluation, "terminal"))] if evaluation.data else []
    if evaluation.points:
        main = _main_table(evaluation, "counterparts")
        tables.append(_rich(TITLE, _agreement_rows(main, "terminal"), caption=_paper_note(main)))
    for points in evaluation.points:
        where = escape(f"{points.data}, {points.kind}")
        figures = sorted(figures_by(points, points.aspects), key=lambda figure: -figure.consensus.count)
        more = f" ({len(figures) - aspects} more)" if len(figures) > aspects else ""
        tables.append(_rich(f"By aspect: {where}{more}", _aspect_rows(figures[:aspects], "terminal")))
        tables.append(_rich(f"{CURVE_TITLE}: {where}", _curve_rows(confidence_curve(points), "terminal")))
    if evaluation.qare:
        tables.append(_rich(QARE_TITLE, _qare_rows(evaluation.qare, "terminal")))
    return tables


def print_tables(evaluation: Evaluation, console: Console, *, aspects: int = 20) -> None:
    """Print ``terminal_tables``; a table that the console is too narrow for runs over its edge and loses nothing."""
    for table in terminal_tables(evaluation, aspects=aspects):
        least = Measurement.get(console, console.options, table).minimum
        console.print(table, width=max(console.width, least), crop=False)


def markdown_report(evaluation: Evaluation) -> str:
    """Return all figures as Markdown, with every row of the paper's that they can be compared with."""
    parts = ["# Evaluation", *([_pipes(_data_rows(evaluation, "markdown"))] if evaluation.data else [])]
    if evaluation.points:
        main = _main_table(evaluation, "all")
        parts += [f"## {TITLE}", _pipes(_agreement_rows(main, "markdown")), f"{MARKS_NOTE} {_paper_note(main)}".strip()]
    for points in evaluation.points:
        where = f"{points.data}, {points.kind}"
        parts += [f"## By aspect: {where}", _pipes(_aspect_rows(figures_by(points, points.aspects), "markdown"))]
        parts += [f"## {CURVE_TITLE}: {where}", _pipes(_curve_rows(confidence_curve(points), "markdown"))]
    if evaluation.qare:
        parts += [f"## {QARE_TITLE}", _pipes(_qare_rows(evaluation.qare, "markdown"))]
    return "\n\n".join(parts) + "\n"


def latex_table(evaluation: Evaluation) -> str:
    """Return the agreement table as a LaTeX tabular (booktabs), in the shape of Table 3 and with the paper's rows."""
    main = _main_table(evaluation, "all")
    heading, *body = _agreement_rows(main, "latex")
    lines = [f"% {note}"] if (note := _paper_note(main)) else []
    lines += [rf"\begin{{tabular}}{{lll{'c' * len(main.columns)}}}", r"\toprule"]
    lines.append(" & ".join(heading) + r" \\")
    previous = None
    for cells in body:
        if cells[0] != previous:
            lines.append(r"\midrule")
        lines.append(" & ".join(cells) + r" \\")
        previous = cells[0]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _main_table(evaluation: Evaluation, paper: Literal["counterparts", "all"]) -> ComparisonTable:
    models = {name: entry.row for name, entry in evaluation.models.items()}
    return comparison_table(table_columns(evaluation.points), models, paper=paper)


def _paper_note(main: ComparisonTable) -> str:
    return PAPER_NOTE if any(row.of_paper for row in main.rows) else ""


def _agreement_rows(main: ComparisonTable, style: Style) -> Rows:
    plain = ESCAPES[style]
    rows = [["Type", "Family", "Size", *(plain(column.heading) for column in main.columns)]]
    rows.append(["Human", "consensus", "", *(plain(_cell(value)) for value in main.consensus)])
    rows.append(["Human", "majority", "", *(plain(_cell(value)) for value in main.majority)])
    printed = [HUMAN_CONSENSUS.get(column.paper or "") for column in main.columns]
    if any(row.of_paper for row in main.rows) and any(printed):
        cells = [DASH if value is None else f"{value:.1f}" for value in printed]
        rows.append(["Human", "consensus (paper)", "", *map(plain, cells)])
    rows.append(["Human", "judgements", "", *(f"{column.figure.consensus.count:,}" for column in main.columns)])
    for row in main.rows:
        cells = [
            EMPHASIS[style][mark].format(plain(_cell(cell))) for cell, mark in zip(row.cells, row.marks, strict=True)
        ]
        label = f"{row.label} (paper)" if row.of_paper else row.label
        rows.append([row.type, plain(label), plain(row.size), *cells])
    return rows


def _aspect_rows(figures: Sequence[Figure], style: Style) -> Rows:
    models = list(figures[0].agreement)
    rows = [["aspect", "judgements", "consensus", *map(ESCAPES[style], _short_names(models))]]
    for figure in figures:
        cells = [_cell(_per_cent(figure.agreement[model])) for model in models]
        name = ESCAPES[style](figure.part or "")
        rows.append([name, f"{figure.consensus.count:,}", _cell(_per_cent(figure.consensus)), *cells])
    return rows


def _curve_rows(curve: Curve, style: Style) -> Rows:
    rows = [["share of raters", "judgements", "consensus", *map(ESCAPES[style], _short_names(list(curve.agreement)))]]
    for place, threshold in enumerate(curve.thresholds):
        cells = [f"{100 * values[place]:.1f}" for values in (curve.consensus, *curve.agreement.values())]
        rows.append([f"≥ {threshold:.2f}", f"{curve.counts[place]:,}", *cells])
    return rows


def _qare_rows(figures: Sequence[QareFigures], style: Style) -> Rows:
    rows = [["model", *QARE_ATTRIBUTES, "all", "AIS"]]
    for one in figures:
        precisions = [one.mean_average_precision[name] for name in QARE_ATTRIBUTES] + [one.overall]
        cells = [f"{100 * value:.1f}" for value in precisions]
        rows.append([ESCAPES[style](one.model), *cells, f"{one.intra_image_similarity:.2f}"])
    for name, (objects, styles, backgrounds, overall, similarity) in TABLE_5.items():
        cells = [f"{value:.1f}" for value in (objects, backgrounds, styles, overall)]
        rows.append([f"{name} (paper)", *cells, f"{similarity:.2f}"])
    return rows


def _data_rows(evaluation: Evaluation, style: Style) -> Rows:
    rows = [["data", "items", "judgements", "refused", "left out by the rules"]]
    for one in evaluation.data:
        dropped = ", ".join(f"{count:,} × {rule}" for rule, count in one.dropped.items()) or DASH
        counts = [f"{count:,}" for count in (one.items, one.points, one.refused)]
        rows.append([ESCAPES[style](one.name), *counts, ESCAPES[style](dropped)])
    return rows


def _per_cent(value: Estimate) -> MeanAndError:
    return 100 * value.mean, 100 * value.standard_error


def _cell(value: MeanAndError | None) -> str:
    """Return "64.1 ± 0.2", or a dash; a single point has no standard error."""
    if value is None:
        return DASH
    mean, error = value
    return f"{mean:.1f}" if error != error else f"{mean:.1f} ± {error:.1f}"


def _shown(cell: str) -> str:
    return Text.from_markup(cell).plain


def _short_names(models: Sequence[str]) -> list[str]:
    """Return the last parts of paths, for headings, where they tell the models apart.

    >>> _short_names(["mini", "runs/late/best", "zero-shot:Qwen/Qwen3-VL-8B-Instruct"])
    ['mini', 'best', 'zero-shot:Qwen3-VL-8B-Instruct']
    >>> _short_names(["runs/late/best", "runs/mid/best"])
    ['runs/late/best', 'runs/mid/best']
    """
    short = []
    for name in models:
        prefix, colon, rest = name.rpartition(":")
        short.append(f"{prefix}{colon}{PurePath(rest).name}")
    return short if len(set(short)) == len(short) else list(models)


def _pipes(rows: Rows) -> str:
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _rich(title: str, rows: Rows, *, caption: str = "") -> Table:
    table = Table(title=title, title_justify="left", caption=caption or None, caption_justify="left", box=SIMPLE_HEAD)
    words = 3 if rows[0][0] == "Type" else 1
    for place, (heading, *cells) in enumerate(zip(*rows, strict=True)):
        longest = max(map(cell_len, map(_shown, cells)))
        # Headings and names fold where the terminal is narrow, figures never.
        least = min(longest, LEAST_WORDS) if place < words else max(longest, min(cell_len(heading), LEAST_HEADING))
        table.add_column(heading, justify="left" if place < words else "right", overflow="fold", min_width=least)
    for place, cells in enumerate(rows[1:], start=1):
        following = rows[place + 1][0] if place + 1 < len(rows) else cells[0]
        table.add_row(*cells, end_section=words == 3 and following != cells[0])
    return table
