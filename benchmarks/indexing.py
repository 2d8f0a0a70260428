"""How fast pictures become an index, against the model alone and against doing one thing after the other.

All ways read the same JPEG files with the model ``mini`` under three aspects, and take turns, so that whatever else the
machine does hits all alike. A rate is that of a way's best round. Models are loaded and workers started beforehand: a
build of many hours does that once.

- *bare embed*: ``embed`` on pictures that are decoded already, in batches of 32; the ratios are to this one;
- *in process*: ``tpips-index build`` as it is, in one process with all threads: read, decode, embed and write overlap;
- *1 worker*, *2 workers*: the same with ``--workers``, but each with one thread;
- *sequential*: a batch is read and decoded, then embedded, then the next; each shard is then written with numpy and
  pyarrow, as clip-retrieval does, and flushed to the disk as ours is.

    python -m benchmarks.indexing [--quick] [--images 384] [--rounds 3] [--json FILE]
"""

from __future__ import annotations

import argparse
import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from PIL import Image
from rich.console import Console
from rich.table import Table

from indexer.building.build import build
from indexer.building.build_config import BuildConfig
from indexer.engines import Engine
from indexer.engines.in_process import InProcess
from indexer.engines.local import LocalPool
from indexer.engines.threads import cores
from indexer.engines.worker_engine import WorkerEngine
from tpips_model.embedder import Embedder
from tpips_model.images import to_rgb
from tpips_model.loading import load_embedder

ASPECTS = ("overall", "brushwork", "color palette")
BATCH, SHARD = 32, 32
SIDES = (512, 384)
BARE = "bare embed, all threads"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="128 images, one round")
    parser.add_argument("--images", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args()
    images, rounds = (128, 1) if options.quick else (options.images, options.rounds)
    with tempfile.TemporaryDirectory() as name:
        seconds = measure(Path(name), images, rounds)
    rows = [
        {
            "way": way,
            "images_per_s": images / min(times),
            "ratio_to_bare_embed": min(seconds[BARE]) / min(times),
        }
        for way, times in seconds.items()
    ]
    report(rows, images, rounds)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def measure(folder: Path, images: int, rounds: int) -> dict[str, list[float]]:
    """Return the seconds that each way took in each round."""
    data = write_photographs(folder / "data", images)
    model = load_embedder("mini")
    decoded = [to_rgb(path.read_bytes(), at_least=model.decode_at_least) for path in sorted(data.iterdir())]
    few, numbers = write_photographs(folder / "few", 2), count()
    bare_embed(model, decoded[:BATCH])
    with ExitStack() as stack:

        def built(engine: Engine) -> Callable[[], None]:
            stack.enter_context(closing(engine))
            run_build(engine, few, folder, numbers, shard_size=1)  # starts what there is to start
            return partial(run_build, engine, data, folder, numbers)

        # One thread each: as if there were as many workers as cores.
        pool = partial(LocalPool, partial(load_embedder, "mini"), workers=cores())
        ways: dict[str, Callable[[], None]] = {
            BARE: partial(bare_embed, model, decoded),
            "bare embed, 1 thread": partial(with_threads, 1, partial(bare_embed, model, decoded)),
            "in process, all threads": built(InProcess(lambda: model)),
            "1 worker, 1 thread": built(WorkerEngine(pool(), 1)),
            "2 workers, 1 thread each": built(WorkerEngine(pool(), 2)),
            "sequential, all threads": partial(sequential, model, data, folder, numbers),
        }
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, run in ways.items():
                began = time.perf_counter()
                run()
                seconds[way].append(time.perf_counter() - began)
    return seconds


def write_photographs(folder: Path, images: int) -> Path:
    """Write JPEG files of smooth colours with fine grain, as photographs have, of some 60 kB each."""
    folder.mkdir()
    for seed in range(images):
        random = np.random.default_rng(seed)
        coarse = random.integers(0, 256, (6, 8, 3), dtype=np.uint8)
        smooth = np.asarray(Image.fromarray(coarse).resize(SIDES, Image.Resampling.BICUBIC), np.float32)
        pixels = np.clip(smooth + random.normal(0, 8, smooth.shape), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{seed:05d}.jpg", quality=85)
    return folder


def bare_embed(model: Embedder, decoded: Sequence[Image.Image]) -> None:
    for start in range(0, len(decoded), BATCH):
        model.embed(decoded[start : start + BATCH], ASPECTS)


def with_threads(threads: int, work: Callable[[], None]) -> None:
    with torch_threads(threads):
        work()


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def run_build(engine: Engine, data: Path, folder: Path, numbers: Iterator[int], shard_size: int = SHARD) -> None:
    config = BuildConfig(
        out=folder / f"index-{next(numbers)}",
        data=f"folder:{data}",
        aspects=ASPECTS,
        batch_size=BATCH,
        shard_size=shard_size,
        codes=False,
        progress=False,
    )
    build(config, engine=engine)


def sequential(model: Embedder, data: Path, folder: Path, numbers: Iterator[int]) -> None:
    out = folder / f"sequential-{next(numbers)}"
    out.mkdir()
    paths = sorted(data.iterdir())
    for shard, start in enumerate(range(0, len(paths), SHARD)):
        own, blocks, rows = paths[start : start + SHARD], [], []
        for first in range(0, len(own), BATCH):
            batch = own[first : first + BATCH]
            images = [to_rgb(path.read_bytes(), at_least=model.decode_at_least) for path in batch]
            blocks.append(model.embed(images, ASPECTS))
            rows += [
                {"key": path.name, "width": image.width, "height": image.height}
                for path, image in zip(batch, images, strict=True)
            ]
        for number, aspect in enumerate(ASPECTS):
            array = io.BytesIO()
            np.save(array, np.concatenate([block[:, number] for block in blocks]).astype(np.float16))
            write(out / f"{aspect}-{shard:05d}.npy", array.getvalue())
        table = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows), table)
        write(out / f"items-{shard:05d}.parquet", table.getvalue())


def write(path: Path, payload: bytes) -> None:
    with open(path, "wb") as stream:
        stream.write(payload)
        stream.flush()
        os.fsync(stream.fileno())


def report(rows: list[dict[str, Any]], images: int, rounds: int) -> None:
    table = Table(title=f"{images} images of {SIDES[0]} × {SIDES[1]}, best of {rounds}, {cores()} cores")
    for heading in ("way", "images/s", "to bare embed"):
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for row in rows:
        table.add_row(row["way"], f"{row['images_per_s']:.1f}", f"{row['ratio_to_bare_embed']:.2f}")
    Console().print(table)
    rates = {row["way"]: row["images_per_s"] for row in rows}
    ratio = rates["2 workers, 1 thread each"] / rates["1 worker, 1 thread"]
    Console().print(f"two workers against one: {ratio:.2f}")


if __name__ == "__main__":
    main()
