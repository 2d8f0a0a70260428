"""The bundled model's trainer: it learns, repeats itself, resumes, and stops when the loss breaks."""

from __future__ import annotations

import dataclasses
from collections import Counter
from functools import partial

import numpy as np
import pytest
import torch

from tpips_model.mini.embedder import WEIGHTS
from tpips_model.mini.features import FEATURE_GROUPS
from tpips_model.mini.head import Head
from train.mini_batches import BatchSampler
from train.mini_dataset import FamilyData, ShardPlan, family_seeds, load_shards, make_shards
from train.mini_training import MiniTrainingConfig, fit_head, new_head
from train.scene_evaluation import odd_one_out_accuracy
from train.scenes import FACTORS, FAMILY_SIZE, family
from train.synthetic import ASPECTS, TRIPLETS, aspect_labels, factor_value

WIDTH = sum(FEATURE_GROUPS.values())
CONFIG = MiniTrainingConfig(
    steps=60, warmup=5, labels_per_step=16, aspects_per_family=2, cross_triplets=16, learning_rate=3e-3
)
WORDS = {
    aspect: (f"{aspect} one", f"{aspect} two") for aspect in ("palette", "blur", "brush", "warmth", "mood", "overall")
}


def encode(texts):
    """Stand-in for the text table: the first word decides, the second adds a little."""
    vectors = []
    for text in texts:
        words = text.split()
        seeds = [int.from_bytes(word.encode(), "big") % (1 << 60) for word in (words[0], words[-1])]
        vectors.append(
            np.random.default_rng(seeds[0]).standard_normal(128)
            + 0.1 * np.random.default_rng(seeds[1]).standard_normal(128)
        )
    return np.array(vectors, np.float32)


def made_up(seeds) -> FamilyData:
    """Families whose features simply hold each factor's value, plus noise: quick to make and learnable."""
    rng = np.random.default_rng(len(seeds))
    columns = {name: np.random.default_rng(number).standard_normal((WIDTH,)) for number, name in enumerate(FACTORS)}
    features, labels, kinds = [], [], []
    values = {name: [] for name in FACTORS}
    for number, seed in enumerate(seeds):
        drawn = family(seed, kind="photographs")
        kinds.append(drawn.kind)
        blank = [np.zeros((2, 2, 3))] * FAMILY_SIZE
        images = [image_of(picture) for picture in drawn.pictures]
        assert len(images) == len(blank)
        for aspect, made in aspect_labels(drawn, images).items():
            labels.append((number, list(ASPECTS).index(aspect), made.targets, made.usable))
        for picture in drawn.pictures:
            row = rng.standard_normal(WIDTH) * 0.5
            for name in FACTORS:
                values[name].append(factor_value(picture, name))
                if values[name][-1] is not None:
                    word = int.from_bytes(values[name][-1].encode(), "big") % (1 << 60)
                    row += columns[name] * np.random.default_rng(word).standard_normal(WIDTH)
            features.append(row)
    family_number, aspect_number, targets, usable = zip(*labels, strict=True)
    return FamilyData(
        features=np.array(features, np.float16),
        label_family=np.array(family_number),
        label_aspect=np.array(aspect_number),
        targets=np.stack(targets),
        usable=np.stack(usable),
        values=values,
        kinds=kinds,
    )


def image_of(picture):
    from PIL import Image

    level = int(120 + 50 * float(picture.values["brightness"]))
    return Image.new("RGB", (2, 2), (level, level, level))


@pytest.fixture(scope="module")
def data() -> FamilyData:
    return made_up(range(40))


@pytest.fixture(scope="module")
def start(data) -> Head:
    torch.manual_seed(0)
    head = Head(hidden=(32, 16), learned=24, identity=8, gate_hidden=32)
    # Fitting the whitening to pictures takes seconds; any directions do for what is tested here.
    head.load_state_dict(
        {
            name: 0.03 * torch.randn_like(tensor) if "basis" in name else tensor
            for name, tensor in head.state_dict().items()
        }
    )
    return head


def copy_of(head: Head) -> Head:
    twin = Head(hidden=(32, 16), learned=24, identity=8, gate_hidden=32)
    twin.load_state_dict(head.state_dict())
    return twin


def view(head: Head, data: FamilyData, texts):
    with torch.inference_mode():
        return head.eval()(torch.from_numpy(data.features).float(), torch.from_numpy(encode(texts))).numpy()


def accuracy(head: Head, data: FamilyData) -> float:
    def asked(texts):
        aspect = next(name for name, held in HELD.items() if held == tuple(texts))
        return view(head, data, WORDS.get(aspect, (f"{aspect} one",))[:1])

    from train.paraphrases import HELD_PARAPHRASES as HELD

    measured = odd_one_out_accuracy(asked, data)
    return float(np.mean([measured[aspect].mean for aspect in WORDS if aspect in measured]))


