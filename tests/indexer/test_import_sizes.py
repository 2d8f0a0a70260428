"""Imported pictures get their sizes from the files' headers, and what has no header stays of unknown size."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from indexer.directory import IndexDirectory
from indexer.exporting.export import export_index
from indexer.importing.config import ImportConfig
from indexer.importing.vectors import import_vectors
from indexer.verifying.verify import VerifyConfig, verify
from tests.fixtures.exports import run_command, unit_vectors
from tests.tpips_model.test_image_headers import exif
from tpips_model.aspects import OVERALL


@pytest.fixture
def given(tmp_path: Path) -> ImportConfig:
    """Vectors and a table of pictures: two sound ones, one turned by EXIF, a damaged one, and one that is not there."""
    folder = tmp_path / "Bilder"
    folder.mkdir()
    for name, size, turned in (("a.png", (40, 30), 1), ("b.jpg", (64, 16), 6), ("c.webp", (9, 7), 1)):
        Image.new("RGB", size, "green").save(folder / name, exif=exif(turned))
    (folder / "bad.png").write_bytes(b"no picture")
    names = ["a.png", "b.jpg", "bad.png", "c.webp", "gone.png"]
    np.save(tmp_path / "a.npy", unit_vectors(len(names)), allow_pickle=False)
    pq.write_table(pa.table({"key": names, "file": names}), tmp_path / "keys.parquet")
    return ImportConfig(
        tmp_path / "index",
        vectors=((OVERALL, str(tmp_path / "a.npy")),),
        keys=str(tmp_path / "keys.parquet"),
        pictures=folder,
        progress=False,
    )


def sizes(index: Path) -> list[tuple[int, int]]:
    items = IndexDirectory.open(index, verify=True).items()
    return list(zip(items["width"].to_pylist(), items["height"].to_pylist(), strict=True))


KNOWN = [(40, 30), (16, 64), (0, 0), (9, 7), (0, 0)]


@pytest.mark.parametrize(("rows", "large"), [(1 << 16, 1 << 24), (2, 0)])
def test_sizes_come_from_headers(given: ImportConfig, rows: int, large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.importing.vectors.MAX_PART_ROWS", rows)
    monkeypatch.setattr("indexer.importing.sizes._LARGE", large)
    monkeypatch.setattr("indexer.importing.sizes._AT_ONCE", 1)
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", lambda *_: pytest.fail("a pixel was decoded"))
    summary = import_vectors(given)
    assert sizes(given.out) == KNOWN
    assert (summary.pictured, summary.missing, summary.unsized) == (4, 1, 1)
    assert summary.unsized_example.startswith("cannot read image 'bad.png': it begins with b'no picture'")
    assert [one.name for one in threading.enumerate() if one.name.startswith("header")] == []


def test_verify_finds_the_sizes_that_decoding_does(given: ImportConfig) -> None:
    assert given.pictures is not None
    Image.new("RGB", (40, 30)).save(given.pictures / "bad.png")
    import_vectors(given)
    assert sizes(given.out)[2] == (40, 30)
    found = verify(VerifyConfig(given.out, progress=False))
    assert found.ok, [check for check in found.checks if check.failed]


def test_an_export_of_unknown_sizes_gets_them_and_keeps_those_it_has(given: ImportConfig, tmp_path: Path) -> None:
    import_vectors(ImportConfig(tmp_path / "bare", given.vectors, keys=given.keys, progress=False))
    assert sizes(tmp_path / "bare") == [(0, 0)] * 5
    import_vectors(given)
    export_index(IndexDirectory.open(given.out), tmp_path / "export", layout="npy", progress=False)
    pictures = given.pictures
    assert pictures is not None
    Image.new("RGB", (33, 44)).save(pictures / "a.png")  # another picture now, which is not what was exported
    Image.new("RGB", (33, 44)).save(pictures / "bad.png")
    import_vectors(ImportConfig(tmp_path / "again", export=str(tmp_path / "export"), pictures=pictures, progress=False))
    assert sizes(tmp_path / "again") == KNOWN


def test_the_command_says_how_many_have_no_size(given: ImportConfig) -> None:
    places = ("--keys", given.keys, "--pictures", given.pictures)
    told = run_command("import-embeddings", "--out", given.out, "--aspect", f"overall={given.vectors[0][1]}", *places)
    assert told.exit_code == 0, told.output
    assert "1 picture of unknown width and height, since no header tells: cannot read image 'bad.png'" in told.output


def test_a_picture_of_too_many_pixels_stays_unknown(given: ImportConfig) -> None:
    assert given.pictures is not None
    (given.pictures / "a.png").write_bytes(b"P6 20000 20000 255 " + bytes(100))
    buffer = io.BytesIO()
    Image.new("RGB", (3, 4)).save(buffer, "PNG")
    (given.pictures / "bad.png").write_bytes(buffer.getvalue())
    summary = import_vectors(given)
    assert sizes(given.out)[0] == (0, 0)
    assert sizes(given.out)[2] == (3, 4)
    assert summary.unsized == 1
