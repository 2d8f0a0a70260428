"""What a worker is told and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler

from indexer.building.pipeline import Result
from indexer.building.progress import Counted
from indexer.engines.protocol import Job
from indexer.manifest import ModelRecord

__all__ = ["Advanced", "Answer", "Died", "DoTask", "Done", "Failed", "Order", "Ready", "SetJob", "portable"]


@dataclass(frozen=True)
class SetJob:
    """How the tasks that follow are done."""

    job: Job


@dataclass(frozen=True)
class DoTask:
    """One task; ``ticket`` names it in the answers, and pictures whose key is among ``taken`` are repeats."""

    ticket: int
    task: Counted
    taken: frozenset[str]


# ``None`` ends a worker.
Order = SetJob | DoTask | None


@dataclass(frozen=True)
class Ready:
    """The model is loaded."""

    model: ModelRecord


@dataclass(frozen=True)
class Advanced:
    """So many more pictures of a task are dealt with, and so many of its bytes read by now.

    Pictures that were embedded are those of one batch; others were refused.
    """

    ticket: int
    count: int
    read: int | None
    embedded: bool


@dataclass(frozen=True)
class Done:
    """What a task became."""

    ticket: int
    result: Result


@dataclass(frozen=True)
class Failed:
    """What went wrong with a task, or with the worker itself, which has ended; and where, for a fault of ours."""

    ticket: int | None
    error: Exception
    traceback: str


@dataclass(frozen=True)
class Died:
    """The worker is no longer there; ``reason`` continues the sentence "the worker …"."""

    reason: str


Answer = Ready | Advanced | Done | Failed | Died


def portable(error: Exception) -> Exception:
    """Return an error as one that can be sent to another process: itself, if that is possible."""
    try:
        ForkingPickler.loads(ForkingPickler.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
