"""Results taken along: CSV, contact sheet, ZIP."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from pathlib import Path

import pytest
from PIL import Image, ImageFont

import apps.exports
from apps.exports import contact_sheet, to_csv, to_zip
from search import Hits, Searcher
from tests.fixtures.app_gallery import picture
from tpips_model.errors import TpipsError


@pytest.fixture
def hits(app_gallery: Path) -> Hits:
    searcher = Searcher.open(app_gallery)
    return searcher.query([("picture 03.png", "brushwork"), ("picture 09.png", "color palette", -0.5)], 8)


def test_csv_holds_every_share(hits: Hits) -> None:
    head, *rows = list(csv.reader(io.StringIO(to_csv(hits))))
    assert head[:3] == ["rank", "key", "score"]
    assert head[4].startswith("share 2: -0.5 x picture 09.png")
    assert set(head[5:]) == {"style", "year", "signed"}
    for row, hit in zip(rows, hits, strict=True):
        assert row[1] == hit.key
        assert float(row[3]) + float(row[4]) == pytest.approx(float(row[2]), abs=3e-6)


def test_no_cell_is_a_formula(hits: Hits, monkeypatch: pytest.MonkeyPatch) -> None:
    object.__setattr__(hits[0], "metadata", {"style": "=HYPERLINK(1)", "year": -3})
    cells = list(csv.reader(io.StringIO(to_csv(hits))))[1]
    assert "'=HYPERLINK(1)" in cells
    assert "-3" in cells


def test_contact_sheet_shows_the_pictures(hits: Hits) -> None:
    sheet = Image.open(io.BytesIO(contact_sheet(hits)))
    assert sheet.format == "PNG"
    assert sheet.width > 6 * apps.exports.CELL
    number = int(hits[0].key[8:10])
    middle = Image.open(io.BytesIO(picture(number))).convert("RGB")
    left = apps.exports.GAP + apps.exports.CELL // 2
    found = sheet.getpixel((left, apps.exports.ASKED + 2 * apps.exports.GAP + apps.exports.CELL // 2))
    expected = middle.getpixel((middle.width // 2, middle.height // 2))
    assert max(abs(a - b) for a, b in zip(found, expected, strict=True)) < 40


def test_contact_sheet_shows_the_querys_pictures(hits: Hits) -> None:
    sheet = Image.open(io.BytesIO(contact_sheet(hits)))
    asked = Image.open(io.BytesIO(picture(3))).convert("RGB")
    middle = (apps.exports.GAP + 30, apps.exports.GAP + apps.exports.ASKED // 2)
    expected = asked.resize((1, 1)).getpixel((0, 0))
    assert max(abs(a - b) for a, b in zip(sheet.getpixel(middle), expected, strict=True)) < 110


def test_contact_sheet_has_letters_beyond_ascii() -> None:
    font = ImageFont.truetype(apps.exports.FONT, 20)
    unknown = bytes(font.getmask("\uffff"))
    for letter in "üß×éŁжλ":
        assert bytes(font.getmask(letter)) not in (unknown, b"")


def test_contact_sheet_of_a_picture_that_is_gone(hits: Hits, monkeypatch: pytest.MonkeyPatch) -> None:
    object.__setattr__(hits[0], "record", {**hits[0].record, "file": "gone.png"})
    assert Image.open(io.BytesIO(contact_sheet(hits))).format == "PNG"


def test_zip_holds_the_files_as_they_were_indexed(hits: Hits) -> None:
    with zipfile.ZipFile(io.BytesIO(to_zip(hits))) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert names[0] == "0001-" + hits[0].key.replace(" ", "_")
        assert archive.read(names[0]) == picture(int(hits[0].key[8:10]))
        assert json.loads(archive.read("results.json"))["hits"][0]["key"] == hits[0].key


def test_zip_is_bounded(hits: Hits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apps.exports, "MAX_ZIP_BYTES", 1 << 20)
    object.__setattr__(hits[0], "record", {**hits[0].record, "size": 2 << 20})
    with pytest.raises(TpipsError, match="over 1 MB together"):
        to_zip(hits)
