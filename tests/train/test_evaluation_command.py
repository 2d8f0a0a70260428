"""``tpips-train eval`` from names to files, and one line for each thing that cannot be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures.judgements import write_bapps, write_lines, write_nights, write_triplets
from tests.fixtures.qwen import make_backbone
from train.commands import main

Run = Callable[..., tuple[str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command in this process: output, errors, and the exit status checked."""
    monkeypatch.setenv("COLUMNS", "200")

    def command(*arguments: str, status: int = 0) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["tpips-train", "eval", *arguments])
        with pytest.raises(SystemExit, match=f"^{status}$"):
            main()
        captured = capsys.readouterr()
        return captured.out, captured.err

    return command


def test_several_models_and_sets_in_one_table(run: Run, tmp_path: Path) -> None:
    triplets = write_triplets(tmp_path / "triplets", 2, subsets=("general", "art"))
    bapps, nights = write_bapps(tmp_path / "bapps", 1), write_nights(tmp_path / "nights")
    backbone = make_backbone(tmp_path / "backbone", layers=2)
    out = tmp_path / "out"
    arguments = ["--model", "mini", "--model", str(backbone), "--device", "cpu", "--cache", str(tmp_path / "cache")]
    arguments += ["--data", str(triplets), "--data", f"bapps:{bapps}", "--data", f"nights:{nights}"]
    arguments += ["--json", str(out / "all.json"), "--markdown", str(out / "all.md"), "--latex", str(out / "all.tex")]
    shown, progress = run(*arguments)
    assert "nights 2AFC" in shown
    assert "Rows marked (paper)" not in shown  # neither of the two is in its tables
    assert "answer/s" in progress
    figures = json.loads((out / "all.json").read_text(encoding="utf-8"))
    assert [(one["data"], one["count"]) for one in figures["total"]] == [("triplets", 6), ("bapps", 2), ("nights", 2)]
    assert set(figures["total"][0]["agreement"]) == {"mini", str(backbone)}
    assert "cross" not in (out / "all.tex").read_text(encoding="utf-8")
    assert "| mini |" in (out / "all.md").read_text(encoding="utf-8")
    # a second run takes all from the cache, and its figures are the same
    run(*arguments)
    assert json.loads((out / "all.json").read_text(encoding="utf-8")) == figures


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "clip:x", "--data", "{triplets}"], "unknown model 'clip:x'"),
        (["--model", "lpips:alex", "--data", "{triplets}"], "pip install lpips"),
        (["--model", "{folder}", "--data", "{triplets}"], "holds no config.json"),
        (["--model", "zero-shot:{folder}", "--data", "{triplets}"], "holds no config.json"),
        (["--model", "mini", "--data", "{triplets}", "--device", "banana"], "'banana' is no device of a model"),
        (["--model", "mini", "--data", "{triplets}", "--device", "cuda:99"], "'cuda:99' was asked for, but"),
        (["--model", "{folder}", "--data", "{triplets}", "--device", "cuda:99"], "'cuda:99' was asked for, but"),
        (["--model", "zero-shot:{folder}", "--data", "{triplets}", "--device", "meta"], "'meta' is no device"),
        (["--model", "mini", "--data", "{folder}/none.jsonl"], "none.jsonl"),
        (["--model", "mini", "--data", "{folder}/empty.jsonl"], "holds no judgement"),
        (["--model", "mini", "--data", "{folder}/bad.jsonl"], "bad.jsonl:1"),
        (["--model", "mini", "--data", "qare:{folder}"], "holds no pictures"),
        (["--model", "mini", "--data", "{triplets}", "--plot", "x.gif"], "cannot plot to x.gif"),
        (["--model", "mini", "--data", "qare:{folder}", "--latex", "x.tex"], "need judgements, but|show agreement"),
    ],
)
def test_what_cannot_be_is_told_in_one_line_before_anything_runs(
    run: Run, tmp_path: Path, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("train.evaluation.model_names.find_spec", lambda package: None)
    triplets = write_triplets(tmp_path / "triplets", 1)
    write_lines(tmp_path / "empty.jsonl", [])
    write_lines(tmp_path / "bad.jsonl", ["{not JSON"])
    given = [one.format(folder=tmp_path, triplets=triplets) for one in arguments]
    shown, errors = run(*given, status=1)
    assert shown == ""
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    assert any(words in errors for words in message.split("|"))


def test_a_missing_option_is_named(run: Run) -> None:
    assert "--data" in run("--model", "mini", status=2)[1]
    assert "--model" in run("--data", "x.jsonl", status=2)[1]


@pytest.mark.slow
def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "train.command_line", "eval", "--model", "mini", "--batch", "1"]
    command += ["--data", "procedural:families=3,triplets=56"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}

    def figures(*more: str) -> str:
        subprocess.run([*command, "--json", str(tmp_path / "x.json"), *more], check=True, env=environment)
        return (tmp_path / "x.json").read_text(encoding="utf-8")

    cache = tmp_path / "cache"
    killed = subprocess.Popen([*command, "--cache", str(cache)], env=environment)
    try:
        while killed.poll() is None and not any(len(f.read_bytes().splitlines()) > 20 for f in cache.glob("*.jsonl")):
            time.sleep(0.02)
        killed.send_signal(signal.SIGKILL)
    finally:
        killed.kill()
    assert killed.wait() == -signal.SIGKILL, "the run was over before it could be killed"
    (file,) = cache.iterdir()
    kept = len(file.read_bytes().splitlines())
    assert figures("--cache", str(cache)) == figures()
    assert len(file.read_bytes().splitlines()) > kept
