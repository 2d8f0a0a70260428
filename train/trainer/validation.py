"""Agreement with people on judgements that are not trained on (section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from train.agreement import Estimate, agreement, estimate, human_consensus
from train.judgements.records import Judgement
from train.trainer.decoding import DecodedPictures
from train.trainer.errors import TrainingError
from train.trainer.order import dealt, grouped_by_item
from train.trainer.scoring import Scored

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["VALIDATION_ASPECTS", "Validation", "validate"]

# Aspects of an item that share its prefix in validation.
VALIDATION_ASPECTS = 16


@dataclass(frozen=True)
class Validation:
    """How a model did.

    Attributes:
        agreement: With people, in [0, 1].
        consensus: Of people among themselves: the best there is to reach.
        loss: Mean of Equation 2.
    """

    agreement: Estimate
    consensus: float
    loss: float


def validate(
    module: torch.nn.Module, judgements: Sequence[Judgement], accelerator: Accelerator, *, workers: int
) -> Validation:
    """Judge every example, all aspects of an item at once, the items spread over the processes.

    Args:
        module: A ``JudgingModule`` as accelerate prepared it; its mode is put back.
        judgements: At least one.
        accelerator: Of the run.
        workers: Threads that decode.

    Raises:
        TrainingError: A score is no finite number; the example is named.
    """
    batches = grouped_by_item(judgements, VALIDATION_ASPECTS)
    share = dealt(batches, accelerator.process_index, accelerator.num_processes)
    found: list[tuple[list[list[float]], list[tuple[float, ...]], list[float], list[str]]] = []
    was_training = module.training
    module.eval()
    try:
        with torch.no_grad(), DecodedPictures(workers) as pictures:
            for number, batch in enumerate(share):
                scored: Scored = module(batch, pictures.of([batch], ahead=share[number + 1 : number + 2]))
                if batch.weight:
                    found.append(
                        (
                            scored.scores.tolist(),
                            [judgement.votes for judgement in batch.judgements],
                            scored.choice.tolist(),
                            [f"{judgement.item} ({judgement.aspect})" for judgement in batch.judgements],
                        )
                    )
    finally:
        module.train(was_training)
    if accelerator.num_processes > 1:
        from accelerate.utils import gather_object

        found = gather_object(found)
    return _summary(found)


def _summary(found: Sequence[tuple[list[list[float]], list[tuple[float, ...]], list[float], list[str]]]) -> Validation:
    reached: list[float] = []
    consensus: list[float] = []
    losses: list[float] = []
    for scores, votes, choice, names in found:
        if not all(value == value and abs(value) != float("inf") for row in scores for value in row):
            raise TrainingError(
                f"validation: the model's score of {names[0]} is no finite number; lower lr, or train in float32"
            )
        reached += agreement(scores, votes).tolist()
        consensus += human_consensus(votes).tolist()
        losses += choice
    return Validation(estimate(reached), estimate(consensus).mean, estimate(losses).mean)
