"""The bundled model's figures as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group
from rich.table import Table

from train.agreement import Estimate
from train.mini_figures import Bar, MiniEvaluation, factor_mean
from train.scenes import FACTORS

__all__ = ["evaluation_tables"]


def evaluation_tables(evaluation: MiniEvaluation) -> Group:
    """Return the bars, then every aspect's figures beside the plain backbone's."""
    return Group(_bar_table(evaluation.bars()), _factor_table(evaluation), _notes(evaluation))


def _bar_table(bars: list[Bar]) -> Table:
    table = Table("measured", title="The bundled model against its bars", title_justify="left")
    for name in ("figure", "bar", ""):
        table.add_column(name, justify="right")
    for bar in bars:
        sign = "≤" if bar.at_most else "≥"
        digits = 2 if bar.unit == "times" else 1
        verdict = "reached" if bar.reached else "missed"
        table.add_row(bar.name, f"{bar.figure:.{digits}f} {bar.unit}", f"{sign} {bar.bar:.{digits}f}", verdict)
    return table


def _factor_table(evaluation: MiniEvaluation) -> Table:
    table = Table("aspect", title="Per cent right, ± standard error (plain backbone in brackets)", title_justify="left")
    for name in ("held-out scenes", "held-out values", "retrieval P@10", "by lot", "edited photos", "cross-content"):
        table.add_column(name, justify="right")
    composites = [name for name in evaluation.scenes if name not in FACTORS]
    for aspect in (*FACTORS, *composites):
        retrieval, plain = evaluation.retrieval.get(aspect), evaluation.backbone_retrieval.get(aspect)
        table.add_row(
            aspect.replace("_", " "),
            _cell(evaluation.scenes, aspect, evaluation.backbone_scenes),
            _cell(evaluation.held_values, aspect),
            f"{100 * retrieval.by_penalty[0.0]:.1f} ({100 * plain.by_penalty[0.0]:.1f})" if retrieval and plain else "",
            f"{100 * retrieval.chance:.1f}" if retrieval else "",
            _cell(evaluation.photos, aspect, evaluation.backbone_photos),
            _cell(evaluation.cross_content, aspect),
            end_section=aspect == FACTORS[-1],
        )
    return table


def _cell(values: Mapping[str, Estimate], aspect: str, plain: Mapping[str, Estimate] | None = None) -> str:
    if aspect not in values:
        return ""
    value = values[aspect]
    beside = f" ({100 * plain[aspect].mean:.1f})" if plain else ""
    return f"{100 * value.mean:.1f} ± {100 * value.standard_error:.1f}{beside}"


def _notes(evaluation: MiniEvaluation) -> Table:
    table = Table(show_header=False, box=None)
    means = ", ".join(f"λ = {penalty}: {100 * mean:.1f}" for penalty, mean in evaluation.penalty_precision().items())
    table.add_row(f"Mean retrieval P@10 by overall penalty: {means}; best {evaluation.recommended_overall_penalty}")
    table.add_row(
        f"Same photograph preferred when the subject is asked: {100 * factor_mean(evaluation.cross_subject):.1f}"
    )
    plain = factor_mean(evaluation.backbone_scenes), factor_mean(evaluation.backbone_photos)
    table.add_row(f"Plain backbone: held-out scenes {100 * plain[0]:.1f}, edited photos {100 * plain[1]:.1f}")
    if evaluation.subject:
        unseen = 100 * evaluation.subject.unseen_words
        table.add_row(f"Same class in top 5 by words for the subject that training never saw: {unseen:.1f}")
    return table
