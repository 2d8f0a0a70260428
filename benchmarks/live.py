"""Words that are not indexed: how many of the true best a look at few pictures finds, and what it costs.

The pictures are procedural scenes, indexed by the bundled model under overall, palette and brush. Other senses are
asked for live; the truth is an index under them too. Beside the learnt choice of candidates stands the obvious one, the
nearest by overall. Both are judged after the same number of pictures, whose vectors come from the truth, since looking
at them again would only take time; one look is timed with the model itself, against embedding as many pictures bare.

    python -m benchmarks.live                   # 2,000 pictures, 9 senses, 25 queries each; about 6 minutes
    python -m benchmarks.live --pictures 600 --queries 5
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from indexer import IndexDirectory
from indexer.building.build import build
from indexer.building.build_config import BuildConfig
from search import Searcher
from search.exact import exact_top_k
from search.vectors import StoredVectors
from tpips_model.aspects import Aspect, AspectLike
from tpips_model.embedder import Embedder
from tpips_model.images import ImageLike, to_rgb
from tpips_model.loading import load_embedder
from train.scenes import FAMILY_SIZE, family

INDEXED = ("palette", "brush")
ASKED = ("texture", "light direction", "warmth", "brightness", "mood", "blur", "shape", "evening light", "position")
LOOKS = (64, 256)
K = 10
# Families that neither training nor evaluation draws.
FIRST_SEED = 900_000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=2000)
    parser.add_argument("--queries", type=int, default=25, help="queries a sense")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        known, truth = _indices(Path(folder), arguments.pictures)
        rows = np.random.default_rng(0).choice(known.rows, arguments.queries, replace=False)
        table = Table("sense", *(f"{way}, {look}" for look in LOOKS for way in ("by overall", "learnt")))
        found = {sense: _recalls(known, truth, Aspect(sense), rows.tolist()) for sense in tqdm(ASKED, "asking")}
        for sense, recalls in found.items():
            table.add_row(sense, *(f"{recall:.2f}" for recall in recalls))
        table.add_row("mean", *(f"{recall:.3f}" for recall in np.mean(list(found.values()), axis=0)))
        console = Console()
        console.print(f"of the true top {K} of {known.rows:,}, found by looking at so many")
        console.print(table)
        console.print(_cost(known))


def _indices(folder: Path, count: int) -> tuple[IndexDirectory, IndexDirectory]:
    data = folder / "pictures"
    data.mkdir()
    for number in tqdm(range(-(-count // FAMILY_SIZE)), "drawing"):
        for place, picture in enumerate(family(FIRST_SEED + number).pictures):
            picture.draw().save(data / f"{number:05d}-{place}.png")
    build(BuildConfig(out=folder / "known", data=f"folder:{data}", aspects=INDEXED))
    shutil.copytree(folder / "known", folder / "truth")
    build(BuildConfig(out=folder / "truth", aspects=ASKED))
    return IndexDirectory.open(folder / "known"), IndexDirectory.open(folder / "truth")


class _Remembering:
    """Gives for each picture what the truth holds of it."""

    def __init__(self, truth: IndexDirectory, model: Embedder) -> None:
        self.name, self.dim, self.fingerprint = model.name, model.dim, model.fingerprint
        self.decode_at_least = model.decode_at_least
        self._store = StoredVectors.of_index(truth)
        self._rows = {self._name(truth.item_bytes(item)): row for row, item in enumerate(truth.items().to_pylist())}

    def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> NDArray[np.float32]:
        rows = np.array([self._rows[self._name(image)] for image in images], np.int64)
        vectors = np.stack([self._store.gather(Aspect.of(aspect).slug, rows) for aspect in aspects], axis=1)
        return (vectors / np.linalg.norm(vectors, axis=2, keepdims=True)).astype(np.float32)

    def _name(self, image: ImageLike) -> bytes:
        return hashlib.sha256(to_rgb(image, at_least=self.decode_at_least).tobytes()).digest()


def _recalls(known: IndexDirectory, truth: IndexDirectory, sense: Aspect, rows: Sequence[int]) -> list[float]:
    searcher = Searcher(known, model=cast(Embedder, _Remembering(truth, load_embedder(known.manifest.model.name))))
    best, store = Searcher(truth), StoredVectors.of_index(truth)
    recalls: dict[tuple[int, str], list[float]] = {}
    for row in rows:
        key = searcher.keys[row]
        wanted = set(best.query([(key, sense)], k=K).keys)
        overall = store.vector("overall", row)
        for look in LOOKS:
            nearest = exact_top_k(store, {"overall": overall}, look).rows.tolist()
            plain = len(wanted.intersection(searcher.keys[number] for number in nearest))
            learnt = len(wanted.intersection(searcher.query([(key, sense)], k=K, live=look).keys))
            recalls.setdefault((look, "by overall"), []).append(plain / K)
            recalls.setdefault((look, "learnt"), []).append(learnt / K)
    return [float(np.mean(values)) for values in recalls.values()]


def _cost(known: IndexDirectory) -> str:
    model = load_embedder(known.manifest.model.name)
    files = [known.item_bytes(item) for item in known.items().slice(0, LOOKS[0]).to_pylist()]
    looks, bare = [], []
    for attempt in range(3):
        searcher = Searcher(known, model=model)
        started = time.perf_counter()
        searcher.query([(searcher.keys[attempt], "weather")], live=LOOKS[0])
        looks.append(time.perf_counter() - started)
        started = time.perf_counter()
        model.embed([to_rgb(data, at_least=model.decode_at_least) for data in files], ["weather"])
        bare.append(time.perf_counter() - started)
    return (
        f"a look at {LOOKS[0]} takes {min(looks):.2f} s, {min(looks) / min(bare):.2f} × embedding as many pictures bare"
    )


if __name__ == "__main__":
    main()
