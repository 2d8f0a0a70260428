"""Training of the bundled model's head with Equation 2 on procedural triplets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from tpips_model.mini.features import FEATURE_VERSION
from tpips_model.mini.head import Head
from train.loss import DEFAULT_TEMPERATURE, odd_one_out_loss, odd_one_out_similarities
from train.mini_assets import write_tensors
from train.mini_batches import BatchSampler, TripletBatch
from train.mini_dataset import FamilyData
from train.paraphrases import SUBJECT_WORDS
from train.scenes import FACTORS, SCENES_VERSION
from train.synthetic import ASPECTS

__all__ = ["MiniTrainingConfig", "TextEncoder", "fit_head", "new_head", "save_head"]

TextEncoder = Callable[[list[str]], NDArray[np.float32]]

# How much of a similarity the backbone's own view of the subject should make up, by aspect: where training with
# triplets pulls it, and where it is set in the end.
_SHARES_IN_TRAINING = {"subject": 0.75, "object": 0.35, "overall": 0.3}
_SHARES = {"subject": 0.85, "object": 0.35, "overall": 0.3}
_SHARE_STEPS = 400


@dataclass(frozen=True)
class MiniTrainingConfig:
    """How the head of the bundled model is trained.

    Attributes:
        seed: Of the pictures, the first weights and the order.
        families: Training families of eight pictures each.
        steps: Updates.
        warmup: Updates over which the learning rate rises.
        labels_per_step: Labelled (family, aspect) pairs that an update starts from, evenly over aspects.
        aspects_per_family: Aspects asked of each of those families.
        triplets_per_label: Triplets of each family and aspect.
        cross_triplets: Triplets of pictures from different families per update.
        cross_family_share: Share of the first labels that are taken from cross families.
        learning_rate: Highest learning rate of AdamW.
        weight_decay: Of AdamW.
        temperature: τ of Equation 2.
        text_noise: Standard deviation of the noise on word vectors, whose components have about unit variance.
        factor_weight: Weight of the auxiliary loss: the trunk must tell every factor's value.
        identity_weight: Weight of the prior on how much the backbone's own view counts.
        recommended_overall_penalty: λ that the head is shipped with; 0 measured best for this model.
    """

    seed: int = 0
    families: int = 4480
    steps: int = 3600
    warmup: int = 150
    labels_per_step: int = 24
    aspects_per_family: int = 4
    triplets_per_label: int = 16
    cross_triplets: int = 64
    cross_family_share: float = 0.3
    learning_rate: float = 2e-3
    weight_decay: float = 0.05
    temperature: float = DEFAULT_TEMPERATURE
    text_noise: float = 0.15
    factor_weight: float = 0.1
    identity_weight: float = 5.0
    recommended_overall_penalty: float = 0.0


def new_head(features: Tensor, class_weights: Tensor, seed: int) -> Head:
    """Make an untrained head: whitening fitted to features, the backbone's view taken from its classifier.

    Args:
        features: float32 (N, F) of typical images.
        class_weights: float32 (classes, 1280), the weights of the backbone's classifier, whose leading directions
            are those in which the things it was trained to tell apart differ.
        seed: Of the first weights.
    """
    torch.manual_seed(seed)
    head = Head()
    head.whitening.fit(features)
    _, strengths, directions = torch.linalg.svd(class_weights - class_weights.mean(0), full_matrices=False)
    rank = head.identity_basis.shape[1]
    head.identity_basis.copy_(directions[:rank].T * (strengths[:rank] / strengths[0]).sqrt())
    return head


def fit_head(
    head: Head,
    data: FamilyData,
    paraphrases: Mapping[str, tuple[str, ...]],
    encode: TextEncoder,
    config: MiniTrainingConfig,
    on_step: Callable[[int, float], None] | None = None,
) -> None:
    """Train a head in place.

    Args:
        head: As new_head makes it.
        data: Training families.
        paraphrases: Aspect → the words it may be asked with.
        encode: Words → float32 (n, 128), as TextTable.encode.
        config: How.
        on_step: Called after every update with its number and a running mean of the loss.

    Raises:
        FloatingPointError: The loss is no longer a number.
    """
    torch.manual_seed(config.seed)
    with torch.inference_mode():
        features = torch.from_numpy(data.features)
        whitened = torch.cat([head.whitening(part.float()).half() for part in features.split(4096)]).clone()
        identity = torch.cat([head.identity(part.float()).half() for part in features.split(4096)]).clone()
    words = {aspect: torch.from_numpy(encode(list(texts))) for aspect, texts in paraphrases.items()}
    sampler = BatchSampler(data, {aspect: len(texts) for aspect, texts in paraphrases.items()}, config)
    readouts = _Readouts(sampler.value_counts, head.trunk_width - head.whitening.width)
    parameters = [*head.parameters(), *readouts.parameters()]
    optimizer, scheduler = _schedule(parameters, config)
    head.train()
    running = 0.0
    with _deterministic():
        for step in range(config.steps):
            batch = sampler.batch()
            rows = torch.from_numpy(batch.pictures)
            loss = _loss(head, readouts, batch, whitened[rows].float(), identity[rows].float(), words, config)
            if not torch.isfinite(loss):
                raise FloatingPointError(f"the loss is {loss.item()} after {step} updates; lower the learning rate")
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            scheduler.step()
            running = loss.item() if step == 0 else 0.98 * running + 0.02 * loss.item()
            if on_step:
                on_step(step + 1, running)
        _fit_identity_shares(head, words, torch.from_numpy(encode(list(SUBJECT_WORDS))), config)
    head.eval()


def _schedule(
    parameters: list[nn.Parameter], config: MiniTrainingConfig
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    optimizer = torch.optim.AdamW(parameters, lr=config.learning_rate, weight_decay=config.weight_decay, fused=True)
    rising = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=config.warmup)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, config.steps - config.warmup))
    return optimizer, torch.optim.lr_scheduler.SequentialLR(optimizer, [rising, falling], milestones=[config.warmup])


@contextmanager
def _deterministic() -> Iterator[None]:
    """Add up the gradients of a picture that is asked several times in one order, however many threads there are."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def _fit_identity_shares(head: Head, words: Mapping[str, Tensor], subject: Tensor, config: MiniTrainingConfig) -> None:
    """Set how much the backbone's own view counts, from words alone.

    Procedural things are told apart by their parts better than by the backbone, real ones are not; so what the
    triplets make of the share is only its beginning, and each aspect's words are fitted to the share it should have.
    """
    groups = {aspect: torch.cat([text, subject]) if aspect == "subject" else text for aspect, text in words.items()}
    torch.manual_seed(config.seed)
    optimizer = torch.optim.Adam(head.identity_share.parameters(), lr=0.02)
    for _ in range(_SHARE_STEPS):
        losses = []
        for aspect, text in groups.items():
            _, shares = head.conditions(text + config.text_noise * torch.randn_like(text))
            losses.append(((shares - _SHARES.get(aspect, 0.0)) ** 2).mean())
        optimizer.zero_grad()
        torch.stack(losses).sum().backward(inputs=list(head.identity_share.parameters()))
        optimizer.step()


