"""Losses that leap out of the ordinary."""

from __future__ import annotations

from statistics import median

__all__ = ["SPIKE_MEMORY", "is_spike"]

SPIKE_MEMORY = 32
_LEAST_SEEN = 8


def is_spike(loss: float, last: list[float], *, factor: float) -> bool:
    """Return whether a loss is over ``factor`` times the median of the last ones; not before eight were seen.

    >>> is_spike(4.0, [1.0] * 8, factor=3.0), is_spike(2.0, [1.0] * 8, factor=3.0), is_spike(9.0, [1.0], factor=3.0)
    (True, False, False)
    """
    return len(last) >= _LEAST_SEEN and loss > factor * median(last)
