"""Small pictures beside the items: made, read a row at a time, and stood in for pictures that are away."""

from __future__ import annotations

import io
import os
import random
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from PIL import Image

import indexer.commands.thumbnails
import indexer.thumbnails
from indexer.commands.thumbnails import add_thumbnails, thumbnails
from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.file_names import removed_file, thumbnails_file
from indexer.index_changes import recorded
from indexer.output_folder import output_folder
from indexer.part import write_array, write_thumbnails
from indexer.stored_bytes import member_turned
from indexer.thumbnails import index_thumbnail, make_thumbnail, small_picture
from tests.fixtures.indices import write_index
from tests.fixtures.pictures import QUARTERS, encoded, pixels
from tpips_model.images import to_rgb
from tpips_model.terminal import run_command

COUNT = 10
SIDE = 32


def picture(number: int) -> bytes:
    noise = np.random.default_rng(number).integers(0, 255, (5, 8, 3), np.uint8)
    return encoded(Image.fromarray(noise).resize((96, 60)), "PNG")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """An index of three parts with its pictures, and no thumbnails."""
    return gallery(tmp_path / "Élan")


def gallery(path: Path) -> Path:
    vectors = np.eye(COUNT, 16, dtype=np.float32)
    write_index(path, {"overall": vectors}, rows_per_part=4, pictures=[picture(number) for number in range(COUNT)])
    return path


def run(*arguments: object) -> None:
    app = typer.Typer()
    app.command()(thumbnails)
    run_command(lambda: app(args=[*map(str, arguments), "--no-progress"]))


def run_well(*arguments: object) -> None:
    with pytest.raises(SystemExit, match="0"):
        run(*arguments)


def files(index: Path) -> dict[str, bytes]:
    return {path.relative_to(index).as_posix(): path.read_bytes() for path in index.rglob("*") if path.is_file()}


class TestMakeThumbnail:
    @pytest.mark.parametrize(
        ("size", "expected"),
        [((400, 300), (64, 48)), ((300, 400), (48, 64)), ((40, 30), (40, 30)), ((5000, 3), (64, 1)), ((1, 1), (1, 1))],
    )
    def test_keeps_the_shape_and_never_enlarges(self, size: tuple[int, int], expected: tuple[int, int]) -> None:
        image = Image.effect_noise(size, 60).convert("RGB")
        before = image.tobytes()
        made = Image.open(io.BytesIO(make_thumbnail(image, 64)))
        assert (made.format, made.mode, made.size) == ("JPEG", "RGB", expected)
        assert (image.size, image.tobytes()) == (size, before)

    def test_is_the_same_for_the_same_pixels_and_takes_nothing_else_along(self) -> None:
        image = Image.fromarray(QUARTERS)
        image.info["comment"] = b"private"
        image.info["exif"] = b"Exif\0\0private"
        made = make_thumbnail(image, 24)
        assert made == make_thumbnail(Image.fromarray(QUARTERS), 24)
        assert b"private" not in made

    def test_looks_like_the_picture(self) -> None:
        image = Image.fromarray(np.kron(QUARTERS, np.ones((8, 8, 1), np.uint8)))
        made = pixels(make_thumbnail(image, 64)).astype(int)
        assert np.abs(made - pixels(image.resize((64, 32), Image.Resampling.BOX)).astype(int)).mean() < 6

    @pytest.mark.parametrize("mode", ["L", "RGBA", "CMYK", "1", "P"])
    def test_takes_every_mode(self, mode: str) -> None:
        assert Image.open(io.BytesIO(make_thumbnail(Image.new(mode, (90, 90)), 32))).mode == "RGB"


