from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer import quantizer as quantizer_module
from indexer.manifest import IndexDirectoryError
from indexer.quantizer import CENTROIDS, SUB_DIM, Quantizer, sub_quantizers


def unit_rows(count: int, dim: int, *, rank: int | None = None, seed: int = 0) -> np.ndarray:
    """Return unit rows, float32 (count, dim), of ``rank`` directions and a little noise in the others."""
    draw = np.random.default_rng(seed)
    rows = draw.standard_normal((count, dim))
    if rank is not None:
        directions = np.random.default_rng(99).standard_normal((rank, dim)) / np.sqrt(rank)
        rows = draw.standard_normal((count, rank)) @ directions + 0.1 * rows
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def sub_codes(quantizer: Quantizer, codes: np.ndarray) -> np.ndarray:
    return np.stack([codes & 15, codes >> 4], axis=2).reshape(len(codes), len(quantizer.centroids))


def estimates(quantizer: Quantizer, codes: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Return float64 (queries, rows), as a search computes them: by look-up."""
    found = sub_codes(quantizer, codes)
    places = np.arange(found.shape[1])
    tables = [
        np.einsum("mkd,md->mk", quantizer.centroids.astype(np.float64), quantizer.rotate(query).reshape(-1, SUB_DIM))
        for query in queries.astype(np.float64)
    ]
    return np.array([table[places, found].sum(axis=1) for table in tables])


def error(quantizer: Quantizer, rows: np.ndarray, queries: np.ndarray) -> float:
    return float(np.std(estimates(quantizer, quantizer.encode(rows), queries) - queries @ rows.T))


@pytest.mark.parametrize("dim", [1, 4, 7, 8, 9, 16, 250, 256])
def test_codes_are_whole_bytes_and_waste_less_than_one(dim: int) -> None:
    assert sub_quantizers(dim) % 2 == 0
    assert dim <= SUB_DIM * sub_quantizers(dim) < dim + 8
    rows = unit_rows(20, dim)
    quantizer = Quantizer.train(rows)
    codes = quantizer.encode(rows)
    assert (codes.dtype, codes.shape) == (np.uint8, (20, sub_quantizers(dim) // 2))
    assert (quantizer.code_bytes, quantizer.dim, quantizer.trained_on) == (codes.shape[1], dim, 20)


@pytest.mark.parametrize("rotated", [True, False])
def test_every_code_is_that_of_the_nearest_centroid_in_the_order_of_faiss(
    rotated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not rotated:
        monkeypatch.setattr(quantizer_module, "MAX_ROTATED_DIM", 0)
    rows = unit_rows(300, 22, rank=6)
    quantizer = Quantizer.train(rows)
    assert (quantizer.rotation is not None) == rotated
    codes = quantizer.encode(rows)
    turned = np.array([quantizer.rotate(row) for row in rows.astype(np.float64)])
    away = turned.reshape(300, 6, 1, SUB_DIM) - quantizer.centroids
    distances = np.square(away * quantizer.scale.reshape(6, 1, SUB_DIM)).sum(axis=3)
    chosen = np.take_along_axis(distances, sub_codes(quantizer, codes)[:, :, None].astype(int), axis=2)[:, :, 0]
    np.testing.assert_allclose(chosen, distances.min(axis=2), atol=1e-5)
    theirs: Any = faiss.ProductQuantizer(24, 6, 4)
    faiss.copy_array_to_vector(quantizer.centroids.ravel(), theirs.centroids)
    picked = quantizer.centroids[np.arange(6), sub_codes(quantizer, codes)].reshape(300, 24)
    np.testing.assert_array_equal(theirs.decode(codes), picked)


@pytest.mark.parametrize("rotated", [True, False])
def test_rotating_leaves_inner_products_as_they_are(rotated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not rotated:
        monkeypatch.setattr(quantizer_module, "MAX_ROTATED_DIM", 0)
    rows = unit_rows(50, 13)
    quantizer = Quantizer.train(rows)
    turned = np.array([quantizer.rotate(row) for row in rows.astype(np.float64)])
    assert (turned.dtype, turned.shape) == (np.float32, (50, 16))
    np.testing.assert_allclose(turned @ turned.T, rows @ rows.T, atol=1e-5)


@pytest.mark.parametrize("rank", [8, 16, None])
def test_estimates_are_as_good_as_without_a_rotation_and_far_better_where_vectors_fill_few_dimensions(
    rank: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, queries = unit_rows(4000, 64, rank=rank), unit_rows(50, 64, rank=rank, seed=1)
    rotated = error(Quantizer.train(rows[:2000]), rows, queries)
    monkeypatch.setattr(quantizer_module, "MAX_ROTATED_DIM", 0)
    plain = error(Quantizer.train(rows[:2000]), rows, queries)
    assert rotated < (1.05 if rank is None else 0.5) * plain
    assert plain < np.std(queries @ rows.T)


@pytest.mark.parametrize("count", [1, 2, 5, CENTROIDS])
def test_so_few_vectors_are_kept_as_they_are(count: int) -> None:
    rows = unit_rows(count, 10)
    quantizer = Quantizer.train(rows)
    queries = unit_rows(7, 10, seed=1)
    np.testing.assert_allclose(estimates(quantizer, quantizer.encode(rows), queries), queries @ rows.T, atol=1e-5)


def test_vectors_that_are_all_the_same_are_kept_as_they_are(capfd: pytest.CaptureFixture[str]) -> None:
    rows = np.repeat(unit_rows(1, 12), 100, axis=0)
    quantizer = Quantizer.train(rows)
    queries = unit_rows(7, 12, seed=1)
    np.testing.assert_allclose(estimates(quantizer, quantizer.encode(rows), queries), queries @ rows.T, atol=1e-5)
    assert capfd.readouterr() == ("", "")


def test_no_vectors_at_all_make_a_quantizer_too() -> None:
    quantizer = Quantizer.train(np.empty((0, 12), np.float32))
    assert (quantizer.trained_on, quantizer.encode(np.empty((0, 12), np.float32)).shape) == (0, (0, 2))


def test_the_same_vectors_give_the_same_bytes_on_any_number_of_threads() -> None:
    rows = unit_rows(400, 32)
    threads = faiss.omp_get_max_threads()
    try:
        made = []
        for number in (1, 3):
            faiss.omp_set_num_threads(number)
            quantizer = Quantizer.train(rows)
            made.append((quantizer.to_bytes(), quantizer.encode(rows).tobytes()))
            assert faiss.omp_get_max_threads() == number
    finally:
        faiss.omp_set_num_threads(threads)
    assert made[0] == made[1]


@pytest.mark.parametrize("count", [1, 40])
def test_what_was_written_is_read(tmp_path: Path, count: int) -> None:
    quantizer = Quantizer.train(unit_rows(count, 10))
    (tmp_path / "é.safetensors").write_bytes(quantizer.to_bytes())
    read = Quantizer.read(tmp_path / "é.safetensors", dim=10)
    assert read.to_bytes() == quantizer.to_bytes()
    assert (read.dim, read.trained_on, read.rotation is None) == (10, count, count == 1)
    np.testing.assert_array_equal(read.encode(unit_rows(9, 10)), quantizer.encode(unit_rows(9, 10)))


def damaged(*, facts: Any = None, **changes: Any) -> bytes:
    made = Quantizer.train(unit_rows(40, 10))
    assert made.rotation is not None
    tensors = {"centroids": made.centroids, "scale": made.scale, "rotation": made.rotation, **changes}
    told = {"version": 1, "trained_on": 40} if facts is None else facts
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    return safetensors.numpy.save(kept, metadata={"quantizer": json.dumps(told)})


GOOD = damaged()
NAN = np.full((4, 16, 4), np.nan, np.float32)
HUGE = np.full((4, 16, 4), -1e30, np.float32)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", ""),
        (b"\xff" * 100, ""),
        (GOOD[:-8], ""),
        (damaged(facts=[]), ""),
        (damaged(facts={"version": 1}), "trained_on"),
        (damaged(facts={"version": 2, "trained_on": 1}), "version 2, and this program reads version 1"),
        (damaged(facts={"version": 1, "trained_on": -1}), "trained_on is -1"),
        (damaged(facts={"version": 1, "trained_on": float("inf")}), "cannot convert float infinity"),
        (damaged(centroids=None), "centroids"),
        (damaged(centroids=NAN), "centroids holds values that are not finite"),
        (
            damaged(centroids=np.full((4, 16, 4), -1e30, np.float32)),
            "centroids holds values .* beyond those of unit vectors",
        ),
        (damaged(centroids=np.zeros((4, 16, 4))), r"centroids should be float32 \(4, 16, 4\), and is float64"),
        (damaged(centroids=np.zeros((2, 16, 4), np.float32)), r"and is float32 \(2, 16, 4\)"),
        (damaged(rotation=np.zeros((10, 16), np.float32)), r"rotation should be float32 \(16, 10\)"),
        (damaged(scale=np.zeros(16, np.float32)), "a scale is not above 0"),
        (safetensors.numpy.save({"centroids": NAN}), ""),
    ],
)
def test_damage_is_named(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "q.safetensors").write_bytes(data)
    with pytest.raises(IndexDirectoryError, match=f"q.safetensors is no quantizer of vectors of 10 .*{message}"):
        Quantizer.read(tmp_path / "q.safetensors", dim=10)


@settings(deadline=None)  # a busy machine is no fault of the code
@given(place=st.integers(0, 400), byte=st.integers(0, 255))
def test_no_damage_raises_anything_else(tmp_path_factory: pytest.TempPathFactory, place: int, byte: int) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.safetensors"
    data = bytearray(GOOD)
    data[place] = byte
    path.write_bytes(data)
    with contextlib.suppress(IndexDirectoryError):
        Quantizer.read(path, dim=10).encode(unit_rows(3, 10))
