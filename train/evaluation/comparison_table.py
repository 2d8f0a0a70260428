"""The main table, in the shape of the paper's Table 3: models by type, columns by test set, the paper's rows beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from train.agreement import Estimate
from train.evaluation.figures import Figure, Points, figures_by
from train.evaluation.judges import ModelRow
from train.evaluation.paper_figures import MeanAndError, paper_figure, paper_rows
from train.judgements.two_afc_sources import two_afc_source

__all__ = ["Column", "ComparisonTable", "TableRow", "comparison_table", "table_columns"]

TYPES = ("Classic", "Triplet", "Early Fusion", "Mid-Fusion", "Late Fusion")
# Data sets of Table 4, and one that the paper has nothing to do with.
OTHER_SETS: Mapping[str, str | None] = {"bapps": "BAPPS", "nights": "NIGHTS", "procedural": None}

Mark = Literal["", "best", "second"]


@dataclass(frozen=True)
class Column:
    """One column of figures.

    Attributes:
        heading: What it is called.
        paper: The paper's column it stands beside, None where there is none.
        figure: What was measured.
    """

    heading: str
    paper: str | None
    figure: Figure


@dataclass(frozen=True)
class TableRow:
    """A model's row.

    Attributes:
        type: As in Table 3.
        label: The model's name, or the paper's family.
        size: Parameters.
        cells: One a column: mean and standard error in per cent, None where nothing was measured.
        marks: One a column: the best and the second best of its type.
        of_paper: Whether the figures are the paper's, on its own test sets.
    """

    type: str
    label: str
    size: str
    cells: tuple[MeanAndError | None, ...]
    marks: tuple[Mark, ...]
    of_paper: bool


@dataclass(frozen=True)
class ComparisonTable:
    """Columns and rows, models of a type together.

    Attributes:
        columns: What was measured.
        rows: By type, the paper's before this run's.
        consensus: Human consensus in each column.
        majority: The most that a model can reach in it.
    """

    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    consensus: tuple[MeanAndError, ...]
    majority: tuple[MeanAndError, ...]


def table_columns(points: Sequence[Points]) -> list[Column]:
    """Return a column for every subset and every data set, each kind of judgement apart."""
    columns = []
    many = len({one.data for one in points}) > 1
    for one in points:
        named = [subset for subset in dict.fromkeys(one.subsets) if subset]
        prefix = f"{one.data} " if many else ""
        papers = [two_afc_source(subset) for subset in named]
        if len(set(one.subsets)) > 1:
            for figure in figures_by(one, one.subsets):
                paper = two_afc_source(figure.part or "") if one.kind == "2afc" else None
                columns.append(Column(f"{prefix}{figure.part or 'no subset'}", paper, figure))
        known = {"bapps", "nights", "procedural"} & {one.data.split("-")[0]}
        if known:
            whole = OTHER_SETS[known.pop()]
        elif one.kind == "odd-one-out":
            whole = "Odd-One-Out"
        else:
            whole = "Total" if papers and all(papers) else None
        heading = "odd-one-out" if one.kind == "odd-one-out" else "2AFC"
        columns.append(Column(f"{prefix}{heading}", whole, figures_by(one)[0]))
    return columns


def comparison_table(
    columns: Sequence[Column], models: Mapping[str, ModelRow], *, paper: Literal["none", "counterparts", "all"]
) -> ComparisonTable:
    """Lay out the table.

    Args:
        columns: See ``table_columns``.
        models: Each model's name and place.
        paper: Which of the paper's rows stand beside this run's: those of the same type, family and size, or all that
            have a figure in a column.
    """
    rows: list[tuple[ModelRow, str, bool, tuple[MeanAndError | None, ...]]] = []
    names = [column.paper for column in columns]
    for row in paper_rows(names) if paper != "none" else []:
        if paper == "all" or row in models.values():
            rows.append((row, row.family, True, tuple(paper_figure(row, name) for name in names)))
    for name, row in models.items():
        cells = tuple(_per_cent(column.figure.agreement.get(name)) for column in columns)
        rows.append((row, name, False, cells))
    rows.sort(key=lambda entry: TYPES.index(entry[0].type))
    of_type = {kind: [cells for row, _, _, cells in rows if row.type == kind] for kind in TYPES}
    laid = tuple(
        TableRow(row.type, label, row.size, cells, _marks(cells, of_type[row.type]), of_paper)
        for row, label, of_paper, cells in rows
    )
    consensus = tuple(_required(column.figure.consensus) for column in columns)
    majority = tuple(_required(column.figure.majority) for column in columns)
    return ComparisonTable(tuple(columns), laid, consensus, majority)


def _marks(
    cells: tuple[MeanAndError | None, ...], rivals: Sequence[tuple[MeanAndError | None, ...]]
) -> tuple[Mark, ...]:
    marks: list[Mark] = []
    for place, cell in enumerate(cells):
        means = sorted({round(rival[place][0], 1) for rival in rivals if rival[place] is not None}, reverse=True)  # type: ignore[index]
        mine = None if cell is None else round(cell[0], 1)
        best: Mark = "best" if mine is not None and mine == means[0] else ""
        marks.append(best or ("second" if mine in means[1:2] else ""))
    return tuple(marks)


def _per_cent(value: Estimate | None) -> MeanAndError | None:
    return None if value is None else _required(value)


def _required(value: Estimate) -> MeanAndError:
    return 100 * value.mean, 100 * value.standard_error