def test_a_short_training_improves_on_the_untrained_head(data, start):
    head = copy_of(start)
    losses = []
    fit_head(head, data, WORDS, encode, CONFIG, lambda step, loss: losses.append(loss))
    assert len(losses) == CONFIG.steps
    unseen = made_up(range(5_000, 5_020))
    assert accuracy(head, unseen) > accuracy(start, unseen) + 0.05
    assert not head.training


def test_words_for_the_subject_ask_for_the_backbones_own_view(data, start):
    head = copy_of(start)
    fit_head(head, data, {**WORDS, "subject": ("content", "category")}, encode, dataclasses.replace(CONFIG, steps=3))
    with torch.inference_mode():
        _, shares = head.conditions(torch.from_numpy(encode(["content", "category", "blur one", "warmth two"])))
    assert shares[:2].min() > 0.6
    assert shares[2:].max() < 0.3


def test_training_repeats_itself(data, start):
    config = dataclasses.replace(CONFIG, steps=4)
    first, again, other = copy_of(start), copy_of(start), copy_of(start)
    fit_head(first, data, WORDS, encode, config)
    fit_head(again, data, WORDS, encode, config)
    fit_head(other, data, WORDS, encode, dataclasses.replace(config, seed=1))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(first.project.weight, other.project.weight)
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_broken_loss_is_an_error(data, start):
    head = copy_of(start)
    with torch.no_grad():
        head.project.weight.fill_(torch.nan)
    with pytest.raises(FloatingPointError, match="lower the learning rate"):
        fit_head(head, data, WORDS, encode, CONFIG)


def test_batches_hold_usable_triplets_with_their_targets(data):
    sampler = BatchSampler(data, dict.fromkeys(WORDS, 2), CONFIG)
    batch = sampler.batch()
    assert batch.triplets.max() < len(batch.row_picture)
    assert len(batch.targets) == len(batch.triplets)
    np.testing.assert_allclose(batch.targets.sum(1), 1, atol=1e-3)
    # The members of a triplet are asked one and the same question.
    question = batch.row_question[batch.triplets]
    assert (question == question[:, :1]).all()
    labels = {(int(f), int(a)): i for i, (f, a) in enumerate(zip(data.label_family, data.label_aspect, strict=True))}
    number = {tuple(triplet): i for i, triplet in enumerate(TRIPLETS.tolist())}
    checked = 0
    for triplet, target in zip(batch.triplets, batch.targets, strict=True):
        rows = batch.pictures[batch.row_picture[triplet]]
        if len(set(rows // FAMILY_SIZE)) > 1:
            continue
        aspect = batch.questions[batch.row_question[triplet[0]]][0]
        label = labels.get((int(rows[0] // FAMILY_SIZE), list(ASPECTS).index(aspect)))
        which = number.get(tuple((rows % FAMILY_SIZE).tolist()))
        if label is None or which is None:
            continue
        assert data.usable[label][which]
        np.testing.assert_allclose(target, data.targets[label][which])
        checked += 1
    assert checked > 50


def test_triplets_across_families_share_the_value_they_are_asked_about(data):
    sizes = dataclasses.replace(CONFIG, labels_per_step=1, aspects_per_family=1, triplets_per_label=1)
    batch = BatchSampler(data, dict.fromkeys(WORDS, 2), sizes).batch()
    seen = Counter()
    for triplet, target in zip(batch.triplets[1:], batch.targets[1:], strict=True):
        aspect = batch.questions[batch.row_question[triplet[0]]][0]
        first, second, third = (data.values[aspect][row] for row in batch.pictures[batch.row_picture[triplet]])
        assert first == second != third
        assert target.argmax() == 2
        seen[aspect] += 1
    assert sum(seen.values()) == CONFIG.cross_triplets
    assert set(seen) <= set(FACTORS)


def test_seeds_of_plans_are_apart(tmp_path):
    plan = partial(ShardPlan, tmp_path, tmp_path / "b")
    ranges = [
        set(family_seeds(plan(seed, 64, evaluation=evaluation), shard))
        for seed in (0, 1)
        for evaluation in (False, True)
        for shard in (0, 1)
    ]
    assert len(set().union(*ranges)) == sum(len(seeds) for seeds in ranges)


@pytest.mark.slow
def test_shards_resume_and_give_the_same_data(tmp_path):
    plan = ShardPlan(tmp_path / "shards", WEIGHTS / "backbone.safetensors", seed=3, families=40)
    seen = []
    make_shards(plan, workers=1, on_shard=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 2), (1, 2), (2, 2)]
    whole = load_shards(plan)
    assert whole.features.shape == (64 * FAMILY_SIZE, WIDTH)
    before = plan.path(0).read_bytes()
    plan.path(0).unlink()
    seen.clear()
    make_shards(plan, workers=1, on_shard=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]
    assert plan.path(0).read_bytes() == before
    head = new_head(torch.from_numpy(whole.features).float(), torch.randn(200, 1280), seed=0)
    with torch.inference_mode():
        vectors = head.eval()(torch.from_numpy(whole.features[:4]).float(), torch.randn(2, 128))
    torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(4, 2))
