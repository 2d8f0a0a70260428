"""Composed queries to an index pushed to Milvus Lite: what share is proven, what is found, and how long it takes.

The index is made for the run, of the composition benchmark's correlated aspects. Queries name an item of their own for
every term, and are asked in turns of the index directory and of the collection; the directory's exact answers are the
truth. Milvus Lite is Milvus's form for tests, written in Python: what a server finds is the same, what it takes is not.

    python -m benchmarks.milvus              # 20,000 items × 3 aspects, a few minutes
    python -m benchmarks.milvus --quick      # 2,000 items, under a minute
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.composition_data import ASPECTS, CorrelatedAspects
from indexer import IndexDirectory
from indexer.columns import Item
from indexer.manifest import Manifest, ModelRecord, SourceRecord
from indexer.part import write_manifest, write_part
from search import Hits, Searcher
from search.milvus.address import MilvusAddress
from search.milvus.push import push_index

PART_ROWS = 5_000
K = 10
CASES: dict[str, dict[str, Any]] = {
    "one aspect": {"weights": (0.0, 1.0, 0.0)},
    "positive weights": {"weights": (1.0, 0.8, 0.6)},
    "penalty 0.3": {"weights": (0.0, 1.0, 0.7), "penalty": 0.3},
    "mixed signs": {"weights": (0.6, 1.0, -0.8)},
    "filter 5 %": {"weights": (1.0, 0.8, 0.6), "where": "pick < 50"},
}


@dataclass(frozen=True)
class Figures:
    """What one case gave; times are medians in milliseconds.

    Attributes:
        case: Its name.
        proven: The share of the answers that Milvus gave as exact.
        recall: At 10, of the answers as they come by default.
        recall_once: At 10, with one search a field (``exact=False``).
        rescored: How many items were scored exactly, in the median.
        directory_ms: The exact scan of the index directory.
        milvus_ms: Milvus, as it comes by default.
        once_ms: Milvus with one search a field.
    """

    case: str
    proven: float
    recall: float
    recall_once: float
    rescored: float
    directory_ms: float
    milvus_ms: float
    once_ms: float


def main() -> None:
    """Make, push, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=20, help="of each case")
    parser.add_argument("--quick", action="store_true", help="2,000 items and five queries a case")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    arguments = parser.parse_args()
    items, queries = (2_000, 5) if arguments.quick else (arguments.items, arguments.queries)
    with tempfile.TemporaryDirectory() as folder:
        index = make_index(Path(folder) / "index", items)
        address = f"milvus:{folder}/vectors.db/items"
        started = time.perf_counter()
        push_index(index, MilvusAddress.parse(address))
        print(f"pushed {items:,} items × 3 aspects: {items / (time.perf_counter() - started):,.0f} a second")
        directory, collection = Searcher.open(index.path), Searcher.open(address)
        figures = [measure(name, case, directory, collection, queries) for name, case in tqdm(CASES.items())]
    print(f"{'':18}proven  recall  once  rescored  directory ms  Milvus ms  once ms")
    for row in figures:
        print(
            f"{row.case:18}{row.proven:6.2f}{row.recall:8.3f}{row.recall_once:6.3f}{row.rescored:10,.0f}"
            f"{row.directory_ms:14.1f}{row.milvus_ms:11.0f}{row.once_ms:9.0f}"
        )
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(row) for row in figures], indent=1) + "\n")


def make_index(path: Path, items: int) -> IndexDirectory:
    """Write an index of so many items under the first three aspects."""
    source, aspects, parts = CorrelatedAspects(), ASPECTS[:3], []
    picks = np.random.default_rng(0).integers(1000, size=items)
    for number, start in enumerate(range(0, items, PART_ROWS)):
        rows = range(start, min(items, start + PART_ROWS))
        part = write_part(
            path,
            number,
            shard=f"shard-{number:05d}",
            items=[Item(f"{row:08d}", f"{row}.jpg", None, None, 1, 8, 8, {"pick": int(picks[row])}) for row in rows],
            errors=[],
            vectors={aspect: source.part(place, number, len(rows)) for place, aspect in enumerate(aspects)},
        )
        parts.append(part)
    model = ModelRecord("synthetic", "synthetic:0", source.dim, "{aspect}", 0.3)
    write_manifest(path, Manifest(model, (SourceRecord("folder", "pictures"),), aspects, tuple(parts)))
    return IndexDirectory.open(path)


def measure(name: str, case: dict[str, Any], directory: Searcher, collection: Searcher, queries: int) -> Figures:
    """Ask one case's queries of both, in turns."""
    rng = np.random.default_rng(1)
    options = {"overall_penalty": case.get("penalty", 0.0), "where": case.get("where"), "k": K}
    truths: list[Hits] = []
    founds: list[Hits] = []
    onces: list[Hits] = []
    times: dict[str, list[float]] = {"directory": [], "milvus": [], "once": []}
    for _ in range(queries):
        keys = [f"{row:08d}" for row in rng.choice(len(directory), len(case["weights"]), replace=False)]
        asked = zip(keys, directory.aspects, case["weights"], strict=True)
        terms = [(key, aspect, weight) for key, aspect, weight in asked if weight]
        for way, searcher, exact, into in (
            ("directory", directory, True, truths),
            ("milvus", collection, None, founds),
            ("once", collection, False, onces),
        ):
            hits, milliseconds = _timed(lambda: searcher.query(terms, exact=exact, **options))  # noqa: B023
            into.append(hits)
            times[way].append(milliseconds)

    def recall(found: list[Hits]) -> float:
        pairs = list(zip(truths, found, strict=True))
        return sum(len({*true.keys} & {*hits.keys}) for true, hits in pairs) / sum(len(true) for true, _ in pairs)

    return Figures(
        case=name,
        proven=sum(hits.exact for hits in founds) / queries,
        recall=recall(founds),
        recall_once=recall(onces),
        rescored=statistics.median(hits.rescored for hits in founds),
        directory_ms=statistics.median(times["directory"]),
        milvus_ms=statistics.median(times["milvus"]),
        once_ms=statistics.median(times["once"]),
    )


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    return call(), 1e3 * (time.perf_counter() - started)


if __name__ == "__main__":
    main()
