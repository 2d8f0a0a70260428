"""Which worker does which task next, and what becomes of a task whose worker is gone."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from indexer.building.build_config import BuildError
from indexer.building.pipeline import Result
from indexer.building.progress import BuildProgress, Counted
from indexer.engines.messages import Advanced, Died, Done, DoTask, Failed, Order, SetJob
from indexer.engines.protocol import Job, Taken
from tpips_model.counted import counted
from tpips_model.errors import TpipsError

__all__ = ["MAX_RETRIES", "Schedule", "Worker", "original"]

MAX_RETRIES = 3
# So that a worker has the next task before it is done with one.
_IN_FLIGHT = 2
# Results that are done before their turn: so many a worker, and no new tasks beyond so many bytes.
_DONE_AHEAD = 2
_MAX_BYTES_AHEAD = 1 << 30


@dataclass
class Worker:
    """A worker that is there: the job it knows, and the tasks it has, of which it does the first."""

    job: Job | None = None
    tickets: list[int] = field(default_factory=list)
    since: float = 0.0


class _WorkerTracebackError(Exception):
    """Where in a worker an error of ours arose; shown as its cause."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def original(answer: Failed) -> Exception:
    """Return a worker's error as it was raised there."""
    if not isinstance(answer.error, TpipsError):
        answer.error.__cause__ = _WorkerTracebackError(answer.traceback)
    return answer.error


