from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from indexer.columns import ITEM_SCHEMA, LedgerLine
from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.file_checks import check_part
from indexer.manifest_file import read_manifest
from indexer.pictures import picture_state
from tests.fixtures.indices import write_index
from tests.fixtures.picture_folders import picture_bytes


def unit_rows(count: int, dim: int = 8, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    vectors = {"overall": unit_rows(5), "brushwork": unit_rows(5, seed=1)}
    return write_index(tmp_path / "index", vectors, rows_per_part=3, errors=[LedgerLine("bad", "why")])


def rewrite_manifest(index: Path, change: Callable[[dict[str, Any]], None]) -> None:
    record = json.loads((index / "manifest.json").read_text())
    change(record)
    (index / "manifest.json").write_text(json.dumps(record))


def test_what_was_written_is_read(index: Path) -> None:
    opened = IndexDirectory.open(index, verify=True)
    assert (opened.rows, opened.dim, [aspect.text for aspect in opened.aspects]) == (5, 8, ["overall", "brushwork"])
    vectors = opened.vectors("Brushwork")
    assert [(type(part), part.shape, part.dtype) for part in vectors] == [
        (np.memmap, (3, 8), np.float16),
        (np.memmap, (2, 8), np.float16),
    ]
    np.testing.assert_array_equal(np.concatenate(vectors), unit_rows(5, seed=1).astype(np.float16))
    assert opened.items(["size", "key"]).column_names == ["size", "key"]
    assert opened.items()["key"].to_pylist() == [f"picture-{row:06d}" for row in range(5)]
    assert opened.errors().to_pylist() == [{"key": "bad", "reason": "why"}]


def test_row_order_is_the_manifests_with_more_than_ten_parts(tmp_path: Path) -> None:
    vectors = unit_rows(12)
    path = write_index(tmp_path / "i", {"overall": vectors}, rows_per_part=1)
    rewrite_manifest(path, lambda record: record["parts"].reverse())
    opened = IndexDirectory.open(path)
    assert opened.items()["key"].to_pylist() == [f"picture-{row:06d}" for row in reversed(range(12))]
    np.testing.assert_array_equal(np.concatenate(opened.vectors("overall")), vectors[::-1].astype(np.float16))


@pytest.mark.parametrize("name", ["Bilder – é 猫", "a=b", "with space", "percent%20", "brackets[0]*"])
def test_any_path_will_do(tmp_path: Path, name: str) -> None:
    path = write_index(tmp_path / name / "index", {"overall": unit_rows(2)}, metadata=[{"a": 1}, {"a": 2}])
    opened = IndexDirectory.open(path, verify=True)
    assert opened.items().column_names[-2:] == ["height", "a"]
    assert opened.vectors("overall")[0].shape == (2, 8)


def test_a_part_without_rows_is_read(tmp_path: Path) -> None:
    opened = IndexDirectory.open(write_index(tmp_path / "i", {"overall": unit_rows(3)[:0]}))
    assert (opened.rows, opened.items().num_rows, opened.vectors("overall")[0].shape) == (0, 0, (0, 8))


def test_there_must_be_an_index(tmp_path: Path) -> None:
    with pytest.raises(IndexDirectoryError, match="does not exist; make one with: tpips-index build"):
        IndexDirectory.open(tmp_path / "none")
    with pytest.raises(IndexDirectoryError, match="holds no finished index"):
        IndexDirectory.open(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(IndexDirectoryError, match="is no folder"):
        IndexDirectory.open(tmp_path / "file")
    (tmp_path / "manifest.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(IndexDirectoryError, match="cannot read"):
        IndexDirectory.open(tmp_path)


def test_a_newer_format_is_refused_with_what_to_do(index: Path) -> None:
    rewrite_manifest(index, lambda record: record.update(format_version=99))
    with pytest.raises(IndexDirectoryError, match=r"version 99.*update tpips-retrieval.*index"):
        IndexDirectory.open(index)


@pytest.mark.parametrize(
    "name", ["items/part-00001.parquet", "errors/part-00001.parquet", "aspects/overall/part-00001.npy"]
)
@pytest.mark.parametrize("damage", ["truncated", "missing", "a folder"])
def test_a_damaged_part_is_refused_when_opened(index: Path, name: str, damage: str) -> None:
    path = index / name
    data = path.read_bytes()
    path.unlink()
    if damage == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "a folder":
        path.mkdir()
    with pytest.raises(IndexDirectoryError, match=f"{name} (is missing|has [0-9,]+ bytes instead of)"):
        IndexDirectory.open(index)


def resized(record: dict[str, Any], name: str, size: int) -> None:
    record["parts"][1]["files"][name]["bytes"] = size


@pytest.mark.parametrize(
    "name", ["items/part-00001.parquet", "errors/part-00001.parquet", "aspects/overall/part-00001.npy"]
)
def test_a_truncated_part_whose_size_the_manifest_agrees_with_is_refused(index: Path, name: str) -> None:
    data = (index / name).read_bytes()[:-20]
    (index / name).write_bytes(data)
    rewrite_manifest(index, lambda record: resized(record, name, len(data)))
    with pytest.raises(IndexDirectoryError, match=r"is damaged|should hold float16 \(2, 8\)"):
        IndexDirectory.open(index)


def test_whatever_byte_of_an_arrays_header_is_damaged_is_one_error_or_none(index: Path) -> None:
    path = index / "aspects/overall/part-00001.npy"
    whole = path.read_bytes()
    manifest = read_manifest(index)
    refused = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Python thinks of the expression that numpy reads
        for place in range(128):
            for byte in (0, 10, 39, 40, 91, 92, 0xFF, whole[place] ^ 1):
                path.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
                try:
                    check_part(index, manifest.parts[1], manifest)
                except IndexDirectoryError:
                    refused += 1
    assert refused > 500


@pytest.mark.parametrize("what", ["rows", "errors"])
def test_counts_must_be_those_of_the_manifest(index: Path, what: str) -> None:
    rewrite_manifest(index, lambda record: record["parts"][1].update({what: 7}))
    with pytest.raises(IndexDirectoryError, match="rows, and the manifest says 7"):
        IndexDirectory.open(index)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((2, 8), np.float32),
        np.zeros((1, 8), np.float16),
        np.zeros((2, 7), np.float16),
        np.asfortranarray(np.zeros((2, 8), np.float16)),
    ],
    ids=["type", "rows", "width", "order"],
)
def test_vectors_of_another_shape_or_type_are_refused(index: Path, array: np.ndarray) -> None:
    name = "aspects/overall/part-00001.npy"
    np.save(index / name, array)
    rewrite_manifest(index, lambda record: resized(record, name, (index / name).stat().st_size))
    with pytest.raises(IndexDirectoryError, match=r"should hold float16 \(2, 8\) in C order"):
        IndexDirectory.open(index)


def test_a_pickled_array_is_never_loaded(index: Path) -> None:
    name = "aspects/overall/part-00001.npy"
    np.save(index / name, np.array([{"a": 1}] * 2, dtype=object))
    rewrite_manifest(index, lambda record: resized(record, name, (index / name).stat().st_size))
    with pytest.raises(IndexDirectoryError, match="should hold float16"):
        IndexDirectory.open(index)


def test_columns_must_be_there(index: Path) -> None:
    name = "items/part-00001.parquet"
    pq.write_table(pq.ParquetFile(index / name).read().drop_columns(["offset"]), index / name)
    rewrite_manifest(index, lambda record: resized(record, name, (index / name).stat().st_size))
    with pytest.raises(IndexDirectoryError, match="lacks the column 'offset' of type int64"):
        IndexDirectory.open(index)


def test_columns_of_one_name_are_refused(index: Path) -> None:
    name = "items/part-00001.parquet"
    table = pq.ParquetFile(index / name).read()
    pq.write_table(table.append_column("key", table["key"]), index / name)
    rewrite_manifest(index, lambda record: resized(record, name, (index / name).stat().st_size))
    with pytest.raises(IndexDirectoryError, match=r"is damaged .it has two columns of one name"):
        IndexDirectory.open(index)


@pytest.mark.parametrize("columns", [None, ["key"]])
def test_text_that_is_not_utf8_is_refused_when_read(index: Path, columns: list[str] | None) -> None:
    name = "items/part-00001.parquet"
    table = pq.ParquetFile(index / name).read()
    keys = pa.array([b"\xff\xfe"] * 2, pa.binary()).view(pa.string())
    pq.write_table(table.set_column(0, table.schema.field(0), keys), index / name)
    rewrite_manifest(index, lambda record: resized(record, name, (index / name).stat().st_size))
    opened = IndexDirectory.open(index)
    with pytest.raises(IndexDirectoryError, match=r"part-00001.parquet is damaged .*UTF8"):
        opened.items(columns)


def test_an_index_without_parts_has_all_columns_and_no_rows(index: Path) -> None:
    rewrite_manifest(index, lambda record: record.update(parts=[]))
    opened = IndexDirectory.open(index)
    assert opened.items(["size", "key", "none"]).to_pydict() == {"size": [], "key": []}
    assert (opened.rows, opened.items().schema, opened.errors().num_rows) == (0, ITEM_SCHEMA, 0)


def test_a_flipped_bit_is_found_by_the_checksums(index: Path) -> None:
    path = index / "aspects/brushwork/part-00000.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    IndexDirectory.open(index)
    with pytest.raises(IndexDirectoryError, match=r"brushwork/part-00000\.npy does not have the checksum"):
        IndexDirectory.open(index, verify=True)


def test_vectors_of_another_part_are_found_by_the_checksums(index: Path) -> None:
    shutil.copy(index / "aspects/brushwork/part-00000.npy", index / "aspects/overall/part-00000.npy")
    with pytest.raises(IndexDirectoryError, match=r"overall/part-00000\.npy does not have the checksum"):
        IndexDirectory.open(index, verify=True)


def test_an_aspect_that_is_not_indexed_is_an_error_that_names_those_that_are(index: Path) -> None:
    with pytest.raises(IndexDirectoryError, match=r"'lighting' is not indexed .* aspects: 'overall', 'brushwork'"):
        IndexDirectory.open(index).vectors("lighting")


def test_an_incomplete_aspect_cannot_be_queried(index: Path) -> None:
    rewrite_manifest(index, lambda record: record["parts"][0]["files"].pop("aspects/brushwork/part-00000.npy"))
    opened = IndexDirectory.open(index)
    assert [aspect.text for aspect in opened.aspects] == ["overall"]
    with pytest.raises(IndexDirectoryError, match="'brushwork' is not indexed"):
        opened.vectors("brushwork")


@pytest.fixture
def with_pictures(tmp_path: Path) -> IndexDirectory:
    pictures = [picture_bytes(seed) for seed in range(2)]
    return IndexDirectory.open(write_index(tmp_path / "index", {"overall": unit_rows(2)}, pictures=pictures))


def test_an_items_bytes_are_those_of_its_picture(with_pictures: IndexDirectory) -> None:
    rows = with_pictures.items().to_pylist()
    assert [with_pictures.item_bytes(row) for row in rows] == [picture_bytes(seed) for seed in range(2)]


def test_pictures_may_lie_elsewhere(with_pictures: IndexDirectory, tmp_path: Path) -> None:
    shutil.move(with_pictures.data_root, tmp_path / "moved")
    opened = IndexDirectory.open(with_pictures.path, data_root=tmp_path / "moved")
    assert opened.item_bytes(opened.items().to_pylist()[1]) == picture_bytes(1)


def test_an_index_moves_together_with_its_pictures(with_pictures: IndexDirectory, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    shutil.move(with_pictures.path, tmp_path / "elsewhere/index")
    opened = IndexDirectory.open(tmp_path / "elsewhere/index")
    assert opened.item_bytes(opened.items().to_pylist()[1]) == picture_bytes(1)


@pytest.mark.parametrize("file", ["../manifest.json", "/etc/hostname", "a/../../x", "link.png", "a\0b", ".", ""])
def test_no_item_leads_outside_the_data_root(with_pictures: IndexDirectory, file: str) -> None:
    (with_pictures.data_root / "link.png").symlink_to(with_pictures.path / "manifest.json")
    with pytest.raises(
        IndexDirectoryError, match=r"which is not inside|cannot be read|is no regular file|has no picture"
    ):
        with_pictures.item_bytes({**with_pictures.items().to_pylist()[0], "file": file})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 7}, "has changed since it was indexed .7 bytes then"),
        ({"offset": 0, "size": 1 << 40}, "at most"),
        ({"offset": 10, "size": 1 << 20}, "ends at byte"),
        ({"offset": -5}, "has no"),
        ({"offset": 0, "size": -1}, "has no"),
        ({"file": "none.png"}, "cannot be read: No such file"),
    ],
)
def test_what_cannot_be_the_picture_is_an_error(
    with_pictures: IndexDirectory, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(IndexDirectoryError, match=f"item 'picture-000000'.*{message}.*build a new index"):
        with_pictures.item_bytes({**with_pictures.items().to_pylist()[0], **change})


def test_a_picture_that_has_become_a_link_in_circles_is_an_error(with_pictures: IndexDirectory) -> None:
    row = with_pictures.items().to_pylist()[0]
    path = with_pictures.data_root / row["file"]
    path.unlink()
    path.symlink_to(path.name)
    with pytest.raises(IndexDirectoryError, match=r"item 'picture-000000'.*([Ss]ymlink loop|symbolic links)"):
        with_pictures.item_bytes(row)
    assert picture_state(with_pictures).vanished == ("picture-000000",)


def test_a_named_pipe_in_a_pictures_place_does_not_wait_for_ever(with_pictures: IndexDirectory) -> None:
    row = with_pictures.items().to_pylist()[0]
    (with_pictures.data_root / row["file"]).unlink()
    os.mkfifo(with_pictures.data_root / row["file"])
    with pytest.raises(IndexDirectoryError, match="is no regular file"):
        with_pictures.item_bytes(row)
