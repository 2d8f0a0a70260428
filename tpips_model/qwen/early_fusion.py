"""Early fusion: both images and the words in one sequence, read by two registers (section 4.2, Appendix C.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tpips_model.aspects import OVERALL, Aspect, AspectLike
from tpips_model.metric import ImagePairs, Images, asked_aspects, metric_call, pair_images
from tpips_model.qwen.backbone import Backbone, ImageFeatures, TokenBatch
from tpips_model.qwen.batching import DEFAULT_MAX_TOKENS_PER_BATCH, plan_batches
from tpips_model.qwen.early_fusion_layout import attention_mask, left_padded, position_ids, token_segments
from tpips_model.qwen.pair_groups import PairGroup, group_pairs, image_size
from tpips_model.qwen.prompts import early_fusion_tokens

__all__ = ["EarlyFusion"]


class EarlyFusion(nn.Module):
    """The early-fusion metric: the cosine of two registers that read the two images.

    f(a, b) = f(b, a) and f(a, a) = 1 hold by construction, whatever the weights: the registers share embedding and
    position, the patches of both images share their positions, and the mask treats the images alike
    (``early_fusion_layout``, which also says where the authors' release, followed here, differs from the paper). Images
    may differ in size.

    Args:
        backbone: A Qwen3-VL-Embedding.
        max_tokens_per_batch: Bound on a batch's tokens, padding included. The mask of a batch holds the square of a
            sequence's tokens for each pair, in bytes.

    Attributes:
        register_embed: (1, D), the embedding that both registers start from, in float32.
    """

    kind = "early"

    def __init__(self, backbone: Backbone, *, max_tokens_per_batch: int = DEFAULT_MAX_TOKENS_PER_BATCH) -> None:
        super().__init__()
        self.name = backbone.name
        self.backbone = backbone
        self.max_tokens_per_batch = max_tokens_per_batch
        self.register_embed = nn.Embedding(1, backbone.dim, device=backbone.device)
        nn.init.normal_(self.register_embed.weight, std=backbone.config.text_config.initializer_range)

    @property
    def settings(self) -> dict[str, Any]:
        """What a checkpoint must repeat to build this model again: nothing."""
        return {}

    def similarity(self, a: Images, b: Images, aspect: AspectLike | Sequence[AspectLike] = OVERALL) -> Tensor:
        """Return cosines, float32 in [−1, 1]; arguments, shapes and errors as in ``Metric.similarity``."""
        pairs = pair_images(a, b)
        aspects, many = asked_aspects(aspect)
        with metric_call(self, pairs.images):
            return pairs.shaped(self(pairs, aspects), many_aspects=many)

    def distance(self, a: Images, b: Images, aspect: AspectLike | Sequence[AspectLike] = OVERALL) -> Tensor:
        """Return 1 − similarity, float32 in [0, 2]; arguments, shapes and errors as in ``Metric.similarity``."""
        return 1.0 - self.similarity(a, b, aspect)

    def forward(self, pairs: ImagePairs, aspects: Sequence[Aspect]) -> Tensor:
        """Return the similarity of every pair under every aspect.

        Args:
            pairs: P pairs of images.
            aspects: A aspects.

        Returns:
            float32 or wider (A, P).
        """
        preprocess = self.backbone.preprocess
        # Small (8 bits) until a group is computed.
        opened = [preprocess.opened(image) for image in pairs.images]
        lengths = [preprocess.tokens(*image_size(image)) for image in opened]
        columns = []
        for group in group_pairs(pairs.left, pairs.right, lengths, max_tokens=self.max_tokens_per_batch):
            features = self.backbone.image_features([preprocess(opened[index]) for index in group.members])
            columns.append(self._group(group, features, aspects))
        return torch.cat(columns, dim=1)

    def _group(self, group: PairGroup, features: ImageFeatures, aspects: Sequence[Aspect]) -> Tensor:
        chat = self.backbone.chat
        couples = list(zip(group.left, group.right, strict=True)) * len(aspects)
        sequences = [
            early_fusion_tokens(chat, aspect, len(features.tokens[first]), len(features.tokens[second]))
            for aspect in aspects
            for first, second in zip(group.left, group.right, strict=True)
        ]
        cosines: dict[int, Tensor] = {}
        for batch in plan_batches([len(sequence) + 2 for sequence in sequences], self.max_tokens_per_batch):
            rows = [sequences[index] for index in batch]
            registers = self._registers(rows, features.select([image for index in batch for image in couples[index]]))
            scores = nn.functional.cosine_similarity(*registers, dim=-1).clamp(-1.0, 1.0)
            cosines.update(zip(batch, scores, strict=True))
        return torch.stack([cosines[index] for index in range(len(sequences))]).reshape(len(aspects), -1)

    def _registers(self, rows: Sequence[Sequence[int]], features: ImageFeatures) -> tuple[Tensor, Tensor]:
        """Return the final states of the two registers of B sequences, float32 or wider (B, D) each."""
        backbone = self.backbone
        tokens = self._with_registers(backbone.assemble(rows, features, side="left"))
        segments = left_padded([token_segments(row, backbone.chat.image) for row in rows]).to(backbone.device)
        columns = torch.tensor([columns for _, columns in features.grids], device=backbone.device)
        positions = position_ids(segments, columns[::2], columns[1::2], merge_size=backbone.preprocess.merge_size)
        hidden = backbone.encode(tokens, positions, attention_mask(segments))[:, -2:]
        hidden = hidden.to(torch.promote_types(hidden.dtype, torch.float32))
        return hidden[:, 0], hidden[:, 1]

    def _with_registers(self, tokens: TokenBatch) -> TokenBatch:
        batch = len(tokens.embeds)
        registers = self.register_embed.weight.to(tokens.embeds.dtype).expand(batch, 2, -1)
        flags = tokens.real.new_ones(batch, 2)
        return TokenBatch(
            embeds=torch.cat([tokens.embeds, registers], dim=1),
            real=torch.cat([tokens.real, flags], dim=1),
            visual=torch.cat([tokens.visual, ~flags], dim=1),
            deepstack=tokens.deepstack,
        )
