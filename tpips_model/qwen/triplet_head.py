"""The triplet head: three images in one prompt, and which is the odd one out (Appendices B.1 and C.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tpips_model.aspects import OVERALL, AspectLike
from tpips_model.errors import ImageError
from tpips_model.images import ImageLike
from tpips_model.metric import asked_aspects, check_finite, metric_call
from tpips_model.qwen.backbone import Backbone
from tpips_model.qwen.batching import DEFAULT_MAX_TOKENS_PER_BATCH
from tpips_model.qwen.orderings import TRIPLET_ORDERINGS, average_over_orderings, to_original_places
from tpips_model.qwen.prompts import question_tokens, triplet_head_prompt
from tpips_model.qwen.question_states import Question, states_at_end

__all__ = ["TripletHead", "as_triplets"]

Triplet = Sequence[ImageLike] | np.ndarray | Tensor


def as_triplets(images: Triplet | Sequence[Triplet]) -> tuple[list[list[ImageLike]], bool]:
    """Return triplets as lists of three images, and whether a batch of them was given.

    A list of three images, or a 4-d array or tensor of three, is one triplet; a list of such is a batch.

    Raises:
        ImageError: A triplet has not three images, or there is none.
    """
    first: Any = images[0] if len(images) else None
    many = isinstance(first, (list, tuple)) or getattr(first, "ndim", 0) == 4
    triplets: list[list[Any]] = [list(triplet) for triplet in images] if many else [list(images)]  # type: ignore[arg-type]
    if wrong := [number for number, triplet in enumerate(triplets) if len(triplet) != 3]:
        raise ImageError(f"triplet {wrong[0]} has {len(triplets[wrong[0]])} images; a triplet has three")
    return triplets, many


class TripletHead(nn.Module):
    """A linear classifier over the state that opens the answer to "Which image is the most different …?".

    The three images stand one after the other in a user turn of the generative Qwen3-VL, then the question. In
    training the images of every triplet are shuffled (``random_orderings``) and the logits brought back; in use the
    distribution is the mean over all six orderings, so it does not depend on the order the images are given in.

    It yields a decision about three images and no similarity of two (Appendix B.1).

    Args:
        backbone: A generative Qwen3-VL; its language head is not used.
        max_tokens_per_batch: Bound on a batch's tokens, padding included.

    Attributes:
        head: D → 3, one logit per place, in float32.
    """

    kind = "triplet"

    def __init__(self, backbone: Backbone, *, max_tokens_per_batch: int = DEFAULT_MAX_TOKENS_PER_BATCH) -> None:
        super().__init__()
        self.name = backbone.name
        self.backbone = backbone
        self.max_tokens_per_batch = max_tokens_per_batch
        self.head = nn.Linear(backbone.dim, 3, device=backbone.device)

    @property
    def settings(self) -> dict[str, Any]:
        """What a checkpoint must repeat to build this model again: nothing."""
        return {}

    def forward(
        self,
        triplets: Sequence[Triplet],
        aspects: Sequence[AspectLike],
        orderings: Tensor,
        *,
        triplet_of: Sequence[int] | None = None,
    ) -> Tensor:
        """Return the logits of each image to be the odd one out, for training.

        Args:
            triplets: Triplets of images.
            aspects: B aspects, one for each triplet.
            orderings: int64 (B, 3), such as ``random_orderings`` gives: ``orderings[b, place]`` is the image of the
                triplet that stands in that place when aspect b is asked for.
            triplet_of: For each of the B aspects the index of the triplet it is asked of, so that a triplet asked for
                several aspects goes through the vision tower once; by default the triplets in order.

        Returns:
            float32 or wider (B, 3), logits of the images in the triplets' own order.
        """
        asked = range(len(triplets)) if triplet_of is None else triplet_of
        items = list(zip(asked, aspects, map(tuple, orderings.tolist()), strict=True))
        return to_original_places(self._logits(triplets, items), orderings.to(self.backbone.device))

    def odd_one_out(
        self, images: Triplet | Sequence[Triplet], aspect: AspectLike | Sequence[AspectLike] = OVERALL
    ) -> Tensor:
        """Return for each image the probability to be the odd one out, averaged over all six orderings.

        Args:
            images: Three images, or a batch of B triplets.
            aspect: One aspect, or a sequence of A aspects.

        Returns:
            float32 (3,), or (B, 3) for a batch; with a sequence of aspects (A, 3) or (A, B, 3). Rows sum to 1.

        Raises:
            ImageError: An image cannot be read, or a triplet has not three images.
            ModelError: The probabilities are not finite.
        """
        triplets, many_triplets = as_triplets(images)
        aspects, many_aspects = asked_aspects(aspect)
        items = [(0, one, ordering) for one in aspects for ordering in TRIPLET_ORDERINGS]
        with metric_call(self, (image for triplet in triplets for image in triplet)):
            places = [self._logits([triplet], items).unflatten(0, (len(aspects), -1)) for triplet in triplets]
            probabilities = average_over_orderings(torch.stack(places, dim=1).softmax(-1), TRIPLET_ORDERINGS)
        check_finite(probabilities)
        probabilities = probabilities if many_triplets else probabilities[:, 0]
        return probabilities if many_aspects else probabilities[0]

    def _logits(self, triplets: Sequence[Triplet], items: Sequence[tuple[int, AspectLike, tuple[int, ...]]]) -> Tensor:
        """Return the logits of places, (items, 3), for items of (index of a triplet, aspect, ordering)."""
        backbone = self.backbone
        patches = [backbone.preprocess(image) for triplet in triplets for image in triplet]
        features = backbone.image_features(patches)
        questions = []
        for triplet, aspect, ordering in items:
            images = tuple(3 * triplet + image for image in ordering)
            counts = [patches[image].tokens for image in images]
            questions.append(Question(question_tokens(backbone.chat, triplet_head_prompt(aspect), counts), images))
        states = states_at_end(backbone, questions, features, max_tokens=self.max_tokens_per_batch)[:, 0]
        with torch.autocast(states.device.type, enabled=False):  # float32, mixed precision or not
            logits: Tensor = self.head(states.to(self.head.weight.dtype))
        return logits
