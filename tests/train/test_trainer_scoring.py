"""The module that is trained judges as the models do, in float32 and mixed, with and without recomputation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.fixtures.training import KINDS, painted_judgements, tiny_backbone, tiny_config
from tpips_model.qwen.orderings import random_orderings
from train.trainer.objective import choice_losses
from train.trainer.order import MicroBatch, grouped_by_item
from train.trainer.scoring import JudgingModule
from train.trainer.trainable import build_trainable, parameter_groups


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_backbone(tmp_path_factory.mktemp("backbone"))


def judging(kind: str, backbone: Path, **settings: Any) -> JudgingModule:
    """Return a module whose adapters do something, without dropout."""
    config = tiny_config(kind, backbone, **{"lora_dropout": 0.0, **settings})
    trainable = build_trainable(config, torch.device("cpu"))
    module = JudgingModule(trainable.model, config, trainable.computed_in)
    generator = torch.Generator().manual_seed(5)
    for name, parameter in module.named_parameters():
        if ".lora_B" in name:
            parameter.data.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return module.train()


def batch_of(items: int = 2, *, two_afc: bool = False) -> tuple[MicroBatch, dict[Any, Any]]:
    """Return the last item's micro-batch, three aspects, and its pictures."""
    batch = grouped_by_item(painted_judgements(items, two_afc=two_afc), 8)[-1]
    assert len(batch.judgements) == 3
    return batch, {picture: picture.load() for picture in batch.judgements[0].pictures}


def gradients(module: JudgingModule) -> dict[str, Tensor]:
    found = {name: parameter.grad for name, parameter in module.named_parameters() if parameter.requires_grad}
    module.zero_grad(set_to_none=True)
    return {name: torch.zeros(1) if grad is None else grad for name, grad in found.items()}


def assert_same(first: dict[str, Tensor], second: dict[str, Tensor], *, within: float) -> None:
    assert first.keys() == second.keys()
    assert max(float(gradient.abs().max()) for gradient in first.values()) > 1e-3
    for name, gradient in first.items():
        assert float((gradient - second[name]).abs().max()) <= within, name


@pytest.mark.parametrize("two_afc", [False, True])
@pytest.mark.parametrize("kind", ["late", "mid", "early"])
def test_scores_are_the_metrics_own(kind: str, two_afc: bool, backbone: Path) -> None:
    module = judging(kind, backbone).eval()
    batch, pictures = batch_of(two_afc=two_afc)
    images = [pictures[picture] for picture in batch.judgements[0].pictures]
    aspects = [judgement.aspect for judgement in batch.judgements]
    with torch.no_grad():
        scored = module(batch, pictures)
    pairs = [(0, 1), (0, 2)] if two_afc else [(1, 2), (0, 2), (0, 1)]
    left, right = ([images[pair[side]] for pair in pairs] for side in (0, 1))
    torch.testing.assert_close(scored.scores, module.model.similarity(left, right, aspects), atol=1e-5, rtol=1e-5)
    votes = torch.tensor([judgement.votes for judgement in batch.judgements])
    expected = choice_losses(scored.scores, votes, temperature=module._config.temperature)
    torch.testing.assert_close(scored.losses, expected)


