"""Figure 11 as a picture: agreement where people are at least so sure."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from tpips_model.errors import TpipsError
from tpips_model.extras import install_extra
from train.evaluation.figures import Curve

__all__ = ["PlotError", "check_plot", "plot_curves"]

SUFFIXES = (".png", ".pdf", ".svg")


class PlotError(TpipsError):
    """A plot that cannot be drawn."""


def check_plot(path: Path) -> None:
    """Refuse a plot that could not be written at the end.

    Raises:
        PlotError: matplotlib is missing, or the file's ending is not one of ``SUFFIXES``.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise PlotError(f"cannot plot to {path}; give a file that ends in {', '.join(SUFFIXES)}")
    if find_spec("matplotlib") is None:
        raise PlotError(f"--plot needs matplotlib, which is not installed: {install_extra('plot')}")


def plot_curves(curves: Sequence[Curve], path: Path) -> None:
    """Draw one panel a curve: each model's line, and people's own as the dotted one above.

    Args:
        curves: At least one.
        path: Where to write; its ending chooses the format.

    Raises:
        PlotError: See ``check_plot``.
    """
    check_plot(path)
    from matplotlib.figure import Figure  # no pyplot: nothing global, and no window

    figure = Figure(figsize=(5.0 * len(curves), 4.0), layout="constrained")
    panels = figure.subplots(1, len(curves), squeeze=False)[0]
    for panel, curve in zip(panels, curves, strict=True):
        panel.plot(curve.thresholds, 100 * curve.consensus, linestyle=":", color="black", label="human consensus")
        for model, values in curve.agreement.items():
            panel.plot(curve.thresholds, 100 * values, marker="o", markersize=3, label=model)
        panel.set_title(f"{curve.data}, {curve.kind}")
        panel.set_xlabel("share of raters who agree, at least")
        panel.set_ylabel("agreement, per cent")
        panel.grid(alpha=0.3)
        panel.legend(fontsize="small")
    figure.savefig(path, dpi=150)
