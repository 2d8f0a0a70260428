"""How fast the exact scan is on a GPU, against what its memory can give, FAISS's flat GPU index and the CPU's scan.

The ways take turns over the same memory-mapped float16 parts and the same queries (three aspects, mixed signs):

- ``device``: ``DeviceScan`` with all vectors on the device; ``device, batch``: the same for 64 queries at once.
- ``device, streamed``: with no memory for vectors, so that each query reads and copies everything.
- ``faiss gpu``: ``GpuIndexFlatIP`` over the aspects side by side in float16, only where faiss's GPU build is installed.
- ``cpu``: ``exact_top_k``.

``rate`` is the bytes of the asked vectors divided by the time; the ratio is that rate to the one at which the device,
measured here, copies its own memory (reading and writing counted). ``same`` says whether rows and scores were those of
the CPU's exact path, bit for bit (for FAISS: how many of the rows). ``--device cpu`` tries the program without a GPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

from search.device.scan import DeviceScan
from search.exact import TopK, exact_top_k
from search.vectors import StoredVectors

# (items, aspects, dimensions)
CASES = ((1_000_000, 3, 256), (4_000_000, 3, 256), (500_000, 3, 1024))
QUICK_CASES = ((20_000, 3, 64),)
WEIGHTS = (1.0, 0.7, -0.3, 0.5)
ROWS_PER_PART = 1 << 16
K = 10
BATCH = 64

Query = dict[str, NDArray[np.float64]]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", action="append", help="torch's name, as often as there are devices (default: all)")
    parser.add_argument("--quick", action="store_true", help="one small case, in seconds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    options = parser.parse_args()
    devices = options.device or [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    if not devices:
        parser.error("torch sees no GPU here; --device cpu tries the program on the CPU")
    rate = memory_rate(devices[0], size=(1 << 24) if options.quick else (1 << 30)) * len(devices)
    print(f"{', '.join(map(device_name, devices))}: {rate / 1e9:,.0f} GB/s of its own memory; top {K}")
    print("items       aspects  dims  way               ms a query  GB/s      ratio  same")
    rows: list[dict[str, Any]] = []
    for items, aspects, dim in QUICK_CASES if options.quick else CASES:
        with tempfile.TemporaryDirectory() as folder:
            store = stored(Path(folder), items, aspects, dim)
            for row in measure(store, aspects, devices, rate, repeats=3 if options.quick else 15):
                rows.append(row)
                print(
                    f"{items:<11,} {aspects:<8} {dim:<5} {row['way']:<17} {row['ms_a_query']:<11.3f} "
                    f"{row['bytes_per_second'] / 1e9:<9,.1f} {row['ratio_to_memory']:<6.3f} {row['same']}"
                )
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def measure(
    store: StoredVectors, aspects: int, devices: Sequence[str], rate: float, *, repeats: int
) -> list[dict[str, Any]]:
    """Return a row of figures for each way."""
    rng = np.random.default_rng(1)
    queries = [
        {f"a{number}": WEIGHTS[number % 4] * unit(rng.standard_normal(store.dim)) for number in range(aspects)}
        for _ in range(BATCH)
    ]
    one = queries[0]
    size = 2 * store.rows * store.dim * aspects
    kept, streamed = DeviceScan(store, devices, size), DeviceScan(store, devices, 0)
    ways: dict[str, tuple[Callable[[], list[TopK]], int]] = {
        "device": (lambda: [kept.top_k(one, K)], 1),
        "device, batch": (lambda: kept.top_k_batch(queries, [K] * BATCH), BATCH),
        "device, streamed": (lambda: [streamed.top_k(one, K)], 1),
        "cpu": (lambda: [exact_top_k(store, one, K)], 1),
    }
    if faiss.get_num_gpus() > 0:
        index = faiss_flat(store, aspects, devices)
        flat = np.concatenate(list(one.values())).astype(np.float32)[None]
        ways["faiss gpu"] = (lambda: [TopK(*(found[0] for found in reversed(index.search(flat, K))))], 1)
    truth = [exact_top_k(store, query, K) for query in queries]
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    same: dict[str, str] = {}
    for turn in range(-2, repeats):
        for way, (work, _) in ways.items():
            start = time.perf_counter()
            tops = work()
            if turn >= 0:
                seconds[way].append(time.perf_counter() - start)
            same[way] = compared(tops, truth)
    return [
        {
            "way": way,
            "case": f"{store.rows} × {aspects} × {store.dim}",
            "ms_a_query": statistics.median(seconds[way]) / count * 1e3,
            "bytes_per_second": size * count / statistics.median(seconds[way]),
            "ratio_to_memory": size * count / statistics.median(seconds[way]) / rate,
            "same": same[way],
        }
        for way, (_, count) in ways.items()
    ]


def compared(tops: Sequence[TopK], truth: Sequence[TopK]) -> str:
    """Return whether the tops are the true ones, or how many of their rows are."""
    pairs = list(zip(tops, truth, strict=False))
    if all(np.array_equal(a.rows, b.rows) and np.array_equal(a.scores, b.scores) for a, b in pairs):
        return "yes"
    return f"{sum(len(np.intersect1d(a.rows, b.rows)) for a, b in pairs)} of {sum(len(b.rows) for _, b in pairs)} rows"


def stored(folder: Path, items: int, aspects: int, dim: int) -> StoredVectors:
    """Return random unit rows in mapped files."""
    generator = torch.Generator().manual_seed(0)
    parts: dict[str, list[NDArray[np.float16]]] = {}
    for number in range(aspects):
        parts[f"a{number}"] = []
        for start in range(0, items, ROWS_PER_PART):
            rows = torch.randn((min(ROWS_PER_PART, items - start), dim), generator=generator)
            path = folder / f"a{number}-{start}.npy"
            np.save(path, torch.nn.functional.normalize(rows).half().numpy())
            parts[f"a{number}"].append(np.load(path, mmap_mode="r", allow_pickle=False))
    return StoredVectors.of_arrays(parts)


def faiss_flat(store: StoredVectors, aspects: int, devices: Sequence[str]) -> Any:
    """Return FAISS's flat index of the aspects side by side, in half precision, on the GPUs of these devices."""
    options = faiss.GpuMultipleClonerOptions()
    options.useFloat16 = True
    options.shard = True
    numbers = [int(device.removeprefix("cuda:")) for device in devices]
    index = faiss.index_cpu_to_gpus_list(faiss.IndexFlatIP(aspects * store.dim), options, numbers)
    for parts in zip(*(store.parts(f"a{number}") for number in range(aspects)), strict=True):
        index.add(np.concatenate(parts, axis=1).astype(np.float32))
    return index


def unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the vector at norm 1."""
    return vector / np.linalg.norm(vector)


def memory_rate(device: str, *, size: int) -> float:
    """Return the bytes a second, read and written, of the best of several copies within the device's memory."""
    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    best = float("inf")
    for _ in range(5):
        wait(device)
        start = time.perf_counter()
        for _ in range(10):
            target.copy_(source)
        wait(device)
        best = min(best, time.perf_counter() - start)
    return 10 * 2 * size / best


def wait(device: str) -> None:
    """Wait until a device has done what it was told."""
    if device != "cpu":
        torch.cuda.synchronize(device)


def device_name(device: str) -> str:
    """Return the card's name."""
    return "CPU" if device == "cpu" else torch.cuda.get_device_name(device)


if __name__ == "__main__":
    main()
