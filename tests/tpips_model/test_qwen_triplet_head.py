"""The triplet head decides about images, not about places."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import Qwen3VLModel

from tests.fixtures.qwen import make_backbone, pictures
from tpips_model.errors import ImageError
from tpips_model.qwen.backbone_loading import load_backbone
from tpips_model.qwen.orderings import random_orderings
from tpips_model.qwen.prompts import triplet_head_prompt
from tpips_model.qwen.triplet_head import TripletHead, as_triplets

SIZES = [(256, 256), (352, 256), (256, 320)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_backbone(tmp_path_factory.mktemp("backbone"))


@pytest.fixture
def model(directory: Path) -> TripletHead:
    torch.manual_seed(1)
    made = TripletHead(load_backbone(directory, device="cpu"))
    made.head.weight.data.mul_(4)
    return made.eval()


def test_the_order_of_the_images_does_not_matter(model: TripletHead) -> None:
    images = pictures(SIZES)
    expected = model.odd_one_out(images, "lighting")
    assert expected.shape == (3,)
    torch.testing.assert_close(expected.sum(), torch.tensor(1.0))
    assert expected.max() - expected.min() > 1e-3
    for ordering in list(permutations(range(3)))[1::2]:
        shuffled = model.odd_one_out([images[image] for image in ordering], "lighting")
        torch.testing.assert_close(shuffled, expected[list(ordering)], atol=1e-5, rtol=0)


def test_batches_and_aspects(model: TripletHead) -> None:
    first, second = pictures(SIZES), pictures(SIZES[::-1], seed=2)
    both = model.odd_one_out([first, second], ["overall", "lighting"])
    assert both.shape == (2, 2, 3)
    torch.testing.assert_close(both[1, 1], model.odd_one_out(second, "lighting"), atol=1e-5, rtol=0)
    torch.testing.assert_close(both[:, 0], model.odd_one_out(first, ["overall", "lighting"]), atol=1e-5, rtol=0)
    assert not torch.allclose(both[0, 0], both[1, 0], atol=1e-4)
    assert not both.requires_grad


def test_triplets_of_different_lengths_share_a_batch(model: TripletHead) -> None:
    triplets = [pictures(SIZES), pictures([(256, 256)] * 3, seed=2)]
    aspects, orderings = ["lighting", "the number of cups"], torch.tensor([[1, 0, 2], [2, 1, 0]])
    with torch.no_grad():
        together = model(triplets, aspects, orderings)
        alone = [model([triplets[n]], [aspects[n]], orderings[n : n + 1])[0] for n in range(2)]
    torch.testing.assert_close(together, torch.stack(alone), atol=1e-5, rtol=0)


def test_one_ordering_is_the_librarys_own_forward(directory: Path, model: TripletHead) -> None:
    images = pictures(SIZES)
    ordering = [2, 0, 1]
    shown = [model.backbone.preprocess(images[image]) for image in ordering]
    library = Qwen3VLModel.from_pretrained(directory).eval()
    placeholders = "".join("<|vision_start|>" + "<|image_pad|>" * each.tokens + "<|vision_end|>" for each in shown)
    question = "Which image is the most different among the three in terms of lighting?"
    text = f"<|im_start|>user\n{placeholders}{question}<|im_end|>\n<|im_start|>assistant\n"
    ids = model.backbone.chat.tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        states = library(
            input_ids=ids,
            pixel_values=torch.cat([each.values for each in shown]),
            image_grid_thw=torch.tensor([[1, *each.grid] for each in shown]),
            mm_token_type_ids=(ids == library.config.image_token_id).long(),
        ).last_hidden_state
        places = model.head(states[0, -1])
        expected = torch.empty(3)
        expected[ordering] = places
        found = model([images], ["lighting"], torch.tensor([ordering]))[0]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_training_lowers_the_loss_under_shuffling(model: TripletHead) -> None:
    triplets = [pictures(SIZES), pictures(SIZES, seed=2)]
    target = torch.tensor([2, 0])
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.head.parameters(), lr=0.05)
    losses = []
    for _ in range(12):
        logits = model(triplets, ["lighting", "pose"], random_orderings(2, generator=generator))
        assert logits.shape == (2, 3)
        loss = torch.nn.functional.cross_entropy(logits, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert np.mean(losses[-4:]) < np.mean(losses[:4])


def test_random_orderings_are_orderings_and_all_occur() -> None:
    drawn = random_orderings(300, generator=torch.Generator().manual_seed(0)).tolist()
    assert {tuple(ordering) for ordering in drawn} == set(permutations(range(3)))


def test_what_counts_as_a_triplet() -> None:
    a, b, c = pictures(SIZES)
    assert as_triplets([a, b, c]) == ([[a, b, c]], False)
    assert as_triplets([(a, b, c)])[1]
    assert not as_triplets(torch.zeros(3, 3, 8, 8))[1]
    assert len(as_triplets([torch.zeros(3, 3, 8, 8)] * 2)[0]) == 2
    with pytest.raises(ImageError, match="triplet 1 has 2 images"):
        as_triplets([[a, b, c], [a, b]])
    with pytest.raises(ImageError, match="triplet 0 has 0 images"):
        as_triplets([])


def test_wording_is_the_papers() -> None:
    assert triplet_head_prompt("lighting") == "Which image is the most different among the three in terms of lighting?"
    assert triplet_head_prompt("Overall") == "Which image is the most different among the three?"
