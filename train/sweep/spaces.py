"""What a sweep searches: Table 7 of the paper, one space for each kind of model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

__all__ = ["SEARCH_SPACES", "Choice", "LogUniform", "distribution"]


@dataclass(frozen=True)
class Choice:
    """A setting that takes one of some values.

    Attributes:
        values: At least one.
    """

    values: tuple[float, ...]


@dataclass(frozen=True)
class LogUniform:
    """A setting whose logarithm is uniform.

    Attributes:
        low: The least value, above 0.
        high: The greatest.
    """

    low: float
    high: float


Dimension = Choice | LogUniform

_RANK = Choice((8, 16, 32, 64))
_RATE = LogUniform(1e-5, 5e-4)
_BATCH = Choice((32, 64, 128, 256))
_TEMPERATURE = Choice((0.05, 0.1, 0.2))

# kind -> setting of TrainingConfig -> what Table 7 gives for it
SEARCH_SPACES: Mapping[str, Mapping[str, Dimension]] = {
    "late": {"lora_rank": _RANK, "lr": _RATE, "effective_batch": _BATCH, "temperature": _TEMPERATURE},
    "early": {"lora_rank": _RANK, "lr": _RATE, "effective_batch": _BATCH, "temperature": _TEMPERATURE},
    "triplet": {"lora_rank": _RANK, "lr": _RATE, "effective_batch": _BATCH},
    "mid": {
        "lora_rank": _RANK,
        "lr": _RATE,
        "effective_batch": _BATCH,
        "temperature": LogUniform(1e-3, 1.0),
        "probes": Choice((3, 5, 8, 10, 14, 20)),
    },
}


def distribution(dimension: Dimension) -> BaseDistribution:
    """Return a dimension as Optuna has it."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    if isinstance(dimension, Choice):
        return CategoricalDistribution(dimension.values)
    return FloatDistribution(dimension.low, dimension.high, log=True)
