"""Correlated synthetic aspects for the composition benchmark: made part by part, kept as float16 on disk.

A row is the unit vector of

    √0.4 · content(item) + √0.4 · factor(item, aspect) + √0.2 · noise(item, aspect).

Content is shared by an item's aspects; the factor is an aspect's own. Both are 64 numbers with a falling spectrum,
mixed into all dimensions; four fifths of their variance lie between 200 groups (what is depicted; schools and styles),
one fifth inside them. Noise is isotropic. In 5,000 rows of 256 dimensions: the cosine between an item's rows under two
aspects is 0.40 in the mean, and the rows of an aspect fill 85 dimensions (participation ratio).

The groups make it kind to searching every field by itself. The 1,000 best of each of three fields, merged with missing
scores as zero, hold 44 % of the true top 10 of 100,000 for positive weights, 40 % for a penalty and 39 % for mixed
signs (40 queries each); with weaker groups or a steeper spectrum it was 13 to 34 % for positive weights.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from search.vectors import StoredVectors
from tpips_model.aspects import OVERALL, Aspect

__all__ = ["ASPECTS", "CODES_FOLDER", "PART_ROWS", "CorrelatedAspects", "VectorFiles"]

ASPECTS = (
    OVERALL,
    Aspect("brushwork"),
    Aspect("color palette"),
    Aspect("lighting"),
    Aspect("composition"),
    Aspect("subject matter"),
    Aspect("texture"),
    Aspect("mood"),
)
PART_ROWS = 8192
# Beside the aspects' folders; no aspect's slug begins with a dot.
CODES_FOLDER = ".codes"
CONTENT, FACTOR, NOISE = 0.4, 0.4, 0.2
LATENT = 64
SPECTRUM_POWER = -0.25
GROUPS = 200
BETWEEN_GROUPS = 0.8
# Streams of random numbers beside the aspects' own, which are numbered from 0.
_STRUCTURE, _CONTENT = 1000, 1001
# The number of the part that is never stored and that queries come from.
_HELD_OUT = 1 << 30


@dataclass(frozen=True)
class CorrelatedAspects:
    """The distribution: any part of any aspect, always the same for the same seed.

    Attributes:
        dim: D.
        seed: Of everything.
    """

    dim: int = 256
    seed: int = 0

    def part(self, aspect: int, number: int, rows: int) -> NDArray[np.float32]:
        """Return unit rows, float32 (rows, D), of part ``number``; aspects of one part belong to the same items."""
        structure = self._structure
        _, content = self._latent(_CONTENT, number, rows)
        _, factor = self._latent(aspect, number, rows)
        noise = self._random(number, aspect, 1).standard_normal((rows, self.dim), dtype=np.float32)
        noise *= np.float32((NOISE / self.dim) ** 0.5)
        noise += content @ (structure[_CONTENT] * np.float32(CONTENT**0.5))
        noise += factor @ (structure[aspect] * np.float32(FACTOR**0.5))
        noise /= np.linalg.norm(noise, axis=1, keepdims=True)
        return noise

    def content_groups(self, number: int, rows: int) -> NDArray[np.int64]:
        """Return the content group of each item of a part, int64 (rows,) in [0, GROUPS)."""
        return self._latent(_CONTENT, number, rows)[0]

    def held_out(self, aspect: int, rows: int) -> NDArray[np.float64]:
        """Return rows of items that are in no part, float64 (rows, D), unit to float32."""
        return self.part(aspect, _HELD_OUT, rows).astype(np.float64)

    def _latent(self, stream: int, number: int, rows: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        generator = self._random(number, stream, 0)
        groups = generator.integers(GROUPS, size=rows)
        latent = generator.standard_normal((rows, LATENT), dtype=np.float32) * np.float32((1 - BETWEEN_GROUPS) ** 0.5)
        latent += self._centers[stream][groups]
        spectrum = np.arange(1, LATENT + 1, dtype=np.float32) ** SPECTRUM_POWER
        return groups, latent * (spectrum / np.linalg.norm(spectrum))

    @cached_property
    def _structure(self) -> dict[int, NDArray[np.float32]]:
        """How the latent numbers of each stream mix into the dimensions, float32 (LATENT, D)."""
        scale = np.float32(self.dim**-0.5)
        return {
            stream: self._random(_STRUCTURE, stream, 0).standard_normal((LATENT, self.dim), dtype=np.float32) * scale
            for stream in (*range(len(ASPECTS)), _CONTENT)
        }

    @cached_property
    def _centers(self) -> dict[int, NDArray[np.float32]]:
        """The groups' centers in each stream, float32 (GROUPS, LATENT)."""
        scale = np.float32(BETWEEN_GROUPS**0.5)
        return {
            stream: self._random(_STRUCTURE, stream, 1).standard_normal((GROUPS, LATENT), dtype=np.float32) * scale
            for stream in (*range(len(ASPECTS)), _CONTENT)
        }

    def _random(self, number: int, stream: int, which: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, number, stream, which])


@dataclass(frozen=True)
class VectorFiles:
    """Stored rows of the first aspects of ``ASPECTS``, in a folder that later runs use again.

    Attributes:
        folder: Where the folders of all sizes lie.
        items: N.
        source: What the rows are drawn from.
    """

    folder: Path
    items: int
    source: CorrelatedAspects = CorrelatedAspects()

    @property
    def home(self) -> Path:
        """The folder of this size: ``<slug>/part-00000.npy`` and so on."""
        return self.folder / f"items-{self.items}-dim-{self.source.dim}-seed-{self.source.seed}"

    def make(self, aspects: int, *, threads: int) -> None:
        """Write the parts of the first aspects that are not there yet."""
        missing = [
            (aspect, number)
            for aspect in range(aspects)
            for number in range(len(self.part_rows))
            if not self._path(aspect, number).exists()
        ]
        for aspect in {aspect for aspect, _ in missing}:
            self._path(aspect, 0).parent.mkdir(parents=True, exist_ok=True)
        _ = self.source._structure, self.source._centers  # before several threads would make them
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda pair: self._write(*pair), missing))

    def store(self, slugs: tuple[str, ...]) -> StoredVectors:
        """Return the memory-mapped rows of the aspects of these slugs."""
        numbers = {aspect.slug: number for number, aspect in enumerate(ASPECTS)}
        return StoredVectors(
            lambda slug: [np.load(self._path(numbers[slug], part), mmap_mode="r", allow_pickle=False)
                          for part in range(len(self.part_rows))],
            part_rows=self.part_rows,
            dim=self.source.dim,
        )  # fmt: skip

    def columns(self) -> Mapping[str, NDArray[np.int64]]:
        """Return two columns to filter by, int64 (N,): "pick" in [0, 1000) by chance, "content" the content group."""
        pick = np.random.default_rng([self.source.seed, self.items]).integers(1000, size=self.items)
        content = [self.source.content_groups(number, rows) for number, rows in enumerate(self.part_rows)]
        return {"pick": pick, "content": np.concatenate(content)}

    @property
    def part_rows(self) -> list[int]:
        """How many rows each part holds."""
        return [min(PART_ROWS, self.items - start) for start in range(0, self.items, PART_ROWS)]

    def _path(self, aspect: int, number: int) -> Path:
        return self.home / ASPECTS[aspect].slug / f"part-{number:05d}.npy"

    def _write(self, aspect: int, number: int) -> None:
        path = self._path(aspect, number)
        unfinished = path.with_suffix(".unfinished")
        with unfinished.open("wb") as file:
            np.save(file, self.source.part(aspect, number, self.part_rows[number]).astype(np.float16))
        os.replace(unfinished, path)