class Schedule:
    """The state of one run: tasks that wait, are under way, and are done before their turn. Does nothing by itself.

    Tasks begin in order, but for those that must be done again, which come first. A task whose worker died is done
    again by itself, so that it is known which one is to blame. Two such deaths in one and the same batch are no
    accident, unless it is the first, where whatever befalls a worker as it begins falls too.

    Args:
        job: How tasks are done.
        tasks: The tasks; the ticket of one is its place.
        places: How many workers there may be.
        taken: The keys that the index holds.
        progress: Is moved for each picture.
    """

    def __init__(
        self, job: Job, tasks: Sequence[Counted], *, places: int, taken: Taken, progress: BuildProgress
    ) -> None:
        self._job = job
        self._tasks = tasks
        self._places = places
        self._taken = taken
        self._progress = progress
        self._turn = 0
        self._waiting = list(range(len(tasks)))  # a heap
        self._done: dict[int, Result | Exception] = {}
        self._bytes = 0
        self._suspects: set[int] = set()
        self._deaths: Counter[int] = Counter()
        self._embedded: Counter[int] = Counter()  # pictures of tasks that have begun
        self._died_behind: dict[int, set[int]] = {}
        self._repeats: dict[int, frozenset[str]] = {}

    def result(self, ticket: int) -> Result | None:
        """Return the result whose turn it is, or ``None`` if it is not there yet.

        Raises:
            Exception: What went wrong with the task.
        """
        self._turn = ticket
        outcome = self._done.pop(ticket, None)
        if outcome is None:
            return None
        if isinstance(outcome, Exception):
            raise outcome
        self._bytes -= outcome.nbytes
        # No worker knows the keys of other shards. Those that were done before this one are all known by now.
        repeats = self._taken.among(outcome.keys)
        if not repeats <= self._repeats.get(ticket, frozenset()):
            self._repeats[ticket] = repeats
            self._again(ticket)
            return None
        return outcome

    def place(self, workers: Mapping[int, Worker]) -> int | None:
        """Return where the next task should be done, by a worker that is there or a new one; ``None`` to wait."""
        if not self._waiting or not self._due(self._waiting[0]):
            return None
        alone = self._waiting[0] in self._suspects
        places = [place for place in range(self._places) if self._has_room(workers.get(place), workers, alone)]
        # First those that have nothing to do, then new ones, then those that will soon have nothing to do.
        return min(
            places, key=lambda place: (2 * len(workers[place].tickets) if place in workers else 1, place), default=None
        )

    def orders(self, worker: Worker) -> list[Order]:
        """Give the next task to this worker; return what to tell it."""
        ticket = heapq.heappop(self._waiting)
        if not worker.tickets:
            worker.since = time.monotonic()
        worker.tickets.append(ticket)
        news: list[Order] = [] if worker.job is self._job else [SetJob(self._job)]
        worker.job = self._job
        return [*news, DoTask(ticket, self._tasks[ticket], self._repeats.get(ticket, frozenset()))]

    def advanced(self, answer: Advanced) -> None:
        """Note that a worker has dealt with some pictures."""
        self._embedded[answer.ticket] += answer.count if answer.embedded else 0
        self._progress.advance(self._tasks[answer.ticket].name, answer.read, answer.count)

    def done(self, worker: Worker, answer: Done) -> None:
        """Note that a worker has done a task."""
        worker.tickets.remove(answer.ticket)
        worker.since = time.monotonic()
        self._done[answer.ticket] = answer.result
        self._bytes += answer.result.nbytes

    def failed(self, worker: Worker, answer: Failed) -> None:
        """Note that a task failed and its worker is gone; its other tasks are done by another one."""
        for ticket in worker.tickets:
            if ticket == answer.ticket:
                self._done[ticket] = original(answer)
            else:
                self._again(ticket)

    def died(self, worker: Worker, answer: Died) -> None:
        """Note that a worker is gone, perhaps because of one of the tasks it had."""
        alone = len(worker.tickets) == 1
        for ticket in worker.tickets:
            self._suspects.add(ticket)
            self._deaths[ticket] += alone
            again = alone and self._died_here_before(ticket)
            if self._deaths[ticket] <= MAX_RETRIES and not again:
                self._again(ticket)
                continue
            embedded = counted(self._embedded[ticket], "picture")
            where = f" after embedding {embedded}, as another one" if again else ""
            self._done[ticket] = BuildError(
                f"the shard {self._tasks[ticket].name} could not be done: each worker that tried ended, the last of "
                f"{self._deaths[ticket]} {answer.reason}{where}. What is finished is kept; see whether there is memory "
                "enough (fewer workers, a smaller --batch-size) and whether a picture of it brings the worker down"
            )

    def show(self, workers: Mapping[int, Worker]) -> None:
        """Show the task that has been under way for longest, if several may be."""
        busy = [worker for worker in workers.values() if worker.tickets]
        if self._places > 1 and busy:
            slowest = min(busy, key=lambda worker: worker.since)
            self._progress.show_longest(self._tasks[slowest.tickets[0]].name, slowest.since)

    def _died_here_before(self, ticket: int) -> bool:
        """Note in which batch of a task a worker died; tell whether another one did. The first batch tells nothing."""
        batches = self._died_behind.setdefault(ticket, set())
        embedded = self._embedded[ticket]
        before = embedded in batches
        batches.update({embedded} - {0})
        return before

    def _due(self, ticket: int) -> bool:
        """Tell whether a task may begin: not far ahead of its turn, and not behind one that failed."""
        if ticket == self._turn:
            return True
        failures = (number for number, outcome in self._done.items() if isinstance(outcome, Exception))
        near = ticket < self._turn + self._places * (_IN_FLIGHT + _DONE_AHEAD)
        return near and self._bytes < _MAX_BYTES_AHEAD and ticket < min(failures, default=len(self._tasks))

    def _has_room(self, worker: Worker | None, workers: Mapping[int, Worker], alone: bool) -> bool:
        if worker is None or not worker.tickets:
            return True
        if alone or not self._suspects.isdisjoint(worker.tickets):
            return False
        # Of the last tasks none waits behind another while some worker will have nothing to do.
        return len(worker.tickets) < _IN_FLIGHT and len(self._waiting) >= self._places

    def _again(self, ticket: int) -> None:
        self._progress.restart(self._tasks[ticket].name)
        self._embedded[ticket] = 0
        heapq.heappush(self._waiting, ticket)
