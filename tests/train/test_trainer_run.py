"""Runs of all kinds: they learn, end with models that load, and hide nothing that goes wrong."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.fixtures.training import (
    DECODED,
    KINDS,
    PaintedPicture,
    painted_judgements,
    procedural_lesson,
    records,
    tiny_backbone,
    tiny_config,
)
from tpips_model.errors import ImageError, ModelError
from tpips_model.loading import load_model
from train.trainer import TrainingError
from train.trainer.plan import plan_table
from train.trainer.scoring import JudgingModule, Scored
from train.trainer.trainer import Trainer
from train.trainer.validation import Validation

DATA, HELD_OUT = painted_judgements(6), painted_judgements(3, seed=1)


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_backbone(tmp_path_factory.mktemp("backbone"))


def trainer(
    kind: str, backbone: Path, out: Path, *, data: Any = DATA, held_out: Any = HELD_OUT, **options: Any
) -> Trainer:
    names = ("trackers", "quiet", "on_step", "on_validation")
    kept = {name: options.pop(name) for name in names if name in options}
    return Trainer(tiny_config(kind, backbone, **options), data, held_out, out, **{"quiet": True, "cpu": True, **kept})


@pytest.mark.parametrize("kind", KINDS)
def test_twenty_steps_end_with_a_model_that_loads(kind: str, backbone: Path, tmp_path: Path) -> None:
    run = trainer(kind, backbone, tmp_path, steps=20, lr=1e-3, effective_batch=2, validate_every=10)
    result = run.run()
    steps = records(tmp_path, "train")
    assert [record["step"] for record in steps] == list(range(1, 21))
    assert all(math.isfinite(record["loss"]) and record["gradient_norm"] > 0 for record in steps)
    assert result.progress.bad_steps == 0
    model = load_model(result.last, device="cpu")
    assert model.kind == kind
    judgement = HELD_OUT[0]
    images = [picture.load() for picture in judgement.pictures]
    if kind == "triplet":
        mine, loaded = (one.odd_one_out(images, judgement.aspect) for one in (run._judging.model, model))
    else:
        mine, loaded = (one.similarity(images[:2], images[1:], judgement.aspect) for one in (run._judging.model, model))
    assert torch.equal(mine, loaded)
    card = (result.last / "README.md").read_text()
    assert f"| validation agreement | {result.validation.agreement.mean} |" in card
    assert result.progress.best == max(record["agreement"] for record in records(tmp_path, "validation"))
    assert result.best is not None
    assert f"| steps | {result.progress.best_step} |" in (result.best / "README.md").read_text()


def test_late_fusion_learns(tmp_path: Path) -> None:
    """The lower colours of pictures that training never saw, whatever their upper colours."""
    data, held_out = (
        [one for one in painted_judgements(count, seed=seed) if one.aspect.text == "lower color"]
        for count, seed in ((60, 0), (30, 1))
    )
    options = {"steps": 25, "lr": 3e-3, "lora_rank": 16, "lora_dropout": 0.0}
    run = trainer(
        "late", tiny_backbone(tmp_path / "b", seed=1), tmp_path / "run", data=data, held_out=held_out, **options
    )
    untrained = run._judged().agreement.mean
    assert run.run().validation.agreement.mean >= untrained + 0.1


@pytest.mark.slow
def test_300_steps_lift_agreement_on_procedural_triplets_by_15_points(tmp_path: Path) -> None:
    lesson = procedural_lesson(tmp_path)
    run = Trainer(lesson.config(), lesson.data, lesson.held_out, tmp_path / "run", quiet=True, cpu=True)
    untrained = run._judged().agreement.mean
    found = run.run().validation.agreement.mean
    assert found >= untrained + 0.15, f"from {untrained:.1%} to {found:.1%}"


def test_rates_follow_a_linear_rise_and_a_cosine(backbone: Path, tmp_path: Path) -> None:
    trainer("late", backbone, tmp_path, steps=10, lr=1.0, warmup=0.2, effective_batch=1, held_out=()).run()
    rates = [record["learning_rate"] for record in records(tmp_path, "train")]
    expected = [step / 2 if step < 2 else 0.5 * (1 + math.cos(math.pi * (step - 2) / 8)) for step in range(10)]
    assert rates == pytest.approx(expected)
    assert not (tmp_path / "best").exists()


class Poisoned:
    """Makes the losses of some examples NaN."""

    def __init__(self, items: set[str]) -> None:
        self.items = items
        self.forward = JudgingModule.forward

    def __call__(self, module: JudgingModule, batch: Any, pictures: Any) -> Scored:
        scored = self.forward(module, batch, pictures)
        bad = torch.tensor([judgement.item in self.items for judgement in batch.judgements])
        poisoned = scored.losses.masked_fill(bad, math.nan)
        return Scored(poisoned, scored.choice, scored.scores)


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> str:
    item = DATA[0].item
    poison = Poisoned({item})
    monkeypatch.setattr(JudgingModule, "forward", lambda self, batch, pictures: poison(self, batch, pictures))
    return item


def test_nan_ends_the_run_and_names_the_examples(backbone: Path, tmp_path: Path, poisoned: str) -> None:
    with pytest.raises(
        TrainingError, match=rf"the loss is no finite number; examples: {poisoned} \((upper|lower) color"
    ):
        trainer("late", backbone, tmp_path, steps=20).run()
    assert records(tmp_path, "event")


def test_nan_is_left_out_counted_and_said_up_to_a_limit(
    backbone: Path, tmp_path: Path, poisoned: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trainer("late", backbone, tmp_path / "run", steps=4, epochs=1, max_bad_steps=4)
    result = run.run()
    assert 1 <= result.progress.bad_steps <= 4
    events = records(tmp_path / "run", "event")
    assert len(events) == result.progress.bad_steps
    assert all(poisoned in event["text"] and "the update is left out" in event["text"] for event in events)
    assert events[0]["text"] in capsys.readouterr().out
    bad = {record["step"] for record in records(tmp_path / "run", "train") if record["loss"] == "nan"}
    assert bad == {event["step"] for event in events}
    assert all(bool(p.isfinite().all()) for p in run._judging.parameters())


def test_a_spike_is_reported_and_trained_on(backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forward = JudgingModule.forward
    calls = 0

    def leaping(self: JudgingModule, batch: Any, pictures: Any) -> Scored:
        nonlocal calls
        calls += self.training
        scored = forward(self, batch, pictures)
        return Scored(scored.losses * (50 if calls == 12 else 1), scored.choice, scored.scores)

    monkeypatch.setattr(JudgingModule, "forward", leaping)
    result = trainer("late", backbone, tmp_path, steps=14, effective_batch=1, lr=1e-5, held_out=()).run()
    assert (result.progress.spikes, result.progress.bad_steps) == (1, 0)
    (event,) = records(tmp_path, "event")
    assert event["text"].startswith("step 12: loss spike")


def test_pictures_are_decoded_once_an_update(backbone: Path, tmp_path: Path) -> None:
    item = DATA[:2]  # two aspects of one item
    DECODED.clear()
    trainer("late", backbone, tmp_path, data=item, held_out=(), steps=3, effective_batch=2, aspects_per_step=1).run()
    assert set(DECODED.values()) == {1}  # kept while the next update needs it
    DECODED.clear()
    run = trainer("late", backbone, tmp_path / "b", data=item, held_out=HELD_OUT)
    run._judged()
    assert set(DECODED.values()) == {1}


def test_a_picture_that_cannot_be_read_is_named(backbone: Path, tmp_path: Path) -> None:
    broken = PaintedPicture("broken.png", (0, 0, 0), None)
    data = [replace(DATA[0], pictures=(*DATA[0].pictures[:2], broken))]
    with pytest.raises(ImageError, match=r"broken\.png"):
        trainer("late", backbone, tmp_path, data=data).run()


def test_2afc_trains_pairs_and_is_refused_by_the_triplet_head(backbone: Path, tmp_path: Path) -> None:
    pairs = painted_judgements(4, two_afc=True)
    for kind in ("late", "mid", "early"):
        result = trainer(kind, backbone, tmp_path / kind, data=[*pairs, *DATA], held_out=pairs, steps=2).run()
        assert result.validation.agreement.count == len(pairs)
    with pytest.raises(TrainingError, match="10 judgements are 2AFC"):
        trainer("triplet", backbone, tmp_path / "triplet", data=[*DATA, *pairs])


def test_the_plan_says_what_the_run_takes(backbone: Path, tmp_path: Path) -> None:
    run = trainer("late", backbone, tmp_path, steps=None, epochs=2.0)
    plan = run.plan()
    assert (plan.items, plan.judgements, plan.pictures, plan.examples) == (6, 15, 18, 30)
    assert (plan.steps, plan.effective_batch, plan.processes, plan.validation) == (8, 4, 1, len(HELD_OUT))
    assert plan.trainable == sum(p.numel() for p in run._judging.parameters() if p.requires_grad)
    assert plan.measured is not None
    assert plan.expected_seconds > 0
    assert plan.expected_bytes > 4 * plan.parameters
    assert all(p.grad is None for p in run._judging.parameters())
    assert plan_table(plan).row_count == 8
    assert not list(tmp_path.iterdir())


def test_a_measured_plan_changes_nothing(backbone: Path, tmp_path: Path) -> None:
    files = []
    for name in ("planned", "plain"):
        run = trainer("triplet", backbone, tmp_path / name, steps=2, lora_dropout=0.3)
        if name == "planned":
            run.plan()
        run.run()
        files.append((tmp_path / name / "last/adapter.safetensors").read_bytes())
    assert files[0] == files[1]


def test_training_goes_on_from_a_trained_model(backbone: Path, tmp_path: Path) -> None:
    first = trainer("mid", backbone, tmp_path / "first", steps=2).run()
    second = trainer("mid", backbone, tmp_path / "second", steps=1, start=str(first.last))
    before = second._judged()
    assert before.agreement == first.validation.agreement
    assert before.loss == pytest.approx(first.validation.loss)
    second.run()
    assert load_model(tmp_path / "second/last", device="cpu").kind == "mid"
    with pytest.raises(TrainingError, match="is a mid model and the run trains a late one"):
        trainer("late", backbone, tmp_path / "late", start=str(first.last))
    with pytest.raises(TrainingError, match=r"has the adapters .*r=4.* the run asks for .*r=8"):
        trainer("mid", backbone, tmp_path / "rank", start=str(first.last), lora_rank=8)
    with pytest.raises(TrainingError, match=r"is a trained model, not a backbone; go on training it with start="):
        trainer("mid", first.last, tmp_path / "backbone")
    with pytest.raises(TrainingError, match="is no trained model of ours"):
        trainer("mid", backbone, tmp_path / "start", start=str(backbone))


def test_models_that_cannot_be_trained_are_refused(backbone: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="trained by 'tpips-train mini'"):
        trainer("late", Path("mini"), tmp_path)
    with pytest.raises(TrainingError, match="nothing of this late model learns"):
        trainer("late", backbone, tmp_path, lora_rank=0)
    with pytest.raises(TrainingError, match="must be below the model's 32 dims"):
        trainer("late", backbone, tmp_path, matryoshka_dims=(32,))
    with pytest.raises(ModelError, match="no linear map z_proj"):
        trainer("late", backbone, tmp_path, lora_targets=("z_proj",))
    with pytest.raises(TrainingError, match="no tracker 'clearml'; choose from tensorboard, wandb"):
        trainer("late", backbone, tmp_path, trackers=("clearml",))


def test_mid_fusions_ablations_train_and_load(backbone: Path, tmp_path: Path) -> None:
    frozen = load_model(trainer("mid", backbone, tmp_path / "a", lora_rank=0, steps=2).run().last, device="cpu")
    assert frozen.backbone.lora is None
    assert not torch.equal(frozen.head.layer_logits, torch.zeros(2))
    alike = trainer("mid", backbone, tmp_path / "b", aspect_conditioned=False, steps=2).run().last
    weights = load_model(alike, device="cpu").head.layer_heads[0]
    assert not torch.equal(weights.channel_logits, torch.zeros(32))
    assert torch.equal(weights(torch.zeros(32)), weights(torch.ones(32)))


def test_the_trackers_are_told(backbone: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trainer("late", backbone, tmp_path, steps=3, trackers=("tensorboard",)).run()
    (folder,) = {path.parent for path in (tmp_path / "tensorboard").rglob("events*")}
    events = EventAccumulator(str(folder)).Reload()
    losses = [event.value for event in events.Scalars("train/loss")]
    assert losses == pytest.approx([record["loss"] for record in records(tmp_path, "train")], rel=1e-6)
    assert len(events.Scalars("validation/agreement")) == 1


def test_a_full_memory_is_told_with_what_takes_less(
    backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Scored:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")

    run = trainer("late", backbone, tmp_path)
    monkeypatch.setattr(JudgingModule, "forward", full)
    for act in (run.plan, run.run):
        with pytest.raises(TrainingError, match=r"does not suffice \(CUDA out of memory.*set checkpointing=true"):
            act()


def test_whoever_watches_sees_steps_and_validations(backbone: Path, tmp_path: Path) -> None:
    steps: list[int] = []
    validations: list[tuple[int, Validation]] = []
    trainer(
        "late",
        backbone,
        tmp_path,
        validate_every=4,
        on_step=lambda step, loss: steps.append(step),
        on_validation=lambda step, found: validations.append((step, found)),
    ).run()
    assert steps == [1, 2, 3, 4, 5, 6]
    assert [step for step, _ in validations] == [4, 6]
