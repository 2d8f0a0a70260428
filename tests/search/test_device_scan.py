"""The scan on devices gives what the CPU's exact path gives, bit for bit; the CPU stands in for the devices."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from indexer import IndexDirectoryError
from search.device import products as device_products
from search.device import scan as device_scan
from search.device import shard as device_shard
from search.device.choice import DeviceError
from search.device.products import products
from search.device.queries import HalfQueries
from search.device.scan import DeviceScan
from search.exact import TopK, exact_scores, exact_top_k
from search.row_scores import ROW_NORM
from search.vectors import StoredVectors

SLUGS = ("overall", "subject", "brushwork")
Query = Mapping[str, NDArray[np.float64]]


def unit_rows(rng: np.random.Generator, count: int, dim: int) -> NDArray[np.float16]:
    rows = rng.standard_normal((count, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)


def random_query(rng: np.random.Generator, dim: int) -> Query:
    """One to three aspects, weights of either sign."""
    asked = rng.permutation(len(SLUGS))[: rng.integers(1, len(SLUGS) + 1)]
    return {SLUGS[each]: rng.uniform(-2, 2) * unit_rows(rng, 1, dim)[0].astype(np.float64) for each in asked}


def random_store(
    rng: np.random.Generator, count: int, dim: int, *, distinct: int = 10**6, parts: int = 1
) -> StoredVectors:
    copies = rng.integers(0, min(distinct, count), count)  # few distinct rows make many ties
    cuts = np.sort(rng.integers(0, count + 1, parts - 1))  # some parts are empty
    return StoredVectors.of_arrays({slug: np.split(unit_rows(rng, count, dim)[copies], cuts) for slug in SLUGS})


def truth(store: StoredVectors, query: Query, k: int, rows: NDArray[np.int64] | None = None) -> TopK:
    """Score every row in float64 and sort all of them."""
    rows = np.arange(store.rows) if rows is None else rows
    scores = exact_scores(store, query, rows)
    best = np.lexsort((rows, -scores))[:k]
    return TopK(rows[best], scores[best])


def assert_same(got: TopK, expected: TopK) -> None:
    np.testing.assert_array_equal(got.rows, expected.rows)
    np.testing.assert_array_equal(got.scores, expected.scores)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of 16 rows at 8 dimensions, segments of a few pieces."""
    monkeypatch.setattr(device_shard, "PIECE_BYTES", 256)
    monkeypatch.setattr(device_shard, "SCORE_BYTES", 400)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 500),
    dim=st.sampled_from([1, 2, 7, 16, 33]),
    distinct=st.sampled_from([1, 2, 5, 10_000]),
    parts=st.integers(1, 5),
    k=st.integers(1, 600),
    devices=st.integers(1, 3),
    memory=st.sampled_from([0, 1_000, 5_000, 10**9]),
    piece_bytes=st.sampled_from([1, 300, 2_000, 10**6]),
    score_bytes=st.sampled_from([1, 2_000, 10**6]),
    share=st.sampled_from([None, 0.0, 0.02, 0.3, 0.9, 1.0]),
)
def test_equals_the_exact_path(
    seed: int, count: int, dim: int, distinct: int, parts: int, k: int, devices: int, memory: int, piece_bytes: int,
    score_bytes: int, share: float | None,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    store = random_store(rng, count, dim, distinct=distinct, parts=parts)
    rows = None if share is None else np.flatnonzero(rng.random(count) < share)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_shard, "PIECE_BYTES", piece_bytes if count < 100 else max(piece_bytes, 300))
        patch.setattr(device_shard, "SCORE_BYTES", score_bytes)
        scan = DeviceScan(store, ["cpu"] * devices, memory)
        queries = [random_query(rng, dim) for _ in range(3)]
        counts = [k, 1, 20]
        for query, k, got in zip(queries, counts, scan.top_k_batch(queries, counts, rows=rows), strict=True):
            assert_same(got, truth(store, query, k, rows))
            assert_same(got, exact_top_k(store, query, k, rows=rows))
            assert_same(scan.top_k(query, k, rows=rows), got)  # with what the batch left on the device
        assert scan.cached_bytes <= memory * devices


def test_at_the_sizes_of_the_field() -> None:
    """30,000 items, 3 aspects, 256 dimensions, pieces and buffers as shipped."""
    rng = np.random.default_rng(1)
    store = random_store(rng, 30_000, 256, parts=4)
    scan = DeviceScan(store, ["cpu", "cpu"], 20 << 20)
    for weights in ((1.0, 0.7, 0.5), (1.0, -0.3, 0.2)):
        query = {slug: weight * unit_rows(rng, 1, 256)[0].astype(np.float64)
                 for slug, weight in zip(SLUGS, weights, strict=True)}  # fmt: skip
        assert_same(scan.top_k(query, 20), truth(store, query, 20))


