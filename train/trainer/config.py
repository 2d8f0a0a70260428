"""The settings of a training run, checked when they are made."""

from __future__ import annotations

import math
import types
from dataclasses import dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from train.trainer.errors import TrainingError

__all__ = ["KINDS", "TrainingConfig"]

KINDS = ("late", "mid", "early", "triplet")
DTYPES = (None, "float32", "bfloat16")
ALL_LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")

# name -> (least, greatest, whether the least itself is allowed)
_RANGES: dict[str, tuple[float, float, bool]] = {
    "lora_alpha": (1, 1_000_000, True),
    "lora_rank": (0, 4096, True),
    "lora_dropout": (0, 1, True),
    "probes": (1, math.inf, True),
    "lr": (0, math.inf, False),
    "head_rate": (0, math.inf, False),
    "weight_decay": (0, math.inf, True),
    "clip": (0, math.inf, False),
    "warmup": (0, 1, True),
    "effective_batch": (1, 100_000, True),
    "temperature": (0, math.inf, False),
    "epochs": (0, 1_000_000, False),
    "steps": (1, 10**9, True),
    "aspects_per_step": (0, math.inf, True),
    "aspect_contrast": (0, math.inf, True),
    "matryoshka_weight": (0, math.inf, False),
    "data_fraction": (0, 1, False),
    "max_tokens_per_batch": (1, math.inf, True),
    "seed": (0, 2**32 - 1, True),
    "workers": (1, 256, True),
    "validate_every": (1, math.inf, True),
    "save_every": (1, math.inf, True),
    "max_bad_steps": (0, math.inf, True),
    "spike_factor": (1, math.inf, False),
}


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How a model is trained; the defaults are late fusion's of Table 8 and Appendix C.1.

    Attributes:
        kind: ``"late"``, ``"mid"``, ``"early"`` or ``"triplet"``.
        backbone: A directory or hub id of a Qwen3-VL.
        revision: Of the hub repository.
        start: A trained model of the same kind to go on from; its backbone and adapters take the place of
            ``backbone`` and the ``lora_…`` settings, which must agree.
        lora_rank: r; 0 leaves the backbone frozen and trains the head alone.
        lora_alpha: α; None is 2 · r.
        lora_dropout: On the adapters' input.
        lora_targets: Linear maps of the language tower that get adapters. The vision tower is frozen.
        probes: Mid fusion: how many blocks are compared, at most all.
        aspect_conditioned: Mid fusion: False makes one set of channel weights for all aspects (Table 6).
        lr: Highest learning rate of the adapters.
        head_rate: The head's learning rate as a multiple of ``lr``.
        weight_decay: Of AdamW.
        clip: Largest norm of the gradient.
        warmup: Share of the steps in which the rate rises, linearly; then it falls to zero as a cosine.
        effective_batch: Examples (an item under an aspect) an update, over all processes.
        temperature: τ of Equation 2; the triplet head has logits of its own and takes 1.
        epochs: Passes over the examples.
        steps: Updates; wins over ``epochs``.
        aspects_per_step: Examples of one item that go through the model together and share its vision tower and, in
            late fusion, its prefix. 1 is the paper's way: every example by itself, anywhere in the epoch. 0: all of
            an item's.
        aspect_contrast: Weight of the loss that keeps an item's choices under one aspect from being those that people
            made under another; it sees the aspects that share a step. 0 is off.
        matryoshka_dims: Late fusion: the loss is also taken on vectors cut to these dims.
        matryoshka_weight: Weight of the mean of those losses.
        data_fraction: Share of the items that are used, drawn by the seed; a smaller share is part of a larger one.
        dtype: Of the frozen weights and of most computing; None is bfloat16 on a GPU and float32 on a CPU. What is
            trained is float32.
        checkpointing: Whether to compute every block again in the backward pass, for less memory.
        min_pixels: Image budget; None is the backbone's.
        max_pixels: Image budget; None is the backbone's.
        max_tokens_per_batch: Bound on the tokens that go through the language model at once.
        seed: Of first weights, order, dropout and the triplet head's orderings.
        workers: Threads that decode pictures.
        validate_every: Steps between two validations; there is always one at the end.
        save_every: Steps between two states that a run can be resumed from.
        max_bad_steps: How many updates may be left out because a loss or gradient is no finite number; one more ends
            the run.
        spike_factor: A loss of so many times the median of the last ones is reported as a spike.

    Raises:
        TrainingError: A setting is out of its range, or does not fit the kind.
    """

    kind: str
    backbone: str = "Qwen/Qwen3-VL-Embedding-8B"
    revision: str | None = None
    start: str | None = None
    lora_rank: int = 16
    lora_alpha: int | None = None
    lora_dropout: float = 0.05
    lora_targets: tuple[str, ...] = ALL_LINEARS
    probes: int = 20
    aspect_conditioned: bool = True
    lr: float = 5e-5
    head_rate: float = 1.0
    weight_decay: float = 0.01
    clip: float = 1.0
    warmup: float = 0.03
    effective_batch: int = 128
    temperature: float = 0.05
    epochs: float = 1.0
    steps: int | None = None
    aspects_per_step: int = 1
    aspect_contrast: float = 0.0
    matryoshka_dims: tuple[int, ...] = ()
    matryoshka_weight: float = 1.0
    data_fraction: float = 1.0
    dtype: str | None = None
    checkpointing: bool = True
    min_pixels: int | None = None
    max_pixels: int | None = None
    max_tokens_per_batch: int = 16384
    seed: int = 0
    workers: int = 2
    validate_every: int = 100
    save_every: int = 100
    max_bad_steps: int = 0
    spike_factor: float = 3.0

    def __post_init__(self) -> None:
        hints = get_type_hints(TrainingConfig)
        for name, hint in hints.items():
            if not _is_of(getattr(self, name), hint):
                raise TrainingError(f"{name} is {getattr(self, name)!r}; give a value of type {_named(hint)}")
        for name, (least, greatest, inclusive) in _RANGES.items():
            value = getattr(self, name)
            if value is None:  # the type allows it
                continue
            if not (least <= value <= greatest and (inclusive or value > least) and value < math.inf):
                kind = "finite number" if value == math.inf else "number"
                raise TrainingError(
                    f"{name} is {value}; give a {kind} {'of at least' if inclusive else 'above'} {least:g}"
                    + (f" and at most {greatest:,}" if greatest < math.inf else "")
                )
        if self.kind not in KINDS or self.dtype not in DTYPES:
            raise TrainingError(
                f"kind {self.kind!r} with dtype {self.dtype!r} cannot be trained; kinds are {', '.join(KINDS)}, dtypes "
                "float32 and bfloat16"
            )
        if self.matryoshka_dims and (self.kind != "late" or min(self.matryoshka_dims) < 1):
            raise TrainingError(
                f"matryoshka_dims {self.matryoshka_dims} of a {self.kind} model: only late fusion has vectors to cut, "
                "to dims of at least 1"
            )
        if self.aspect_contrast and self.aspects_per_step == 1:
            raise TrainingError(
                "aspect_contrast compares aspects that share a step, but aspects_per_step is 1; "
                "set it to 0 (all) or more"
            )

    @property
    def choice_temperature(self) -> float:
        """τ that the scores are divided by."""
        return 1.0 if self.kind == "triplet" else self.temperature

    @property
    def alpha(self) -> int:
        """α of the adapters."""
        return 2 * self.lora_rank if self.lora_alpha is None else self.lora_alpha


def _is_of(value: Any, hint: Any) -> bool:
    """Whether a value, perhaps read from a file, is of a field's type; true and false are no numbers."""
    if get_origin(hint) in (Union, types.UnionType):
        return any(_is_of(value, kind) for kind in get_args(hint))
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_is_of(part, get_args(hint)[0]) for part in value)
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, (int, float) if hint is float else hint)


def _named(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
