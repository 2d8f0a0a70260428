"""Our approximate path in the composition benchmark: codes side by side, one scan, the best rescored exactly.

Codes lie on disk as in an index, part by part. A later run with the same --data uses them again unless the quantizer's
source has changed.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.composition_cases import Query, Selection
from benchmarks.composition_data import CODES_FOLDER
from benchmarks.composition_ways import Answer, Setting
from indexer import quantizer as quantizer_module
from indexer.quantizer import TRAINING_ROWS, Quantizer
from search.approximate import ApproximateSearch
from search.joint_cache import JointCache
from search.stored_codes import StoredCodes

__all__ = ["CodeScan"]


class CodeScan:
    """``ApproximateSearch`` over codes on disk."""

    name = "codes"

    def __init__(self, setting: Setting) -> None:
        codes = {slug: _CodeFiles(setting, slug) for slug in setting.indexed}
        with ThreadPoolExecutor(setting.threads) as pool:
            list(pool.map(lambda files: files.quantizer, codes.values()))  # all trained before any codes
            for files in codes.values():
                list(pool.map(files.write_missing, range(len(setting.files.part_rows))))
        stored = StoredCodes(
            part_rows=setting.files.part_rows,
            codes=lambda slug: codes[slug].parts(),
            quantizer=lambda slug: codes[slug].quantizer,
            slugs=frozenset(codes),
        )
        self._search = ApproximateSearch(setting.files.store(setting.indexed), JointCache(stored))
        self._threads = setting.threads

    def top(self, query: Query, k: int, selection: Selection | None) -> Answer:
        """Return the k best of the candidates."""
        rows = None if selection is None else selection.rows
        found = self._search.top_k(query.vectors, k, rows=rows, threads=self._threads)
        return Answer(found.rows, found.rescored)


@dataclass(frozen=True, eq=False)
class _CodeFiles:
    """The codes of one aspect and their quantizer, in a folder."""

    setting: Setting
    slug: str

    @cached_property
    def quantizer(self) -> Quantizer:
        """Trained on rows from all over the collection, or read."""
        path = self._folder / "quantizer.safetensors"
        if path.exists():
            return Quantizer.read(path, dim=self.setting.files.source.dim)
        store = self.setting.files.store(self.setting.indexed)
        rows = np.unique(np.linspace(0, store.rows - 1, min(store.rows, TRAINING_ROWS)).astype(np.int64))
        trained = Quantizer.train(store.gather(self.slug, rows))
        self._folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(trained.to_bytes())
        return trained

    def write_missing(self, number: int) -> None:
        """Write the codes of a part unless they are there."""
        path = self._path(number)
        if path.exists():
            return
        vectors = self.setting.files.store(self.setting.indexed).parts(self.slug)[number]
        unfinished = path.with_suffix(".unfinished")
        with unfinished.open("wb") as file:
            np.save(file, self.quantizer.encode(vectors))
        os.replace(unfinished, path)

    def parts(self) -> list[NDArray[np.uint8]]:
        """Return the codes, memory-mapped, uint8 (rows of the part, M / 2) each."""
        numbers = range(len(self.setting.files.part_rows))
        return [np.load(self._path(number), mmap_mode="r", allow_pickle=False) for number in numbers]

    @cached_property
    def _folder(self) -> Path:
        made_by = hashlib.sha256(inspect.getsource(quantizer_module).encode()).hexdigest()[:16]
        return self.setting.files.home / CODES_FOLDER / f"{self.slug}-{made_by}"

    def _path(self, number: int) -> Path:
        return self._folder / f"part-{number:05d}.npy"