class _Readouts(nn.Module):
    """Linear classifiers of every factor's value from the trunk's hidden layers, used in training only."""

    def __init__(self, value_counts: Mapping[str, int], width: int) -> None:
        super().__init__()
        self.width = width
        self.factors = nn.ModuleList(nn.Linear(width, value_counts[name]) for name in FACTORS)

    def forward(self, trunk: Tensor, values: Tensor) -> Tensor:
        """Return the mean cross entropy; trunk float32 (B, W), values int64 (B, factors) with −1 for no value."""
        hidden = trunk[:, -self.width :]
        losses = [
            functional.cross_entropy(readout(hidden), values[:, number], ignore_index=-1)
            for number, readout in enumerate(self.factors)
            if (values[:, number] >= 0).any()
        ]
        return torch.stack(losses).mean()


def _loss(
    head: Head,
    readouts: _Readouts,
    batch: TripletBatch,
    whitened: Tensor,
    identity: Tensor,
    words: Mapping[str, Tensor],
    config: MiniTrainingConfig,
) -> Tensor:
    trunk = head.trunk(whitened)
    text = torch.stack([words[aspect][word] for aspect, word in batch.questions])
    gates, shares = head.conditions(text + config.text_noise * torch.randn_like(text))
    question, member = (torch.from_numpy(array) for array in (batch.row_question, batch.row_picture))
    embedded = head.combine(trunk[member], identity[member], gates[question], shares[question])
    similarities = odd_one_out_similarities(embedded[torch.from_numpy(batch.triplets)])
    loss = odd_one_out_loss(similarities, torch.from_numpy(batch.targets), temperature=config.temperature)
    wanted = torch.tensor([_SHARES_IN_TRAINING.get(aspect, 0.0) for aspect, _ in batch.questions])
    loss = loss + config.factor_weight * readouts(trunk, torch.from_numpy(batch.values))
    return loss + config.identity_weight * ((shares - wanted) ** 2).mean()


def save_head(head: Head, path: str | Path, config: MiniTrainingConfig) -> None:
    """Write a head in half precision with what it was made from (safetensors)."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    metadata = {
        "format": "tpips-mini-head",
        "version": "1",
        "feature_version": str(FEATURE_VERSION),
        "scenes_version": str(SCENES_VERSION),
        "aspects": str(len(ASPECTS)),
        **{name: str(value) for name, value in asdict(config).items()},
    }
    tensors = {name: tensor.detach().half().contiguous() for name, tensor in head.state_dict().items()}
    write_tensors(Path(path), tensors, metadata)
