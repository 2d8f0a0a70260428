"""The evaluation as JSON: every figure, as a program reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from train.agreement import Estimate
from train.evaluation.comparison_table import table_columns
from train.evaluation.evaluate import Evaluation
from train.evaluation.figures import Curve, Figure, confidence_curve, figures_by
from train.evaluation.paper_figures import paper_figure

__all__ = ["results_json"]

FORMAT = 1


def results_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return all figures as values that ``json.dumps`` takes; shares in [0, 1], the paper's in per cent as printed."""
    models = {name: entry.row for name, entry in evaluation.models.items()}
    paper = [
        {"model": name, "column": column.heading, "paper_column": column.paper, "mean": found[0], "error": found[1]}
        for column in table_columns(evaluation.points)
        for name, row in models.items()
        if (found := paper_figure(row, column.paper)) is not None
    ]
    return {
        "format": FORMAT,
        "models": [{"name": name, **asdict(entry)} for name, entry in evaluation.models.items()],
        "data": [asdict(entry) | {"dropped": dict(entry.dropped)} for entry in evaluation.data],
        "total": [_figure(figures_by(points)[0]) for points in evaluation.points],
        "by_subset": [_figure(one) for points in evaluation.points for one in figures_by(points, points.subsets)],
        "by_aspect": [_figure(one) for points in evaluation.points for one in figures_by(points, points.aspects)],
        "by_confidence": [_curve(confidence_curve(points)) for points in evaluation.points],
        "qare": [asdict(one) | {"overall": one.overall} for one in evaluation.qare],
        "paper": paper,
    }


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "data": figure.data,
        "kind": figure.kind,
        "part": figure.part,
        "count": figure.consensus.count,
        "consensus": _estimate(figure.consensus),
        "majority": _estimate(figure.majority),
        "agreement": {model: _estimate(value) for model, value in figure.agreement.items()},
    }


def _estimate(value: Estimate) -> dict[str, float | None]:
    # JSON knows no NaN, which is the standard error of a single point.
    error = None if value.standard_error != value.standard_error else value.standard_error
    return {"mean": value.mean, "standard_error": error}


def _curve(curve: Curve) -> dict[str, Any]:
    agreement: Mapping[str, Any] = {model: values.tolist() for model, values in curve.agreement.items()}
    return {
        "data": curve.data,
        "kind": curve.kind,
        "thresholds": curve.thresholds.tolist(),
        "counts": curve.counts.tolist(),
        "consensus": curve.consensus.tolist(),
        "agreement": agreement,
    }
