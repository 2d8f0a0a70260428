"""A run that is stopped anywhere and resumed is the run that was never stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.fixtures.training import (
    KINDS,
    model_files,
    painted_judgements,
    records,
    tiny_backbone,
    tiny_config,
)
from tpips_model.loading import load_model
from train.trainer import TrainingError
from train.trainer.durable import mended_folder, write_folder
from train.trainer.run_state import latest_state
from train.trainer.trainer import Trainer

DATA, HELD_OUT = painted_judgements(6), painted_judgements(2, seed=1)


class EndedError(Exception):
    """Stands for a kill: nothing after it is done."""

    def __init__(self) -> None:
        super().__init__("ended")


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_backbone(tmp_path_factory.mktemp("backbone"))


def trainer(kind: str, backbone: Path, out: Path, **options: Any) -> Trainer:
    settings = {name: options.pop(name) for name in tuple(options) if name in ("steps", "seed", "save_every", "lr")}
    config = tiny_config(kind, backbone, **{"effective_batch": 2, "validate_every": 3, "save_every": 2, **settings})
    return Trainer(config, DATA, HELD_OUT, out, quiet=True, cpu=True, **options)


def ending_after(step: int) -> Callable[[int, float], None]:
    def end(done: int, _: float) -> None:
        if done == step:
            raise EndedError

    return end


def interrupting_after(step: int) -> Callable[[int, float], None]:
    def interrupt(done: int, _: float) -> None:
        if done == step:
            signal.raise_signal(signal.SIGINT)

    return interrupt


def assert_same_run(first: Path, second: Path) -> None:
    for model in ("last", "best"):
        assert model_files(first / model) == model_files(second / model)
    assert records(first) == records(second)
    states = [latest_state(run / "states") for run in (first, second)]
    assert states[0] is not None
    assert states[1] is not None
    assert states[0].name == states[1].name
    assert model_files(states[0]) == model_files(states[1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_ended_twice_is_the_uninterrupted_run(kind: str, backbone: Path, tmp_path: Path) -> None:
    whole = trainer(kind, backbone, tmp_path / "whole").run()
    broken = tmp_path / "broken"
    with pytest.raises(EndedError, match="ended"):  # two updates beyond nothing: its first state is that of step 2
        trainer(kind, backbone, broken, on_step=ending_after(3)).run()
    torch.rand(7)  # what is drawn elsewhere does not matter
    with pytest.raises(KeyboardInterrupt, match=r"^$"):  # the next update is finished, and saved
        trainer(kind, backbone, broken, resume=True, on_step=interrupting_after(4)).run()
    assert latest_state(broken / "states") == broken / "states/step-00000005"
    result = trainer(kind, backbone, broken, resume=True).run()
    assert result.progress == whole.progress
    assert result.validation == whole.validation
    assert_same_run(tmp_path / "whole", broken)
    assert load_model(broken / "last", device="cpu").kind == kind


def test_an_end_before_the_first_state_starts_anew(backbone: Path, tmp_path: Path) -> None:
    trainer("late", backbone, tmp_path / "whole").run()
    with pytest.raises(EndedError, match="ended"):
        trainer("late", backbone, tmp_path / "broken", on_step=ending_after(1)).run()
    trainer("late", backbone, tmp_path / "broken", resume=True).run()
    assert_same_run(tmp_path / "whole", tmp_path / "broken")


def test_a_finished_run_resumed_is_left_as_it_is(backbone: Path, tmp_path: Path) -> None:
    before = trainer("late", backbone, tmp_path / "run", steps=2).run()
    files = model_files(tmp_path / "run/last")
    after = trainer("late", backbone, tmp_path / "run", steps=2, resume=True).run()
    assert after == before
    assert model_files(tmp_path / "run/last") == files


def test_another_run_cannot_be_resumed_or_written_over(backbone: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="holds no run to resume"):
        trainer("late", backbone, tmp_path / "none", resume=True)
    out = tmp_path / "run"
    trainer("late", backbone, out, steps=1).run()
    with pytest.raises(TrainingError, match="holds a run already; go on with it by --resume"):
        trainer("late", backbone, out, steps=1)
    with pytest.raises(TrainingError, match="kind 'late' then and 'early' now"):
        trainer("early", backbone, out, steps=1, resume=True)
    with pytest.raises(TrainingError, match=r"lr 0\.01 then and 0\.02 now"):
        trainer("late", backbone, out, steps=1, lr=0.02, resume=True)
    with pytest.raises(TrainingError, match="data fingerprint"):
        Trainer(tiny_config("late", backbone, steps=1), DATA[1:], HELD_OUT, out, resume=True, cpu=True)
    assert trainer("late", backbone, out, steps=1, save_every=7, resume=True).run().progress.step == 1
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes.txt").write_text("mine")
    with pytest.raises(TrainingError, match="not empty and holds no run"):
        trainer("late", backbone, tmp_path / "full")


def test_a_damaged_state_is_one_clear_error(backbone: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(EndedError, match="ended"):
        trainer("late", backbone, out, on_step=ending_after(2)).run()
    state = out / "states/step-00000002"
    facts = json.loads((state / "state.json").read_text())
    (state / "state.json").write_text(json.dumps(facts | {"format_version": 9}))
    with pytest.raises(TrainingError, match=r"step-00000002 is damaged \(format .* version 9\)"):
        trainer("late", backbone, out, resume=True)
    (state / "state.json").write_text(json.dumps(facts))
    (state / "optimizer.safetensors").write_bytes(b"short")
    with pytest.raises(TrainingError, match="is damaged"):
        trainer("late", backbone, out, resume=True)
    (out / "run.json").write_text("{")
    with pytest.raises(TrainingError, match=r"run\.json is damaged"):
        trainer("late", backbone, out, resume=True)


def test_states_hold_no_pickle_and_only_the_newest_stays(backbone: Path, tmp_path: Path) -> None:
    trainer("late", backbone, tmp_path, steps=4).run()
    files = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert [name for name in files if name.startswith("states/")] == [
        f"states/step-00000004/{name}" for name in ("optimizer.safetensors", "state.json", "trained.safetensors")
    ]
    assert {Path(name).suffix for name in files} <= {".json", ".jsonl", ".safetensors", ".md"}


@pytest.mark.parametrize("moment", range(5))
def test_a_folder_is_replaced_wholly_or_not_at_all(
    moment: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "model"
    write_folder(target, lambda place: (place / "a").write_text("old"))
    left = moment

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **keywords: Any) -> Any:
            nonlocal left
            if left == 0:
                raise EndedError
            left -= 1
            return real(*arguments, **keywords)

        return step

    def replaced_and_ended() -> None:
        write_folder(target, lambda place: (place / "a").write_text("new"))
        raise EndedError  # the last moment: after all steps

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", counted(os.rename))
        patched.setattr(shutil, "rmtree", counted(shutil.rmtree))
        with pytest.raises(EndedError, match="ended"):
            replaced_and_ended()
    assert (mended_folder(target) / "a").read_text() in ("old", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.slow
def test_a_killed_process_is_resumed_to_the_same_bytes(backbone: Path, tmp_path: Path) -> None:
    settings = tiny_config("late", backbone, steps=30)
    overrides = [
        f"{name}={getattr(settings, name)}"
        for name in ("backbone", "lora_rank", "lr", "effective_batch", "min_pixels", "max_pixels", "steps")
    ]
    command = [
        *(sys.executable, "-m", "train.command_line", "run", "--preset", "late-fusion", "--cpu"),
        *("--data", "procedural:families=1,triplets=6", "--validation", "procedural:families=1,seed=2,triplets=1"),
        *(part for override in (*overrides, "save_every=3", "validate_every=10") for part in ("--set", override)),
    ]
    out = {name: tmp_path / name for name in ("whole", "killed")}
    subprocess.run([*command, "--out", str(out["whole"])], check=True, capture_output=True)
    process = subprocess.Popen(
        [*command, "--out", str(out["killed"])], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not (out["killed"] / "states").is_dir() or len(records(out["killed"], "train")) < 7:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert len(records(out["killed"], "train")) < 30
    resume = [*(sys.executable, "-m", "train.command_line", "run", "--resume", "--cpu"), "--out", str(out["killed"])]
    subprocess.run(resume, check=True, capture_output=True)
    assert_same_run(out["whole"], out["killed"])
