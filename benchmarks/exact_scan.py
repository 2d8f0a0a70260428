"""How long the exact scan of float16 vectors takes, as a multiple of a plain float32 product in numpy.

The plain product is ``sum(X_a @ q_a)`` over the same aspects, from float32 arrays in memory, without finding the best.
Both run in this process, in turns, with the same number of threads (``OMP_NUM_THREADS``). The ratio is that of their
median times by the clock; beside it stands the ratio of their least times, and that of their least processor times,
which other programs on the machine disturb less.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import faiss
import numpy as np
from numpy.typing import NDArray

from search.exact import exact_top_k
from search.vectors import StoredVectors

# (items, aspects, dimensions)
CASES = ((20_000, 4, 256), (200_000, 3, 256), (50_000, 3, 1024))
QUICK_CASES = ((20_000, 4, 256),)
ROWS_PER_PART = 8192
K = 10
WARM_UP = 2


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="only the smallest case, in seconds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    arguments = parser.parse_args()
    rows = [
        measure(*case, repeats=15 if arguments.quick else 25) for case in (QUICK_CASES if arguments.quick else CASES)
    ]
    print(f"{faiss.omp_get_max_threads()} thread(s), {os.cpu_count()} processor(s); top {K}; data in the page cache")
    print("items      aspects  dims  plain ms  exact ms  ratio  of minima  of processor time")
    for row in rows:
        print(
            f"{row['items']:<10,} {row['aspects']:<8} {row['dim']:<5} {row['plain_ms']:<9.2f} {row['exact_ms']:<9.2f} "
            f"{row['ratio']:<6.2f} {row['ratio_of_minima']:<10.2f} {row['ratio_of_processor_time']:.2f}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def measure(items: int, aspects: int, dim: int, *, repeats: int) -> dict[str, float]:
    """Return the times of one case in milliseconds, and their ratio."""
    generator = np.random.default_rng(0)
    queries = {f"a{number}": generator.standard_normal(dim) for number in range(aspects)}
    with tempfile.TemporaryDirectory() as folder:
        plain_rows: dict[str, NDArray[np.float32]] = {}
        parts: dict[str, list[NDArray[np.float16]]] = {}
        for slug in queries:
            rows = generator.standard_normal((items, dim), dtype=np.float32)
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            parts[slug] = [_stored(Path(folder, f"{slug}-{start}.npy"), rows[start : start + ROWS_PER_PART])
                           for start in range(0, items, ROWS_PER_PART)]  # fmt: skip
            plain_rows[slug] = rows
        plain_queries = {slug: query.astype(np.float32) for slug, query in queries.items()}
        store = StoredVectors.of_arrays(parts)
        plain, exact = _in_turns(
            lambda: sum(plain_rows[slug] @ plain_queries[slug] for slug in queries),
            lambda: exact_top_k(store, queries, K),
            repeats=repeats,
        )
    return {
        "items": items,
        "aspects": aspects,
        "dim": dim,
        "threads": faiss.omp_get_max_threads(),
        "plain_ms": statistics.median(plain.clock) * 1e3,
        "exact_ms": statistics.median(exact.clock) * 1e3,
        "ratio": statistics.median(exact.clock) / statistics.median(plain.clock),
        "ratio_of_minima": min(exact.clock) / min(plain.clock),
        "ratio_of_processor_time": min(exact.processor) / min(plain.processor),
    }


def _stored(path: Path, rows: NDArray[np.float32]) -> NDArray[np.float16]:
    np.save(path, rows.astype(np.float16))
    mapped: NDArray[np.float16] = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped


@dataclass
class _Times:
    """Seconds by the clock and of the processor, one of each per round."""

    clock: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


def _in_turns(*ways: Callable[[], object], repeats: int) -> list[_Times]:
    times = [_Times() for _ in ways]
    for turn in range(-WARM_UP, repeats):
        for way, taken in zip(ways, times, strict=True):
            clock, processor = time.perf_counter(), time.process_time()
            way()
            if turn >= 0:
                taken.clock.append(time.perf_counter() - clock)
                taken.processor.append(time.process_time() - processor)
    return times


if __name__ == "__main__":
    main()
