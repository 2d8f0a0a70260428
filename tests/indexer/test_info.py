"""``tpips-index info`` tells apart what failed, what was there already, and what was removed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from indexer.building.build import build
from indexer.building.build_config import BuildConfig
from indexer.building.shard_rows import repeat_reason
from indexer.command_line import app
from indexer.compacting.compaction import compact_parts
from indexer.directory import IndexDirectory
from indexer.ledger_kinds import ledger_kind
from indexer.merging.config import MergeConfig
from indexer.merging.merge import merge_indices
from indexer.output_folder import output_folder
from indexer.removal import allow_again, remove_rows
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.picture_folders import picture_bytes, write_pictures
from tests.fixtures.tars import write_tar


def told(*arguments: object) -> str:
    ran = CliRunner().invoke(app, ["info", *map(str, arguments)], env={"COLUMNS": "160"})
    assert ran.exit_code == 0, ran.output
    return ran.stdout


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """Four pictures, of which two are removed later, beside a damaged one and one whose key is taken."""
    members = [(f"{name}.png", picture_bytes(number)) for number, name in enumerate("abcd")]
    write_tar(tmp_path / "data/0.tar", [*members, ("a.jpg", picture_bytes(9, format="JPEG")), ("e.png", b"no picture")])
    config = BuildConfig(out=tmp_path / "index", data=str(tmp_path / "data"), progress=False)
    build(config, embedder=StubEmbedder())
    with output_folder(config.out) as opened:
        assert opened is not None
        remove_rows(opened, np.array([1, 2]))
    return config.out


def test_repeats_and_removed_pictures_are_no_errors(index: Path) -> None:
    record = json.loads(told(index, "--json", "--errors"))
    assert (record["images"], record["errors"], record["repeats"]) == (2, 1, 1)
    assert (record["removed"], record["removed_lines"]) == (2, 2)
    assert list(record["error_examples"].values()) == [["0/e"]]
    assert list(record["repeat_examples"].values()) == [["0/a"]]
    assert list(record["repeats_by_reason"].values()) == [1]
    kinds = {(line["key"], line["kind"]) for line in record["error_lines"]}
    assert kinds == {("0/e", "error"), ("0/a", "repeat"), ("0/b", "removed"), ("0/c", "removed")}


def test_the_tables_list_them_apart(index: Path) -> None:
    shown = told(index, "--errors")
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if line.startswith("│")]
    facts = {row[0]: row[1] for row in rows if len(row) == 2}
    assert (facts["errors"], facts["repeats left out"]) == ("1", "1")
    assert facts["removed"] == "2 in the ledger, 2 stored still"
    assert facts["images"] == "2 in 1 part"
    tables = shown.partition("Not indexed, or not wholly")[2]
    failed, _, repeated = tables.partition("Left out, since they were there already")
    assert "0/e" in failed
    assert "0/a" not in failed.replace("0/a.", "")
    assert "has the key of an earlier picture" in repeated
    listed = shown.partition("Not indexed, or not wholly: 1\n")[2]
    first, second, third, fourth, *_ = listed.splitlines()
    assert first.startswith("0/e: ")
    assert second == "Left out, since they were there already: 1"
    assert third.startswith("0/a: ")
    assert fourth == "Removed: 2"


def test_what_is_removed_is_told_after_compaction_and_when_it_may_return(index: Path) -> None:
    with output_folder(index) as opened:
        assert opened is not None
        compact_parts(opened, rows=10, progress=False)
    assert "2 in the ledger" in told(index)
    assert "stored still" not in told(index)
    with output_folder(index) as opened:
        assert opened is not None
        allow_again(opened)
    assert json.loads(told(index, "--json"))["removed_lines"] == 2


def test_an_index_without_any_of_them_does_not_speak_of_them(tmp_path: Path) -> None:
    data = write_pictures(tmp_path / "data", 2)
    build(BuildConfig(out=tmp_path / "index", data=str(data), progress=False), embedder=StubEmbedder())
    assert "removed" not in told(tmp_path / "index")
    assert "repeats" not in told(tmp_path / "index", "--errors")


def test_every_reason_that_is_written_for_a_repeat_is_known_as_one(tmp_path: Path) -> None:
    for reason in (repeat_reason("a.tar:b.png"), repeat_reason("a", "it's (a)\nfile.png")):
        assert ledger_kind(reason) == "repeat"
        assert ledger_kind(f"{reason}, or not") == "error"
    data = write_pictures(tmp_path / "data", 3)
    for name in ("one", "two"):
        build(BuildConfig(out=tmp_path / name, data=str(data), progress=False), embedder=StubEmbedder())
    merge_indices(MergeConfig((tmp_path / "one", tmp_path / "two"), tmp_path / "both", progress=False))
    lines = IndexDirectory.open(tmp_path / "both").errors().to_pylist()
    assert [ledger_kind(line["reason"]) for line in lines] == ["repeat"] * 3
