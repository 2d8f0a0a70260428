"""Composed queries: recall, time and memory of our ways, of plain numpy, and of searching every field by itself.

Correlated synthetic aspects (``composition_data``), queries that compose several of them (``composition_cases``), truth
from a float64 product over all rows. Ways take turns, query by query, in one process with the same threads; with
--threads below the number of processors, the process keeps to that many of them. Memory is measured in a process for
each way (``composition_memory``). Ratios are of medians.

    python -m benchmarks.composition --quick                      # under a minute, seconds more for the first data
    python -m benchmarks.composition --items 100000 1000000 --aspects 3 8 --data DIR --markdown FILE --plot FILE
    python -m benchmarks.composition --rivals                     # other systems too, up to 100,000 items
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LANCE_CPU_THREADS")
QUERIES, QUICK_QUERIES = 100, 30


def main() -> None:
    """Measure and print."""
    arguments = _arguments()
    # Before numpy and faiss are loaded, since they read these once; child processes inherit them.
    os.environ |= dict.fromkeys(THREAD_VARIABLES, str(arguments.threads))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.threads])

    from rich.console import Console

    from benchmarks.composition_data import ASPECTS, VectorFiles
    from benchmarks.composition_report import markdown, write_plot
    from benchmarks.composition_run import measured_rows

    console = Console(stderr=True, highlight=False)
    rows = []
    with _data_folder(arguments.data) as folder:
        for items in arguments.items:
            files = VectorFiles(folder, items)
            console.print(f"{items:,} items")
            files.make(len(ASPECTS), threads=arguments.threads)
            for number, aspects in enumerate(arguments.aspects):
                console.print(f" {aspects} aspects")
                rows += measured_rows(
                    files,
                    aspects,
                    growth=number == 0,
                    queries=arguments.queries,
                    threads=arguments.threads,
                    rivals=arguments.rivals,
                    console=console,
                )
    tables = markdown(rows)
    print(tables)
    if arguments.markdown:
        arguments.markdown.write_text(tables, encoding="utf-8")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if arguments.plot:
        write_plot(rows, arguments.plot)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--items", type=int, nargs="+", metavar="N", help="sizes; by default 100000")
    parser.add_argument(
        "--aspects", type=int, nargs="+", choices=range(2, 9), metavar="A", help="how many are asked; by default 3"
    )
    parser.add_argument("--queries", type=int, metavar="Q", help=f"of each case; by default {QUERIES}")
    parser.add_argument("--threads", type=int, default=2, metavar="T", help="for every way; by default 2")
    parser.add_argument("--rivals", action="store_true", help="also FAISS IVF, Milvus Lite, Qdrant and LanceDB")
    parser.add_argument(
        "--quick", action="store_true", help="under a minute: 100000 × 3, few queries, no other systems"
    )
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="keep the vectors there, and use what is there already"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables there")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw recall against time there")
    arguments = parser.parse_args()
    if arguments.quick and (arguments.rivals or arguments.items or arguments.aspects):
        parser.error("--quick has its own size and no other systems; leave out --rivals, --items and --aspects")
    for name, value in (
        ("items", [100_000]),
        ("aspects", [3]),
        ("queries", QUICK_QUERIES if arguments.quick else QUERIES),
    ):
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    if arguments.threads < 1 or arguments.queries < 1 or min(arguments.items) < 1000:
        parser.error("give at least one thread, one query, and 1000 items")
    return arguments


@contextlib.contextmanager
def _data_folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


if __name__ == "__main__":
    main()
