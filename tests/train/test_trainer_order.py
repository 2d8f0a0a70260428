"""Every example exactly once an epoch, as a pure function of seed and step."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fixtures.training import painted_judgements, tiny_config
from train.judgements.records import Judgement
from train.trainer import TrainingConfig, TrainingError
from train.trainer.order import ExampleOrder, dealt, fingerprint, grouped_by_item

DATA = painted_judgements(12)


def config(**changes: object) -> TrainingConfig:
    return tiny_config("late", "nowhere", **{"steps": None, **changes})


def seen(order: ExampleOrder, steps: range | None = None) -> list[Judgement]:
    return [one for step in steps or range(order.steps) for batch in order.update(step) for one in batch.judgements]


@settings(deadline=None, max_examples=40)
@given(
    batch=st.integers(1, 40),
    aspects=st.integers(0, 4),
    epochs=st.sampled_from([0.3, 1.0, 2.0]),
    seed=st.integers(0, 3),
)
def test_every_example_once_an_epoch(batch: int, aspects: int, epochs: float, seed: int) -> None:
    order = ExampleOrder(DATA, config(effective_batch=batch, aspects_per_step=aspects, epochs=epochs, seed=seed))
    counts = Counter(seen(order))
    assert sum(counts.values()) == order.examples == round(epochs * len(DATA))
    if epochs >= 1:
        assert set(counts.values()) == {int(epochs)}
        assert len(counts) == len(DATA)
    for step in range(order.steps):
        update = order.update(step)
        size = sum(len(one.judgements) for one in update)
        assert size == (batch if step + 1 < order.steps else order.examples - batch * (order.steps - 1))
        assert sum(one.weight * len(one.judgements) for one in update) == pytest.approx(1.0)
        for one in update:
            assert len({judgement.item for judgement in one.judgements}) == 1
            assert len(one.judgements) <= (aspects or 3)


def test_one_aspect_at_a_time_is_the_papers_way() -> None:
    order = ExampleOrder(DATA, config(aspects_per_step=1, effective_batch=len(DATA)))
    items = [one.item for one in seen(order)]
    assert all(len(batch.judgements) == 1 for batch in order.update(0))
    assert sum(a == b for a, b in pairwise(items)) < len(items) / 4  # an item's aspects are apart


def test_an_items_aspects_share_a_step() -> None:
    order = ExampleOrder(DATA, config(aspects_per_step=0, effective_batch=len(DATA)))
    assert sorted(len(batch.judgements) for batch in order.update(0)) == [2] * 6 + [3] * 6
    of_two = ExampleOrder(DATA, config(aspects_per_step=2, effective_batch=len(DATA)))
    assert Counter(len(batch.judgements) for batch in of_two.update(0)) == {2: 12, 1: 6}


def test_epochs_and_seeds_differ_and_a_step_does_not() -> None:
    twice = config(epochs=2.0, effective_batch=len(DATA), aspects_per_step=1)
    order = ExampleOrder(DATA, twice)
    assert seen(order, range(1)) != seen(order, range(1, 2))
    again = ExampleOrder(DATA, twice)
    assert again.update(1) == order.update(1)  # whichever was asked for before
    assert seen(ExampleOrder(DATA, replace(twice, seed=1)), range(1)) != seen(order, range(1))
    seeds = [batch.seed for step in range(2) for batch in order.update(step)]
    assert len(set(seeds)) == len(seeds)


def test_steps_win_over_epochs() -> None:
    order = ExampleOrder(DATA, config(steps=50, effective_batch=4))
    assert (order.steps, order.examples, len(seen(order))) == (50, 200, 200)
    with pytest.raises(IndexError, match="none of number 50"):
        order.update(50)


def test_a_smaller_share_is_part_of_a_larger_one() -> None:
    kept = [
        {one.item for one in ExampleOrder(DATA, config(data_fraction=share)).judgements} for share in (0.25, 0.5, 1.0)
    ]
    assert [len(items) for items in kept] == [3, 6, 12]
    assert kept[0] < kept[1] < kept[2]


def test_nothing_to_train_on_is_an_error() -> None:
    with pytest.raises(TrainingError, match="no judgement to train on"):
        ExampleOrder([], config())


@settings(deadline=None, max_examples=20)
@given(batches=st.integers(1, 9), processes=st.integers(1, 5))
def test_processes_get_equal_numbers_and_every_example_counts_once(batches: int, processes: int) -> None:
    order = ExampleOrder(DATA, config(aspects_per_step=1, effective_batch=batches))
    update = order.update(0)
    shares = [dealt(update, process, processes) for process in range(processes)]
    assert len({len(share) for share in shares}) == 1
    counted = [one for share in shares for one in share if one.weight]
    assert sorted(counted, key=lambda one: one.seed) == sorted(update, key=lambda one: one.seed)


def test_validation_keeps_an_items_aspects_together() -> None:
    batches = grouped_by_item(DATA, most=2)
    assert [len(batch.judgements) for batch in batches[:3]] == [2, 2, 1]
    assert [one for batch in batches for one in batch.judgements] == DATA


def test_the_fingerprint_knows_votes_and_pictures() -> None:
    assert fingerprint(DATA) == fingerprint(painted_judgements(12))
    assert fingerprint(DATA) != fingerprint(DATA[::-1])
    turned = [replace(DATA[0], votes=(0.1, 0.1, 0.8)), *DATA[1:]]
    assert fingerprint(DATA) != fingerprint([replace(turned[0], votes=(0.3, 0.3, 0.4)), *DATA[1:]])
