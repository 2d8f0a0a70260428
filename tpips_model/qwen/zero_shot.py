"""The zero-shot baselines of Appendix C.3 that ask a generative model in words.

(The embedding baseline, "Represent the visual similarity of this image in terms of ⟨c⟩.", is late fusion over a
backbone without adapter: ``load_model("Qwen/Qwen3-VL-Embedding-2B")``.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from tpips_model.aspects import OVERALL, Aspect, AspectLike
from tpips_model.errors import ModelError
from tpips_model.metric import Images, asked_aspects, metric_call, pair_images
from tpips_model.qwen.backbone import Backbone
from tpips_model.qwen.batching import DEFAULT_MAX_TOKENS_PER_BATCH
from tpips_model.qwen.orderings import PAIR_ORDERINGS, TRIPLET_ORDERINGS, average_over_orderings
from tpips_model.qwen.prompts import question_tokens, rating_prompt, two_afc_prompt, zero_shot_triplet_prompt
from tpips_model.qwen.question_states import Question, states_at_end
from tpips_model.qwen.ratings import HIGHEST, RatingTokens, expected_rating, rating_distribution
from tpips_model.qwen.triplet_head import Triplet, as_triplets

__all__ = ["ZeroShotJudge", "side_by_side"]

# A strip lower than this would shrink a picture beside it to nothing.
LEAST_HEIGHT = 256


class ZeroShotJudge:
    """A generative Qwen3-VL, asked in the paper's words and read from the logits of its answer.

    The images are put side by side into one picture, as in the paper, which says nothing of different heights: here all
    are resized to the smallest height (at least 256 pixels), proportions kept. Every question is asked in all orderings
    (six of a triplet, two of a pair) and the answers averaged, so the order of the images does not matter.

    As a metric its similarity is the expected rating over 10, in [0, 1], and distance = 1 − similarity. A picture need
    not have distance 0 to itself.

    Args:
        backbone: Such as ``load_backbone("Qwen/Qwen3-VL-8B-Instruct", generative=True)``.
        max_tokens_per_batch: Bound on a batch's tokens, padding included.

    Raises:
        ModelError: The backbone has no language head, or a tokenizer in which the answers cannot be told apart.
    """

    kind = "zero-shot"

    def __init__(self, backbone: Backbone, *, max_tokens_per_batch: int = DEFAULT_MAX_TOKENS_PER_BATCH) -> None:
        if backbone.lm_head is None:
            raise ModelError(f"{backbone.name} was loaded without its language head; load it with generative=True")
        self.name = backbone.name
        self.backbone = backbone
        self.max_tokens_per_batch = max_tokens_per_batch
        self._ratings = RatingTokens.of(lambda text: backbone.chat.encode([text]))
        self._sides = self._first_tokens("left", "middle", "right")

    def odd_one_out(
        self, images: Triplet | Sequence[Triplet], aspect: AspectLike | Sequence[AspectLike] = OVERALL
    ) -> Tensor:
        """Return for each of three images the probability to be the most different one.

        Args:
            images: Three images, or a batch of B triplets.
            aspect: One aspect, or a sequence of A aspects.

        Returns:
            float32 (3,), or (B, 3) for a batch; with a sequence of aspects (A, 3) or (A, B, 3). Rows sum to 1.

        Raises:
            ImageError: An image cannot be read, or a triplet has not three images.
        """
        return self._over_triplets(images, aspect, self._odd_one_out)

    def two_afc(
        self, images: Triplet | Sequence[Triplet], aspect: AspectLike | Sequence[AspectLike] = OVERALL
    ) -> Tensor:
        """Return for each of two candidates the probability to be the one closer to the reference.

        Args:
            images: (reference, first candidate, second candidate), or a batch of B such.
            aspect: One aspect, or a sequence of A aspects.

        Returns:
            float32 (2,), or (B, 2) for a batch; with a sequence of aspects (A, 2) or (A, B, 2). Rows sum to 1.

        Raises:
            ImageError: An image cannot be read, or a triplet has not three images.
        """
        return self._over_triplets(images, aspect, self._two_afc)

    def rate(self, a: Images, b: Images, aspect: AspectLike | Sequence[AspectLike] = OVERALL) -> Tensor:
        """Return the expected rating E[d] = Σ d·P(d) over 0 (completely different) … 10 (identical).

        The paper's odd-one-out and 2AFC distributions are the softmax of these ratings (temperature 1).

        Returns:
            float32 in [0, 10]; arguments, shapes and errors as in ``Metric.similarity``.
        """
        pairs = pair_images(a, b)
        aspects, many = asked_aspects(aspect)
        with metric_call(self.backbone, pairs.images):
            pixels = [self.backbone.preprocess.pixels(image) for image in pairs.images]
            columns = [
                self._rating(pixels[i], pixels[j], aspects) for i, j in zip(pairs.left, pairs.right, strict=True)
            ]
            return pairs.shaped(torch.stack(columns, dim=1), many_aspects=many)

    def similarity(self, a: Images, b: Images, aspect: AspectLike | Sequence[AspectLike] = OVERALL) -> Tensor:
        """Return the expected rating over 10, float32 in [0, 1]; the rest as in ``Metric.similarity``."""
        return self.rate(a, b, aspect) / HIGHEST

    def distance(self, a: Images, b: Images, aspect: AspectLike | Sequence[AspectLike] = OVERALL) -> Tensor:
        """Return 1 − similarity, float32 in [0, 1]; the rest as in ``Metric.similarity``."""
        return 1.0 - self.similarity(a, b, aspect)

    def _over_triplets(
        self,
        images: Triplet | Sequence[Triplet],
        aspect: AspectLike | Sequence[AspectLike],
        ask: Callable[[Sequence[Tensor], Sequence[Aspect]], Tensor],
    ) -> Tensor:
        triplets, many_triplets = as_triplets(images)
        aspects, many_aspects = asked_aspects(aspect)
        with metric_call(self.backbone, (image for triplet in triplets for image in triplet)):
            rows = [ask([self.backbone.preprocess.pixels(image) for image in one], aspects) for one in triplets]
        probabilities = torch.stack(rows, dim=1) if many_triplets else rows[0]
        return probabilities if many_aspects else probabilities[0]

    def _odd_one_out(self, images: Sequence[Tensor], aspects: Sequence[Aspect]) -> Tensor:
        shown = [[images[image] for image in ordering] for ordering in TRIPLET_ORDERINGS]
        logits = self._answers(shown, [zero_shot_triplet_prompt(aspect) for aspect in aspects])[:, :, -1]
        return average_over_orderings(_among(logits, self._sides), TRIPLET_ORDERINGS)

    def _two_afc(self, images: Sequence[Tensor], aspects: Sequence[Aspect]) -> Tensor:
        reference, *candidates = images
        shown = [[candidates[left], reference, candidates[right]] for left, right in PAIR_ORDERINGS]
        logits = self._answers(shown, [two_afc_prompt(aspect) for aspect in aspects])[:, :, -1]
        left, _, right = self._sides
        return average_over_orderings(_among(logits, (left, right)), PAIR_ORDERINGS)

    def _rating(self, a: Tensor, b: Tensor, aspects: Sequence[Aspect]) -> Tensor:
        """Return the expected ratings of one pair, (A,)."""
        prompts = [rating_prompt(aspect) for aspect in aspects]
        if self._ratings.prefix is None:
            answer, after_one = self._answers([[a, b], [b, a]], prompts)[:, :, -1], None
        else:
            # One pass gives both: the state before the answer "1", and the one after it.
            logits = self._answers([[a, b], [b, a]], prompts, begun=[self._ratings.prefix])
            answer, after_one = logits[:, :, -2], logits[:, :, -1]
        return expected_rating(rating_distribution(answer, after_one, self._ratings)).mean(-1)

    def _answers(self, shown: Sequence[Sequence[Tensor]], prompts: Sequence[str], begun: Sequence[int] = ()) -> Tensor:
        """Ask A questions about each of R montages.

        Args:
            shown: For each montage its images from left to right.
            prompts: A questions.
            begun: Tokens with which the answer begins.

        Returns:
            (A, R, 1 + len(begun), vocabulary): logits of the answer's first token and of those after each begun one.
        """
        backbone = self.backbone
        patches = [backbone.preprocess(side_by_side(images)) for images in shown]
        features = backbone.image_features(patches)
        questions = [
            Question([*question_tokens(backbone.chat, prompt, [patches[montage].tokens]), *begun], (montage,))
            for prompt in prompts
            for montage in range(len(shown))
        ]
        last = 1 + len(begun)
        states = states_at_end(backbone, questions, features, max_tokens=self.max_tokens_per_batch, last=last)
        logits = backbone.logits(states)
        return logits.to(torch.promote_types(logits.dtype, torch.float32)).unflatten(0, (len(prompts), len(shown)))

    def _first_tokens(self, *words: str) -> tuple[int, ...]:
        """Return the token each answer begins with."""
        first = tuple(self.backbone.chat.encode([word])[0] for word in words)
        if len(set(first)) != len(words):
            raise ModelError(f"the tokenizer of {self.name} begins the answers {', '.join(words)} with the same token")
        return first


def side_by_side(images: Sequence[Tensor]) -> Tensor:
    """Put images side by side, at the smallest of their heights but at least 256 pixels.

    Args:
        images: Floating point (3, H_i, W_i) each.

    Returns:
        (3, H, Σ W_i·H/H_i), widths rounded.
    """
    height = max(min(image.shape[1] for image in images), LEAST_HEIGHT)
    return torch.cat([_at_height(image, height).to(images[0].device) for image in images], dim=2)


def _at_height(image: Tensor, height: int) -> Tensor:
    if image.shape[1] == height:
        return image
    size = (height, max(round(image.shape[2] * height / image.shape[1]), 1))
    return nn.functional.interpolate(image[None], size=size, mode="bicubic", antialias=True, align_corners=False)[
        0
    ].clamp(0, 1)


def _among(logits: Tensor, tokens: Sequence[int]) -> Tensor:
    """Return the distribution over some tokens, (…, len(tokens)), of logits (…, vocabulary)."""
    return logits[..., list(tokens)].softmax(-1)
