"""A damaged run is one clear error, and a model that is no finite number any more is never written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.fixtures.training import painted_judgements, tiny_backbone, tiny_config
from train.trainer import TrainingError
from train.trainer.run_directory import read_run
from train.trainer.trainer import Trainer

DATA = painted_judgements(3)
STATE = "states/step-00000002"


def trainer(backbone: Path, out: Path, **settings: Any) -> Trainer:
    resume, on_step = settings.pop("resume", False), settings.pop("on_step", None)
    config = tiny_config("late", backbone, **{"effective_batch": 2, "steps": 3, "save_every": 2, **settings})
    return Trainer(config, DATA, (), out, resume=resume, quiet=True, cpu=True, on_step=on_step)


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_backbone(tmp_path_factory.mktemp("backbone"))


@pytest.fixture(scope="module")
def begun(backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that ended after two of its three updates."""

    def end(done: int, _: float) -> None:
        if done == 2:
            raise InterruptedError("ended")

    out = tmp_path_factory.mktemp("run") / "out"
    with pytest.raises(InterruptedError, match="ended"):
        trainer(backbone, out, on_step=end).run()
    return out


@pytest.fixture
def damaged(begun: Path, tmp_path: Path) -> Path:
    """A copy of it to damage."""
    return shutil.copytree(begun, tmp_path / "out")


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def assert_damaged(backbone: Path, out: Path) -> None:
    with pytest.raises(TrainingError, match=r"step-\d+ is damaged \(.*\); train anew with another --out, or go on"):
        trainer(backbone, out, resume=True)


PROGRESS = [
    *(("step", value) for value in (-1, 0, 1, 3, 99, 10**30, "2", 1.5, True, None)),
    *(("bad_steps", value) for value in (-5, 3, "x")),
    *(("best", value) for value in ("x", float("nan"), 0.5)),
    *(("losses", value) for value in ("abc", None, ["x"], [float("nan")])),
    ("examples", "x"),
    ("best_step", "x"),
    ("bogus", 1),
]


@pytest.mark.parametrize(("name", "value"), PROGRESS)
def test_counts_no_run_can_have(name: str, value: Any, backbone: Path, damaged: Path) -> None:
    edit(damaged / STATE / "state.json", lambda record: record["progress"].update({name: value}))
    assert_damaged(backbone, damaged)


@pytest.mark.parametrize(
    ("name", "value"), [("last_epoch", "x"), ("last_epoch", 10**30), ("base_lrs", []), ("_last_lr", [5]), ("", {})]
)
def test_a_schedule_of_another_step(name: str, value: Any, backbone: Path, damaged: Path) -> None:
    edit(
        damaged / STATE / "state.json",
        lambda record: record["scheduler"].update({name: value}) if name else record.update(scheduler=value),
    )
    assert_damaged(backbone, damaged)


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b"[" * 200_000])
def test_a_state_that_is_no_record(content: bytes, backbone: Path, damaged: Path) -> None:
    (damaged / STATE / "state.json").write_bytes(content)
    assert_damaged(backbone, damaged)


def test_a_state_under_another_number(backbone: Path, damaged: Path) -> None:
    (damaged / STATE).rename(damaged / "states/step-00000050")
    assert_damaged(backbone, damaged)


TENSORS = [
    *product(["exp_avg/", "exp_avg_sq/", "step/", ""], ["lacks", "shape", "nan", "integers"]),
    *product(["exp_avg_sq/", "step/"], ["negative"]),
]


@pytest.mark.parametrize(("prefix", "change"), TENSORS)
def test_tensors_that_adamw_cannot_have_left(prefix: str, change: str, backbone: Path, damaged: Path) -> None:
    path = damaged / STATE / ("optimizer.safetensors" if prefix else "trained.safetensors")
    tensors = load_file(path)
    name = next(name for name in tensors if name.startswith(prefix) and "lora_B" in name)
    old = tensors.pop(name)
    new = {
        "shape": torch.zeros(7),
        "nan": torch.full_like(old, float("nan")),
        "integers": torch.ones_like(old, dtype=torch.int64),
        "negative": torch.full_like(old, -1.0),
    }
    save_file(tensors | ({name: new[change]} if change in new else {}), path)
    assert_damaged(backbone, damaged)


@pytest.mark.parametrize("content", [b"[" * 200_000, b"[]", b'{"format":' + b"9" * 5000 + b"}"])
def test_a_run_that_is_no_record(content: bytes, damaged: Path) -> None:
    (damaged / "run.json").write_bytes(content)
    with pytest.raises(TrainingError, match=r"run\.json is damaged .*; begin another run"):
        read_run(damaged)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [("config", "probes", 1.5), ("config", "lora_targets", 5), ("facts", "data", 5), ("facts", "images root", ["x"])],
)
def test_a_run_with_wrong_values(part: str, name: str, value: Any, damaged: Path) -> None:
    edit(damaged / "run.json", lambda record: record[part].update({name: value}))
    with pytest.raises(TrainingError, match=rf"run\.json is damaged \({name} is "):
        read_run(damaged)


@pytest.mark.parametrize("line", [b"\xff{{", b"[]", b"5", b"{}", b'{"step": "x"}', b"[" * 200_000])
def test_metrics_that_are_no_records(line: bytes, backbone: Path, damaged: Path) -> None:
    with (damaged / "metrics.jsonl").open("ab") as stream:
        stream.write(line + b"\n")
    with pytest.raises(TrainingError, match=r"metrics\.jsonl is damaged \(line 3: .*; move it away"):
        trainer(backbone, damaged, resume=True).run()


@pytest.mark.parametrize("name", ["states", "last"])
def test_a_file_where_a_folder_belongs(name: str, backbone: Path, damaged: Path) -> None:
    shutil.rmtree(damaged / name)
    (damaged / name).touch()
    with pytest.raises(TrainingError, match=f"{name} is no folder"):
        trainer(backbone, damaged, resume=True)


def test_a_model_that_is_no_finite_number_is_not_written(backbone: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    unwell = trainer(backbone, out, steps=2, save_every=1)

    def spoil(done: int, _: float) -> None:
        # As weight_decay=1e300 does in the last update: no loss comes after it.
        unwell._optimizer.param_groups[0]["weight_decay"] = 1e300

    unwell._on_step = spoil
    with pytest.raises(TrainingError, match=r"step 2: what was trained is no finite number .* Train anew with a lower"):
        unwell.run()
    assert [path.name for path in (out / "states").iterdir()] == ["step-00000001"]
    assert all(torch.isfinite(tensor).all() for tensor in load_file(out / "last/adapter.safetensors").values())


def test_nothing_is_written_where_the_first_save_is_unwell(backbone: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="is no finite number"):
        trainer(backbone, tmp_path / "run", weight_decay=1e300, max_bad_steps=3).run()
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["metrics.jsonl", "run.json"]
