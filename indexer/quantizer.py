"""The product quantizer of an aspect: a vector becomes four bits for every four of its dimensions."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from indexer.manifest import IndexDirectoryError

if TYPE_CHECKING:
    import faiss

__all__ = ["CENTROIDS", "SUB_DIM", "TRAINING_ROWS", "Quantizer", "sub_quantizers"]

CENTROIDS = 16
SUB_DIM = 4
# Measured on 200,000 vectors of 256 dimensions: the error of estimates is 3 % lower than with half as many, and at most
# 1 % higher than with four times as many.
TRAINING_ROWS = 16_384
# The covariance's eigenvectors take a time that grows with the cube of the dimensions.
MAX_ROTATED_DIM = 8192

_VERSION = 1
_SEED = 1234
# No direction counts for less than this fraction of the most important one, so that dividing by it is safe.
_LEAST_SCALE = 1e-3
# What stands in a file is at most 1, but for rounding.
_LARGEST = 1.1


def sub_quantizers(dim: int) -> int:
    """Return M, how many sub-quantizers a vector of ``dim`` values has: an even number, so that codes are whole bytes.

    >>> sub_quantizers(256), sub_quantizers(10)
    (64, 4)
    """
    return 2 * -(-dim // (2 * SUB_DIM))


@dataclass(frozen=True, eq=False)
class Quantizer:
    """Turns vectors into codes of four bits for every four dimensions, and queries into what codes are compared with.

    A vector is padded with zeros to 4M values and rotated; each run of four becomes the number of the nearest of 16
    centroids. For a query q and a vector x with codes c, Σ_m rotate(q)[4m : 4m + 4] · centroids[m, c_m] estimates q·x.

    Attributes:
        centroids: float32 (M, 16, 4).
        scale: float32 (4M,), above 0: how much an error in each rotated dimension counts where centroids are chosen.
        rotation: float32 (4M, D) with orthonormal columns, or ``None`` where vectors are only padded.
        dim: D.
        trained_on: From how many vectors it was made.
    """

    centroids: NDArray[np.float32]
    scale: NDArray[np.float32]
    rotation: NDArray[np.float32] | None
    dim: int
    trained_on: int

    @property
    def code_bytes(self) -> int:
        """The bytes of one vector's codes: M / 2."""
        return len(self.centroids) // 2

    def rotate(self, query: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return what to compare centroids with.

        Args:
            query: float64 (D,), of a size that float32 holds.

        Returns:
            float32 (4M,).
        """
        return np.ascontiguousarray(self._rotated(query[None].astype(np.float32))[0])

    def encode(self, vectors: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
        """Return the vectors' codes.

        Args:
            vectors: float (rows, D), finite.

        Returns:
            uint8 (rows, M / 2): sub-quantizer 2j is the low half of byte j, and 2j + 1 the high half, as faiss has it.
        """
        scaled = self._rotated(vectors.astype(np.float32)) * self.scale
        codes: NDArray[np.uint8] = self._scaled_faiss().compute_codes(np.ascontiguousarray(scaled))
        return codes

    def to_bytes(self) -> bytes:
        """Return the file's bytes, the same for the same quantizer."""
        tensors = {"centroids": self.centroids, "scale": self.scale}
        if self.rotation is not None:
            tensors["rotation"] = self.rotation
        facts = json.dumps({"version": _VERSION, "trained_on": self.trained_on})
        # One entry only: safetensors writes several in an order of its own every time.
        return bytes(safetensors.numpy.save(tensors, metadata={"quantizer": facts}))

    @classmethod
    def read(cls, path: Path, *, dim: int) -> Quantizer:
        """Read a quantizer's file, trusting nothing in it.

        Raises:
            IndexDirectoryError: It is damaged, of another version, or for vectors of another length.
        """
        try:
            with safetensors.safe_open(path, framework="numpy") as file:
                facts = json.loads((file.metadata() or {})["quantizer"])
                version, trained_on = facts["version"], int(facts["trained_on"])
                if version != _VERSION:
                    raise ValueError(f"it is of version {version}, and this program reads version {_VERSION}")
                if trained_on < 0:
                    raise ValueError(f"trained_on is {trained_on}")
                names = {"centroids", "scale", "rotation"}.intersection(file.keys())
                found = {name: file.get_tensor(name) for name in names}
            width = SUB_DIM * sub_quantizers(dim)
            centroids = _checked(found, "centroids", (width // SUB_DIM, CENTROIDS, SUB_DIM))
            scale = _checked(found, "scale", (width,))
            if not (scale > 0).all():
                raise ValueError("a scale is not above 0")
            rotation = _checked(found, "rotation", (width, dim)) if "rotation" in found else None
        except (OSError, ArithmeticError, ValueError, TypeError, KeyError, RecursionError, SafetensorError) as error:
            raise IndexDirectoryError(
                f"index file {path} is no quantizer of vectors of {dim} dimensions ({error}); make the codes anew: "
                "tpips-index codes --remove, then tpips-index codes"
            ) from error
        return cls(centroids, scale, rotation, dim, trained_on)

    @classmethod
    def train(cls, sample: NDArray[np.floating[Any]]) -> Quantizer:
        """Make a quantizer for vectors like these; the same one every time.

        Args:
            sample: float (T, D), finite; any number of rows, all of which may be the same.
        """
        count, dim = sample.shape
        width = SUB_DIM * sub_quantizers(dim)
        rows = np.zeros((max(count, CENTROIDS), width), np.float32)
        if count:
            rows[:, :dim] = sample[np.arange(len(rows)) % count]  # k-means needs a vector for every centroid
        rotation, scale = None, np.ones(width, np.float32)
        if count > 1 and dim <= MAX_ROTATED_DIM:
            rotation, scale = _rotation(rows[:count])
            rows = rows @ rotation.T
        # k-means is the same every time only on one thread; faiss's setting is per thread, and ends with it.
        import faiss

        with ThreadPoolExecutor(1, initializer=faiss.omp_set_num_threads, initargs=(1,)) as pool:
            scaled = pool.submit(_centroids, rows * scale).result()
        centroids = scaled / scale.reshape(-1, 1, SUB_DIM)
        return cls(centroids, scale, None if rotation is None else np.ascontiguousarray(rotation[:, :dim]), dim, count)

    def _rotated(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.rotation is not None:
            return np.asarray(vectors @ self.rotation.T)
        return np.pad(vectors, ((0, 0), (0, len(self.scale) - self.dim)))

    def _scaled_faiss(self) -> faiss.ProductQuantizer:
        import faiss

        quantizer = faiss.ProductQuantizer(len(self.scale), len(self.centroids), 4)
        scaled = self.centroids * self.scale.reshape(-1, 1, SUB_DIM)
        faiss.copy_array_to_vector(np.ascontiguousarray(scaled, np.float32).ravel(), quantizer.centroids)
        return quantizer


def _checked(found: dict[str, Any], name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    array = found[name]
    if array.dtype != np.float32 or array.shape != shape:
        raise ValueError(f"{name} should be float32 {shape}, and is {array.dtype} {array.shape}")
    if not (np.abs(array) <= _LARGEST).all():
        raise ValueError(f"{name} holds values that are not finite, or beyond those of unit vectors")
    return np.asarray(array)


def _centroids(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    import faiss

    quantizer = faiss.ProductQuantizer(rows.shape[1], rows.shape[1] // SUB_DIM, 4)
    quantizer.cp.seed = _SEED
    quantizer.cp.min_points_per_centroid = 1  # it would warn of fewer
    quantizer.cp.max_points_per_centroid = len(rows)
    quantizer.train(np.ascontiguousarray(rows, np.float32))
    found: NDArray[np.float32] = faiss.vector_to_array(quantizer.centroids).reshape(-1, CENTROIDS, SUB_DIM)
    return found


def _rotation(rows: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the rotation (4M, 4M) that spreads what vectors differ by evenly over the sub-quantizers, and the scale.

    The principal axes, largest first, are cut into four tiers of M; within a tier they are mixed by a cosine transform,
    and every sub-quantizer gets one dimension of each. So all of them carry the same share of the variance, none wastes
    its bits on a direction without any, and no single direction's outliers fall to one. Queries come from where the
    vectors come from, so an error along a direction counts by the vectors' second moment along it.
    """
    width = rows.shape[1]
    tier = width // SUB_DIM
    wide = rows.astype(np.float64)
    mean = wide.mean(axis=0)
    second_moment = wide.T @ wide / len(wide)
    _, axes = np.linalg.eigh(second_moment - np.outer(mean, mean))
    axes = axes[:, ::-1]
    weight = np.einsum("ij,ij->j", axes, second_moment @ axes).reshape(SUB_DIM, tier).mean(axis=1)
    mixing = _cosine_transform(tier)
    rotation = np.empty((width, width), np.float32)
    for number in range(SUB_DIM):
        rotation[number::SUB_DIM] = mixing @ axes[:, number * tier : (number + 1) * tier].T
    scale = np.sqrt(np.maximum(weight, 0.0) / max(weight.max(), np.finfo(np.float64).tiny))
    return rotation, np.tile(np.maximum(scale, _LEAST_SCALE), tier).astype(np.float32)


def _cosine_transform(size: int) -> NDArray[np.float64]:
    """Return the orthonormal DCT-II, float64 (size, size)."""
    steps = np.arange(size)
    matrix = np.sqrt(2.0 / size) * np.cos(np.pi / size * np.outer(steps, steps + 0.5))
    matrix[0] /= np.sqrt(2.0)
    return matrix
