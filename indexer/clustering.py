"""The clustering behind the inverted lists: an item belongs to the list whose center its vectors are nearest to.

Lists are made once for all aspects. An item's vectors under several aspects, one after the other, are one vector; its
projection to the directions in which a sample spreads most is clustered by k-means.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from indexer.records import MAX_LISTS, IndexDirectoryError

__all__ = ["MAX_LISTS", "MAX_PROJECTED", "ROWS_PER_LIST", "Clustering", "fit_projections", "list_dtype"]

MAX_PROJECTED = 128
# How many vectors k-means sees for each list.
ROWS_PER_LIST = 32

_VERSION = 1
_SEED = 1234
_ROUNDS = 10
_PREFIX = "projection."


def list_dtype(count: int) -> np.dtype[Any]:
    """Return the type that holds the numbers of so many lists: uint16, or uint32 from 65,537 on."""
    return np.dtype("<u2" if count <= 1 << 16 else "<u4")


@dataclass(frozen=True, eq=False)
class Clustering:
    """Tells an item's list.

    Attributes:
        projections: float32 (D, P) by slug: vectors v_a of an item give Σ_a v_a · projections[a].
        centers: float32 (L, P).
    """

    projections: Mapping[str, NDArray[np.float32]]
    centers: NDArray[np.float32]

    @classmethod
    def train(
        cls, projections: Mapping[str, NDArray[np.float32]], projected: NDArray[np.float32], lists: int
    ) -> Clustering:
        """Cluster projected vectors; the same way every time.

        Args:
            projections: As ``fit_projections`` gives them.
            projected: float32 (T, P), finite; all may be the same.
            lists: L, at least 1 and at most T.
        """
        import faiss

        kmeans = faiss.Clustering(projected.shape[1], lists)
        kmeans.seed = _SEED
        kmeans.niter = _ROUNDS
        kmeans.min_points_per_centroid = 1  # it would warn of fewer
        kmeans.max_points_per_centroid = len(projected)
        index = faiss.IndexFlatL2(projected.shape[1])
        # k-means is the same every time only on one thread; faiss's setting is per thread, and ends with it.
        with ThreadPoolExecutor(1, initializer=faiss.omp_set_num_threads, initargs=(1,)) as pool:
            pool.submit(kmeans.train, np.ascontiguousarray(projected), index).result()
        return cls(projections, faiss.vector_to_array(kmeans.centroids).reshape(lists, -1))

    def project(self, vectors: Mapping[str, NDArray[np.floating[Any]]]) -> NDArray[np.float32]:
        """Return what is clustered, float32 (rows, P), of float (rows, D) for every slug."""
        first, *others = (np.asarray(vectors[slug], np.float32) @ matrix for slug, matrix in self.projections.items())
        for other in others:
            first += other
        return np.ascontiguousarray(first)

    def assign(self, vectors: Mapping[str, NDArray[np.floating[Any]]]) -> NDArray[Any]:
        """Return each item's list.

        Args:
            vectors: float (rows, D) for every slug, finite.

        Returns:
            uint16 or uint32 (rows,), as ``list_dtype`` says.
        """
        import faiss

        index = faiss.IndexFlatL2(self.centers.shape[1])
        index.add(self.centers)
        _, nearest = index.search(self.project(vectors), 1)
        return nearest[:, 0].astype(list_dtype(len(self.centers)))

    def to_bytes(self) -> bytes:
        """Return the file's bytes, the same for the same clustering."""
        tensors = {_PREFIX + slug: np.ascontiguousarray(matrix) for slug, matrix in self.projections.items()}
        facts = json.dumps({"version": _VERSION, "aspects": list(self.projections)})
        # One entry only: safetensors writes several in an order of its own every time.
        return bytes(safetensors.numpy.save(tensors | {"centers": self.centers}, metadata={"clustering": facts}))

    @classmethod
    def read(cls, path: Path, *, dim: int, lists: int) -> Clustering:
        """Read a clustering's file, trusting nothing in it.

        Raises:
            IndexDirectoryError: It is damaged, of another version, or for other vectors or lists.
        """
        try:
            with safetensors.safe_open(path, framework="numpy") as file:
                facts = json.loads((file.metadata() or {})["clustering"])
                if facts["version"] != _VERSION:
                    raise ValueError(f"it is of version {facts['version']}, and this program reads {_VERSION}")
                slugs = [str(slug) for slug in facts["aspects"]]
                centers = file.get_tensor("centers")
                projections = {slug: file.get_tensor(_PREFIX + slug) for slug in slugs}
            if not slugs:
                raise ValueError("it names no aspect")
            _check("centers", centers, (lists, centers.shape[-1] if centers.ndim else 0))
            for slug, matrix in projections.items():
                _check(slug, matrix, (dim, centers.shape[1]))
        except (OSError, ValueError, TypeError, KeyError, RecursionError, safetensors.SafetensorError) as error:
            raise IndexDirectoryError(
                f"index file {path} is no clustering into {lists:,} lists of vectors of {dim} dimensions ({error}); "
                "make the lists anew: tpips-index codes --lists 0, then tpips-index codes --lists N"
            ) from error
        return cls(projections, centers)


def _check(name: str, array: NDArray[Any], shape: tuple[int, int]) -> None:
    if array.dtype != np.float32 or array.shape != shape or 0 in shape:
        raise ValueError(f"{name} should be float32 {shape}, and is {array.dtype} {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds values that are not finite")


def fit_projections(sample: Mapping[str, NDArray[np.floating[Any]]]) -> dict[str, NDArray[np.float32]]:
    """Return the projections to the directions in which items spread most, taking all aspects together.

    Args:
        sample: float (T, D) by slug, finite, of the same T items, at least one.

    Returns:
        float32 (D, P) by slug, P at most ``MAX_PROJECTED``; together they have orthonormal columns.
    """
    rows = np.concatenate([np.asarray(vectors, np.float32) for vectors in sample.values()], axis=1)
    rows -= rows.mean(axis=0)
    if len(rows) > rows.shape[1]:
        _, vectors = np.linalg.eigh(rows.T.astype(np.float64) @ rows)
        axes = vectors[:, ::-1]
    else:
        axes = np.linalg.svd(rows, full_matrices=False)[2].T
    axes = axes[:, :MAX_PROJECTED].astype(np.float32)
    cuts = np.cumsum([vectors.shape[1] for vectors in sample.values()])[:-1]
    return dict(zip(sample, map(np.ascontiguousarray, np.split(axes, cuts)), strict=True))
