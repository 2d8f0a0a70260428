"""What inverted lists give up and what they save: recall at 10 and time against the share of the lists looked into.

Everything is by the codes of the same correlated aspects as ``composition.py``. Ratios are of medians, to a search of
all codes without lists, which is asked in turns with them in the same run; the table has those of processor time, which
other programs on the machine disturb less. A second set of lists, of overall alone, shows what lists of all aspects
together are worth.

    python -m benchmarks.lists                  # 200,000 × 3; --items N, --data DIR, --json FILE
    python -m benchmarks.lists --quick          # under a minute: 100,000 × 3, few queries, one set of lists
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import faiss
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.composition_cases import Case, Query, asked_cases, true_top
from benchmarks.composition_data import VectorFiles
from indexer.clustering import MAX_LISTS, ROWS_PER_LIST, Clustering, fit_projections
from indexer.lists import lists_for
from indexer.quantizer import TRAINING_ROWS, Quantizer
from search.approximate import ApproximateSearch
from search.joint_cache import JointCache
from search.joint_codes import JointCodes
from search.stored_codes import StoredCodes
from search.vectors import StoredVectors
from tpips_model.aspects import OVERALL

ASPECTS = 3
SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)
QUERIES, QUICK_QUERIES = 60, 20
K = 10
ALL, ONE = "all aspects", "overall alone"


@dataclass(eq=False)
class Seen:
    """What one way gave for one case."""

    seconds: list[float] = field(default_factory=list)
    worked: list[float] = field(default_factory=list)
    recalls: list[float] = field(default_factory=list)


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    faiss.omp_set_num_threads(arguments.threads)
    folder = nullcontext(str(arguments.data)) if arguments.data else tempfile.TemporaryDirectory()
    with folder as home:
        files = VectorFiles(Path(home), arguments.items)
        files.make(ASPECTS, threads=arguments.threads)
        rows = measured(files, arguments.lists, arguments.queries, threads=arguments.threads, one=not arguments.quick)
    console = Console(width=120)
    for made_of in dict.fromkeys(row["made_of"] for row in rows):
        console.print(_table([row for row in rows if row["made_of"] == made_of], arguments.items, str(made_of)))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def measured(
    files: VectorFiles, lists: int, queries: int, *, threads: int, one: bool
) -> list[dict[str, float | int | str]]:
    """Return a row for every case, share of the lists, and set of lists."""
    cases = _cases(files, queries)
    truth = true_top(files, cases, K, threads=threads)
    slugs = cases[0].indexed
    store = files.store(slugs)
    codes = _codes(store, files, slugs)
    plain = ApproximateSearch(store, JointCache(codes))
    rows: list[dict[str, float | int | str]] = []
    for made_of in (ALL, ONE) if one else (ALL,):
        numbers = _lists(store, slugs if made_of == ALL else (OVERALL.slug,), lists)
        listed = replace(codes, list_count=lists, lists=[numbers].copy)
        held = JointCodes(listed, slugs).nbytes / files.items / len(slugs)
        searches = ApproximateSearch(store, JointCache(listed))
        for case, true_rows in zip(cases, truth, strict=True):
            seen = _asked_in_turns(plain, searches, case, true_rows, lists, threads)
            usual = seen[None]
            rows += [
                {
                    "way": "all codes" if share is None else f"1/{1 / share:.0f}",
                    "made_of": made_of,
                    "case": case.name,
                    "lists": lists,
                    "share": 1.0 if share is None else share,
                    "recall_at_10": statistics.mean(of.recalls),
                    "ratio_to_codes": statistics.median(of.seconds) / statistics.median(usual.seconds),
                    "ratio_of_processor_time": statistics.median(of.worked) / statistics.median(usual.worked),
                    "bytes_per_item_aspect": held,
                }
                for share, of in seen.items()
            ]
    return rows


def _asked_in_turns(
    plain: ApproximateSearch,
    listed: ApproximateSearch,
    case: Case,
    truth: Sequence[NDArray[np.int64]],
    lists: int,
    threads: int,
) -> dict[float | None, Seen]:
    """Ask every query of every way, another one first each time; ``None`` stands for the codes without lists."""
    ways: tuple[float | None, ...] = (None, *SHARES)
    seen = {share: Seen() for share in ways}
    rows = None if case.selection is None else case.selection.rows
    for number, (query, true_rows) in enumerate(zip(case.queries, truth, strict=True)):
        for step in range(len(ways)):
            share = ways[(step + number) % len(ways)]
            search, nprobe = (plain, None) if share is None else (listed, max(1, round(share * lists)))
            for _again in range(2 if number == 0 else 1):  # the first time it makes what it makes but once
                start, begun = time.perf_counter(), time.process_time()
                top = search.top_k(query.vectors, K, rows=rows, nprobe=nprobe, threads=threads)
                took, worked = time.perf_counter() - start, time.process_time() - begun
            seen[share].seconds.append(took)
            seen[share].worked.append(worked)
            seen[share].recalls.append(len(np.intersect1d(top.rows, true_rows)) / max(1, len(true_rows)))
    return seen


def _cases(files: VectorFiles, queries: int) -> list[Case]:
    """Return the composition benchmark's cases that go by the codes, and one that does not ask overall."""
    cases = [case for case in asked_cases(files, ASPECTS, queries) if "5 %" not in case.name and "0.1" not in case.name]
    positive = cases[0]
    others = tuple(_without_overall(query) for query in positive.queries)
    by_content = next(case for case in asked_cases(files, ASPECTS, queries) if case.name.endswith("by content"))
    return [*cases, by_content, Case("overall not asked", positive.indexed, others)]


