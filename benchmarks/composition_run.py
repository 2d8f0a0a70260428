"""One run of the composition benchmark: every way asked every case, in turns, in this process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.composition_bandwidth import read_bandwidth
from benchmarks.composition_cases import Case, asked_cases, growth_cases, true_top
from benchmarks.composition_data import VectorFiles
from benchmarks.composition_entrants import EXACT, FAMILIES, GROWTH_FAMILIES, PER_FIELD, RIVAL_FAMILIES
from benchmarks.composition_fields import fields_of
from benchmarks.composition_memory import Resident, resident
from benchmarks.composition_ways import Setting, Way

__all__ = ["K", "Row", "measured_rows"]

K = 10
Row = dict[str, Any]


@dataclass
class _Seen:
    """What a way of a family did in a case, a number for each query."""

    family: str
    seconds: list[float] = field(default_factory=list)
    recalls: list[float] = field(default_factory=list)
    rescored: list[int] = field(default_factory=list)


def measured_rows(
    files: VectorFiles, aspects: int, *, growth: bool, queries: int, threads: int, rivals: bool, console: Console
) -> list[Row]:
    """Return a row for every way and case of one size.

    Args:
        files: Made already, with all aspects if ``growth``.
        aspects: How many are indexed and asked.
        growth: Also ask two aspects of two, and two of all.
        queries: How many a case has.
        threads: How many a query may use.
        rivals: Whether other systems take part.
        console: Where progress is told.
    """
    families = [
        name
        for name, family in FAMILIES.items()
        if (rivals or name not in RIVAL_FAMILIES) and files.items <= (family.most_items or files.items)
    ]
    cases = asked_cases(files, aspects, queries)
    rows = _asked_in_turns(files, cases, families, threads, console)
    if growth:
        rows += _asked_in_turns(files, growth_cases(files, queries), GROWTH_FAMILIES, threads, console)
    console.print("  memory")
    memory = resident(families, Setting(files, cases[0].indexed, threads))
    bytes_a_second, method = read_bandwidth(threads)
    console.print(f"  this machine reads {bytes_a_second / 1e9:.1f} GB/s ({method})")
    _add_ratios(rows, bytes_a_second)
    _add_memory(rows, memory, files.items * aspects)
    return rows


def _asked_in_turns(
    files: VectorFiles, cases: Sequence[Case], families: Sequence[str], threads: int, console: Console
) -> list[Row]:
    truth = true_top(files, cases, K, threads=threads)
    ways = {
        indexed: _built(Setting(files, indexed, threads), families, console)
        for indexed in dict.fromkeys(case.indexed for case in cases)
    }
    seen = [{way.name: _Seen(family) for family, way in ways[case.indexed]} for case in cases]
    for number in range(len(cases[0].queries)):
        for case, true_rows, of_case in zip(cases, truth, seen, strict=True):
            present = [(family, way) for family, way in ways[case.indexed] if number % FAMILIES[family].every == 0]
            # Another goes first each time, since each leaves the caches to the next.
            for step in range(len(present)):
                _, way = present[(step + number) % len(present)]
                if number == 0:  # warm up, and let it make what it makes but once
                    way.top(case.queries[number], K, case.selection)
                _ask(way, case, number, true_rows[number], of_case[way.name])
        if number % 20 == 19:
            console.print(f"  {number + 1} of {len(cases[0].queries)} queries of {len(cases)} cases")
    fields_of.cache_clear()
    return [
        _row(files, case, name, done, threads)
        for case, of_case in zip(cases, seen, strict=True)
        for name, done in of_case.items()
    ]


def _built(setting: Setting, families: Sequence[str], console: Console) -> list[tuple[str, Way]]:
    ways: list[tuple[str, Way]] = []
    for family in families:
        start = time.perf_counter()
        ways += [(family, build(setting)) for build in FAMILIES[family].builders]
        took = time.perf_counter() - start
        console.print(f"  built {family} over {len(setting.indexed)} aspects in {took:.1f} s")
    return ways


def _ask(way: Way, case: Case, number: int, true_rows: NDArray[np.int64], seen: _Seen) -> None:
    start = time.perf_counter()
    rows, rescored = way.top(case.queries[number], K, case.selection)
    seen.seconds.append(time.perf_counter() - start)
    seen.recalls.append(len(np.intersect1d(rows[:K], true_rows)) / max(1, len(true_rows)))
    if rescored is not None:
        seen.rescored.append(rescored)


def _row(files: VectorFiles, case: Case, name: str, seen: _Seen, threads: int) -> Row:
    return {
        "way": name,
        "case": case.name,
        "items": files.items,
        "indexed": len(case.indexed),
        "asked": len(case.queries[0].vectors),
        "dim": files.source.dim,
        "threads": threads,
        "queries": len(seen.seconds),
        "recall_at_10": statistics.mean(seen.recalls),
        "median_ms": statistics.median(seen.seconds) * 1e3,
        "least_ms": min(seen.seconds) * 1e3,
        "rescored": statistics.median(seen.rescored) if seen.rescored else None,
        "most_rescored": max(seen.rescored, default=None),
        "family": seen.family,
        "filtered": case.selection is not None,
    }


def _add_ratios(rows: list[Row], bytes_a_second: float) -> None:
    """Add each time over that of the exact scan and of FAISS per field, and the exact scan's over its reading."""
    times = {(row["way"], row["case"]): row["median_ms"] for row in rows}
    for row in rows:
        row["ratio_to_exact"] = row["median_ms"] / times[EXACT, row["case"]]
        per_field = times.get((PER_FIELD, row["case"]))
        row["ratio_to_per_field"] = None if per_field is None else row["median_ms"] / per_field
        if row["way"] == EXACT and not row["filtered"]:
            reading = row["items"] * row["asked"] * row["dim"] * 2 / bytes_a_second
            row["ratio_to_reading"] = row["median_ms"] / 1e3 / reading


def _add_memory(rows: list[Row], memory: dict[str, Resident], vectors: int) -> None:
    """Add the bytes held per item and aspect, where all that is indexed is asked."""
    for row in rows:
        own = memory[row["family"]]
        row["bytes_per_item_aspect"] = max(0, own.own) / vectors
        row["store_bytes_per_item_aspect"] = max(0, own.store) / vectors
