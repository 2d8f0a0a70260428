from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexer import codes as codes_module
from indexer import vector_blocks
from indexer.codes import make_codes, outgrown, remove_codes
from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.index_codes import IndexCodes
from tests.fixtures.indices import write_index
from tests.fixtures.picture_folders import content, write_pictures
from tests.indexer.test_build import run
from tests.indexer.test_directory import resized, rewrite_manifest, unit_rows

ASPECTS = ("overall", "brushwork")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    vectors = {text: unit_rows(70, seed=number) for number, text in enumerate(ASPECTS)}
    return write_index(tmp_path / "index", vectors, rows_per_part=30)


def make(path: Path, *aspects: str, retrain: bool = False) -> IndexDirectory:
    index = IndexDirectory.open(path)
    chosen = [index.indexed_aspect(text) for text in aspects or ASPECTS]
    return make_codes(index, chosen, retrain=retrain, progress=False)


def changed(before: dict[str, bytes], after: dict[str, bytes]) -> set[str]:
    return {name for name in set(before) | set(after) if before.get(name) != after.get(name)}


def test_row_i_of_the_codes_is_that_of_vector_i_in_every_part(index: Path) -> None:
    made = make(index)
    opened = IndexDirectory.open(index, verify=True)
    assert opened.manifest == made.manifest
    assert [aspect.text for aspect in opened.coded_aspects] == list(ASPECTS)
    for text in ASPECTS:
        quantizer = IndexCodes(opened).quantizer(text)
        assert quantizer.trained_on == 70
        codes = IndexCodes(opened).codes(text)
        assert [(type(part), part.shape, part.dtype) for part in codes] == [
            (np.memmap, (rows, 1), np.uint8) for rows in (30, 30, 10)
        ]
        for part, vectors in zip(codes, opened.vectors(text), strict=True):
            np.testing.assert_array_equal(part, quantizer.encode(vectors))


