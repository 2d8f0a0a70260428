"""Whatever workers do and whenever they die, results come in order and each once."""

from __future__ import annotations

import io
import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tqdm import tqdm

from indexer.building.build_config import BuildError
from indexer.building.progress import BuildProgress
from indexer.engines.messages import Advanced, Answer, Died, Done, DoTask, Failed, Order, Ready, SetJob
from indexer.engines.schedule import MAX_RETRIES
from indexer.engines.worker_engine import WorkerEngine
from indexer.manifest import ModelRecord
from tpips_model import ModelError

MODEL = ModelRecord("stub", "stub:1", 4, "{aspect}", 0.0)


@dataclass(frozen=True)
class Task:
    name: str
    keys: tuple[str, ...] = ()
    samples: int | None = 1
    size: int | None = None


@dataclass(frozen=True)
class Result:
    name: str
    keys: list[str]
    taken: frozenset[str]
    nbytes: int = 1


class Keys:
    def __init__(self) -> None:
        self.held: set[str] = set()

    def __contains__(self, key: object) -> bool:
        return key in self.held

    def among(self, keys: Iterable[str]) -> frozenset[str]:
        return frozenset(self.held.intersection(keys))


class Whimsical:
    """A pool whose workers answer when they like, and die at ``deaths`` of the tasks they begin.

    Each death is in another batch, or, of tasks in ``poisoned``, behind so many embedded pictures.
    """

    def __init__(
        self,
        chance: random.Random,
        deaths: dict[str, int],
        fails: str | None = None,
        poisoned: dict[str, int] | None = None,
    ) -> None:
        self._chance = chance
        self._deaths = dict(deaths)
        self._poisoned = poisoned or {}
        self._fails = fails
        self._orders: dict[int, list[Order]] = {}
        self._ready: set[int] = set()
        self.most = 0
        self.begun: list[str] = []

    def start(self, place: int) -> None:
        assert place not in self._orders
        self._orders[place] = []
        self._ready.discard(place)

    def send(self, place: int, order: Order) -> None:
        self._orders[place].append(order)
        self.most = max(self.most, sum(isinstance(one, DoTask) for one in self._orders[place]))

    def stop(self, place: int) -> None:
        self._orders.pop(place, None)

    def close(self) -> None:
        self._orders.clear()

    def receive(self, timeout: float) -> list[tuple[int, Answer]]:
        assert self._orders, "nobody would ever answer"
        place = self._chance.choice(sorted(self._orders))
        if place not in self._ready:
            self._ready.add(place)
            return [(place, Ready(MODEL))]
        orders = self._orders[place]
        while orders and isinstance(orders[0], SetJob):
            orders.pop(0)
        if not orders:
            return []
        order = orders[0]
        assert isinstance(order, DoTask)
        self.begun.append(order.task.name)
        if self._deaths.get(order.task.name, 0) > 0:
            self._deaths[order.task.name] -= 1
            del self._orders[place]
            behind = self._poisoned.get(order.task.name, 10 + self._deaths[order.task.name])
            told: list[tuple[int, Answer]] = [(place, Advanced(order.ticket, self._chance.randrange(3), None, False))]
            if behind:
                told.append((place, Advanced(order.ticket, behind, None, True)))
            return [*told, (place, Died("was killed"))]
        if order.task.name == self._fails:
            del self._orders[place]
            return [(place, Failed(order.ticket, ModelError("no"), ""))]
        orders.pop(0)
        assert isinstance(order.task, Task)
        result = Result(order.task.name, list(order.task.keys), order.taken)
        return [(place, Advanced(order.ticket, 1, None, True)), (place, Done(order.ticket, result))]


def results(pool: Whimsical, tasks: list[Task], places: int, found: list[Result]) -> int:
    """Add the results to ``found``; return how many pictures the progress has counted."""
    engine, keys = WorkerEngine(pool, places), Keys()
    job: Any = object()
    assert engine.model == MODEL
    with tqdm(file=io.StringIO()) as bar:
        for result in engine.run(job, tasks, taken=keys, progress=BuildProgress(bar, tasks)):
            assert isinstance(result, Result)
            found.append(result)
            keys.held.update(set(result.keys) - result.taken)
        counted: int = bar.n
    return counted


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 1 << 30),
    places=st.integers(1, 4),
    deaths=st.lists(st.integers(0, MAX_RETRIES), max_size=12),
    keys=st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("uvwxyz")), max_size=12),
)
def test_results_come_in_order_each_once(
    seed: int, places: int, deaths: list[int], keys: list[tuple[str, str]]
) -> None:
    count = max(len(deaths), len(keys))
    tasks = [Task(f"t{number}", keys[number] if number < len(keys) else ()) for number in range(count)]
    pool = Whimsical(random.Random(seed), {f"t{number}": times for number, times in enumerate(deaths)})
    found: list[Result] = []
    counted = results(pool, tasks, places, found)
    assert [result.name for result in found] == [task.name for task in tasks]
    before: set[str] = set()
    for result in found:
        assert result.taken == before.intersection(result.keys)
        before.update(result.keys)
    assert counted == count
    assert pool.most <= 2


def test_one_death_too_many_is_an_error_that_names_the_task_and_nothing_behind_it_is_given() -> None:
    for seed in range(20):
        pool, found = Whimsical(random.Random(seed), {"t2": MAX_RETRIES + 2}), list[Result]()
        with pytest.raises(BuildError, match=r"the shard t2 could not be done: .* the last of 4 was killed"):
            results(pool, [Task(f"t{number}") for number in range(9)], 3, found)
        assert [result.name for result in found] == ["t0", "t1"]
        # Once perhaps in company, where it was not known which task was to blame, then four times by itself.
        assert pool.begun.count("t2") in (4, 5)


def test_two_deaths_in_one_batch_are_enough_but_for_the_first() -> None:
    for seed in range(20):
        for behind, deaths, message in (
            (
                7,
                2,
                r"the shard t2 could .*, the last of 2 was killed after embedding 7 pictures, as another one\. What",
            ),
            (0, MAX_RETRIES + 1, r"the shard t2 could .*, the last of 4 was killed\. What is finished"),
        ):
            pool = Whimsical(random.Random(seed), {"t2": 9}, poisoned={"t2": behind})
            found: list[Result] = []
            with pytest.raises(BuildError, match=message):
                results(pool, [Task(f"t{number}") for number in range(9)], 3, found)
            assert [result.name for result in found] == ["t0", "t1"]
            assert pool.begun.count("t2") in (deaths, deaths + 1)  # once perhaps in company


def test_what_shared_a_worker_with_the_task_that_killed_it_is_not_to_blame() -> None:
    # Two tasks that never kill, always behind one that does as often as it may.
    for seed in range(20):
        deaths, found = {"t0": MAX_RETRIES, "t1": 0, "t2": MAX_RETRIES, "t3": 0}, list[Result]()
        results(Whimsical(random.Random(seed), deaths), [Task(f"t{number}") for number in range(4)], 1, found)
        assert len(found) == 4


def test_nothing_far_behind_a_failure_is_begun_and_everything_before_it_is_given() -> None:
    for seed in range(20):
        pool, found = Whimsical(random.Random(seed), {}, fails="t1"), list[Result]()
        with pytest.raises(ModelError, match=r"^no$"):
            results(pool, [Task(f"t{number}") for number in range(40)], 2, found)
        assert [result.name for result in found] == ["t0"]
        assert max(int(name[1:]) for name in pool.begun) <= 2 * (2 + 2)
