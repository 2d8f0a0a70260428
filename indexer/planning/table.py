"""A plan as people read it."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from indexer.planning.images import Count
from indexer.planning.plan import BuildPlan
from tpips_model.counted import counted
from tpips_model.terminal import printable

__all__ = ["plan_table"]


def plan_table(plan: BuildPlan) -> Table:
    """Return what a build would do, take and cost."""
    table = Table(show_header=False, title="What would be done", title_justify="left")
    for name, value in _lines(plan):
        table.add_row(name, Text(printable(value), overflow="fold"))
    return table


def _lines(plan: BuildPlan) -> list[tuple[str, str]]:
    lines = [
        ("index", plan.index),
        ("source", plan.source or "none: aspects are added"),
        ("model", f"{plan.model}, {plan.dim:,} dimensions"),
        ("aspects", ", ".join(plan.aspects)),
        ("already indexed", counted(plan.indexed, "image")),
        ("to index", f"{_count(plan.images)} in {counted(plan.shards, 'shard')}"),
    ]
    if plan.again:
        lines.append(("to embed again", f"{counted(plan.again, 'image')} under {', '.join(plan.added_aspects)}"))
    if plan.tokens is not None:
        each = f"{plan.tokens.vision:,.0f} of the picture and {plan.tokens.text:,} of words an image"
        total = f", {plan.total_tokens:,} in all" if plan.total_tokens is not None else ""
        lines.append(("tokens", each + total))
    return [*lines, *_speed_lines(plan), *_byte_lines(plan)]


def _speed_lines(plan: BuildPlan) -> list[tuple[str, str]]:
    if plan.speed is None:
        return [("speed", f"not measured: {plan.not_measured}")] if plan.not_measured else []
    embed = plan.speed.embed_seconds if plan.speed.embed_seconds is not None else plan.speed.again_seconds
    measured = (
        f"decoding {1000 * plan.speed.decode_seconds:,.1f} ms, embedding {1000 * (embed or 0.0):,.1f} ms an image"
    )
    return [
        ("measured", f"{measured}, on a sample of {plan.sample:,}"),
        ("speed", f"{plan.speed.images_per_s:,.1f} images/s a worker"),
        ("expected time", f"{_duration(plan.hours)} with {counted(plan.workers, 'worker')}"),
    ]


def _byte_lines(plan: BuildPlan) -> list[tuple[str, str]]:
    kinds = ", ".join(f"{name} {_bytes(size)}" for name, size in plan.bytes.items() if size)
    lines = [("finished index", f"{_bytes(plan.total_bytes)}: {kinds}")]
    if plan.new_bytes != plan.total_bytes:
        lines.append(("of it new", _bytes(plan.new_bytes)))
    lines.append(("free on its disk", _bytes(plan.free_bytes)))
    if plan.fetched_bytes != Count(0):
        size = plan.fetched_bytes.count
        told = "not known" if size is None else ("about " if plan.fetched_bytes.estimated else "") + _bytes(size)
        lines.append(("to fetch first", told))
    return lines


def _count(images: Count) -> str:
    if images.count is None:
        return "an unknown number of images"
    told = counted(images.count, "image")
    return f"about {told} (estimated by bytes)" if images.estimated else told


def _duration(hours: float | None) -> str:
    if hours is None:
        return "not known"
    if hours >= 1:
        return f"{hours:,.1f} hours"
    return f"{60 * hours:.1f} minutes" if hours >= 1 / 60 else f"{3600 * hours:.1f} seconds"


def _bytes(size: int) -> str:
    amount = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:,.0f} {unit}" if unit == "bytes" else f"{amount:,.1f} {unit}"
        amount /= 1000
    return f"{amount:,.1f} TB"
