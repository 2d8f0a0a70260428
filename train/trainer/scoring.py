"""How each kind of model judges an item, and the module that turns judgements into losses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from PIL import Image
from torch import Tensor, nn

from tpips_model.aspects import Aspect
from tpips_model.metric import ImagePairs
from tpips_model.qwen.orderings import random_orderings
from train.judgements.records import PAIRS, PictureSource
from train.trainer.config import TrainingConfig
from train.trainer.objective import aspect_contrast_losses, choice_losses, choice_scores, cut
from train.trainer.order import MicroBatch

__all__ = ["SCORERS", "JudgingModule", "Scored"]

# By how many choices there are.
_PAIRS = {len(pairs): pairs for pairs in PAIRS.values()}

Scorer = Callable[[Any, Sequence[Image.Image], Sequence[Aspect], int, Sequence[int]], list[Tensor]]


class Scored(NamedTuple):
    """What a model makes of a micro-batch of n examples; a tuple, so that FSDP finds the tensors in it.

    Attributes:
        losses: float32 (n,): what the update makes small.
        choice: float32 (n,): of that, Equation 2 on whole vectors.
        scores: float32 (n, C): how strongly the model speaks for each choice.
    """

    losses: Tensor
    choice: Tensor
    scores: Tensor


class JudgingModule(nn.Module):
    """A model as something that is trained: micro-batches in, losses out.

    Everything runs inside ``forward``, since this is the module that the processes of a distributed run share.

    Args:
        model: One of the four kinds.
        config: How it is trained.
        computed_in: bfloat16 for automatic mixed precision.
    """

    # What a sharded run (FSDP) gathers and lets go one at a time.
    _no_split_modules = ("Qwen3VLTextDecoderLayer", "Qwen3VLVisionBlock")

    def __init__(self, model: Any, config: TrainingConfig, computed_in: torch.dtype) -> None:
        super().__init__()
        self.model = model
        self._config = config
        self._computed_in = computed_in

    def forward(self, batch: MicroBatch, pictures: Mapping[PictureSource, Image.Image]) -> Scored:
        """Judge an item under some aspects.

        Args:
            batch: n examples.
            pictures: Its pictures, decoded.

        Returns:
            Losses with gradients in training mode; in evaluation mode those of Equation 2 alone.
        """
        config, first = self._config, batch.judgements[0]
        device = self.model.backbone.device
        torch.manual_seed(batch.seed)
        images = [pictures[source] for source in first.pictures]
        aspects = [judgement.aspect for judgement in batch.judgements]
        dims = config.matryoshka_dims if self.training else ()
        with torch.autocast(device.type, self._computed_in, enabled=self._computed_in != torch.float32):
            scores, *of_cut = SCORERS[config.kind](self.model, images, aspects, len(first.votes), dims)
        votes = torch.tensor([judgement.votes for judgement in batch.judgements], dtype=scores.dtype, device=device)
        choice = choice_losses(scores, votes, temperature=config.choice_temperature)
        losses = choice
        if of_cut:
            cuts = [choice_losses(each, votes, temperature=config.choice_temperature) for each in of_cut]
            losses = losses + config.matryoshka_weight * torch.stack(cuts).mean(0)
        if self.training and config.aspect_contrast and len(aspects) > 1:
            contrast = aspect_contrast_losses(scores, votes, temperature=config.choice_temperature)
            losses = losses + config.aspect_contrast * contrast
        return Scored(losses, choice, scores)


def _late(
    model: Any, images: Sequence[Image.Image], aspects: Sequence[Aspect], choices: int, dims: Sequence[int]
) -> list[Tensor]:
    vectors = model(images, aspects).transpose(0, 1)
    return [choice_scores(cut(vectors, dim), choices) for dim in (None, *dims)]


def _pairs(images: Sequence[Image.Image], choices: int) -> ImagePairs:
    left, right = zip(*_PAIRS[choices], strict=True)
    return ImagePairs(tuple(images), left, right, (choices,))


def _early(
    model: Any, images: Sequence[Image.Image], aspects: Sequence[Aspect], choices: int, _: Sequence[int]
) -> list[Tensor]:
    return [model(_pairs(images, choices), aspects)]


def _mid(
    model: Any, images: Sequence[Image.Image], aspects: Sequence[Aspect], choices: int, _: Sequence[int]
) -> list[Tensor]:
    return [-model(_pairs(images, choices), aspects)]


def _triplet(
    model: Any, images: Sequence[Image.Image], aspects: Sequence[Aspect], _: int, __: Sequence[int]
) -> list[Tensor]:
    """Logits under one random ordering an example in training, log probabilities over all six otherwise (C.1)."""
    if model.training:
        orderings = random_orderings(len(aspects))
        return [model([images], aspects, orderings, triplet_of=[0] * len(aspects))]
    return [model.odd_one_out(images, aspects).clamp_min(torch.finfo(torch.float32).tiny).log()]


# kind -> (model, an item's pictures, A aspects, C choices, dims) to scores (A, C), then those of cut vectors.
SCORERS: Mapping[str, Scorer] = {"late": _late, "mid": _mid, "early": _early, "triplet": _triplet}