class TestCommand:
    def test_every_row_has_its_own(self, index: Path, capsys: pytest.CaptureFixture[str]) -> None:
        run_well(index, "--side", SIDE)
        opened = IndexDirectory.open(index, verify=True)
        assert opened.manifest.thumbnail_side == SIDE
        expected = [make_thumbnail(to_rgb(picture(number)), SIDE) for number in range(COUNT)]
        assert [index_thumbnail(opened, row) for row in range(COUNT)] == expected
        assert "32 pixels for 10 images" in capsys.readouterr().out

    def test_stopped_anywhere_it_gives_the_same_files(
        self, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole = gallery(tmp_path / "whole")
        run_well(whole, "--side", SIDE)
        writes = 0

        def stop_at_the_second(*arguments: Any) -> Any:
            nonlocal writes
            writes += 1
            if writes == 2:
                raise KeyboardInterrupt
            return write_thumbnails(*arguments)

        monkeypatch.setattr(indexer.commands.thumbnails, "write_thumbnails", stop_at_the_second)
        with pytest.raises(SystemExit, match="130"):
            run(index, "--side", SIDE)
        assert [part.has_thumbnails for part in IndexDirectory.open(index).manifest.parts] == [True, False, False]
        run_well(index, "--side", SIDE)
        assert writes == 4
        assert files(index) == files(whole)
        run_well(index, "--side", SIDE)
        assert writes == 4

    def test_another_size_needs_the_old_ones_taken_away(self, index: Path, capsys: pytest.CaptureFixture[str]) -> None:
        before = files(index)
        run_well(index, "--side", SIDE)
        with pytest.raises(SystemExit, match="1"):
            run(index, "--side", 64)
        assert "thumbnails of 32 pixels already; take them away first" in capsys.readouterr().err
        run_well(index, "--remove")
        left = {name: data for name, data in files(index).items() if name.split("/")[0] not in ("lock", "readers")}
        assert left.pop("manifest.json") != before["manifest.json"]  # a new epoch
        assert left.items() <= before.items()
        run_well(index, "--side", 64)
        assert max(Image.open(io.BytesIO(index_thumbnail(IndexDirectory.open(index), 9) or b"")).size) == 64

    def test_what_a_reader_reads_stays(self, index: Path, capsys: pytest.CaptureFixture[str]) -> None:
        run_well(index, "--side", SIDE)
        reader = IndexDirectory.open(index)
        run_well(index, "--remove")
        assert index_thumbnail(reader, 3) == make_thumbnail(to_rgb(picture(3)), SIDE)
        with pytest.raises(SystemExit, match="1"):
            run(index, "--side", 64)
        assert "another program still reads the thumbnails" in capsys.readouterr().err
        del reader
        run_well(index, "--side", 64)

    def test_pictures_that_are_away_are_counted(self, index: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (index / "gallery" / "000002.png").unlink()
        (index / "gallery" / "000005.png").write_bytes(b"x" * len(picture(5)))
        run_well(index, "--side", SIDE)
        said = capsys.readouterr().out
        assert "for 8 images" in said
        assert "2 pictures have none, such as item 'picture-000002'" in said
        opened = IndexDirectory.open(index)
        assert [row for row in range(COUNT) if index_thumbnail(opened, row) is None] == [2, 5]

    def test_with_all_pictures_away_nothing_is_written(
        self, index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (index / "gallery").rename(tmp_path / "moved")
        with pytest.raises(SystemExit, match="1"):
            run(index, "--side", SIDE)
        assert "none of the 4 pictures of part 0 can be read" in capsys.readouterr().err
        assert not list(index.glob("thumbnails/*"))
        run_well(index, "--side", SIDE, "--data-root", tmp_path / "moved")
        assert index_thumbnail(IndexDirectory.open(index), 0)

    def test_removed_items_are_passed_over(self, index: Path) -> None:
        with output_folder(index) as opened:
            assert opened is not None
            first, *others = opened.manifest.parts
            name = removed_file(first.id, 1)
            file = write_array(index / name, np.array([1], np.uint32))
            grown = replace(first, removed=1, files={**first.files, name: file})
            opened = recorded(opened, replace(opened.manifest, parts=(grown, *others)))
            (index / "gallery" / "000001.png").unlink()
            opened, missing = add_thumbnails(opened, SIDE, progress=False)
        assert missing.count == 0
        assert [index_thumbnail(opened, row) is None for row in range(3)] == [False, True, False]

    def test_without_an_index_nothing_is_made(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit, match="1"):
            run(tmp_path / "none")
        assert "does not exist" in capsys.readouterr().err
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("turn", [0, 90, 270])
def test_pictures_stand_as_the_item_does(tmp_path: Path, turn: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    upright = encoded(Image.fromarray(QUARTERS), "JPEG", quality=95, exif=exif)
    vectors = np.eye(1, 4, dtype=np.float32)
    index = write_index(tmp_path / "index", {"overall": vectors}, pictures=[upright])
    record = {**IndexDirectory.open(index).items().to_pylist()[0], "member": member_turned(None, turn)}
    shown = pixels(IndexDirectory.open(index).item_bytes(record)).astype(int)
    opened = IndexDirectory.open(index)
    small = pixels(small_picture(opened, 0, record, 1024)).astype(int)
    assert small.shape == shown.shape
    assert np.abs(small - shown).mean() < 6


class TestSmallPicture:
    @pytest.fixture
    def away(self, index: Path, tmp_path: Path) -> tuple[IndexDirectory, Callable[[], object]]:
        """The index with thumbnails, and what takes its pictures away."""
        run_well(index, "--side", SIDE)
        return IndexDirectory.open(index), lambda: shutil.move(index / "gallery", tmp_path / "elsewhere")

    def record(self, index: IndexDirectory, row: int) -> dict[str, Any]:
        record: dict[str, Any] = index.items().slice(row, 1).to_pylist()[0]
        return {**record, "width": 96, "height": 60}

    def size(self, data: bytes) -> tuple[int, int]:
        return Image.open(io.BytesIO(data)).size

    def test_is_the_thumbnail_where_that_is_large_enough(self, away: Any) -> None:
        index, _ = away
        record, stored = self.record(index, 7), index_thumbnail(index, 7)
        assert small_picture(index, 7, record, SIDE) == stored
        assert self.size(small_picture(index, 7, record, 16)) == (16, 10)
        assert small_picture(index, 7, record, 40, enough=30) == stored
        assert self.size(small_picture(index, 7, record, 40)) == (40, 25)
        assert self.size(small_picture(index, 7, record, 4000)) == (96, 60)

    def test_is_the_thumbnail_where_the_picture_is_away(self, away: Any) -> None:
        index, take_away = away
        take_away()
        record, stored = self.record(index, 7), index_thumbnail(index, 7)
        assert [small_picture(index, 7, record, size) for size in (SIDE, 40, 4000)] == [stored] * 3
        assert self.size(small_picture(index, 7, record, 16)) == (16, 10)

    def test_is_the_picture_where_the_thumbnail_is_damaged(self, away: Any) -> None:
        index, take_away = away
        path = index.path / thumbnails_file(1)
        path.write_bytes(b"\0" * path.stat().st_size)
        assert self.size(small_picture(index, 7, self.record(index, 7), SIDE)) == (32, 20)
        take_away()
        with pytest.raises(IndexDirectoryError, match="say where the pictures are now"):
            small_picture(index, 7, self.record(index, 7), SIDE)


class TestReading:
    @pytest.fixture
    def opened(self, index: Path) -> IndexDirectory:
        run_well(index, "--side", SIDE)
        return IndexDirectory.open(index)

    def test_by_many_threads(self, opened: IndexDirectory) -> None:
        expected = [index_thumbnail(opened, row) for row in range(COUNT)]
        rows = [random.Random(1).randrange(COUNT) for _ in range(400)]
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(lambda row: index_thumbnail(opened, row), rows)) == [expected[row] for row in rows]

    @pytest.mark.parametrize("row", [-1, COUNT])
    def test_of_no_row(self, opened: IndexDirectory, row: int) -> None:
        with pytest.raises(IndexDirectoryError, match="has no row"):
            index_thumbnail(opened, row)

    def test_without_thumbnails(self, index: Path) -> None:
        assert index_thumbnail(IndexDirectory.open(index), 0) is None

    def test_of_damaged_files_is_told(self, opened: IndexDirectory) -> None:
        path = opened.path / thumbnails_file(0)
        good = path.read_bytes()
        expected = [index_thumbnail(opened, row) for row in range(4)]
        draw = random.Random(3)
        told = 0
        for number in range(60):
            place = draw.randrange(len(good))
            damaged = good[:place] if number % 2 else good[:place] + draw.randbytes(12) + good[place + 12 :]
            path.write_bytes(damaged)
            os.utime(path, ns=(number, number))
            for row in range(4):
                try:
                    found = index_thumbnail(opened, row)
                except IndexDirectoryError as error:
                    told += "make the thumbnails anew" in str(error)
                else:
                    # Bytes in the middle of a picture are nobody's but the picture's.
                    assert found is None or found == expected[row] or len(found) == len(expected[row] or b"")
        assert told >= 60

    def test_a_file_of_other_rows_is_refused_when_the_index_is_opened(self, opened: IndexDirectory) -> None:
        first, *others = opened.manifest.parts
        name = thumbnails_file(first.id)
        file = write_thumbnails(opened.path, first.id, [b"\xff\xd8\xff"] * 3)
        changed = replace(first, files={**first.files, name: file})
        recorded(opened, replace(opened.manifest, parts=(changed, *others)))
        with pytest.raises(IndexDirectoryError, match="has 3 rows, and the manifest says 4"):
            IndexDirectory.open(opened.path)
        with pytest.raises(IndexDirectoryError, match="should hold 4 rows"):
            index_thumbnail(opened, 0)

    def test_keeps_few_files_open(self, tmp_path: Path) -> None:
        vectors = np.eye(60, 64, dtype=np.float32)
        index = write_index(
            tmp_path / "index",
            {"overall": vectors},
            rows_per_part=1,
            pictures=[picture(number) for number in range(60)],
        )
        run_well(index)
        opened = IndexDirectory.open(index)
        before = len(os.listdir("/proc/self/fd"))
        assert all(index_thumbnail(opened, row) for row in range(60))
        assert len(os.listdir("/proc/self/fd")) - before <= indexer.thumbnails._OPEN_FILES