def test_blocks_give_the_codes_of_all_at_once(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(index, tmp_path / "whole")
    make(tmp_path / "whole")
    monkeypatch.setattr(vector_blocks, "BLOCK_VALUES", 7 * 8)
    make(index)
    assert content(index) == content(tmp_path / "whole")


def test_a_quantizer_is_trained_on_rows_from_everywhere(index: Path) -> None:
    opened = IndexDirectory.open(index)
    sample = vector_blocks.sample_vectors(opened, opened.aspects[0], 20)
    stored = np.concatenate(opened.vectors("overall"))
    rows = [int(np.flatnonzero((stored == row).all(axis=1))[0]) for row in sample.astype(np.float16)]
    assert rows[0] == 0
    assert rows[-1] >= 66
    assert set(np.diff(rows)) == {3, 4}


@pytest.mark.parametrize("rows", [0, 1, 15, 16])
def test_any_number_of_rows_can_be_coded(tmp_path: Path, rows: int) -> None:
    opened = IndexDirectory.open(write_index(tmp_path / "i", {"overall": unit_rows(20)[:rows]}, codes=True))
    assert sum(len(part) for part in IndexCodes(opened).codes("overall")) == rows
    assert len(opened.coded_aspects) == 1


def test_coding_an_aspect_touches_no_other(index: Path) -> None:
    make(index, "overall")
    before = content(index)
    make(index, "brushwork")
    names = changed(before, content(index))
    assert {name for name in names if not name.startswith("aspects/brushwork/")} == {"manifest.json"}
    assert len(names) == 1 + 1 + 3


def test_what_is_there_is_left_alone_and_coding_twice_changes_nothing(index: Path) -> None:
    make(index)
    before = {path: path.stat().st_mtime_ns for path in index.rglob("*")}
    make(index)
    make(index, retrain=True)  # which trains the same
    assert before == {path: path.stat().st_mtime_ns for path in index.rglob("*")}


@pytest.mark.parametrize("calls", [0, 1, 4])
def test_coding_that_was_stopped_goes_on_to_the_same_index(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    shutil.copytree(index, tmp_path / "whole")
    make(tmp_path / "whole")
    with monkeypatch.context() as patch:
        encoded: list[int] = []

        def encode(self: Any, vectors: np.ndarray) -> np.ndarray:
            if len(encoded) == calls:
                raise KeyboardInterrupt("stopped by the test")
            encoded.append(len(vectors))
            return whole_encode(self, vectors)

        whole_encode = codes_module.Quantizer.encode
        patch.setattr(codes_module.Quantizer, "encode", encode)
        with pytest.raises(KeyboardInterrupt, match="stopped by the test"):
            make(index)
    begun = IndexDirectory.open(index, verify=True)
    assert len(begun.coded_aspects) == calls // 3
    if calls < 3:
        with pytest.raises(IndexDirectoryError, match=r"'overall' has no codes for all items in .*: tpips-index codes"):
            IndexCodes(begun).codes("overall")
    make(index)
    assert content(index) == content(tmp_path / "whole")


def test_removing_gives_the_index_of_before(index: Path) -> None:
    before = content(index)
    made = make(index)
    remove_codes(made, [made.aspects[0]])
    assert [aspect.text for aspect in IndexDirectory.open(index).coded_aspects] == ["brushwork"]
    remove_codes(IndexDirectory.open(index), made.aspects)
    assert content(index) == before


def test_who_reads_while_codes_are_made_anew_is_told(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(codes_module, "TRAINING_ROWS", 20)
        make(index)
    reader = IndexDirectory.open(index)
    make(index, "overall", retrain=True)
    assert IndexCodes(IndexDirectory.open(index)).quantizer("overall").trained_on == 70
    assert IndexCodes(IndexDirectory.open(index)).quantizer("brushwork").trained_on == 20
    with pytest.raises(IndexDirectoryError, match=r"does not have the checksum.*open it again"):
        IndexCodes(reader).quantizer("overall")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_damaged_vectors_are_not_coded(index: Path, value: float) -> None:
    name = index / "aspects/overall/part-00001.npy"
    stored = np.load(name, allow_pickle=False)
    stored[7] = value
    np.save(name, stored)
    with pytest.raises(IndexDirectoryError, match=r"vectors under 'overall' in .* are damaged .*info --verify tells"):
        make(index)


def test_a_quantizer_is_outgrown_by_twice_as_many_vectors_unless_it_has_seen_enough(index: Path) -> None:
    quantizer = IndexCodes(make(index)).quantizer("overall")
    assert [outgrown(quantizer, rows) for rows in (70, 139, 140)] == [False, False, True]
    assert not outgrown(codes_module.replace(quantizer, trained_on=codes_module.TRAINING_ROWS), 1 << 30)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_index(tmp_path / "small", {"overall": unit_rows(5)}, rows_per_part=3, codes=True)


@pytest.mark.parametrize("name", ["aspects/overall/part-00001.codes.npy", "aspects/overall/quantizer.safetensors"])
def test_damaged_codes_are_refused_when_opened(small: Path, name: str) -> None:
    data = (small / name).read_bytes()
    (small / name).write_bytes(data[:-1])
    with pytest.raises(IndexDirectoryError, match=f"{name} has .* bytes instead of .*tpips-index codes --remove"):
        IndexDirectory.open(small)
    (small / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    IndexDirectory.open(small)
    with pytest.raises(IndexDirectoryError, match=f"{name} does not have the checksum .*tpips-index codes --remove"):
        IndexDirectory.open(small, verify=True)
    (small / name).unlink()
    with pytest.raises(IndexDirectoryError, match=f"{name} is missing"):
        IndexDirectory.open(small)


@pytest.mark.parametrize("array", [np.zeros((2, 1), np.int8), np.zeros((1, 1), np.uint8), np.zeros((2, 2), np.uint8)])
def test_codes_of_another_shape_or_type_are_refused(small: Path, array: np.ndarray) -> None:
    name = "aspects/overall/part-00001.codes.npy"
    np.save(small / name, array)
    rewrite_manifest(small, lambda record: resized(record, name, (small / name).stat().st_size))
    with pytest.raises(IndexDirectoryError, match=r"should hold uint8 \(2, 1\) in C order"):
        IndexDirectory.open(small)


def test_files_that_change_while_the_index_is_open_are_noticed(small: Path) -> None:
    opened = IndexDirectory.open(small)
    np.save(small / "aspects/overall/part-00000.codes.npy", np.zeros((2, 1), np.uint8))
    (small / "aspects/overall/part-00000.npy").unlink()
    for read in (IndexCodes(opened).codes, opened.vectors):
        with pytest.raises(IndexDirectoryError, match="has changed since the index was opened"):
            read("overall")


def coded(path: Path) -> list[str]:
    return [aspect.text for aspect in IndexDirectory.open(path, verify=True).coded_aspects]


def test_a_build_makes_codes_when_asked_and_keeps_them_whole(tmp_path: Path) -> None:
    data, out = write_pictures(tmp_path / "data", 6), tmp_path / "index"
    assert [aspect.text for aspect in run(out, data, "brushwork", codes=True).aspects_coded] == list(ASPECTS)
    before = content(out)
    assert run(out, data).aspects_coded == ()
    assert content(out) == before
    write_pictures(data / "more", 3, first=20)
    assert [aspect.text for aspect in run(out, data).aspects_coded] == list(ASPECTS)
    assert {name for name in before if content(out)[name] != before[name]} == {"manifest.json"}
    assert coded(out) == list(ASPECTS)
    before = content(out)
    run(out, None, "lighting")
    others = {name for name in changed(before, content(out)) if not name.startswith("aspects/lighting/")}
    assert (others, coded(out)) == ({"manifest.json"}, [*ASPECTS, "lighting"])


def test_a_build_completes_the_codes_of_one_aspect_and_makes_no_others(tmp_path: Path) -> None:
    data, out = write_pictures(tmp_path / "data", 6), tmp_path / "index"
    run(out, data, "brushwork")
    make(out, "brushwork")
    write_pictures(data / "more", 3, first=20)
    run(out, data, "lighting")
    assert coded(out) == ["brushwork"]


def test_a_build_that_is_to_make_no_codes_leaves_new_parts_without(tmp_path: Path) -> None:
    data, out = write_pictures(tmp_path / "data", 6), tmp_path / "index"
    run(out, data, codes=True)
    write_pictures(data / "more", 3, first=20)
    assert run(out, data, codes=False).aspects_coded == ()
    assert coded(out) == []


def test_a_large_index_gets_codes_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, out = write_pictures(tmp_path / "data", 6), tmp_path / "index"
    monkeypatch.setattr(codes_module, "CODES_FROM_ROWS", 9)
    run(out, data, "brushwork")
    assert coded(out) == []
    write_pictures(data / "more", 3, first=20)
    run(out, data, codes=False)
    assert coded(out) == []
    run(out, None)
    assert coded(out) == list(ASPECTS)
