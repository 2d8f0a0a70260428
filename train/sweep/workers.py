"""Working on a sweep, in this process or in several that share its study."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence

import optuna

from tpips_model.errors import TpipsError
from train.sweep.config import Objective, SweepConfig, SweepError, TrialFailed
from train.sweep.study import SweepStudy

__all__ = ["OnTrial", "run_sweep", "work"]

# Told after each trial of this process: its number, the outcome in words.
OnTrial = Callable[[int, str], None]
MakeObjective = Callable[[SweepConfig], Objective]


def work(sweep: SweepConfig, objective: Objective, *, on_trial: OnTrial | None = None) -> SweepStudy:
    """Take one trial after the other until all have been begun.

    Args:
        sweep: The sweep; others may work on it at the same time.
        objective: See ``Objective``. What it raises besides ``TrialPruned`` and ``TrialFailed`` ends the work; the
            trial is taken up again by the next that works on the sweep.
        on_trial: See ``OnTrial``.

    Returns:
        The study.

    Raises:
        SweepError: The folder's sweep is another one.
    """
    study = SweepStudy(sweep)
    while True:
        with study.claim() as claim:
            if claim is None:
                return study
            try:
                agreement = objective(claim.config, claim.folder, claim.report)
            except optuna.TrialPruned:
                study.drop(claim)
                outcome = "pruned"
            except TrialFailed as failure:
                study.drop(claim, reason=str(failure))
                outcome = f"failed: {failure}"
            else:
                study.finish(claim, agreement)
                outcome = f"{agreement:.1%}"
            if on_trial is not None:
                on_trial(claim.trial.number, outcome)


def run_sweep(
    sweep: SweepConfig, make_objective: MakeObjective, *, workers: int = 1, on_trial: OnTrial | None = None
) -> SweepStudy:
    """Work on a sweep until all its trials are ended.

    Args:
        sweep: The sweep.
        make_objective: Loads what a process needs to train; a function of a module, for it travels to the processes.
        workers: Processes. With several GPUs each process sees one of them, in turn.
        on_trial: See ``OnTrial``; with several workers it travels, too.

    Raises:
        SweepError: The folder's sweep is another one, a worker ended with an error, or no trial came to anything.
    """
    if workers == 1:
        study = work(sweep, make_objective(sweep), on_trial=on_trial)
    else:
        study = SweepStudy(sweep)
        _run_processes(sweep, make_objective, workers, on_trial)
    if study.best is None:
        reasons = {str(trial.user_attrs["reason"]) for trial in study.trials if "reason" in trial.user_attrs}
        raise SweepError(f"none of the {len(study.trials)} trials came to anything: {'; '.join(sorted(reasons))}")
    return study


def _run_processes(sweep: SweepConfig, make_objective: MakeObjective, workers: int, on_trial: OnTrial | None) -> None:
    devices = _devices()
    # A fresh interpreter each: a fork would copy torch's threads and the GPU's state.
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(
            target=_worker,
            args=(sweep, make_objective, on_trial, devices[number % len(devices)] if devices else None),
            name=f"worker {number + 1}",
        )
        for number in range(workers)
    ]
    for process in processes:
        process.start()
    try:
        for process in processes:
            process.join()
            if process.exitcode != 0:
                raise SweepError(
                    f"{process.name} ended with status {process.exitcode}; what it said stands above. The same command "
                    "goes on with the sweep"
                )
    finally:
        for process in processes:
            if process.is_alive():
                process.terminate()
        for process in processes:
            process.join()


def _worker(sweep: SweepConfig, make_objective: MakeObjective, on_trial: OnTrial | None, device: str | None) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # let the trial's lock go, and what is open be closed
    if device is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
    try:
        work(sweep, make_objective(sweep), on_trial=on_trial)
    except TpipsError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _devices() -> Sequence[str]:
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip()]
    import torch

    return [str(number) for number in range(torch.cuda.device_count())]
