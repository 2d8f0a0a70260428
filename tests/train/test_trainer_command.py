"""``tpips-train run`` from its words to a model, and a user's errors in one line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures.judgements import write_triplets
from tests.fixtures.training import SIDE, records, tiny_backbone
from tpips_model.loading import load_model
from train.commands import main

Run = Callable[..., tuple[str, str]]


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_backbone(tmp_path_factory.mktemp("backbone"))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command in this process: output, errors, and the exit status checked."""
    monkeypatch.setenv("COLUMNS", "200")

    def command(*arguments: object, status: int = 0) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["tpips-train", *map(str, arguments)])
        with pytest.raises(SystemExit, match=f"^{status}$"):
            main()
        captured = capsys.readouterr()
        return captured.out, captured.err

    return command


def tiny(backbone: Path, **settings: object) -> list[str]:
    """Options that make late fusion's preset small."""
    small = {
        "backbone": backbone,
        "lora_rank": 2,
        "effective_batch": 4,
        "steps": 2,
        "checkpointing": False,
        "min_pixels": SIDE * SIDE,
        "max_pixels": SIDE * SIDE,
        **settings,
    }
    return [part for name, value in small.items() for part in ("--set", f"{name}={value}")]


def test_from_lines_to_a_model_and_on(run: Run, backbone: Path, tmp_path: Path) -> None:
    data, out = write_triplets(tmp_path / "data"), tmp_path / "run"
    options = ("--preset", "late-fusion", "--data", data, "--validation", data, *tiny(backbone), "--cpu")
    _, plan = run("run", "--out", out, *options, "--dry-run")
    assert "4 items, 12 examples, 12 pictures" in plan
    assert "expected memory" in plan
    assert "expected time" in plan
    assert not out.exists()
    printed, shown = run("run", "--out", out, *options)
    assert f"wrote {out / 'last'}: the model after 2 steps, agreement" in printed
    assert f"wrote {out / 'best'}: the best" in printed
    assert "2/2" in shown  # the bar
    assert "ends=" in shown
    assert len(records(out, "train")) == 2
    assert load_model(out / "best", device="cpu").kind == "late"
    again, _ = run("run", "--out", out, "--resume", "--cpu")
    assert again == printed
    _, error = run("run", "--out", out, "--resume", "--cpu", "--set", "lr=1", status=1)
    assert error.startswith("error: the run in")
    assert "lr 5e-05 then and 1.0 now" in error


def test_mistakes_are_one_line_before_anything_is_loaded(run: Run, backbone: Path, tmp_path: Path) -> None:
    data, out = write_triplets(tmp_path / "data"), tmp_path / "run"
    mistakes = {
        "a new run needs --preset and --data": ("--data", data),
        "no preset 'late'": ("--preset", "late", "--data", data),
        "'rate=1' is unknown": ("--preset", "late-fusion", "--data", data, "--set", "rate=1"),
        "holds no run to resume": ("--resume",),
        "are of no known kind": ("--preset", "late-fusion", "--data", tmp_path / "none.csv"),
    }
    for message, options in mistakes.items():
        _, error = run("run", "--out", out, *options, status=1)
        assert error.startswith("error: ")
        assert message in error
        assert error.count("\n") == 1
    assert not out.exists()


def test_presets_are_shown(run: Run) -> None:
    shown, _ = run("presets")
    assert "late-fusion" in shown
    assert "0.0025" in shown
    assert "mid-fusion-no-aspect" in shown
