"""Vectors, codes, lists, pictures and the model: whatever does not belong together is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.file_names import thumbnails_file
from indexer.index_summary import summarise
from indexer.quantizer import Quantizer
from indexer.verifying.check import MAX_FAILURES
from indexer.verifying.pictures import sample_rows
from indexer.verifying.stored import StoredIndex
from indexer.verifying.verify import VerifyConfig, verify
from tests.fixtures.damaged_indices import (
    BRUSHWORK,
    OVERALL,
    REMOVED,
    change_array,
    change_table,
    check,
    failures,
    looked,
    rewrite,
    swap,
)
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.picture_folders import picture_bytes
from tpips_model import AspectLike, ImageLike, ModelError


def test_the_model_is_compared_before_its_vectors(index: Path) -> None:
    other = StubEmbedder()
    other.fingerprint = "stub:2"
    found = looked(index, embedder=other)
    assert "fingerprint 'stub:1', and the model stub has 'stub:2'" in check(found, "model").failures[0]
    assert check(found, "vectors made again").state == "not checked"
    assert not found.ok
    other = StubEmbedder()
    other.recommended_overall_penalty = 0.3
    (note,) = check(looked(index, embedder=other), "model").notes
    assert note == "the index recommends the overall penalty 0, and the model 0.3"


def test_swapped_rows_of_vectors_are_named(index: Path) -> None:
    change_array(index, f"{BRUSHWORK}/part-00002.npy", swap)
    keys = IndexDirectory.open(index).part_items(IndexDirectory.open(index).manifest.parts[2], ["key"])["key"]
    found = failures(index)
    assert {"vectors made again", "codes"} <= set(found) <= {"vectors made again", "codes", "lists"}
    told = found["vectors made again"]
    assert len(told) == 2
    for one, row in zip(told, (1, 4), strict=True):
        assert f"the vector of {keys[row].as_py()!r} under 'brushwork' has cosine" in one


@pytest.mark.parametrize(("value", "length"), [(np.nan, "nan"), (np.inf, "inf"), (0.0, "0"), (0.5, "2")])
def test_vectors_that_are_not_of_unit_length_are_named(index: Path, value: float, length: str) -> None:
    def change(array: np.ndarray) -> None:
        array[2] = array[5] = value

    change_array(index, f"{OVERALL}/part-00000.npy", change)
    found = failures(index)["vectors"]
    assert [f"under 'overall' has length {length}, where 1 is expected" in one for one in found] == [True, True]
    assert ["'0002.bmp'" in found[0], "'0005.bmp'" in found[1]] == [True, True]
    with pytest.raises(IndexDirectoryError, match=r"vector of '0002.bmp' under 'overall' has length .*1 more"):
        summarise(IndexDirectory.open(index, verify=True), read_vectors=True)


def test_one_vector_for_all_is_noticed(index: Path) -> None:
    def same(array: np.ndarray) -> None:
        array[:] = np.eye(1, array.shape[1])

    for part in range(4):
        change_array(index, f"{BRUSHWORK}/part-{part:05d}.npy", same)
    found = failures(index)
    assert found["one vector for all"] == ("all 27 items have one and the same vector under 'brushwork'",)
    assert len(found["vectors made again"]) == 27


def test_another_preprocessing_under_the_same_fingerprint_is_noticed(index: Path) -> None:
    class Changed(StubEmbedder):
        def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> np.ndarray:
            return super().embed([np.zeros((4, 4, 3), np.uint8)] * len(images), aspects)

    found = failures(index, embedder=Changed(), sample=8)
    assert list(found) == ["vectors made again"]
    assert len(found["vectors made again"]) == 16


def test_a_quantizer_of_other_vectors_is_noticed(index: Path) -> None:
    other = np.random.default_rng(5).standard_normal((64, 16)).astype(np.float32)
    other /= np.linalg.norm(other, axis=1, keepdims=True)
    rewrite(index, f"{OVERALL}/quantizer.safetensors", Quantizer.train(other).to_bytes())
    found = failures(index)
    assert list(found) == ["codes"]
    assert all("under 'overall' are not those of its vector" in one for one in found["codes"])
    with pytest.raises(IndexDirectoryError, match="are not those of its vector"):
        summarise(IndexDirectory.open(index, verify=True), read_vectors=True)


def test_codes_and_lists_of_other_rows_are_named(index: Path) -> None:
    change_array(index, f"{BRUSHWORK}/part-00000.codes.npy", swap)
    numbers = np.load(index / "lists/part-00002.npy", allow_pickle=False)

    def other(array: np.ndarray) -> None:
        array[0] = (array[0] + 1) % 3
        array[1] = 3

    change_array(index, "lists/part-00002.npy", other)
    found = failures(index)
    assert set(found) == {"codes", "lists"}
    assert found["codes"] == tuple(
        f"the codes of '000{row}.bmp' under 'brushwork' are not those of its vector" for row in (1, 4)
    )
    beyond, wrong = found["lists"]
    assert beyond.endswith("is in list 3, and there are 3")
    assert wrong.endswith(f"is in list {(numbers[0] + 1) % 3}, and its vectors belong to list {numbers[0]}")


def test_a_replaced_picture_of_the_same_size_is_named(home: Path, index: Path) -> None:
    (home / "data" / "0005.bmp").write_bytes(picture_bytes(77, format="BMP"))
    found = failures(index)
    assert set(found) == {"vectors made again", "thumbnails"}
    assert len(found["vectors made again"]) == 2
    assert all("'0005.bmp'" in one for one in (*found["vectors made again"], *found["thumbnails"]))
    (home / "data" / "0005.bmp").write_bytes(picture_bytes(5, width=8, height=12, format="BMP"))
    turned = failures(index, use_model=False)["decoding"]
    assert turned == ("item '0005.bmp' was 12×8 pixels large and is 8×12",)


def test_pictures_that_are_gone_changed_or_broken_are_named(home: Path, index: Path) -> None:
    (home / "data" / "0001.bmp").unlink()
    (home / "data" / "0002.bmp").write_bytes(picture_bytes(2))
    data = (home / "more" / "0103.bmp").read_bytes()
    (home / "more" / "0103.bmp").write_bytes(b"x" * len(data))
    found = failures(index)
    assert [("gone" in one, "changed" in one) for one in found["pictures"]] == [(True, False), (False, True)]
    assert ["'0001.bmp'" in found["pictures"][0], "'0002.bmp'" in found["pictures"][1]] == [True, True]
    assert [key in one for key, one in zip(("0001", "0002", "more/0103"), found["decoding"], strict=True)] == [True] * 3


def test_thumbnails_of_other_rows_and_broken_ones_are_named(index: Path) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        rows[1]["thumbnail"], rows[4]["thumbnail"] = rows[4]["thumbnail"], rows[1]["thumbnail"]
        rows[6]["thumbnail"] = b"\xff\xd8\xff no picture"

    change_table(index, thumbnails_file(2), change)
    found = failures(index)
    assert list(found) == ["thumbnails"]
    assert [("another picture" in one, "cannot be read" in one) for one in found["thumbnails"]] == [
        (True, False),
        (True, False),
        (False, True),
    ]


def test_without_model_or_pictures_the_rest_is_checked(home: Path, index: Path) -> None:
    found = looked(index, use_model=False)
    assert found.ok
    assert {one.name for one in found.checks if one.state == "not checked"} == {"model", "vectors made again"}
    shutil.move(home / "data", home / "moved")
    found = looked(index)
    assert found.ok
    assert "data; say with --data-root where the pictures are now" in check(found, "pictures").told
    assert "of 6 items in 1 of 4 parts" in check(found, "vectors made again").told  # the other source's
    found = looked(index, data_root=home / "moved")
    assert found.ok
    assert "of 27 items in 4 of 4 parts" in check(found, "vectors made again").told
    shutil.move(home / "more", home / "away")
    found = looked(index)
    assert found.ok
    assert [check(found, name).state for name in ("pictures", "decoding", "vectors made again")] == ["not checked"] * 3


def test_a_model_that_is_not_there_is_told_unless_it_was_asked_for(index: Path) -> None:
    text = (index / "manifest.json").read_text()
    (index / "manifest.json").write_text(text.replace('"name": "stub"', '"name": "/nowhere/model"'))
    found = verify(VerifyConfig(index, progress=False))
    assert "cannot be loaded" in check(found, "model").told
    assert check(found, "model").state == "not checked"
    assert found.ok
    with pytest.raises(ModelError, match="nowhere"):
        verify(VerifyConfig(index, model="/nowhere/model", progress=False))


def test_a_sample_is_spread_over_all_parts(index: Path) -> None:
    stored = StoredIndex(IndexDirectory.open(index))
    for count in (4, 5, 9, 27, 28):
        rows = sample_rows(stored, count)
        assert len(rows) == min(count, 27)
        assert {row.part.id for row in rows} == {0, 1, 2, 3}
        assert len({row.item["key"] for row in rows}) == len(rows)
        assert REMOVED not in {row.item["key"] for row in rows}
    assert len({row.part.id for row in sample_rows(stored, 2)}) == 2


def test_failures_are_counted_where_they_are_too_many_to_list(tmp_path: Path) -> None:
    from tests.fixtures.indices import write_index

    vectors = np.tile(np.eye(1, 8, dtype=np.float32), (MAX_FAILURES + 50, 1))
    index = write_index(tmp_path / "index", {"overall": vectors}, rows_per_part=500)

    def change(array: np.ndarray) -> None:
        array[:] = np.nan

    change_array_of_one_part(index, change)
    found = check(looked(index, use_model=False), "vectors")
    assert (found.failed, len(found.failures)) == (MAX_FAILURES + 50, MAX_FAILURES)


def change_array_of_one_part(index: Path, change: Callable[[np.ndarray], None]) -> None:
    manifest = json.loads((index / "manifest.json").read_text())
    manifest["quantizers"] = {}
    (index / "manifest.json").write_text(json.dumps(manifest))
    change_array(index, f"{OVERALL}/part-00000.npy", change)
