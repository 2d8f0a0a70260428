"""Late fusion: one image and one aspect to a unit vector, many aspects for little more than the price of one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tpips_model.aspects import OVERALL, Aspect, AspectLike, late_fusion_prompt, several_aspects
from tpips_model.embedder import images_to_embed
from tpips_model.errors import ModelError
from tpips_model.images import ImageLike
from tpips_model.metric import Images, asked_aspects, metric_call, pair_images
from tpips_model.qwen.adapters import merge_lora
from tpips_model.qwen.backbone import Backbone, ImageFeatures
from tpips_model.qwen.batching import DEFAULT_MAX_TOKENS_PER_BATCH, plan_batches
from tpips_model.qwen.chat import DEFAULT_INSTRUCTION, late_prefix, late_suffix, zero_shot_embedding_prompt
from tpips_model.qwen.preprocessing import Patches
from tpips_model.qwen.shared_prefix import pack_suffixes, shared_prefix_states
from tpips_model.qwen.weights_digest import weights_digest

__all__ = ["PROMPTS", "LateFusion"]

# How an aspect becomes words: TPIPS (Appendix C.1) and the zero-shot baseline (Appendix C.3).
PROMPTS = {"tpips": late_fusion_prompt, "zero-shot": zero_shot_embedding_prompt}
POOLINGS = ("last_token", "mean")
# Every picture is read behind it; a checkpoint could otherwise ask for any amount of work.
MAX_INSTRUCTION = 10_000


class LateFusion(nn.Module):
    """ĝ(x, c) of section 4.2: the final hidden state of the last token, normalised; an ``Embedder`` and a ``Metric``.

    Args:
        backbone: With adapters, if it has been trained.
        instruction: The system turn; a full stop is added if it ends in no punctuation.
        prompt: ``"tpips"`` or ``"zero-shot"``, how an aspect becomes words.
        pooling: ``"last_token"``, or ``"mean"`` over all tokens.
        recommended_overall_penalty: λ of ``score = f_aspect − λ · f_overall``; 0.3 for TPIPS (the paper's retrieval),
            0 for a zero-shot backbone, whose best value is not known.
        max_tokens_per_batch: How many tokens, padding included, go through the language model at once. A bound on
            memory; it changes vectors by no more than rounding and is no part of the fingerprint.

    Attributes:
        name: What ``load_model`` takes to load this model again; at first the backbone's name.
        checkpointing: True computes every block anew in the backward pass, for less memory in training.

    Raises:
        ModelError: An unknown prompt or pooling, or an instruction or penalty out of range.
    """

    kind = "late"
    # The model sees pictures at full size, up to max_pixels.
    decode_at_least: int | None = None

    def __init__(
        self,
        backbone: Backbone,
        *,
        instruction: str = DEFAULT_INSTRUCTION,
        prompt: str = "tpips",
        pooling: str = "last_token",
        recommended_overall_penalty: float = 0.3,
        max_tokens_per_batch: int = DEFAULT_MAX_TOKENS_PER_BATCH,
    ) -> None:
        super().__init__()
        if prompt not in PROMPTS or pooling not in POOLINGS:
            raise ModelError(
                f"unknown prompt {prompt!r} or pooling {pooling!r}; prompts are {', '.join(PROMPTS)}, "
                f"poolings {', '.join(POOLINGS)}"
            )
        if not isinstance(instruction, str) or len(instruction) > MAX_INSTRUCTION:
            raise ModelError(
                f"the instruction is {instruction!r:.80}; expected words of at most {MAX_INSTRUCTION:,} characters"
            )
        if not isinstance(recommended_overall_penalty, (int, float)) or not 0 <= recommended_overall_penalty <= 1:
            raise ModelError(
                f"the recommended overall penalty is {recommended_overall_penalty!r:.80}; expected a number from 0 to 1"
            )
        self.backbone = backbone
        self.name = backbone.name
        self.instruction = instruction
        self.prompt = prompt
        self.pooling = pooling
        self.recommended_overall_penalty = recommended_overall_penalty
        self.max_tokens_per_batch = max_tokens_per_batch
        self.checkpointing = False
        self._digest: str | None = None

    @property
    def dim(self) -> int:
        """D, the length of a vector."""
        return self.backbone.dim

    @property
    def settings(self) -> dict[str, Any]:
        """The keyword arguments that a checkpoint records."""
        return {
            "instruction": self.instruction,
            "prompt": self.prompt,
            "pooling": self.pooling,
            "recommended_overall_penalty": self.recommended_overall_penalty,
        }

    @property
    def prompt_template(self) -> str:
        """How an aspect becomes words, ``{aspect}`` in its place; overall drops the condition."""
        return PROMPTS[self.prompt]("aspect").replace("aspect", "{aspect}")

    @property
    def fingerprint(self) -> str:
        """A short name for everything that changes vectors beyond rounding.

        Weights and adapters (every value, in the type they are computed in), words, tokens, pooling, and the image
        settings with ``min_pixels`` and ``max_pixels``. Device, token budget and merged adapters are left out.
        """
        if self._digest is None or self.training:
            self._digest = self._weights_digest()
        chat, lora = self.backbone.chat, self.backbone.lora
        facts = {
            "weights": self._digest,
            "lora_scale": None if lora is None else lora.alpha / lora.r,
            "dtype": str(self.backbone.dtype),
            "prefix": late_prefix(chat, 1, instruction=self.instruction),
            "suffix": late_suffix(chat, PROMPTS[self.prompt]("color palette")),
            "prompt": self.prompt_template,
            "pooling": self.pooling,
            "preprocessing": asdict(self.backbone.preprocess),
            "architecture": _architecture(self.backbone.config),
        }
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
        return f"qwen3-vl-late:{digest[:32]}"

    def _weights_digest(self) -> str:
        state = self.backbone.state_dict().items()
        return weights_digest((name, tensor) for name, tensor in state if not name.startswith("lm_head."))

    def train(self, mode: bool = True) -> LateFusion:
        """Switch to training or evaluation; weights may change in training, so their digest is forgotten."""
        if mode:
            self._digest = None
        return super().train(mode)

    def merge_adapters(self) -> None:
        """Add the adapters into the weights, for inference alone; the fingerprint stays that of the two apart."""
        if self._digest is None:
            self._digest = self._weights_digest()
        merge_lora(self.backbone)

    def forward(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> Tensor:
        """Embed every image under every aspect in one pass, with gradients.

        Args:
            images: B images; gradients flow back to float tensors (3, H, W).
            aspects: A aspects.

        Returns:
            float32 (B, A, D), every row of unit length.

        Raises:
            ImageError: An image cannot be read.
        """
        return self.vectors(self.features([self.backbone.preprocess(image) for image in images]), aspects)

    def features(self, patches: Sequence[Patches]) -> ImageFeatures:
        """Run the vision tower, which knows no aspect; what it gives can serve many calls of ``vectors``."""
        return self.backbone.image_features(patches)

    def vectors(self, features: ImageFeatures, aspects: Sequence[AspectLike]) -> Tensor:
        """Run the language model over the features of B images under A aspects, with gradients.

        Returns:
            float32 (B, A, D), every row of unit length.
        """
        chat = self.backbone.chat
        counts = [len(tokens) for tokens in features.tokens]
        prefixes = [late_prefix(chat, count, instruction=self.instruction) for count in counts]
        batch = self.backbone.assemble(prefixes, features)
        positions = torch.zeros(3, *batch.real.shape, dtype=torch.long)
        for row, (prefix, grid) in enumerate(zip(prefixes, features.grids, strict=True)):
            positions[:, row, : len(prefix)] = self.backbone.positions(prefix, [grid])
        states = shared_prefix_states(
            self.backbone,
            batch,
            positions,
            pack_suffixes(self._suffixes(aspects)),
            pooling=self.pooling,
            checkpointing=self.checkpointing,
        )
        return nn.functional.normalize(states.to(torch.promote_types(states.dtype, torch.float32)), dim=-1)

    def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> NDArray[np.float32]:
        """Embed every image under every aspect; see ``Embedder.embed``.

        Returns:
            float32 (B, A, D), every row of unit length.

        Raises:
            ImageError: An image cannot be read, or they are no list; nothing is returned for the others.
            AspectError: An aspect is no words, or they are no list.
            ModelError: A vector is not finite.
        """
        given, asked = images_to_embed(images), several_aspects(aspects)
        with torch.no_grad(), metric_call(self, ()):
            vectors = self._in_batches(given, asked).float().cpu()
        if not torch.isfinite(vectors).all():
            raise ModelError(
                f"{self.name} gave values that are not finite in {self.backbone.dtype}; load it with dtype='bfloat16' "
                "or 'float32'"
            )
        return vectors.numpy()

    def similarity(self, a: Images, b: Images, aspect: AspectLike | Sequence[AspectLike] = OVERALL) -> Tensor:
        """Return the cosines of the vectors, float32 in [−1, 1]; see ``Metric.similarity``."""
        pairs = pair_images(a, b)
        aspects, many = asked_aspects(aspect)
        with metric_call(self, pairs.images):
            vectors = self._in_batches(pairs.images, aspects)
        cosines = (vectors[list(pairs.left)] * vectors[list(pairs.right)]).sum(-1).clamp(-1.0, 1.0)
        return pairs.shaped(cosines.T, many_aspects=many)

    def distance(self, a: Images, b: Images, aspect: AspectLike | Sequence[AspectLike] = OVERALL) -> Tensor:
        """Return 1 − similarity, float32 in [0, 2]."""
        return 1.0 - self.similarity(a, b, aspect)

    def _in_batches(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> Tensor:
        """Return float32 (B, A, D), computed in batches of images of similar token counts."""
        if not images or not aspects:
            return torch.zeros(len(images), len(aspects), self.dim)
        preprocess, chat = self.backbone.preprocess, self.backbone.chat
        # Decoded once and small (8 bits); only the batch at hand is held as floating-point patches.
        decoded = [preprocess.opened(image) for image in images]
        suffix_tokens = sum(map(len, self._suffixes(aspects)))
        text_tokens = suffix_tokens + len(late_prefix(chat, 0, instruction=self.instruction))
        rows = [preprocess.tokens(*_height_width(image)) + text_tokens for image in decoded]
        batches = plan_batches(rows, self.max_tokens_per_batch)
        parts = [self.forward([decoded[index] for index in batch], aspects) for batch in batches]
        order = torch.tensor([index for batch in batches for index in batch])
        return torch.cat(parts)[order.argsort().to(parts[0].device)]

    def _suffixes(self, aspects: Sequence[AspectLike]) -> list[list[int]]:
        to_words = PROMPTS[self.prompt]
        return [late_suffix(self.backbone.chat, to_words(Aspect.of(aspect))) for aspect in aspects]


def _height_width(image: Any) -> tuple[int, int]:
    if isinstance(image, Tensor):
        return int(image.shape[-2]), int(image.shape[-1])
    return int(image.height), int(image.width)


def _architecture(config: Any) -> dict[str, Any]:
    """Return the numbers of a configuration that change vectors and cannot be seen in the weights."""
    text, vision = config.text_config, config.vision_config
    return {
        "rope": text.rope_parameters,
        "eps": text.rms_norm_eps,
        "activations": [text.hidden_act, vision.hidden_act],
        "heads": [text.num_attention_heads, text.num_key_value_heads, text.head_dim, vision.num_heads],
        "deepstack": list(vision.deepstack_visual_indexes),
    }
