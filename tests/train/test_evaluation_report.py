"""The tables: Table 3's shape, the paper's figures beside ours, and nothing that breaks Markdown or LaTeX."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console

from tests.fixtures.judges import choosing_judge, comparing_judge, embedding_judge, judgement
from train.evaluation.comparison_table import comparison_table, table_columns
from train.evaluation.curve_plot import PlotError, check_plot, plot_curves
from train.evaluation.evaluate import Evaluation, evaluate_judges
from train.evaluation.figures import confidence_curve
from train.evaluation.judges import ModelRow
from train.evaluation.paper_figures import TABLE_3, TABLE_5, paper_figure, paper_rows
from train.evaluation.report_text import latex_table, markdown_report, print_tables
from train.evaluation.results_json import results_json
from train.judgements import JudgementSet

SOURCES = ("editing", "composite", "NVS", "im_to_3d")


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    """The paper's two test sets in small, and BAPPS."""
    odd = [judgement([0, 10 + n, 200], (0.2, 0.0, 0.8), aspect=word) for n, word in enumerate(("mood", "pose|x_y"))]
    two = [
        judgement([0, 20, 100 + n], (1.0, 0.0) if n % 2 else (0.4, 0.6), subset=source)
        for n, source in enumerate(SOURCES * 2)
    ]
    patches = [judgement([0, 5, 50 + n], (0.6, 0.4), aspect="overall", subset="cnn") for n in range(3)]
    sets = [
        JudgementSet(tuple(odd), name="ooo_test"),
        JudgementSet(tuple(two), name="ood", dropped={"tie": 3}),
        JudgementSet(tuple(patches), name="bapps"),
    ]
    return evaluate_judges([choosing_judge(), comparing_judge(name="our_early"), embedding_judge()], sets)


def test_the_papers_tables_are_whole() -> None:
    assert sum(map(len, TABLE_3.values())) == 38
    assert all(len(figures) == 6 for models in TABLE_3.values() for figures in models.values())
    assert paper_figure(ModelRow("Early Fusion", "Ours", "8B"), "Total") == (79.3, 0.5)
    assert paper_figure(ModelRow("Triplet", "Ours", "8B"), "Total") is None
    assert paper_figure(ModelRow("Late Fusion", "Ours", "8B"), "NIGHTS") == (94.0, 0.6)
    assert paper_figure(ModelRow("Late Fusion"), "Total") is None
    assert paper_figure(ModelRow("Late Fusion", "Ours", "8B"), None) is None
    assert len(paper_rows(["BAPPS"])) == 4
    assert len(paper_rows(["Odd-One-Out"])) == 38
    queryable = [figures for name, figures in TABLE_5.items() if not name.startswith("Vision Encoder")]
    assert all(math.isclose(sum(row[:3]) / 3, row[3], abs_tol=0.11) for row in queryable)


def test_columns_stand_beside_the_papers(evaluation: Evaluation) -> None:
    columns = table_columns(evaluation.points)
    assert [(column.heading, column.paper) for column in columns] == [
        ("ooo_test odd-one-out", "Odd-One-Out"),
        ("ood editing", "Editing"),
        ("ood composite", "Composite"),
        ("ood NVS", "NVS"),
        ("ood im_to_3d", "Im-to-3D"),
        ("ood 2AFC", "Total"),
        ("bapps 2AFC", "BAPPS"),
    ]
    assert [column.figure.consensus.count for column in columns] == [2, 2, 2, 2, 2, 8, 3]


def test_other_subsets_have_no_counterpart() -> None:
    pairs = [judgement([0, 5, 50 + n], (0.6, 0.4), subset=name) for n, name in enumerate(("editing", "video"))]
    triplets = [judgement([0, 5, 50], (0.6, 0.4, 0.0))]
    sets = [JudgementSet(tuple(pairs), name="mine"), JudgementSet(tuple(triplets), name="procedural")]
    columns = table_columns(evaluate_judges([embedding_judge()], sets).points)
    assert [column.paper for column in columns] == ["Editing", None, None, None]


