"""``tpips-train sweep`` with the true trainer, and with several processes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures.judgements import write_triplets
from tests.fixtures.sweeps import hill
from tests.fixtures.training import tiny_backbone
from tpips_model.loading import load_model
from train.commands import main
from train.sweep import SEARCH_SPACES, Report, SweepConfig, SweepError, SweepStudy, read_preset, run_sweep, work
from train.sweep.objective import training_objective
from train.trainer.config import TrainingConfig
from train.trainer.presets import preset

Run = Callable[..., tuple[str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command in this process: output, errors, and the exit status checked."""
    monkeypatch.setenv("COLUMNS", "150")

    def command(*arguments: str, status: int = 0) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["tpips-train", "sweep", *arguments])
        with pytest.raises(SystemExit, match=f"^{status}$"):
            main()
        captured = capsys.readouterr()
        return captured.out, captured.err

    return command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--preset", "later-fusion"], "there is no preset 'later-fusion'"),
        (["--set", "speed=3"], "the setting 'speed=3' is unknown"),
        (["--data", "{folder}/none.jsonl"], "none.jsonl"),
        (["--validation", "{folder}/none.jsonl"], "none.jsonl"),
        (
            ["--preset", "triplet-head", "--validation", "{folder}/pairs.jsonl"],
            "a triplet head learns from odd-one-out",
        ),
        (["--out", "{folder}/taken"], "is not empty and holds no sweep"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(run: Run, tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/file").write_text("in the way")
    triplets = str(write_triplets(tmp_path, 2))
    line = {"ref_path": "images/000/0.png", "p0_path": "images/000/1.png", "p1_path": "images/000/2.png"}
    factors = [{"name": "mood", "label": "p0", "probs": [1.0, 0.0]}]
    (tmp_path / "pairs.jsonl").write_text(json.dumps(line | {"factors": factors}) + "\n")
    given = {"--preset": "late-fusion", "--data": triplets, "--validation": triplets, "--out": str(tmp_path / "out")}
    given |= {name: value.format(folder=tmp_path) for name, value in zip(arguments[::2], arguments[1::2], strict=True)}
    _, errors = run(*(part for pair in given.items() for part in pair), status=1)
    assert errors.startswith("error: ")
    assert message in errors
    assert errors.count("\n") == 1
    assert not list(tmp_path.glob("out/trials/*/*"))


def test_without_optuna_the_extra_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("train.sweep_command.find_spec", lambda name: None)
    given = ["--preset", "late-fusion", "--data", "a.jsonl", "--validation", "b.jsonl", "--out", "out"]
    assert r"pip install 'tpips-retrieval[train]'" in run(*given, status=1)[1]


@pytest.mark.slow
def test_the_true_trainer_is_swept_and_taken_up_where_it_was_stopped(run: Run, tmp_path: Path) -> None:
    backbone = tiny_backbone(tmp_path / "backbone")
    triplets = str(write_triplets(tmp_path, 4, width=64, height=64))
    tiny = [f"backbone={backbone}", "effective_batch=2", "steps=6", "save_every=1", "dtype=float32"]
    given = ["--preset", "late-fusion", "--data", triplets, "--validation", triplets, "--cpu", "--validations", "3"]
    given += [part for setting in tiny for part in ("--set", setting)]
    shown, said = run(*given, "--out", str(tmp_path / "sweep"), "--trials", "2")
    assert "Table 8" in shown
    assert "trial 1: " in said
    best = read_preset(tmp_path / "sweep/best.json")
    facts = json.loads((tmp_path / "sweep/best.json").read_text(encoding="utf-8"))["facts"]
    assert (best.effective_batch, best.steps, best.backbone) == (2, 6, str(backbone))
    assert f"{100 * facts['agreement']:.1f}" in shown
    assert load_model(facts["model"], device="cpu").backbone.lora.r == best.lora_rank
    assert f"--set lora_rank={best.lora_rank}" in shown

    # the same sweep, stopped in its second trial after two of three validations
    base = preset("late-fusion")
    named = {"backbone": str(backbone), "effective_batch": 2, "steps": 6, "save_every": 1, "dtype": "float32"}
    base = TrainingConfig(**{**base.__dict__, **named})
    space = {name: value for name, value in SEARCH_SPACES["late"].items() if name != "effective_batch"}
    config = SweepConfig(
        base=base,
        space=space,
        data=triplets,
        validation=triplets,
        out=tmp_path / "stopped",
        trials=2,
        validations=3,
        cpu=True,
    )
    objective, begun = training_objective(config, quiet=True), []

    def interrupted(settings: TrainingConfig, folder: Path, report: Report) -> float:
        begun.append(folder)

        def reporting(step: int, agreement: float) -> None:
            report(step, agreement)
            if len(begun) == 2 and step == 2:
                raise KeyboardInterrupt

        return objective(settings, folder, reporting)

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        work(config, interrupted)
    states = list((tmp_path / "stopped/trials/00001/states").iterdir())
    assert states
    stopped = work(config, objective)
    whole = SweepStudy(SweepConfig(**{**config.__dict__, "out": tmp_path / "sweep"}))
    assert [trial.params for trial in stopped.trials] == [trial.params for trial in whole.trials]
    assert [trial.value for trial in stopped.trials] == [trial.value for trial in whole.trials]
    assert [trial.intermediate_values for trial in stopped.trials] == [
        trial.intermediate_values for trial in whole.trials
    ]


def broken(sweep: SweepConfig) -> object:
    """Make no objective: the data are gone."""
    raise SweepError("the data are gone")


@pytest.mark.slow
def test_processes_share_a_sweep_and_say_what_went_wrong(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config = SweepConfig(
        base=preset("late-fusion"),
        space=SEARCH_SPACES["late"],
        data="a.jsonl",
        validation="b.jsonl",
        out=tmp_path / "sweep",
        trials=6,
    )
    study = run_sweep(config, hill, workers=2)
    assert len(study.trials) == 6
    assert all(trial.state.is_finished() for trial in study.trials)
    more = SweepConfig(**{**config.__dict__, "trials": 8})
    with pytest.raises(SweepError, match=r"worker 1 ended with status 1; what it said stands above"):
        run_sweep(more, broken, workers=2)  # type: ignore[arg-type]
    assert "error: the data are gone" in capfd.readouterr().err