def test_the_triplet_head_is_shuffled_in_training_and_averaged_otherwise(backbone: Path) -> None:
    module = judging("triplet", backbone)
    batch, pictures = batch_of()
    images = [pictures[picture] for picture in batch.judgements[0].pictures]
    aspects = [judgement.aspect for judgement in batch.judgements]
    with torch.no_grad():
        trained = module(batch, pictures).scores
        torch.manual_seed(batch.seed)
        orderings = random_orderings(3)
        apart = module.model([images] * 3, aspects, orderings)
        torch.testing.assert_close(trained, apart, atol=1e-5, rtol=1e-5)
        module.eval()
        averaged = module(batch, pictures).scores
    torch.testing.assert_close(averaged.exp(), module.model.odd_one_out(images, aspects), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_aspects_together_have_the_gradients_of_aspects_apart(kind: str, backbone: Path) -> None:
    module = judging(kind, backbone)
    batch, pictures = batch_of()
    if kind == "triplet":  # one ordering an example: the same, whatever shares its pass
        module.eval()
    module(batch, pictures).losses.sum().backward() if kind != "triplet" else _ordered(module, batch, pictures)
    together = gradients(module)
    for judgement in batch.judgements:
        alone = MicroBatch((judgement,), batch.seed, 1.0)
        module(alone, pictures).losses.sum().backward() if kind != "triplet" else _ordered(module, alone, pictures)
    assert_same(together, gradients(module), within=1e-5)


def _ordered(module: JudgingModule, batch: MicroBatch, pictures: dict[Any, Any]) -> None:
    """Backpropagate the triplet head's losses under one fixed ordering."""
    images = [pictures[picture] for picture in batch.judgements[0].pictures]
    count = len(batch.judgements)
    logits = module.model(
        [images],
        [judgement.aspect for judgement in batch.judgements],
        torch.tensor([[2, 0, 1]] * count),
        triplet_of=[0] * count,
    )
    votes = torch.tensor([judgement.votes for judgement in batch.judgements])
    choice_losses(logits, votes, temperature=1.0).sum().backward()


@pytest.mark.parametrize("kind", KINDS)
def test_recomputation_changes_no_gradient(kind: str, backbone: Path) -> None:
    batch, pictures = batch_of()
    found = []
    for checkpointing in (False, True):
        module = judging(kind, backbone, checkpointing=checkpointing, lora_dropout=0.2)
        module(batch, pictures).losses.sum().backward()
        found.append(gradients(module))
    assert_same(*found, within=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_in_bfloat16_what_learns_stays_float32(kind: str, backbone: Path) -> None:
    batch, pictures = batch_of()
    wide = judging(kind, backbone)
    module = judging(kind, backbone, dtype="bfloat16", checkpointing=True)
    assert module.model.backbone.dtype == torch.bfloat16
    assert {p.dtype for p in module.parameters() if p.requires_grad} == {torch.float32}
    scored = module(batch, pictures)
    assert scored.scores.dtype == torch.float32
    torch.testing.assert_close(scored.scores, wide(batch, pictures).scores, atol=0.06, rtol=0.06)
    scored.losses.sum().backward()
    assert all(bool(gradient.isfinite().all()) for gradient in gradients(module).values())


def test_only_adapters_and_head_learn(backbone: Path) -> None:
    for kind, head in (("late", 0), ("mid", 1 + 2 * 4), ("early", 1), ("triplet", 2)):
        module = judging(kind, backbone)
        learning = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
        assert sum(".lora_" not in name for name in learning) == head
        assert all("language_model" in name for name in learning if ".lora_" in name)
        assert not any(parameter.requires_grad for parameter in module.model.backbone.visual.parameters())


def test_the_head_learns_at_its_own_rate(backbone: Path) -> None:
    config = tiny_config("triplet", backbone, lr=1e-3, head_rate=5.0)
    model = build_trainable(config, torch.device("cpu")).model
    adapters, head = parameter_groups(model, config)
    assert (adapters["lr"], head["lr"]) == (1e-3, pytest.approx(5e-3))
    assert {tuple(parameter.shape) for parameter in head["params"]} == {(3, 32), (3,)}


def test_offers_add_to_the_loss_in_training_alone(backbone: Path) -> None:
    batch, pictures = batch_of()
    plain = judging("late", backbone)(batch, pictures)
    torch.testing.assert_close(plain.losses, plain.choice)
    offered = judging("late", backbone, matryoshka_dims=(16, 8), aspect_contrast=0.5)
    scored = offered(batch, pictures)
    torch.testing.assert_close(scored.choice, plain.choice)
    images = [pictures[picture] for picture in batch.judgements[0].pictures]
    vectors = offered.model(images, [judgement.aspect for judgement in batch.judgements]).transpose(0, 1)
    votes = torch.tensor([judgement.votes for judgement in batch.judgements])
    from train.trainer.objective import aspect_contrast_losses, choice_scores, cut

    cuts = [choice_losses(choice_scores(cut(vectors, dim), 3), votes, temperature=0.05) for dim in (16, 8)]
    contrast = aspect_contrast_losses(choice_scores(vectors, 3), votes, temperature=0.05)
    torch.testing.assert_close(scored.losses, plain.choice + sum(cuts) / 2 + 0.5 * contrast)
    torch.testing.assert_close(offered.eval()(batch, pictures).losses, plain.choice)


def test_mid_fusion_without_aspects_weighs_channels_alike_for_all(backbone: Path) -> None:
    module = judging("mid", backbone, aspect_conditioned=False)
    names = [name for name, parameter in module.named_parameters() if parameter.requires_grad and ".head." in name]
    assert [name.rsplit(".", 1)[-1] for name in names] == ["layer_logits", "channel_logits", "channel_logits"]
    batch, pictures = batch_of()
    module(batch, pictures).losses.sum().backward()
    assert all(bool(gradient.abs().sum() > 0) for gradient in gradients(module).values())
