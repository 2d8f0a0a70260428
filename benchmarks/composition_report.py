"""The composition benchmark's figures as Markdown tables and as a plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.composition_entrants import OURS
from tpips_model.extras import install_extra

__all__ = ["markdown", "write_plot"]

Row = dict[str, Any]
PLOTTED = ("positive weights", "mixed signs", "filter 5 %, by content")


def markdown(rows: Sequence[Row]) -> str:
    """Return a section of Markdown for every size: recall, time and memory of every way, and the growth."""
    sizes = dict.fromkeys((row["items"], row["asked"]) for row in rows if row["asked"] == row["indexed"])
    sections = []
    for items, asked in sizes:
        of_size = [row for row in rows if (row["items"], row["indexed"], row["asked"]) == (items, asked, asked)]
        if not any(row["case"].startswith("2 asked of") for row in of_size):
            sections.append(_section(of_size))
    growth = [row for row in rows if row["case"].startswith("2 asked of")]
    if growth:
        sections.append(_growth(growth))
    return "\n\n".join(sections) + "\n"


def _section(rows: Sequence[Row]) -> str:
    cases = list(dict.fromkeys(row["case"] for row in rows))
    by_way = {
        way: {row["case"]: row for row in rows if row["way"] == way}
        for way in dict.fromkeys(row["way"] for row in rows)
    }
    first = rows[0]
    head = ["way", *cases, "ms", "× exact", "bytes"]
    recalls = [
        [
            way,
            *(f"{of_way[case]['recall_at_10']:.3f}" for case in cases),
            f"{of_way[cases[0]]['median_ms']:.1f}",
            f"{of_way[cases[0]]['ratio_to_exact']:.2f}",
            f"{of_way[cases[0]]['bytes_per_item_aspect']:.0f}",
        ]
        for way, of_way in by_way.items()
    ]
    times = [[way, *(f"{of_way[case]['median_ms']:.1f}" for case in cases)] for way, of_way in by_way.items()]
    reading = [row["ratio_to_reading"] for row in rows if row.get("ratio_to_reading")]
    return "\n\n".join(
        [
            f"**{_size(first)}, {first['threads']} threads.** Recall@10 by case; median ms with positive weights, and "
            "that over the exact scan's; resident bytes per item and aspect beside the mapped float16 store:",
            _table(head, recalls),
            "Median ms by case:",
            _table(["way", *cases], times),
            "The exact scan takes "
            + ", ".join(f"{ratio:.2f}" for ratio in reading)
            + " times as long as this machine needs to read the bytes (the unfiltered cases in order).",
        ]
    )


def _growth(rows: Sequence[Row]) -> str:
    lines = []
    for items, way in dict.fromkeys((row["items"], row["way"]) for row in rows):
        few, many = (row["median_ms"] for row in rows if (row["items"], row["way"]) == (items, way))
        lines.append([f"{items:,}", way, f"{few:.1f}", f"{many:.1f}", f"{many / few:.2f}"])
    names = list(dict.fromkeys(row["case"] for row in rows))
    return "Two aspects asked:\n\n" + _table(["items", "way", *(f"{name}, ms" for name in names), "ratio"], lines)


def _size(row: Row) -> str:
    return f"{row['items']:,} items × {row['asked']} aspects × {row['dim']} dims"


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines])


def write_plot(rows: Sequence[Row], path: Path) -> None:
    """Write recall@10 against time, a panel for each of three cases, at the largest size there is.

    Raises:
        SystemExit: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import LogLocator, NullFormatter
    except ModuleNotFoundError as error:
        raise SystemExit(f"--plot needs matplotlib: {install_extra('plot')}") from error

    full = [row for row in rows if row["case"] in PLOTTED]
    size = max((row["items"], row["asked"]) for row in full)
    figure = Figure(figsize=(12, 4.6), layout="constrained")
    panels = figure.subplots(1, len(PLOTTED), sharey=True)
    lines = dict.fromkeys(_line(row["way"]) for row in full if (row["items"], row["asked"]) == size)
    for panel, case in zip(panels, PLOTTED, strict=True):
        for number, line in enumerate(lines):
            points = [
                row
                for row in full
                if (row["items"], row["asked"]) == size and row["case"] == case and _line(row["way"]) == line
            ]
            panel.plot(
                [row["median_ms"] for row in points],
                [row["recall_at_10"] for row in points],
                marker="*" if line == OURS else "o",
                markersize=14 if line == OURS else 6,
                color=f"C{number}",
                label=line,
            )
        panel.set(title=case, xscale="log", xlabel="ms a query (median)", ylim=(-0.03, 1.04))
        panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.xaxis.set_major_formatter("{x:g}")
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("recall@10")
    figure.suptitle(_size(full[0] | {"items": size[0], "asked": size[1]}))
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize="small")
    figure.savefig(path, dpi=120)


def _line(way: str) -> str:
    """Return the name that the same way with another k′ shares."""
    before, fetched, after = way.partition(", k' = ")
    return before + ", " + after.partition(", ")[2] if fetched else way
