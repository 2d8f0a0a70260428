from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from indexer.directory import IndexDirectory
from indexer.importing.config import ImportConfig
from indexer.importing.vector_input import EmbeddingsError, VectorInput, rechunked
from indexer.importing.vectors import import_vectors
from tests.fixtures.exports import COUNT, DIM, unit_vectors
from tests.fixtures.imports import refused, saved, table
from tpips_model.aspects import Aspect
from tpips_model.errors import TpipsError


class Loud:
    """What runs when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return (exec, ("raise SystemExit('unpickled')",))


def test_object_arrays_are_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[Loud()]], object), allow_pickle=True)
    refused(tmp_path, "holds Python objects, which are never unpickled", overall=tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((3, 4), np.int8), r"holds int8 \(3, 4\), and vectors are float16"),
        (np.zeros((3, 4), np.complex64), "holds complex64"),
        (np.zeros(12, np.float32), r"holds float32 \(12,\)"),
        (np.zeros((3, 2, 2), np.float32), r"holds float32 \(3, 2, 2\)"),
        (np.zeros((3, 0), np.float32), "vectors of 0 dimensions"),
        (np.zeros((3, 4), [("a", "f4")]), "and vectors are float16, float32 or float64"),
    ],
)
def test_arrays_of_other_kinds_are_refused(tmp_path: Path, array: np.ndarray, message: str) -> None:
    refused(tmp_path, message, overall=saved(tmp_path / "a.npy", array))


def test_sizes_that_nothing_backs_are_refused(tmp_path: Path) -> None:
    place = saved(tmp_path / "a.npy", unit_vectors())
    whole = place.read_bytes()
    place.write_bytes(whole.replace(b"(150, 8)", b"(9999999999999, 8)".ljust(18))[:-10])
    refused(tmp_path, "is no npy file|which takes .* bytes, and it has", overall=place)
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999, 512), }".ljust(117) + "\n"
    place.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode())
    refused(tmp_path, "takes 204,799,999,999,998,080 bytes, and it has 128", overall=place)
    for damaged in (whole[:-1], whole + b"x", whole + whole):
        place.write_bytes(damaged)
        refused(tmp_path, "it is damaged or not whole", overall=place)
    for damaged in (b"", whole[:20], b"text", b"\x93NUMPY\x09\x00" + whole[8:]):
        place.write_bytes(damaged)
        refused(tmp_path, "is no npy file that can be read", overall=place)


def test_damaged_parquet_is_refused(tmp_path: Path) -> None:
    emb = pa.array(unit_vectors().tolist(), pa.list_(pa.float32()))
    place = table(tmp_path / "a.parquet", emb=emb)
    whole = place.read_bytes()
    for at in range(4, len(whole), len(whole) // 40):
        place.write_bytes(whole[:at])
        refused(tmp_path, "is no parquet file that can be read|is damaged", overall=place)
    rng = np.random.default_rng(0)
    for at in rng.integers(4, len(whole), 60).tolist():
        place.write_bytes(whole[:at] + bytes(rng.integers(0, 256, 8, dtype=np.uint8)) + whole[at + 8 :])
        out = tmp_path / "out"
        try:  # what is not noticed is a number among unit vectors; nothing else may come of it
            import_vectors(ImportConfig(out, ((Aspect("overall"), str(place)),), progress=False))
        except TpipsError:
            assert not out.exists()
        else:
            assert IndexDirectory.open(out, verify=True).rows == COUNT
            for path in sorted(out.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            out.rmdir()


@pytest.mark.parametrize("given", [8, 12])
def test_a_file_must_give_as_many_vectors_as_it_says(given: int) -> None:
    vectors = VectorInput("a file", 10, DIM, lambda most: iter([unit_vectors(given)]))
    with pytest.raises(EmbeddingsError, match=f"a file says that it holds 10 vectors, and gave {given}"):
        list(rechunked(vectors, 4))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1.0, 0.0], [1.0], [0.0, 1.0]], "a vector of 1 dimensions instead of 2 in row 1"),
        ([[1.0, 0.0], None, [0.0, 1.0]], "no vector in row 1"),
        ([None, [1.0, 0.0]], "no vector in row 0"),
        ([[1.0, 0.0], [None, 1.0]], "a missing number in row 1"),
    ],
)
def test_ragged_columns_are_refused(tmp_path: Path, values: list, message: str) -> None:
    place = table(tmp_path / "a.parquet", emb=pa.array(values, pa.list_(pa.float32())))
    refused(tmp_path, message, overall=place)


def test_columns_must_be_known(tmp_path: Path) -> None:
    emb = pa.array(unit_vectors(2).tolist(), pa.list_(pa.float32()))
    two = table(tmp_path / "a.parquet", one=emb, other=emb, name=["a", "b"])
    refused(tmp_path, r"does not tell which column .*'one', 'other'. Say which with FILE\?column=NAME", overall=two)
    refused(tmp_path, "has no column of vectors 'name'", overall=f"{two}?column=name")
    refused(tmp_path, "unknown option 'col' behind", overall=f"{two}?col=one")
    refused(tmp_path, "has no column 'id'", error=TpipsError, overall=f"{two}?column=one&key=id")
    refused(tmp_path, "has two columns of one name", overall=_two_of_one_name(tmp_path / "b.parquet", emb))
    refused(tmp_path, "is no parquet file, so it has no column", overall=f"{tmp_path}/a.npy?column=x")


def _two_of_one_name(path: Path, emb: pa.Array) -> Path:
    pq.write_table(pa.Table.from_arrays([emb, emb], ["emb", "emb"]), path)
    return path
