"""Whatever is done to the files of an index, ``tpips-index verify`` names it; a sound one passes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner, Result

from indexer.commands.verify import verify as verify_command
from indexer.directory import IndexDirectory, IndexDirectoryError
from indexer.file_names import items_file
from indexer.verifying.check import Check, Faults, run_check
from indexer.verifying.stored import StoredIndex, file_faults, layout_faults
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
    write_table,
)
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.picture_folders import picture_bytes, tree


def test_a_healthy_index_passes_and_nothing_is_written(index: Path) -> None:
    before = tree(index)
    found = looked(index)
    assert [one for one in found.checks if one.state != "ok"] == []
    assert [(one.name, one.state, one.failures, one.notes) for one in found.checks] == [
        (name, "ok", (), ())
        for name in (
            "checksums",
            "layout",
            "removed items",
            "error ledgers",
            "items",
            "vectors",
            "one vector for all",
            "codes",
            "lists",
            "pictures",
            "model",
            "decoding",
            "thumbnails",
            "vectors made again",
            "files nobody names",
        )
    ]
    assert tree(index) == before
    assert "54 vectors" in check(found, "vectors made again").told  # 27 live items under two aspects
    assert "1 removed item" in check(found, "removed items").told
    assert "27 items in 4 of 4 parts" in check(found, "decoding").told


def kinds(index: Path) -> list[str]:
    manifest = json.loads((index / "manifest.json").read_text())
    names = list(manifest["parts"][1]["files"]) + list(manifest["quantizers"]) + ["lists/clustering.safetensors"]
    assert len(names) == 2 + 2 + 2 + 1 + 1 + 1 + 2 + 1
    return names


def test_a_flipped_byte_anywhere_is_named(index: Path) -> None:
    for name in kinds(index):
        data = (index / name).read_bytes()
        for place in (0, len(data) // 2, len(data) - 1):
            (index / name).write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            found = alone("checksums", index)
            assert (found.state, found.failed) == ("failed", 1)
            assert f"{name} does not have the checksum" in found.failures[0]
        assert list(failures(index, use_model=False)) == ["checksums"], "what is damaged is not looked into again"
        (index / name).write_bytes(data)
    assert failures(index) == {}


def alone(name: str, index: Path) -> Check:
    look = {"checksums": file_faults, "layout": layout_faults}[name]
    return run_check(name, partial(look, StoredIndex(IndexDirectory.open_unchecked(index))))


def test_files_cut_short_or_missing_are_named_all_of_them(index: Path) -> None:
    manifest = json.loads((index / "manifest.json").read_text())
    for part in manifest["parts"]:
        ledger = index / next(name for name in part["files"] if name.startswith("errors/"))
        ledger.write_bytes(ledger.read_bytes()[:-7])
    (index / BRUSHWORK / "part-00000.npy").unlink()
    found = failures(index)
    assert list(found) == ["checksums"]
    assert [("errors/part-0000" in one or "is missing" in one) for one in found["checksums"]] == [True] * 5
    assert check(looked(index), "error ledgers").told == "0 lines; 4 damaged files left out"


@pytest.mark.parametrize("name", ["items/part-00001.parquet", "errors/part-00000.parquet", f"{OVERALL}/part-00001.npy"])
def test_files_cut_short_under_a_corrected_checksum_are_named(index: Path, name: str) -> None:
    rewrite(index, name, (index / name).read_bytes()[:-9])
    (told,) = failures(index)["layout"]
    assert name in told


def test_every_flip_in_an_arrays_header_is_named_under_a_corrected_checksum(index: Path) -> None:
    name = f"{OVERALL}/part-00000.npy"
    data = (index / name).read_bytes()
    written = data.index(b"}")  # behind it are blanks
    for place in range(written + 1):
        rewrite(index, name, data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        found = alone("layout", index)
        blank = data[place : place + 1] == b" "
        assert blank or found.state == "failed", place
        assert all("part" in one for one in found.failures)


def test_a_damaged_manifest_is_an_error_or_a_fault(index: Path) -> None:
    text = (index / "manifest.json").read_text()
    (index / "manifest.json").write_text(text[:-30])
    with pytest.raises(IndexDirectoryError, match=r"manifest.json is damaged"):
        looked(index)
    for old, new, name in (
        ('"fingerprint": "stub:1"', '"fingerprint": "stub:3"', "model"),
        ('"prompt_template": "similar', '"prompt_template": "rimilar', "model"),
        ('"rows": 6', '"rows": 7', "layout"),
        ('"errors": 1', '"errors": 3', "layout"),
        ('"kind": "folder",\n   "root": "../more"', '"kind": "folder",\n   "root": "../data"', "pictures"),
        ('"prefix": "more"', '"prefix": "mora"', "items"),
    ):
        assert text.count(old) == 1, old
        (index / "manifest.json").write_text(text.replace(old, new))
        assert name in failures(index), new


def test_what_is_removed_counts_for_nothing(index: Path) -> None:
    part = IndexDirectory.open(index).manifest.parts[1]
    row = IndexDirectory.open(index).part_items(part, ["key"])["key"].to_pylist().index(REMOVED)

    def nan(array: np.ndarray) -> None:
        array[row] = np.nan

    def repeat(rows: list[dict[str, Any]]) -> None:
        rows[row]["key"] = "0000.bmp"

    change_array(index, f"{OVERALL}/part-00001.npy", nan)
    change_table(index, items_file(part.id), repeat)
    assert failures(index) == {}


def test_repeated_keys_are_named_within_and_across_parts(index: Path) -> None:
    def within(rows: list[dict[str, Any]]) -> None:
        rows[3]["key"] = rows[1]["key"]

    def across(rows: list[dict[str, Any]]) -> None:
        rows[0]["key"] = "0000.bmp"

    change_table(index, items_file(0), within)
    change_table(index, items_file(2), across)
    found = failures(index)["items"]
    assert found[0] == "2 items have the key '0000.bmp': row 0 of part 0, row 0 of part 2"
    assert found[1] == "2 items have the key '0001.bmp': row 1 of part 0, row 3 of part 0"


def test_items_that_lead_outside_their_root_or_make_no_sense_are_named(home: Path, index: Path) -> None:
    (home / "secret.bmp").write_bytes(picture_bytes(0, format="BMP"))
    (home / "data" / "link.bmp").symlink_to(home / "secret.bmp")

    def change(rows: list[dict[str, Any]]) -> None:
        for row, file in enumerate(("../secret.bmp", "/etc/passwd", "//9/0000.bmp", "link.bmp")):
            rows[row]["file"] = file
        rows[4]["width"] = 0
        rows[5]["key"] = ""

    change_table(index, items_file(0), change)
    found = failures(index)["items"]
    for file in ("../secret.bmp", "/etc/passwd", "//9/0000.bmp", "link.bmp"):
        assert any(f"names {file!r}, which is not inside" in one for one in found)
    assert any("is said to have 0×8 pixels" in one for one in found)
    assert "part 0 has an item whose key is empty" in found


def test_metadata_that_cannot_be_read_are_named(index: Path) -> None:
    table = pq.read_table(index / items_file(0), partitioning=None)
    bad = pa.array([b"\xff\xfe"] * table.num_rows, pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(bad), bad.buffers())
    write_table(index, items_file(0), table.append_column("artist", text))
    found = failures(index)
    assert "items/part-00000.parquet is damaged" in found["items"][0]
    assert list(found) == ["items"]


def test_tombstones_that_are_no_rows_are_named(index: Path) -> None:
    def beyond(array: np.ndarray) -> None:
        array[0] = 8

    change_array(index, "removed/part-00001.1.npy", beyond)
    found = failures(index)
    assert "removed/part-00001.1.npy is damaged" in found["removed items"][0]


def test_files_that_nobody_names_are_listed_and_are_no_fault(index: Path) -> None:
    (index / "manifest.json.tmp").write_text("half")
    (index / "items" / "part-00099.parquet").write_text("orphan")
    (index / "aspects" / "brushwork" / "notes.txt").write_text("mine")
    (index / "README").write_text("mine")
    (index / "gallery").mkdir()
    (index / "gallery" / "a.jpg").write_text("a picture")
    found = looked(index)
    assert found.ok
    notes = check(found, "files nobody names").notes
    assert {note.partition(":")[0] for note in notes} >= {
        "items/part-00099.parquet",
        "aspects/brushwork/notes.txt",
        "README",
    }
    assert not any("gallery" in note for note in notes)


def command(*arguments: object) -> Result:
    app = typer.Typer()
    app.command()(verify_command)
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


def test_the_command_tells_everything_and_ends_with_1_if_anything_failed(
    home: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.verifying.verify.load_embedder", lambda name: StubEmbedder())
    passed = command(index)
    assert passed.exit_code == 0, passed.output
    assert "nothing wrong was found" in passed.stdout
    (home / "data" / "0001.bmp").unlink()
    change_array(index, f"{BRUSHWORK}/part-00002.npy", swap)
    failed = command(index, "--no-progress", "--sample", 50)
    assert failed.exit_code == 1
    for told in (
        "pictures: the picture of '0001.bmp' is gone",
        "vectors made again: the vector of '0016.bmp' under 'brushwork' has cosine",
        "failed: codes, ",
        "then: tpips-index verify ",
    ):
        assert told in failed.stdout
    record = json.loads(command(index, "--json", "--no-progress", "--no-model").stdout)
    assert record["ok"] is False
    states = {one["name"]: (one["state"], one["failed"]) for one in record["checks"]}
    assert states["pictures"] == ("failed", 1)
    assert states["checksums"] == ("ok", 0)
    assert states["vectors made again"] == ("not checked", 0)
    both = command(index, "--no-model", "--model", "mini")
    assert both.exit_code == 2


def test_an_interrupt_is_no_fault_of_the_index() -> None:
    def look() -> Faults:
        yield "a fault"
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as interrupt:
            raise RuntimeError("Error calling __set_name__") from interrupt

    with pytest.raises(RuntimeError, match="Error calling __set_name__"):
        run_check("codes", look)
