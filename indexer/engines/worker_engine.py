"""An engine of several workers: starts them, gives them tasks, and replaces those that die."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol

from indexer.building.build_config import BuildError
from indexer.building.pipeline import Result
from indexer.building.progress import BuildProgress, Counted
from indexer.engines.messages import Advanced, Answer, Died, Done, Failed, Order, Ready
from indexer.engines.protocol import Job, Taken
from indexer.engines.schedule import Schedule, Worker, original
from indexer.manifest import ModelRecord
from tpips_model.errors import ModelError

__all__ = ["Pool", "WorkerEngine"]

_POLL = 0.5
_LOAD_TRIES = 3


class Pool(Protocol):
    """Places for workers, numbered from 0; knows how to start one and how to talk to it."""

    def start(self, place: int) -> None:
        """Start a worker, which loads the model and answers ``Ready``."""
        ...

    def send(self, place: int, order: Order) -> None:
        """Send an order; to a worker that is dead it goes nowhere."""
        ...

    def receive(self, timeout: float) -> list[tuple[int, Answer]]:
        """Wait for answers, and for deaths, each of which is told once."""
        ...

    def stop(self, place: int) -> None:
        """End a worker, whatever it does; nothing is heard of it any more."""
        ...

    def close(self) -> None:
        """End all workers."""
        ...


class WorkerEngine:
    """Does tasks on the workers of a pool, and gives their results in order.

    Args:
        pool: The workers.
        places: How many at most.
    """

    def __init__(self, pool: Pool, places: int) -> None:
        self._pool = pool
        self._places = places
        self._workers: dict[int, Worker] = {}
        self._model: ModelRecord | None = None

    @property
    def model(self) -> ModelRecord:
        """The model that embeds; starts the first worker if there is none yet."""
        tries = 0
        while self._model is None:
            if not self._workers:
                self._start(0)
                tries += 1
            for place, answer in self._pool.receive(_POLL):
                if isinstance(answer, Died) and tries == _LOAD_TRIES:
                    raise BuildError(
                        f"the worker that loads the model {answer.reason}, {tries} times; see whether there is memory "
                        "enough for the model, and run the same command again"
                    )
                self._note(place, answer, None)
        return self._model

    def run(
        self, job: Job, tasks: Sequence[Counted], *, taken: Taken, progress: BuildProgress
    ) -> Generator[Result, None, None]:
        """Give each task's result; see ``Engine.run``."""
        schedule = Schedule(job, tasks, places=self._places, taken=taken, progress=progress)
        try:
            for ticket, task in enumerate(tasks):
                while (result := schedule.result(ticket)) is None:
                    self._turn(schedule)
                progress.end(task)
                yield result
        finally:
            # Nobody is busy unless something went wrong; then what they do is of no use any more.
            for place in [place for place, worker in self._workers.items() if worker.tickets]:
                self._pool.stop(place)
                del self._workers[place]

    def close(self) -> None:
        """End all workers."""
        self._workers.clear()
        self._pool.close()

    def _start(self, place: int) -> None:
        self._pool.start(place)
        self._workers[place] = Worker()

    def _turn(self, schedule: Schedule) -> None:
        while (place := schedule.place(self._workers)) is not None:
            if place not in self._workers:
                self._start(place)
            for order in schedule.orders(self._workers[place]):
                self._pool.send(place, order)
        for place, answer in self._pool.receive(_POLL):
            self._note(place, answer, schedule)
        schedule.show(self._workers)

    def _note(self, place: int, answer: Answer, schedule: Schedule | None) -> None:
        worker = self._workers[place]
        if isinstance(answer, Ready):
            self._meet(answer.model)
            return
        if isinstance(answer, (Failed, Died)):
            self._pool.stop(place)
            del self._workers[place]
        if isinstance(answer, Failed) and answer.ticket is None:
            raise original(answer)
        if schedule is None:
            return
        if isinstance(answer, Advanced):
            schedule.advanced(answer)
        elif isinstance(answer, Done):
            schedule.done(worker, answer)
        elif isinstance(answer, Failed):
            schedule.failed(worker, answer)
        else:
            schedule.died(worker, answer)

    def _meet(self, model: ModelRecord) -> None:
        if self._model is not None and self._model != model:
            raise ModelError(
                f"one worker has the model {model.name!r} (fingerprint {model.fingerprint}) and another one "
                f"{self._model.name!r} (fingerprint {self._model.fingerprint}); give all machines the same files"
            )
        self._model = model
