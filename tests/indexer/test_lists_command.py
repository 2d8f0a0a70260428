from __future__ import annotations

import json
from pathlib import Path

import pytest

from indexer.directory import IndexDirectory
from tests.fixtures.indices import write_index
from tests.fixtures.picture_folders import content
from tests.indexer.test_command_line import command
from tests.indexer.test_directory import unit_rows


@pytest.fixture
def index(tmp_path: Path) -> Path:
    vectors = {"overall": unit_rows(70, 20), "color palette": unit_rows(70, 20, seed=1)}
    return write_index(tmp_path / "an index", vectors, rows_per_part=30)


def test_lists_are_made_with_the_codes_and_it_says_what_they_take(index: Path) -> None:
    made = command("codes", index, "--no-progress", "--lists", 8)
    assert (made.exit_code, made.stderr) == (0, "")
    size = sum(path.stat().st_size for path in (index / "lists").iterdir())
    assert f"8 lists of 9 images in the mean, {size:,} bytes in all\n" in made.stdout
    assert IndexDirectory.open(index, verify=True).manifest.list_count == 8
    record = json.loads(command("info", index, "--json", "--verify").stdout)
    assert (record["lists"], record["lists_bytes"]) == (8, size)
    assert f"8, {size:,} bytes" in command("info", index).stdout
    before = content(index)
    assert "8 lists of" in command("codes", index, "--no-progress").stdout
    assert content(index) == before


def test_more_lists_than_images(index: Path) -> None:
    made = command("codes", index, "--no-progress", "--lists", 1000)
    assert "there are only 70 images, so 70 lists instead of 1,000\n" in made.stdout
    assert IndexDirectory.open(index, verify=True).manifest.list_count == 70


def test_progress_tells_the_step_and_rows_a_second(index: Path) -> None:
    shown = command("codes", index, "--lists", 4).stderr
    assert "fitting 4 lists: 100%" in shown
    assert "assigning to 4 lists: 100%" in shown


def test_taking_lists_away(index: Path) -> None:
    assert "none" in command("info", index).stdout
    command("codes", index, "--no-progress")
    before = content(index)
    command("codes", index, "--no-progress", "--lists", 8)
    assert command("codes", index, "--lists", 0).stdout == "no lists any more\n"
    assert content(index) == before
    command("codes", index, "--no-progress", "--lists", 8)
    told = command("codes", index, "--remove", "--aspect", "overall").stdout
    assert "lists" not in told
    assert IndexDirectory.open(index, verify=True).manifest.list_count == 8
    assert command("codes", index, "--remove").stdout.endswith("\nno lists any more\n")
    assert not (index / "lists").exists()


@pytest.mark.parametrize("damage", ["missing", "truncated", "flipped"])
@pytest.mark.parametrize("name", ["part-00001.npy", "clustering.safetensors"])
def test_damaged_lists_can_be_taken_away_and_made_anew(index: Path, name: str, damage: str) -> None:
    command("codes", index, "--no-progress", "--lists", 8)
    before = content(index)
    path = index / "lists" / name
    whole = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(whole[:-1] if damage == "truncated" else whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "tpips-index codes --lists 0, then tpips-index codes --lists N" in str(
        command("info", index, "--verify").exception
    )
    assert command("codes", index, "--lists", 0).exit_code == 0
    assert command("codes", index, "--no-progress", "--lists", 8).exit_code == 0
    assert content(index) == before


@pytest.mark.parametrize("options", [("--remove", "--lists", 3), ("--lists", 0, "--retrain")])
def test_options_that_exclude_each_other(index: Path, options: tuple[object, ...]) -> None:
    ended = command("codes", index, *options)
    assert ended.exit_code == 2
    assert "not both" in ended.stderr