@pytest.mark.parametrize("scale", [1e-300, 1e-42, 1.0, 1e38, 1e300])
def test_weights_of_any_size(scale: float) -> None:
    """Weights far outside half precision change the scores and not the order."""
    rng = np.random.default_rng(2)
    store = random_store(rng, 500, 8)
    query = random_query(rng, 8)
    scaled = {slug: vector * scale for slug, vector in query.items()}
    got = DeviceScan(store, ["cpu"]).top_k(scaled, 20)
    assert_same(got, truth(store, scaled, 20))
    np.testing.assert_array_equal(got.rows, truth(store, query, 20).rows)


def test_differences_far_below_half_precision_are_seen() -> None:
    rng = np.random.default_rng(3)
    one = unit_rows(rng, 1, 64)
    store = StoredVectors.of_arrays(
        {"overall": [np.repeat(one, 3_000, axis=0)], "subject": [unit_rows(rng, 3_000, 64)]}
    )
    query = {"overall": one[0].astype(np.float64), "subject": 1e-10 * rng.standard_normal(64)}
    assert_same(DeviceScan(store, ["cpu"]).top_k(query, 10), truth(store, query, 10))


def test_the_stated_bound_covers_the_scan() -> None:
    """Every score is within half the slack of the true one, and the slack is no idle bound."""
    rng = np.random.default_rng(4)
    store = random_store(rng, 2_000, 250)
    query = {slug: rng.standard_normal(250) for slug in SLUGS}
    halves = HalfQueries.of([query], ROW_NORM)
    shard = device_shard.DeviceShard(store, "cpu", start=0, stop=2_000, memory=0)
    found = shard.scan(halves, np.array([2_000]), None)
    np.testing.assert_array_equal(found.rows, np.arange(2_000))
    # The scale is a power of two that brings the sum of the norms to between 1/2 and 1.
    total = sum(float(np.linalg.norm(vector)) for vector in query.values())
    scale = 2.0 ** -np.ceil(np.log2(total))
    assert np.abs(found.scores - scale * exact_scores(store, query, found.rows)).max() <= halves.slack[0] / 2
    assert halves.slack[0] < 1.5e-3


def test_a_batch_of_different_aspects_in_several_passes(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_scan, "BATCH", 4)
    rng = np.random.default_rng(5)
    store = random_store(rng, 300, 8)
    queries = [random_query(rng, 8) for _ in range(10)]
    counts = [7, 1, 300, 2, 999, 50, 3, 3, 120, 8]
    tops = DeviceScan(store, ["cpu", "cpu"]).top_k_batch(queries, counts)
    for query, k, top in zip(queries, counts, tops, strict=True):
        assert_same(top, truth(store, query, k))
    assert DeviceScan(store, ["cpu"]).top_k_batch([], []) == []


class Reads:
    """Counts what is read from a store."""

    def __init__(self, store: StoredVectors, monkeypatch: pytest.MonkeyPatch) -> None:
        self.blocks: list[tuple[str, int]] = []
        copy_block = store.copy_block

        def counted(slug: str, start: int, out: NDArray[np.float16]) -> None:
            self.blocks.append((slug, start))
            time.sleep(0.002 * (len(self.blocks) % 3))  # later reads end before earlier ones
            copy_block(slug, start, out)

        monkeypatch.setattr(store, "copy_block", counted)

    def taken(self) -> list[tuple[str, int]]:
        blocks, self.blocks = self.blocks, []
        return sorted(blocks)


