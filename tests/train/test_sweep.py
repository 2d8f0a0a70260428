"""A sweep draws from Table 7, is gone on with where it was stopped, and ends with the best settings in a file."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState
from rich.console import Console

from tests.fixtures.sweeps import REPORTS, agreement_of, hill
from train.sweep import (
    SEARCH_SPACES,
    Choice,
    LogUniform,
    Report,
    SweepConfig,
    SweepError,
    SweepStudy,
    TrialFailed,
    read_preset,
    run_sweep,
    work,
    write_preset,
)
from train.sweep.report import trial_table
from train.trainer.config import TrainingConfig
from train.trainer.errors import TrainingError
from train.trainer.presets import PRESETS, preset


def sweep(out: Path, *, kind: str = "late-fusion", **more: Any) -> SweepConfig:
    base = preset(kind)
    given: dict[str, Any] = {"space": SEARCH_SPACES[base.kind], "data": "a.jsonl", "validation": "b.jsonl", "trials": 6}
    return SweepConfig(base=base, out=out, **{**given, **more})


def drawn(study: SweepStudy) -> list[dict[str, Any]]:
    return [trial.params for trial in study.trials]


def test_the_spaces_are_those_of_table_7() -> None:
    assert set(SEARCH_SPACES) == {"late", "early", "triplet", "mid"}
    for kind, space in SEARCH_SPACES.items():
        assert space["lora_rank"] == Choice((8, 16, 32, 64))
        assert space["lr"] == LogUniform(1e-5, 5e-4)
        assert space["effective_batch"] == Choice((32, 64, 128, 256))
        assert ("temperature" in space) == (kind != "triplet")
        assert ("probes" in space) == (kind == "mid")
    assert SEARCH_SPACES["early"]["temperature"] == Choice((0.05, 0.1, 0.2))
    assert SEARCH_SPACES["mid"]["temperature"] == LogUniform(1e-3, 1.0)
    assert SEARCH_SPACES["mid"]["probes"] == Choice((3, 5, 8, 10, 14, 20))


@pytest.mark.parametrize("kind", ["late-fusion", "mid-fusion", "early-fusion", "triplet-head"])
def test_what_is_drawn_lies_in_the_space_and_all_else_stays(tmp_path: Path, kind: str) -> None:
    seen: list[TrainingConfig] = []

    def objective(config: TrainingConfig, folder: Path, report: Report) -> float:
        seen.append(config)
        return 0.5

    config = sweep(tmp_path, kind=kind, trials=4)
    work(config, objective)
    assert len(seen) == 4
    for one in seen:
        for name, dimension in config.space.items():
            value = getattr(one, name)
            if isinstance(dimension, Choice):
                assert value in dimension.values
            else:
                assert dimension.low <= value <= dimension.high
        assert replace(one, **{name: getattr(config.base, name) for name in config.space}) == config.base


def test_settings_that_are_held_fast_are_not_drawn(tmp_path: Path) -> None:
    space = {name: dimension for name, dimension in SEARCH_SPACES["late"].items() if name != "effective_batch"}
    config = sweep(tmp_path, space=space, trials=3)
    study = run_sweep(replace(config, base=replace(config.base, effective_batch=4)), hill)
    assert all("effective_batch" not in params for params in drawn(study))
    assert read_preset(tmp_path / "best.json").effective_batch == 4


def test_the_best_settings_are_a_preset_and_only_its_model_stays(tmp_path: Path) -> None:
    said: list[tuple[int, str]] = []
    study = run_sweep(sweep(tmp_path, trials=8), hill, on_trial=lambda number, outcome: said.append((number, outcome)))
    best = study.best
    assert best is not None
    complete = [trial for trial in study.trials if trial.state == TrialState.COMPLETE]
    assert best.value == max(trial.value or 0 for trial in complete)
    chosen = read_preset(tmp_path / "best.json")
    assert agreement_of(chosen) == pytest.approx(best.value)
    assert chosen == replace(PRESETS["late-fusion"], **best.params)
    folders = [path.name for path in (tmp_path / "trials").iterdir() if path.is_dir()]
    assert folders == [f"{best.number:05d}"]
    assert [path.name for path in (tmp_path / "trials" / folders[0]).iterdir()] == ["best"]
    assert [number for number, _ in said] == list(range(8))
    assert said[best.number][1] == f"{best.value:.1%}"


def test_a_sweep_can_be_asked_for_more_and_then_goes_on(tmp_path: Path) -> None:
    first = drawn(run_sweep(sweep(tmp_path / "twice", trials=3), hill))
    assert drawn(run_sweep(sweep(tmp_path / "twice", trials=3), hill)) == first  # nothing more to do
    assert drawn(run_sweep(sweep(tmp_path / "twice", trials=7), hill)) == drawn(
        run_sweep(sweep(tmp_path / "once", trials=7), hill)
    )


def stopping(trial: int, part: int) -> Callable[[SweepConfig], Any]:
    """An objective that is interrupted in the given trial after so many reports."""
    begun = []

    def make(config: SweepConfig) -> Any:
        def objective(config: TrainingConfig, folder: Path, report: Report) -> float:
            begun.append(folder)

            def interrupted(step: int, agreement: float) -> None:
                report(step, agreement)
                if len(begun) == trial + 1 and step == part:
                    raise KeyboardInterrupt

            return hill(sweep(Path()))(config, folder, interrupted)

        return objective

    return make


def test_a_sweep_that_was_interrupted_ends_like_one_that_was_not(tmp_path: Path) -> None:
    whole = run_sweep(sweep(tmp_path / "whole"), hill)
    config = sweep(tmp_path / "stopped")
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        run_sweep(config, stopping(trial=2, part=2))
    left = SweepStudy(config).trials
    assert [trial.state for trial in left] == [TrialState.COMPLETE, TrialState.COMPLETE, TrialState.RUNNING]
    with open(config.out / "journal.log", "ab") as stream:
        stream.write(b'{"op_code":5,"work')  # a kill in the middle of a line
    folders: list[tuple[Path, bool]] = []

    def make(config: SweepConfig) -> Any:
        def objective(config: TrainingConfig, folder: Path, report: Report) -> float:
            folders.append((folder, folder.is_dir()))
            return hill(sweep(Path()))(config, folder, report)

        return objective

    resumed = run_sweep(config, make)
    assert folders[0] == (config.out / "trials" / "00002", True)  # where the interrupted trial had been
    assert drawn(resumed) == drawn(whole)
    assert [trial.value for trial in resumed.trials] == [trial.value for trial in whole.trials]
    assert [trial.intermediate_values for trial in resumed.trials] == [
        trial.intermediate_values for trial in whole.trials
    ]
    assert read_preset(config.out / "best.json") == read_preset(tmp_path / "whole" / "best.json")


def test_a_trial_that_somebody_works_on_is_left_alone(tmp_path: Path) -> None:
    config = sweep(tmp_path, trials=2)
    study = SweepStudy(config)
    with study.claim() as first:
        assert first is not None
        other = work(config, hill(config))  # takes the second, and the first is not its own
        assert [trial.state for trial in other.trials] == [TrialState.RUNNING, TrialState.COMPLETE]
        study.finish(first, 0.9)
    assert study.best is not None
    assert study.best.number == 0


def test_workers_share_the_trials(tmp_path: Path) -> None:
    config = sweep(tmp_path, trials=9)
    ran: list[Path] = []
    together = threading.Barrier(3, timeout=60)

    def objective(settings: TrainingConfig, folder: Path, report: Report) -> float:
        if len(ran) < 3:
            ran.append(folder)
            together.wait()
        else:
            ran.append(folder)
        return agreement_of(settings)

    threads = [threading.Thread(target=work, args=(config, objective)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(path.name for path in ran) == [f"{number:05d}" for number in range(9)]
    states = {trial.state for trial in SweepStudy(config).trials}
    assert states == {TrialState.COMPLETE}


def test_trials_that_lag_behind_are_pruned(tmp_path: Path) -> None:
    reached: list[int] = []

    def objective(config: TrainingConfig, folder: Path, report: Report) -> float:
        folder.mkdir(parents=True)
        number = len(reached)
        reached.append(0)
        for part in range(1, REPORTS + 1):
            report(part, 0.5 - 0.02 * number)  # each one worse than all before it
            reached[number] = part
        return 0.5 - 0.02 * number

    study = work(sweep(tmp_path, trials=8), objective)
    assert reached == [REPORTS] * 5 + [0] * 3  # five make a median
    assert [trial.state for trial in study.trials[5:]] == [TrialState.PRUNED] * 3
    assert study.best is not None
    assert study.best.number == 0
    assert [path.name for path in (tmp_path / "trials").iterdir() if path.is_dir()] == ["00000"]


def test_trials_that_come_to_nothing_are_noted(tmp_path: Path) -> None:
    def make(config: SweepConfig) -> Any:
        def objective(config: TrainingConfig, folder: Path, report: Report) -> float:
            if config.lora_rank != 16:
                raise TrialFailed("the loss is no number")
            return 0.5

        return objective

    study = run_sweep(sweep(tmp_path, trials=10), make)
    failed = [trial for trial in study.trials if trial.state == TrialState.FAIL]
    assert failed
    assert {trial.user_attrs["reason"] for trial in failed} == {"the loss is no number"}
    console = Console(width=150, record=True)
    console.print(trial_table(study, shown=10))
    shown = console.export_text()
    assert "fail" in shown
    assert "50.0" in shown
    assert "Table 8" in shown
    assert "5e-05" in shown


def test_a_sweep_of_nothing_but_failures_is_an_error(tmp_path: Path) -> None:
    def make(config: SweepConfig) -> Any:
        def objective(config: TrainingConfig, folder: Path, report: Report) -> float:
            raise TrialFailed("out of memory")

        return objective

    with pytest.raises(SweepError, match=r"none of the 3 trials came to anything: out of memory"):
        run_sweep(sweep(tmp_path, trials=3), make)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"data": "other.jsonl"}, "data"),
        ({"kind": "mid-fusion"}, "settings, space"),
        ({"validations": 3, "seed": 9}, "validations, seed"),
    ],
)
def test_another_sweep_in_the_same_folder_is_refused(tmp_path: Path, more: dict[str, Any], named: str) -> None:
    run_sweep(sweep(tmp_path, trials=1), hill)
    with pytest.raises(SweepError, match=rf"was begun with other {named}; give what it was begun with"):
        run_sweep(sweep(tmp_path, trials=2, **more), hill)


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("three years")
    with pytest.raises(SweepError, match="is not empty and holds no sweep"):
        SweepStudy(sweep(tmp_path))


def test_presets_survive_the_way_to_disk(tmp_path: Path) -> None:
    path = tmp_path / "best.json"
    config = replace(PRESETS["late-fusion"], matryoshka_dims=(512, 256), steps=12)
    write_preset(path, config, facts={"agreement": 0.6})
    assert read_preset(path) == preset(str(path)) == config
    for damage in ("{", "[]", '{"format": "other", "format_version": 1}', path.read_text().replace('"lr"', '"speed"')):
        path.write_text(damage)
        with pytest.raises(TrainingError, match=r"best\.json is no preset file"):
            read_preset(path)
    path.unlink()
    with pytest.raises(TrainingError, match="is no preset file"):
        read_preset(path)


def test_the_sampler_goes_by_what_it_has_seen(tmp_path: Path) -> None:
    study = run_sweep(sweep(tmp_path, trials=30), hill)
    away = [abs(math.log10(trial.params["lr"] / 1e-4)) for trial in study.trials]
    assert sum(away[20:]) < sum(away[:10])
