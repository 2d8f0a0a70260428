"""Workers as processes of this machine, each with its share of the processor cores or a GPU of its own."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from queue import SimpleQueue

from indexer.engines.messages import Answer, Died, Order
from indexer.engines.protocol import MakeEmbedder
from indexer.engines.threads import cores, thread_variables, threads_each
from indexer.engines.worker import serve

__all__ = ["LocalPool"]

_PATIENCE = 5.0


class LocalPool:
    """Processes, each at the other end of a pipe: one that is killed takes no other one and no lock with it.

    Args:
        make_embedder: Loads the model.
        workers: How many share the cores.
        gpus: What ``CUDA_VISIBLE_DEVICES`` may name; worker i gets the i-th, and round again.
    """

    def __init__(self, make_embedder: MakeEmbedder, *, workers: int, gpus: tuple[str, ...] = ()) -> None:
        self._make_embedder = make_embedder
        self._threads = threads_each(workers, of=cores())
        self._gpus = gpus
        # Spawned, since a fork would copy locks that other threads hold, and cannot use CUDA.
        self._context = multiprocessing.get_context("spawn")
        self._workers: dict[int, tuple[SpawnProcess, Connection]] = {}

    def start(self, place: int) -> None:
        """Start a worker, which loads the model and answers ``Ready``."""
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=_run, args=(self._make_embedder, self._threads, theirs), name=f"worker-{place}", daemon=True
        )
        variables = thread_variables(self._threads)
        if self._gpus:
            variables["CUDA_VISIBLE_DEVICES"] = self._gpus[place % len(self._gpus)]
        with _environment(variables), _interrupts_ignored():
            process.start()
        theirs.close()  # so that the pipe ends with the process
        self._workers[place] = (process, ours)

    def send(self, place: int, order: Order) -> None:
        """Send an order; to a worker that is dead it goes nowhere."""
        with contextlib.suppress(OSError):  # its death is told by receive
            self._workers[place][1].send(order)

    def receive(self, timeout: float) -> list[tuple[int, Answer]]:
        """Wait for answers, and for deaths, each of which is told once."""
        places = {connection: place for place, (_, connection) in self._workers.items()}
        found: list[tuple[int, Answer]] = []
        for connection in wait(list(places), timeout):
            assert isinstance(connection, Connection)
            place = places[connection]
            try:
                found.append((place, connection.recv()))
            except (EOFError, OSError):
                found.append((place, Died(self._end(place))))
        return found

    def stop(self, place: int) -> None:
        """End a worker, whatever it does; nothing is heard of it any more."""
        if place in self._workers:
            self._workers[place][0].terminate()
            self._end(place)

    def close(self) -> None:
        """End all workers."""
        for process, _ in self._workers.values():
            process.terminate()
        for place in list(self._workers):
            self._end(place)

    def _end(self, place: int) -> str:
        """Wait for a worker that is about to end; return how it did."""
        process, connection = self._workers.pop(place)
        connection.close()
        process.join(_PATIENCE)
        if process.exitcode is None:
            process.kill()
            process.join()
        code = process.exitcode or 0
        process.close()
        if code == -signal.SIGKILL:
            return "was killed (by the system if memory ran out)"
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set variables for processes that are started in the block: libraries read them before any code of ours runs."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Let processes that are started in the block ignore Ctrl-C from their first moment, which they inherit."""
    if threading.current_thread() is not threading.main_thread():  # where Python lets nobody change that
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _run(make_embedder: MakeEmbedder, threads: int, connection: Connection) -> None:
    """What a worker's process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; ours ends the others
    orders: SimpleQueue[Order | Exception] = SimpleQueue()
    # On a thread of its own, so that the other side never waits to send while this one waits to be read from.
    threading.Thread(target=_listen, args=(connection, orders), daemon=True).start()

    def receive() -> Order:
        order = orders.get()
        if isinstance(order, Exception):
            raise order
        return order

    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # there is nobody left to answer
        serve(make_embedder, threads=threads, receive=receive, send=connection.send)


def _listen(connection: Connection, orders: SimpleQueue[Order | Exception]) -> None:
    try:
        while True:
            orders.put(connection.recv())
    except (EOFError, OSError):
        os._exit(1)  # the build has ended, in whatever way, and this process with it
    except Exception as error:  # what was sent cannot be made sense of here
        orders.put(error)