def test_what_fits_is_read_once_and_the_rest_at_every_query(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    store = random_store(rng, 160, 8)  # 10 pieces of 256 bytes an aspect
    reads = Reads(store, monkeypatch)
    overall, subject = ({slug: rng.standard_normal(8)} for slug in ("overall", "subject"))
    everything = [("overall", start) for start in range(0, 160, 16)]
    scan = DeviceScan(store, ["cpu"], 6 * 256)
    assert_same(scan.top_k(overall, 5), truth(store, overall, 5))
    assert reads.taken() == everything
    assert_same(scan.top_k(overall, 5), truth(store, overall, 5))
    assert reads.taken() == everything[6:]  # the first six lie on the device
    assert scan.cached_bytes == 6 * 256
    assert not scan.fits(1)
    # Another aspect takes the place of the one that is not asked for, and never more.
    assert_same(scan.top_k(subject, 5), truth(store, subject, 5))
    assert len(reads.taken()) == 10
    assert_same(scan.top_k(subject, 5), truth(store, subject, 5))
    assert len(reads.taken()) == 4
    both = {**overall, **subject}
    assert_same(scan.top_k(both, 5), truth(store, both, 5))
    assert len(reads.taken()) == 14
    assert scan.cached_bytes == 6 * 256


def test_few_selected_rows_are_gathered(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else is read of what is not on the device, and what is there is used."""
    rng = np.random.default_rng(7)
    store = random_store(rng, 160, 8)
    reads = Reads(store, monkeypatch)
    query = {"overall": rng.standard_normal(8)}
    few, many = np.array([3, 40, 41, 159]), np.arange(0, 64, 2)
    scan = DeviceScan(store, ["cpu"], 10**6)
    assert scan.fits(3)
    assert_same(scan.top_k(query, 3, rows=few), truth(store, query, 3, few))
    assert reads.taken() == []
    assert scan.cached_bytes == 0
    assert_same(scan.top_k(query, 3, rows=many), truth(store, query, 3, many))
    assert reads.taken() == [("overall", start) for start in (0, 16, 32, 48)]
    monkeypatch.setattr(store, "gather_halves", None)  # the rescoring would need it
    shard = scan._shards[0]
    found = shard.scan(HalfQueries.of([query], ROW_NORM), np.array([2]), np.array([3, 40, 41]))
    assert set(found.rows) <= {3, 40, 41}
    assert len(found.rows) >= 2
    assert reads.taken() == []


def test_threads_share_a_scan(small: None) -> None:
    rng = np.random.default_rng(8)
    store = random_store(rng, 400, 8, parts=3)
    scan = DeviceScan(store, ["cpu", "cpu"], 2_000)
    queries = [random_query(rng, 8) for _ in range(24)]
    with ThreadPoolExecutor(4) as pool:
        for query, top in zip(queries, pool.map(lambda query: scan.top_k(query, 9), queries), strict=True):
            assert_same(top, truth(store, query, 9))


def test_no_items_and_more_devices_than_items() -> None:
    rng = np.random.default_rng(9)
    query = {"overall": rng.standard_normal(4)}
    empty = StoredVectors.of_arrays({"overall": [np.empty((0, 4), np.float16)]})
    assert DeviceScan(empty, ["cpu"]).top_k(query, 3).rows.shape == (0,)
    store = StoredVectors.of_arrays({"overall": [unit_rows(rng, 2, 4)]})
    assert_same(DeviceScan(store, ["cpu"] * 5).top_k(query, 9), truth(store, query, 9))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_damaged_vectors_are_told(small: None, value: float) -> None:
    rows = unit_rows(np.random.default_rng(10), 60, 8)
    rows[33, 2] = value
    store = StoredVectors.of_arrays({"overall": [rows[:8], rows[8:]]})
    scan = DeviceScan(store, ["cpu", "cpu"], 512)
    query = {"overall": np.eye(8)[0]}  # the damaged value is multiplied by zero
    for _ in range(2):
        with pytest.raises(IndexDirectoryError, match=r"stored vectors are damaged .*build the index anew"):
            scan.top_k(query, 1)
    # What is not selected is not judged, whether its piece is multiplied or not.
    for chosen in (np.delete(np.arange(60), 33), np.array([1, 32])):
        assert_same(scan.top_k(query, 4, rows=chosen), truth(store, query, 4, chosen))


def test_too_little_memory_is_told_and_does_not_last(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(11)
    store = random_store(rng, 100, 8)
    query = random_query(rng, 8)
    scan = DeviceScan(store, ["cpu"], 10**6)

    def full(*_: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    with monkeypatch.context() as patch:
        patch.setattr(device_shard, "products", full)
        with pytest.raises(
            DeviceError, match=r"memory of cpu does not suffice: vectors may take 1,000,000 bytes.*memory="
        ):
            scan.top_k(query, 4)
    assert scan.cached_bytes == 0
    assert_same(scan.top_k(query, 4), truth(store, query, 4))


def test_a_device_that_rounds_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    store = random_store(np.random.default_rng(12), 10, 8)
    monkeypatch.setattr(device_products, "products", lambda queries, rows: queries @ rows.T)  # halves for halves
    with pytest.raises(DeviceError, match=r"cpu sums products of halves with an error of .*fp16_accumulation"):
        DeviceScan(store, ["cpu"])


def test_devices_and_memory_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    store = random_store(np.random.default_rng(13), 10, 8)
    with pytest.raises(DeviceError, match=r"no device 'cuda:99' to scan with; there is cpu"):
        DeviceScan(store, ["cuda:99"])
    with pytest.raises(DeviceError, match=r"number of bytes, at least 0, not -1"):
        DeviceScan(store, ["cpu"], -1)
    monkeypatch.setattr(device_scan, "cuda_devices", lambda: ())
    with pytest.raises(DeviceError, match=r"no GPU that torch can use; scan on the CPU"):
        DeviceScan(store)


def test_the_product_as_cuda_spells_it() -> None:
    """torch takes the operation with these shapes and types away from the CPU, and says it gives float32."""
    queries, rows = (torch.empty((count, 24), dtype=torch.float16, device="meta") for count in (2, 50))
    got = products(queries, rows)
    assert (got.shape, got.dtype) == ((2, 50), torch.float32)
