"""``tpips-train data``: the counts of Table 1, every refusal with its reason, and any source as any other."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures.judgements import vote_record, write_lines, write_triplets
from tests.fixtures.picture_folders import picture_bytes
from train.commands import main
from train.judgements import load_judgements

Run = Callable[..., tuple[str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """``tpips-train data`` in this process: output, errors, and the exit status checked."""

    def command(*arguments: str, status: int = 0) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["tpips-train", "data", *arguments])
        monkeypatch.setenv("COLUMNS", "100")
        with pytest.raises(SystemExit, match=f"^{status}$"):
            main()
        captured = capsys.readouterr()
        return captured.out, captured.err

    return command


def cells(output: str, first: str) -> list[str]:
    return next(line.split() for line in output.splitlines() if line.split()[:1] == [first])


def test_check_prints_the_counts(tmp_path: Path, run: Run) -> None:
    lines = write_triplets(tmp_path, 5, subsets=("general", "editing"))
    output, errors = run("check", str(lines))
    assert "triplets: odd-one-out" in output
    assert cells(output, "general") == ["general", "3", "9", "3", "42", "9", "68.5"]
    assert cells(output, "editing") == ["editing", "2", "6", "3", "28", "6", "68.5"]
    assert cells(output, "total") == ["total", "5", "15", "3", "70", "15", "68.5"]
    assert "nothing is refused" in output
    assert "15/15" in errors


def test_check_shows_refusals_writes_them_all_and_fails(tmp_path: Path, run: Run) -> None:
    lines = write_triplets(tmp_path, 2)
    lines.write_text(lines.read_text() + 'oops\n{"p0_path": "a"}\n')
    (tmp_path / "images/001/2.png").write_bytes(b"no picture")
    refused = tmp_path / "refused.jsonl"
    output, _ = run("check", str(lines), "--refused", str(refused), "--show", "2", status=1)
    assert "3 refused:" in output
    assert "triplets.jsonl:3: malformed line: it is not JSON" in output
    assert f"and 1 more; all are in {refused}" in output
    records = [json.loads(line) for line in refused.open()]
    assert [record["where"] for record in records] == ["triplets.jsonl:3", "triplets.jsonl:4", "images/001/2.png"]
    assert "no path" not in records[2]["reason"]
    assert "none of the formats" in records[2]["reason"]
    output, errors = run("check", str(lines), "--no-images", "--show", "0", status=1)
    assert "2 refused:" in output
    assert "and 2 more; for all of them: --refused FILE" in output
    assert "pictures:" not in errors


def test_check_says_that_pictures_were_not_decoded(tmp_path: Path, run: Run) -> None:
    lines = write_triplets(tmp_path, 1)
    (tmp_path / "images/000/2.png").write_bytes(b"no picture")
    output, _ = run("check", str(lines), "--no-images")
    assert "nothing is refused; pictures were found, but not decoded" in output


def test_check_counts_what_the_rules_drop(tmp_path: Path, run: Run) -> None:
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(picture_bytes(number))
    paths = [f"{number}.png" for number in range(3)]
    records = [vote_record(f"s{n}", "t", paths, {"mood": "p0", "pose": None}) for n in range(5)]
    output, _ = run("check", f"votes:{write_lines(tmp_path / 'v.jsonl', records)}")
    assert cells(output, "5") == ["5", "vote", "\"can't", 'tell"']
    assert cells(output, "1") == ["1", "aspect", "with", "more", "than", "2", "votes", "\"can't", 'tell"']


def test_export_brings_a_source_into_the_other_layout(tmp_path: Path, run: Run) -> None:
    lines = write_triplets(tmp_path / "given", 3)
    output, _ = run("export", str(lines), "--out", str(tmp_path / "shards"), "--per-shard", "2")
    assert f"wrote 9 judgements on 3 triplets to {tmp_path / 'shards'}" in output
    assert len(list((tmp_path / "shards").glob("*.tar"))) == 2
    run("export", str(tmp_path / "shards"), "--out", str(tmp_path / "back/triplets.jsonl"))
    given = [(one.item, one.aspect, one.votes) for one in load_judgements(str(lines)).judgements]
    back = load_judgements(str(tmp_path / "back/triplets.jsonl")).judgements
    assert [(one.item, one.aspect, one.votes) for one in back] == given


def test_a_users_error_is_one_line(tmp_path: Path, run: Run) -> None:
    lines = write_triplets(tmp_path / "given", 1)
    for arguments, reason in (
        (("check", "nothing.zip"), "of no known kind"),
        (("check", str(tmp_path / "a.jsonl")), "No such file"),
        (("export", str(lines), "--out", str(tmp_path / "given")), "is there already"),
        (("check", str(lines), "--refused", str(tmp_path / "no/where")), "No such file"),
    ):
        _, errors = run(*arguments, status=1)
        last = errors.splitlines()[-1]
        assert last.startswith("error: ")
        assert reason in last
    lines.write_text("oops\n")
    _, errors = run("export", str(lines), "--out", str(tmp_path / "out"), status=1)
    assert "triplets.jsonl:1: malformed line" in errors
    assert not (tmp_path / "out").exists()
