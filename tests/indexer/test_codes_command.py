from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from indexer import codes as codes_module
from indexer.directory import IndexDirectory
from indexer.index_codes import IndexCodes
from indexer.lock import writer_lock
from tests.fixtures.indices import write_index
from tests.fixtures.picture_folders import content
from tests.indexer.test_command_line import command
from tests.indexer.test_directory import unit_rows
from tpips_model import TpipsError


@pytest.fixture
def index(tmp_path: Path) -> Path:
    vectors = {"overall": unit_rows(70, 20), "color palette": unit_rows(70, 20, seed=1)}
    return write_index(tmp_path / "an index", vectors, rows_per_part=30)


def test_codes_are_made_for_all_aspects_and_it_says_what_they_take(index: Path) -> None:
    made = command("codes", index, "--no-progress")
    assert (made.exit_code, made.stderr) == (0, "")
    folder = index / "aspects/color-palette"
    size = sum(path.stat().st_size for path in (*folder.glob("*.codes.npy"), folder / "quantizer.safetensors"))
    assert f"color palette: 3 bytes an image, {size:,} in all\n" in made.stdout
    assert f"search with them: tpips-index query {shlex.quote(str(index))} --term … --approximate" in made.stdout
    assert len(IndexDirectory.open(index, verify=True).coded_aspects) == 2
    record = json.loads(command("info", index, "--json", "--verify").stdout)
    assert [(aspect["coded"], aspect["codes_bytes"]) for aspect in record["aspects"]] == [(True, size)] * 2
    assert f"{size:,} bytes" in command("info", index).stdout


def test_progress_tells_the_aspect_and_rows_a_second(index: Path) -> None:
    shown = command("codes", index, "--aspect", "Color  Palette").stderr
    assert re.search(r"coding color palette: 100%.* 70/70 \[.*<.*rows/s", shown)
    assert "overall" not in shown


def test_an_aspect_at_a_time_can_be_made_and_removed(index: Path) -> None:
    before = content(index)
    command("codes", index, "--no-progress", "--aspect", "color palette")
    assert [aspect.text for aspect in IndexDirectory.open(index).coded_aspects] == ["color palette"]
    assert "none" in command("info", index).stdout
    removed = command("codes", index, "--remove", "--aspect", "color palette")
    assert removed.stdout == "no codes any more under: color palette\n"
    after = content(index)
    assert after.pop("lock") == b""
    assert after == before


def test_training_anew_fits_the_images_of_now(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(codes_module, "TRAINING_ROWS", 20)
        command("codes", index, "--no-progress")
    told = command("codes", index, "--no-progress").stdout
    assert told.count("; fitted to 20 of 70 images (--retrain fits them to all)") == 2
    told = command("codes", index, "--no-progress", "--retrain", "--aspect", "overall").stdout
    assert "fitted to" not in told
    opened = IndexDirectory.open(index, verify=True)
    assert [IndexCodes(opened).quantizer(aspect).trained_on for aspect in opened.aspects] == [70, 20]


@pytest.mark.parametrize("damage", ["missing", "truncated", "flipped"])
@pytest.mark.parametrize("name", ["part-00001.codes.npy", "quantizer.safetensors"])
def test_damaged_codes_can_be_removed_and_made_anew(index: Path, name: str, damage: str) -> None:
    command("codes", index, "--no-progress")
    before = content(index)
    path = index / "aspects/overall" / name
    whole = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(whole[:-1] if damage == "truncated" else whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "tpips-index codes --remove, then tpips-index codes" in str(command("info", index, "--verify").exception)
    assert command("codes", index, "--remove").exit_code == 0
    assert command("codes", index, "--no-progress").exit_code == 0
    assert content(index) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none",), "index .*none does not exist; make one with"),
        (("an index", "--aspect", "lighting"), "'lighting' is not indexed in .*: 'overall', 'color palette'"),
        (("an index", "--remove", "--aspect", "lighting"), "'lighting' is not indexed in"),
        (("an index", "--aspect", " "), "an aspect must not be empty"),
    ],
)
def test_errors_say_what_to_do(
    index: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(index.parent)
    before = content(index.parent)
    ended = command("codes", *arguments)
    assert isinstance(ended.exception, TpipsError)
    assert re.search(message, str(ended.exception))
    after = content(index.parent)
    after.pop("an index/lock", None)
    assert after == before


def test_removing_and_training_exclude_each_other(index: Path) -> None:
    ended = command("codes", index, "--retrain", "--remove")
    assert ended.exit_code == 2
    assert "give --retrain or --remove, not both" in ended.stderr


def test_one_program_at_a_time_writes(index: Path) -> None:
    with writer_lock(index):
        ended = command("codes", index)
    assert "another program is writing to" in str(ended.exception)


def test_an_interrupted_run_goes_on(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(codes_module.Quantizer, "encode", interrupt)
        ended = command("codes", index, "--no-progress")
    assert ended.exit_code == 130
    assert "the same command goes on from there" in ended.stderr
    assert command("codes", index, "--no-progress").exit_code == 0
    assert len(IndexDirectory.open(index, verify=True).coded_aspects) == 2
