"""The shared study of a sweep: which trial is next, whose turn it is, and what came out.

journal.log          Optuna's journal of all trials, a line of JSON a change; several processes and machines may write
lock                 held while the next trial is chosen or one is ended
trials/00012/        a trial's run, and beside it 00012.lock, held as long as somebody works on it
best.json            the best settings so far, as a preset
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import optuna
from filelock import FileLock, Timeout
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from optuna.trial import FrozenTrial, TrialState

from train.sweep.config import SweepConfig, SweepError
from train.sweep.spaces import distribution
from train.trainer.config import TrainingConfig
from train.trainer.preset_file import write_preset

__all__ = ["Claim", "SweepStudy"]

STUDY_NAME = "tpips-sweep"
# What another process may just be making.
OWN_NAMES = {"lock", "trials", "journal.log", "journal.log.lock"}
# Trials before the sampler has something to go by, and before a median is one.
STARTUP_TRIALS, TRIALS_OF_A_MEDIAN = 10, 5


@dataclass(frozen=True)
class Claim:
    """A trial that this process works on.

    Attributes:
        trial: Optuna's.
        config: The settings to train with.
        folder: Where to; an interrupted trial's run may be in it.
        reported: The validations that an interrupted trial had reported.
    """

    trial: optuna.Trial
    config: TrainingConfig
    folder: Path
    reported: frozenset[int] = frozenset()

    def report(self, validation: int, agreement: float) -> None:
        """Tell how the trial does, and end it if half of the others did better at this point.

        Raises:
            optuna.TrialPruned: It is not worth going on.
        """
        if validation not in self.reported:
            self.trial.report(agreement, validation)
        if self.trial.should_prune():
            raise optuna.TrialPruned


class SweepStudy:
    """The study in a sweep's folder, made if it is not there.

    Args:
        config: The sweep.

    Raises:
        SweepError: The folder's sweep has other settings or data, or the folder holds something else.
    """

    def __init__(self, config: SweepConfig) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.config = config
        self._journal = config.out / "journal.log"
        strange = {path.name for path in config.out.iterdir()} - OWN_NAMES if config.out.is_dir() else set()
        if strange and not self._journal.exists():
            raise SweepError(f"{config.out} is not empty and holds no sweep; give another folder with --out")
        (config.out / "trials").mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(config.out / "lock")
        self._distributions = {name: distribution(dimension) for name, dimension in config.space.items()}
        with self._lock:
            _mend(self._journal)
            self._study = optuna.create_study(
                storage=JournalStorage(JournalFileBackend(str(self._journal))),
                study_name=STUDY_NAME,
                direction="maximize",
                load_if_exists=True,
                pruner=optuna.pruners.MedianPruner(n_startup_trials=TRIALS_OF_A_MEDIAN),
            )
            self._check_same()

    @property
    def trials(self) -> list[FrozenTrial]:
        """All trials that count: done, pruned, failed, begun, and waiting to be begun again."""
        every = self._study.get_trials(deepcopy=False)
        continued = {trial.user_attrs.get("continues") for trial in every}
        return [trial for trial in every if trial.number not in continued]

    @property
    def best(self) -> FrozenTrial | None:
        """The trial of the highest agreement, the first of equal ones; None before one is complete."""
        complete = [trial for trial in self.trials if trial.state == TrialState.COMPLETE]
        return max(complete, key=lambda trial: trial.value or 0.0, default=None)

    @contextmanager
    def claim(self) -> Iterator[Claim | None]:
        """Yield the next trial, None when all have been begun; it is this process's until the context ends.

        A trial whose process has died is taken up again, with its settings and in its folder.
        """
        with self._lock:
            self._revive()
            waiting = [trial for trial in self.trials if trial.state == TrialState.WAITING]
            left = waiting or len(self.trials) < self.config.trials
            trial, reported = self._asked() if left else (None, frozenset())
            if trial is not None:
                own = FileLock(self._trial_lock(trial.number))
                own.acquire(timeout=0)
        if trial is None:
            yield None
            return
        try:
            yield Claim(trial, self._config_of(trial.params), self._folder(trial), reported)
        finally:
            own.release()

    def finish(self, claim: Claim, agreement: float) -> None:
        """Keep a trial's outcome; of the models on the disk only the best trial's stays."""
        with self._lock:
            before = self.best
            self._study.tell(claim.trial, agreement)
            best = self.best
            assert best is not None
            if best.number == claim.trial.number:
                self._write_best(best)
                if before is not None:
                    _remove(self._folder(before))
                _remove(claim.folder / "states")
            else:
                _remove(claim.folder)

    def drop(self, claim: Claim, *, reason: str | None = None) -> None:
        """Note that a trial was pruned or, if there is a reason, that it failed; its folder is removed."""
        with self._lock:
            if reason is not None:
                claim.trial.set_user_attr("reason", reason)
            self._study.tell(claim.trial, state=TrialState.PRUNED if reason is None else TrialState.FAIL)
            _remove(claim.folder)

    def _asked(self) -> tuple[optuna.Trial, frozenset[int]]:
        # Drawn anew for each trial, so that a sweep that is gone on with draws what it would have drawn.
        seed = (self.config.seed * 1_000_003 + len(self.trials)) % 2**32
        self._study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS)
        trial = self._study.ask(self._distributions)
        earlier = trial.user_attrs.get("continues")
        reported = {} if earlier is None else self._study.get_trials(deepcopy=False)[earlier].intermediate_values
        for step, value in reported.items():
            trial.report(value, step)
        return trial, frozenset(reported)

    def _revive(self) -> None:
        """Put trials that nobody works on any more back to be begun again."""
        for trial in self.trials:
            if trial.state != TrialState.RUNNING:
                continue
            own = FileLock(self._trial_lock(trial.number))
            try:
                own.acquire(timeout=0)
            except Timeout:
                continue  # somebody is at it
            own.release()
            attributes = {"folder": self._folder(trial).name, "continues": trial.number}
            self._study.enqueue_trial(trial.params, user_attrs=attributes)
            self._study.tell(trial.number, state=TrialState.FAIL)
        for trial in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if trial not in self.trials:  # a kill came between the two lines above
                self._study.tell(trial.number, state=TrialState.FAIL)

    def _config_of(self, settings: Mapping[str, Any]) -> TrainingConfig:
        return replace(self.config.base, **settings)

    def _folder(self, trial: optuna.Trial | FrozenTrial) -> Path:
        return self.config.out / "trials" / str(trial.user_attrs.get("folder", f"{trial.number:05d}"))

    def _trial_lock(self, number: int) -> Path:
        return self.config.out / "trials" / f"{number:05d}.lock"

    def _check_same(self) -> None:
        identity = json.loads(json.dumps(self.config.identity))
        before = self._study.user_attrs.get("identity")
        if before is None:
            self._study.set_user_attr("identity", identity)
        elif before != identity:
            other = [name for name in identity if identity[name] != before.get(name)]
            raise SweepError(
                f"the sweep in {self.config.out} was begun with other {', '.join(other)}; give what it was begun with, "
                "or begin another with another --out"
            )

    def _write_best(self, best: FrozenTrial) -> None:
        assert best.value is not None
        facts = {"agreement": best.value, "trial": best.number, "model": f"{self._folder(best)}/best"}
        write_preset(self.config.out / "best.json", self._config_of(best.params), facts=facts)


def _mend(journal: Path) -> None:
    """Cut off a last line that a kill left half written; Optuna would stumble over it once another follows."""
    if not journal.exists():
        return
    lock = JournalFileSymlinkLock(str(journal))
    lock.acquire()
    try:
        content = journal.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(journal, whole)
    finally:
        lock.release()


def _remove(folder: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
