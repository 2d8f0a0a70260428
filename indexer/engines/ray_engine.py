"""Workers as actors of a Ray cluster, an existing one or one that is started on this machine."""

from __future__ import annotations

import logging
import os
import threading
from queue import Empty, SimpleQueue
from typing import Any

from indexer.building.build_config import BuildError
from indexer.engines.messages import Answer, Died, Order
from indexer.engines.protocol import MakeEmbedder
from indexer.engines.threads import cores, threads_each
from indexer.engines.worker import serve
from tpips_model.extras import install_extra

__all__ = ["RayPool"]

# How long an actor waits for an answer of its worker before it says that there is none.
_POLL = 0.2


class RayPool:
    """Actors, each with a worker on a thread of its own, that are asked again and again for its answers.

    Args:
        make_embedder: Loads the model.
        workers: How many; by default one for each GPU of the cluster, or for each machine if it has none.
        address: The cluster: ``auto``, ``HOST:PORT`` or ``ray://HOST:PORT``; by default what ``RAY_ADDRESS`` says, else
            one is started on this machine and ended with the pool.

    Raises:
        BuildError: Ray is not installed, or there is no cluster.
    """

    def __init__(self, make_embedder: MakeEmbedder, *, workers: int | None, address: str | None) -> None:
        self._ray = _import_ray()
        self._make_embedder = make_embedder
        self._ours = not self._ray.is_initialized()
        if self._ours:
            _connect(self._ray, address or os.environ.get("RAY_ADDRESS"))
        resources = self._ray.cluster_resources()
        cpus, gpus = max(1.0, resources.get("CPU", 1.0)), resources.get("GPU", 0.0)
        machines = sum(1 for node in self._ray.nodes() if node["Alive"])
        self.workers = workers or int(gpus) or machines
        self._threads = threads_each(self.workers, of=int(cpus))
        # Less than the threads it uses: a worker that no single machine has room for would be waited for in vain.
        self._share = {"num_cpus": min(1.0, cpus / self.workers), "num_gpus": _gpu_share(gpus, self.workers)}
        self._actors: dict[int, Any] = {}
        self._asked: dict[Any, int] = {}

    def start(self, place: int) -> None:
        """Start a worker, which loads the model and answers ``Ready``."""
        # Orders on one thread and questions on another, so that either is served in order and at any time.
        actor_class = self._ray.remote(concurrency_groups={"orders": 1, "answers": 1})(_Actor)
        options = actor_class.options(max_restarts=0, scheduling_strategy="SPREAD", **self._share)
        self._actors[place] = options.remote(self._make_embedder, self._threads)
        self._ask(place)

    def send(self, place: int, order: Order) -> None:
        """Send an order; to a worker that is dead it goes nowhere."""
        self._actors[place].order.options(concurrency_group="orders").remote(order)

    def receive(self, timeout: float) -> list[tuple[int, Answer]]:
        """Wait for answers, and for deaths, each of which is told once."""
        found: list[tuple[int, Answer]] = []
        ready, _ = self._ray.wait(list(self._asked), num_returns=1, timeout=timeout)
        for reference in ready:
            place = self._asked.pop(reference)
            try:
                found += [(place, answer) for answer in self._ray.get(reference)]
                self._ask(place)
            except self._ray.exceptions.RayActorError as error:
                del self._actors[place]
                found.append((place, Died(f"ended ({_first_line(error)})")))
        return found

    def stop(self, place: int) -> None:
        """End a worker, whatever it does; nothing is heard of it any more."""
        if place in self._actors:
            self._ray.kill(self._actors.pop(place))
            self._asked = {reference: other for reference, other in self._asked.items() if other != place}

    def close(self) -> None:
        """End all workers."""
        for place in list(self._actors):
            self.stop(place)
        if self._ours:
            self._ray.shutdown()

    def _ask(self, place: int) -> None:
        reference = self._actors[place].answers.options(concurrency_group="answers").remote()
        self._asked[reference] = place


class _Actor:
    """A worker as Ray runs it."""

    def __init__(self, make_embedder: MakeEmbedder, threads: int) -> None:
        self._orders: SimpleQueue[Order] = SimpleQueue()
        self._answers: SimpleQueue[Answer] = SimpleQueue()
        worker = threading.Thread(
            target=serve,
            args=(make_embedder,),
            kwargs={"threads": threads, "receive": self._orders.get, "send": self._answers.put},
            daemon=True,
        )
        worker.start()

    def order(self, order: Order) -> None:
        """Take an order."""
        self._orders.put(order)

    def answers(self) -> list[Answer]:
        """Wait a little for answers and return those that are there."""
        found: list[Answer] = []
        try:
            found.append(self._answers.get(timeout=_POLL))
            while True:
                found.append(self._answers.get_nowait())
        except Empty:
            return found


def _import_ray() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise BuildError(f"--engine ray needs Ray, which is not installed: {install_extra('distributed')}") from error
    return ray


def _connect(ray: Any, address: str | None) -> None:
    # Nothing is sent to anybody about what is run here.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address is None or address == "local":
            ray.init(address="local", num_cpus=cores(), include_dashboard=False, **quiet)
        else:
            ray.init(address=address, **quiet)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        where = f"no Ray cluster answers at {address}" if address else "Ray cannot be started here"
        raise BuildError(f"{where} ({_first_line(error)}); see to the cluster, or leave out --ray-address") from error


def _gpu_share(gpus: float, workers: int) -> float:
    share = gpus / workers
    return float(int(share)) if share >= 1 else share


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
