"""Mid fusion: the distance between the activations of two images (section 4.2, Equation 3)."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from tpips_model.aspects import OVERALL, Aspect, AspectLike
from tpips_model.errors import ModelError
from tpips_model.metric import ImagePairs, Images, asked_aspects, metric_call, pair_images
from tpips_model.qwen.backbone import Backbone, ImageFeatures
from tpips_model.qwen.batching import DEFAULT_MAX_TOKENS_PER_BATCH, plan_batches
from tpips_model.qwen.mid_fusion_head import Activations, MidFusionHead, probed_layers, uniform_distance
from tpips_model.qwen.pair_groups import Opened, PairGroup, group_pairs, image_size, same_pixels
from tpips_model.qwen.prompts import mid_fusion_tokens

__all__ = ["DEFAULT_PROBES", "MidFusion", "shared_size"]

DEFAULT_PROBES = 20


@dataclass(frozen=True)
class _View:
    """An image at the size it has in a pair."""

    image: int
    size: tuple[int, int]


class MidFusion(nn.Module):
    """The mid-fusion metric, in the form of the authors' release.

    Each image is read on its own, after the words "Represent the similarity of the image based on ⟨c⟩."; the states of
    its tokens after several blocks are compared token by token (``MidFusionHead``). The two images of a pair must have
    equally many tokens: the one with the larger area is resized to the exact size of the other, clamped to [0, 1], and
    a warning says so. Where the areas are equal, the taller one is resized, so that the distance stays symmetric.

    Against the paper: the release squares no weight and mixes the layers by a softmax instead of summing them; the text
    state is the mean over all tokens that are no image's, of both images' sequences; the words come before the image.

    Args:
        backbone: A Qwen3-VL-Embedding.
        layers: Which blocks are compared, 1 … their number, ascending; by default 20 evenly spaced ones (all, where
            the model has fewer).
        learned_weights: False gives the frozen baseline of Appendix C.3: all channels and layers weigh the same.
        aspect_conditioned: False makes the learned channel weights the same for all aspects: the ablation of Table 6.
        max_tokens_per_batch: Bound on a batch's tokens, padding included.

    Attributes:
        head: The learned weights, None for the frozen baseline.

    Raises:
        ModelError: The model has no such blocks.
    """

    kind = "mid"

    def __init__(
        self,
        backbone: Backbone,
        *,
        layers: Sequence[int] | None = None,
        learned_weights: bool = True,
        aspect_conditioned: bool = True,
        max_tokens_per_batch: int = DEFAULT_MAX_TOKENS_PER_BATCH,
    ) -> None:
        super().__init__()
        if layers is None:
            layers = probed_layers(backbone.layers, min(DEFAULT_PROBES, backbone.layers))
        numbers = [int(one) if isinstance(one, Integral) and not isinstance(one, bool) else 0 for one in layers]
        if not numbers or numbers != sorted({one for one in numbers if 1 <= one <= backbone.layers}):
            raise ModelError(
                f"mid fusion compares blocks {list(layers)!s:.200}, but {backbone.name} has blocks 1 to "
                f"{backbone.layers}; name some of them, ascending and each once"
            )
        if not isinstance(learned_weights, bool) or not isinstance(aspect_conditioned, bool):
            raise ModelError(
                f"learned_weights is {learned_weights!r:.80} and aspect_conditioned {aspect_conditioned!r:.80}; "
                "expected true or false"
            )
        self.name = backbone.name
        self.backbone = backbone
        self.layers = tuple(numbers)
        self.max_tokens_per_batch = max_tokens_per_batch
        self.aspect_conditioned = aspect_conditioned
        self.head: MidFusionHead | None = None
        if learned_weights:
            head = MidFusionHead(backbone.dim, len(self.layers), aspect_conditioned=aspect_conditioned)
            self.head = head.to(backbone.device)

    @property
    def settings(self) -> dict[str, Any]:
        """What a checkpoint must repeat to build this model again."""
        return {
            "layers": list(self.layers),
            "learned_weights": self.head is not None,
            "aspect_conditioned": self.aspect_conditioned,
        }

    def similarity(self, a: Images, b: Images, aspect: AspectLike | Sequence[AspectLike] = OVERALL) -> Tensor:
        """Return −distance, float32 ≤ 0; the rest as in ``Metric.similarity``."""
        return -self.distance(a, b, aspect)

    def distance(self, a: Images, b: Images, aspect: AspectLike | Sequence[AspectLike] = OVERALL) -> Tensor:
        """Return distances, float32 ≥ 0, 0 for identical images; the rest as in ``Metric.similarity``."""
        pairs = pair_images(a, b)
        aspects, many = asked_aspects(aspect)
        with metric_call(self, pairs.images):
            return pairs.shaped(self(pairs, aspects), many_aspects=many)

    def forward(self, pairs: ImagePairs, aspects: Sequence[Aspect]) -> Tensor:
        """Return the distance of every pair under every aspect.

        Args:
            pairs: P pairs of images.
            aspects: A aspects.

        Returns:
            float32 or wider (A, P).
        """
        preprocess = self.backbone.preprocess
        # Small (8 bits) until a group is computed.
        opened = [preprocess.opened(image) for image in pairs.images]
        left, right, views = _views(pairs, opened)
        lengths = [preprocess.tokens(*view.size) for view in views]
        groups = group_pairs(left, right, lengths, max_tokens=self.max_tokens_per_batch)
        return torch.cat([self._group(group, opened, views, aspects) for group in groups], dim=1)

    def _group(
        self, group: PairGroup, opened: Sequence[Opened], views: Sequence[_View], aspects: Sequence[Aspect]
    ) -> Tensor:
        preprocess = self.backbone.preprocess
        shown = [views[index] for index in group.members]
        resized = [_resized(preprocess.pixels(opened[view.image]), view.size) for view in shown]
        features = self.backbone.image_features([preprocess(pixels) for pixels in resized])
        rows = []
        for aspect in aspects:
            activations = self._activations(features, aspect)
            firsts, seconds = ([activations[index] for index in side] for side in (group.left, group.right))
            rows.append(self.head(firsts, seconds) if self.head is not None else uniform_distance(firsts, seconds))
        return torch.stack(rows)

    def _activations(self, features: ImageFeatures, aspect: Aspect) -> list[Activations]:
        """Return the activations of every image under one aspect."""
        backbone = self.backbone
        sequences = [mid_fusion_tokens(backbone.chat, aspect, len(tokens)) for tokens in features.tokens]
        found: dict[int, Activations] = {}
        for batch in plan_batches([len(sequence) for sequence in sequences], self.max_tokens_per_batch):
            rows = [sequences[index] for index in batch]
            used = features.select(batch)
            tokens = backbone.assemble(rows, used, side="right")
            positions = [backbone.positions(row, [grid]).T for row, grid in zip(rows, used.grids, strict=True)]
            with _outputs(backbone.language_model.layers, self.layers) as outputs:
                final = backbone.encode(tokens, pad_sequence(positions, batch_first=True).permute(2, 0, 1))
            # The release reads the last block after the final norm.
            states = [final if layer == backbone.layers else outputs[layer] for layer in self.layers]
            for row, index in enumerate(batch):
                visual = tokens.visual[row]
                words = tokens.real[row] & ~visual
                patches = torch.stack([state[row, visual] for state in states])
                found[index] = Activations(patches, torch.stack([_mean(state[row, words]) for state in states]))
        return [found[index] for index in range(len(sequences))]


def shared_size(first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
    """Return the (height, width) at which two images are compared: that of the smaller area, then the lower one.

    >>> shared_size((300, 210), (256, 256)), shared_size((20, 30), (30, 20))
    ((300, 210), (20, 30))
    """
    return min(first, second, key=lambda size: (size[0] * size[1], size[0]))


def _views(pairs: ImagePairs, opened: Sequence[Opened]) -> tuple[list[int], list[int], list[_View]]:
    """Return each pair's two views as indices into the views, and the views, each once."""
    places: dict[_View, int] = {}
    left, right = [], []
    resized = 0
    for i, j in zip(pairs.left, pairs.right, strict=True):
        sizes = image_size(opened[i]), image_size(opened[j])
        if same_pixels(opened[i], opened[j]):
            j = i  # one sequence serves both, so that identical images are at 0 exactly, not up to rounding
        resized += sizes[0] != sizes[1]
        size = shared_size(*sizes)
        left.append(places.setdefault(_View(i, size), len(places)))
        right.append(places.setdefault(_View(j, size), len(places)))
    if resized:
        warnings.warn(
            "mid fusion compares images of one size: in pairs of different sizes the larger is resized to the smaller",
            stacklevel=5,
        )
    return left, right, list(places)


def _resized(pixels: Tensor, size: tuple[int, int]) -> Tensor:
    if tuple(pixels.shape[-2:]) == size:
        return pixels
    return nn.functional.interpolate(pixels[None], size=size, mode="bicubic", antialias=True, align_corners=False)[
        0
    ].clamp(0, 1)


def _mean(states: Tensor) -> Tensor:
    return states.to(torch.promote_types(states.dtype, torch.float32)).mean(0)


@contextmanager
def _outputs(blocks: nn.ModuleList, layers: Sequence[int]) -> Iterator[dict[int, Tensor]]:
    """Collect what blocks (numbered from 1) return, before anything is added to it, in this thread."""
    outputs: dict[int, Tensor] = {}
    thread = threading.get_ident()

    def keep(layer: int) -> Any:
        def hook(_: nn.Module, __: Any, output: Tensor) -> None:
            if threading.get_ident() == thread:
                outputs[layer] = output

        return hook

    handles = [blocks[layer - 1].register_forward_hook(keep(layer)) for layer in layers]
    try:
        yield outputs
    finally:
        for handle in handles:
            handle.remove()
