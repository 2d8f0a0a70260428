"""What every worker does, wherever it runs: loads the model once, then does the tasks it is given."""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing

from indexer.building.pipeline import Work, embedded
from indexer.engines.messages import Advanced, Answer, Done, DoTask, Failed, Order, Ready, SetJob, portable
from indexer.engines.protocol import Job, MakeEmbedder, model_record
from indexer.engines.threads import decode_threads, limit_threads
from tpips_model.embedder import Embedder

__all__ = ["serve"]

Receive = Callable[[], Order]
Send = Callable[[Answer], None]


def serve(make_embedder: MakeEmbedder, *, threads: int, receive: Receive, send: Send) -> None:
    """Do what is ordered until ``None`` is, or something goes wrong, which is sent.

    Args:
        make_embedder: Loads the model.
        threads: How many threads the model may use.
        receive: Waits for the next order; called on another thread than ``send``.
        send: Sends an answer.
    """
    try:
        embedder = make_embedder()
        limit_threads(threads)
        send(Ready(model_record(embedder)))
        order = receive()
        while isinstance(order, SetJob):
            order = _Session(order.job, embedder, threads, receive, send).run()
    except Exception as error:
        send(Failed(None, portable(error), traceback.format_exc()))


class _Session:
    """The tasks between two jobs."""

    def __init__(self, job: Job, embedder: Embedder, threads: int, receive: Receive, send: Send) -> None:
        self._job = job
        self._embedder = embedder
        self._threads = threads
        self._receive = receive
        self._send = send
        self._tickets: deque[int] = deque()
        self._next: Order = None

    def run(self) -> Order:
        """Do the tasks; return the order that is not one."""
        results = embedded(
            self._works(),
            self._embedder,
            batch_size=self._job.batch_size,
            threads=decode_threads(self._threads),
            advance=self._advance,
        )
        try:
            with closing(results):
                for result in results:
                    self._send(Done(self._tickets.popleft(), result))
        except Exception as error:
            # The task under way is the oldest, for they are done in order.
            ticket = self._tickets[0] if self._tickets else None
            self._send(Failed(ticket, portable(error), traceback.format_exc()))
            return None
        return self._next

    def _works(self) -> Iterator[Work]:
        while isinstance(order := self._receive(), DoTask):
            self._tickets.append(order.ticket)
            yield self._job.work(order.task, self._embedder, order.taken)
        self._next = order

    def _advance(self, name: str, read: int | None, count: int, embedded: bool) -> None:
        # At once: should the worker die, this is what tells where.
        self._send(Advanced(self._tickets[0], count, read, embedded))