def _without_overall(query: Query) -> Query:
    return Query(
        {slug: vector for slug, vector in query.vectors.items() if slug != OVERALL.slug},
        tuple(one for one in query.fields if one.slug != OVERALL.slug),
    )


def _codes(store: StoredVectors, files: VectorFiles, slugs: Sequence[str]) -> StoredCodes:
    spread = np.unique(np.linspace(0, store.rows - 1, min(store.rows, TRAINING_ROWS)).astype(np.int64))
    quantizers = {slug: Quantizer.train(store.gather(slug, spread)) for slug in slugs}
    codes = {slug: [quantizers[slug].encode(part) for part in store.parts(slug)] for slug in slugs}
    return StoredCodes(files.part_rows, codes.__getitem__, quantizers.__getitem__, frozenset(slugs))


def _lists(store: StoredVectors, slugs: Sequence[str], count: int) -> NDArray[np.unsignedinteger]:
    """Return each row's list, made as the indexer makes them."""

    def spread(most: int) -> Mapping[str, NDArray[np.float64]]:
        rows = np.arange(min(most, store.rows)) * store.rows // min(most, store.rows)
        return {slug: store.gather(slug, rows) for slug in slugs}

    projections = fit_projections(spread(TRAINING_ROWS))
    sample = Clustering(projections, np.empty(0, np.float32)).project(spread(max(TRAINING_ROWS, ROWS_PER_LIST * count)))
    clustering = Clustering.train(projections, sample, count)
    parts = zip(*(store.parts(slug) for slug in slugs), strict=True)
    return np.concatenate([clustering.assign(dict(zip(slugs, part, strict=True))) for part in parts])


def _table(rows: Sequence[Mapping[str, float | int | str]], items: int, made_of: str) -> Table:
    held = float(rows[0]["bytes_per_item_aspect"])
    table = Table(
        "case",
        title=f"{items:,} items, {rows[0]['lists']:,} lists of {made_of}, {held:.1f} bytes an item and aspect; "
        "by the share looked into: recall at 10, processor time to that of all codes",
        title_justify="left",
    )
    ways = list(dict.fromkeys(str(row["way"]) for row in rows))
    for way in ways:
        table.add_column(way, justify="right")
    for case in dict.fromkeys(str(row["case"]) for row in rows):
        of_case = {str(row["way"]): row for row in rows if row["case"] == case}
        cells = [f"{of_case[way]['recall_at_10']:.3f} {of_case[way]['ratio_of_processor_time']:.2f}" for way in ways]
        table.add_row(case, *cells)
    return table


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--items", type=int, metavar="N", help="by default 200000")
    parser.add_argument("--lists", type=int, metavar="L", help="by default up to 4 times the square root of the items")
    parser.add_argument("--queries", type=int, metavar="Q", help=f"of each case; by default {QUERIES}")
    parser.add_argument("--threads", type=int, default=2, metavar="T", help="by default 2")
    parser.add_argument("--quick", action="store_true", help="under a minute: 100000 items, few queries, one set")
    parser.add_argument("--data", type=Path, metavar="DIR", help="keep the vectors there, and use what is there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    arguments = parser.parse_args()
    arguments.items = arguments.items or (100_000 if arguments.quick else 200_000)
    arguments.queries = arguments.queries or (QUICK_QUERIES if arguments.quick else QUERIES)
    arguments.lists = arguments.lists or lists_for(arguments.items)
    if arguments.threads < 1 or arguments.items < 1000 or not 1 <= arguments.lists <= min(MAX_LISTS, arguments.items):
        parser.error("give at least one thread and 1000 items, and at most as many lists as items")
    return arguments


if __name__ == "__main__":
    main()
