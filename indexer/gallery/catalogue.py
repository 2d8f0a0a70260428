"""Which paintings hang in the gallery: factors chosen so that none goes with another."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from indexer.gallery.painting import FACTORS, FORMATS, Painting

__all__ = ["gallery"]

_SWEEPS = 40


def gallery(count: int = 240, seed: int = 0) -> list[Painting]:
    """Return the gallery's paintings, the same for the same arguments.

    Every value of a factor occurs equally often (to within one), and the pairs of values of any two factors as evenly
    as a search finds: in the default gallery each pair occurs.

    Args:
        count: How many paintings.
        seed: Which gallery.

    Examples:
        >>> len({painting.subject for painting in gallery(count=24)})
        12
    """
    rng = np.random.default_rng(seed)
    choices = {**FACTORS, "format": tuple(FORMATS)}
    levels = [len(values) for values in choices.values()]
    table = _balanced(count, levels, rng)
    seeds = rng.integers(2**31, size=count)
    return [
        Painting(
            **{name: values[level] for (name, values), level in zip(choices.items(), row, strict=True)}, seed=chance
        )
        for row, chance in zip(table.tolist(), seeds.tolist(), strict=True)
    ]


def _balanced(count: int, levels: list[int], rng: np.random.Generator) -> NDArray[np.intp]:
    """Return a table (count, factors) of levels whose pairs occur as evenly as swaps within a column can make them."""
    columns = [rng.permutation(np.arange(count) % many) for many in levels]
    table = np.stack(columns, axis=1)
    tallies = {}
    for one, two in combinations(range(len(levels)), 2):
        tally = np.zeros((levels[one], levels[two]), dtype=np.int64)
        np.add.at(tally, (table[:, one], table[:, two]), 1)
        tallies[one, two], tallies[two, one] = tally, tally.T  # a view: both see every change
    for _ in range(_SWEEPS):
        improved = [_improve(table, column, tallies, rng) for column in range(1, len(levels))]
        if not any(improved):
            break
    return table


def _improve(
    table: NDArray[np.intp],
    column: int,
    tallies: dict[tuple[int, int], NDArray[np.int64]],
    rng: np.random.Generator,
) -> bool:
    """Exchange levels of one column between rows wherever that evens the tallies; return whether any was exchanged.

    The measure is the sum of the squared tallies. Moving one row's pair from level a to level b changes it by
    2·(tally[b] − tally[a] + 1) for each other factor.
    """
    others = [other for other in range(table.shape[1]) if other != column]
    improved = False
    for row in rng.permutation(len(table)):
        mine, theirs = table[row, column], table[:, column]
        change = np.zeros(len(table), dtype=np.int64)
        for other in others:
            tally = tallies[other, column]
            here, there = table[row, other], table[:, other]
            apart = here != there
            gain = tally[here, theirs] - tally[here, mine] + tally[there, mine] - tally[there, theirs] + 2
            change += np.where(apart, gain, 0)
        change[theirs == mine] = 0
        partner = int(np.argmin(change))
        if change[partner] < 0:
            for other in others:
                tally = tallies[other, column]
                tally[table[row, other], mine] -= 1
                tally[table[row, other], theirs[partner]] += 1
                tally[table[partner, other], theirs[partner]] -= 1
                tally[table[partner, other], mine] += 1
            table[row, column], table[partner, column] = theirs[partner], mine
            improved = True
    return improved