def test_rows_are_by_type_and_marked_among_rivals(evaluation: Evaluation) -> None:
    models = {name: entry.row for name, entry in evaluation.models.items()}
    columns = table_columns(evaluation.points)
    counterparts = comparison_table(columns, models, paper="counterparts")
    assert [(row.type, row.label, row.of_paper) for row in counterparts.rows] == [
        ("Triplet", "Ours", True),
        ("Triplet", "triplets", False),
        ("Early Fusion", "Ours", True),
        ("Early Fusion", "our_early", False),
        ("Late Fusion", "vectors", False),
    ]
    paper, ours = counterparts.rows[2:4]
    assert paper.cells[0] == (64.7, 0.2)
    assert ours.cells[0] == pytest.approx((80.0, 0.0))
    assert (paper.marks[0], ours.marks[0]) == ("second", "best")
    assert counterparts.rows[1].cells[1:] == (None,) * 6  # 2AFC is not for a triplet head
    assert counterparts.rows[1].marks[1:] == ("",) * 6
    everything = comparison_table(columns, models, paper="all")
    assert len(everything.rows) == 38 + 3
    nvs = {row.label: row.marks[3] for row in everything.rows if row.type == "Late Fusion" and row.marks[3]}
    assert nvs == {"SteerViT": "best", "Ours": "best", "GeneCIS": "second"}  # 96.6 twice, then 96.3; "vectors" has 40
    assert len(comparison_table(columns, models, paper="none").rows) == 3


@pytest.mark.parametrize("width", [40, 200])
def test_the_terminal_shows_every_figure(evaluation: Evaluation, width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    print_tables(evaluation, console, aspects=1)
    shown = console.export_text()
    for words in ("our_early", "Ours (paper)", "64.7 ± 0.2", "80.0 ± 0.0", "≥ 0.80", "lighting"):
        assert words in shown
    assert "…" not in shown
    if width == 200:
        assert "on its own test sets" in shown
        assert "(1 more)" in shown


def test_markdown_holds_all_of_it(evaluation: Evaluation) -> None:
    text = markdown_report(evaluation)
    assert "| Human | consensus |  | 68.0 ± 0.0 |" in text
    assert "| Human | majority |  | 80.0 ± 0.0 |" in text
    assert "| Human | consensus (paper) |  | 67.5 | – |" in text
    assert "3 × tie" in text
    assert r"pose\|x_y" in text
    assert "| Late Fusion | VLM2Vec v2.0 (paper) | 2B |" in text
    for table in text.split("\n\n"):
        rows = [line.replace(r"\|", "") for line in table.splitlines() if line.startswith("|")]
        assert len({row.count("|") for row in rows}) <= 1


def test_latex_has_the_shape_of_table_3(evaluation: Evaluation) -> None:
    lines = latex_table(evaluation).splitlines()
    rows = [line for line in lines if line.endswith(r"\\")]
    assert len(rows) == 1 + 4 + 41
    assert {line.count("&") - line.count(r"\&") for line in rows} == {9}
    (ours,) = [row for row in rows if "our\\_early" in row]
    assert ours.startswith(r"Early Fusion & our\_early & 8B & \textbf{80.0 $\pm$ 0.0} & ")
    assert sum(line == r"\midrule" for line in lines) == 6  # consensus, and the five types
    assert "±" not in "".join(lines)
    assert "–" not in "".join(lines)


def test_json_is_whole_and_plain(evaluation: Evaluation) -> None:
    text = json.dumps(results_json(evaluation), allow_nan=False)
    found = json.loads(text)
    assert [model["name"] for model in found["models"]] == ["triplets", "our_early", "vectors"]
    (total,) = [figure for figure in found["total"] if figure["data"] == "ooo_test"]
    assert total["agreement"]["our_early"] == pytest.approx({"mean": 0.8, "standard_error": 0.0})
    assert total["consensus"]["mean"] == pytest.approx(0.68)
    assert {figure["part"] for figure in found["by_aspect"]} == {"mood", "pose|x_y", "lighting", "overall"}
    single = [figure for figure in found["by_aspect"] if figure["count"] == 1]
    assert single[0]["consensus"]["standard_error"] is None
    assert {"model": "our_early", "column": "ood 2AFC", "paper_column": "Total", "mean": 79.3, "error": 0.5} in found[
        "paper"
    ]
    assert found["by_confidence"][1]["thresholds"] == [0.6, 1.0]


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_curve_is_drawn(evaluation: Evaluation, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"curve{suffix}"
    plot_curves([confidence_curve(points) for points in evaluation.points], path)
    begins = {".png": b"\x89PNG", ".svg": b"<?xml"}
    assert path.read_bytes().startswith(begins[suffix])


def test_a_plot_that_cannot_be_drawn_is_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PlotError, match=r"cannot plot to curve\.txt; give a file that ends in \.png"):
        check_plot(Path("curve.txt"))
    monkeypatch.setattr("train.evaluation.curve_plot.find_spec", lambda name: None)
    with pytest.raises(PlotError, match=r"needs matplotlib.*tpips-retrieval\[plot\]"):
        check_plot(Path("curve.png"))
