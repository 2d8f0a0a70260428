"""The zero-shot baselines ask in the paper's words, in every ordering, and read the right logits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import Qwen3VLForConditionalGeneration

from tests.fixtures.qwen import make_backbone, pictures
from tpips_model.comparison import compare
from tpips_model.errors import ImageError, ModelError
from tpips_model.metric import Metric
from tpips_model.qwen.backbone_loading import load_backbone
from tpips_model.qwen.prompts import rating_prompt, two_afc_prompt, zero_shot_triplet_prompt
from tpips_model.qwen.zero_shot import ZeroShotJudge, side_by_side

SIZES = [(256, 256), (300, 280), (256, 330)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_backbone(tmp_path_factory.mktemp("backbone"))


@pytest.fixture(scope="module")
def judge(directory: Path) -> ZeroShotJudge:
    return ZeroShotJudge(load_backbone(directory, device="cpu", generative=True))


def logits_by_the_library(directory: Path, judge: ZeroShotJudge, picture: torch.Tensor, text: str) -> torch.Tensor:
    """The logits after a text about one picture, from ``Qwen3VLForConditionalGeneration.forward``."""
    library = Qwen3VLForConditionalGeneration.from_pretrained(directory).eval()
    patches = judge.backbone.preprocess(picture)
    text = text.replace("<image>", "<|vision_start|>" + "<|image_pad|>" * patches.tokens + "<|vision_end|>")
    ids = judge.backbone.chat.tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        return library(
            input_ids=ids,
            pixel_values=patches.values,
            image_grid_thw=torch.tensor([[1, *patches.grid]]),
            mm_token_type_ids=(ids == library.config.image_token_id).long(),
        ).logits[0, -1]


def token(judge: ZeroShotJudge, word: str) -> int:
    (only,) = judge.backbone.chat.tokenizer(word, add_special_tokens=False)["input_ids"]
    return only


def test_wording_is_the_papers() -> None:
    three = "I provide three horizontally concatenated images"
    assert zero_shot_triplet_prompt("lighting") == (
        f"{three} (left, middle, right). Which image is the most different among the three in terms of lighting? "
        "You need to choose: left, middle, right. Answer:"
    )
    assert zero_shot_triplet_prompt("overall") == (
        f"{three} (left, middle, right). Which image is the most different among the three? "
        "You need to choose: left, middle, right. Answer:"
    )
    candidate = f"{three}. The center image is the reference. Which candidate (left or right) is more similar"
    assert two_afc_prompt("lighting") == (
        f"{candidate} to the reference in terms of lighting? Answer with one word: left or right. Answer:"
    )
    assert two_afc_prompt("overall") == (f"{candidate} to the reference? Answer with one word: left or right. Answer:")
    two = "I show you two images placed side by side (left and right). Rate how similar these two images are"
    scale = (
        "on a scale of 0 to 10, where 0 means completely different and 10 means identical. "
        "Answer with a single number from 0 to 10. Answer:"
    )
    assert rating_prompt("lighting") == f"{two} in terms of lighting {scale}"
    assert rating_prompt("overall") == f"{two} overall {scale}"


def test_the_rating_is_its_definition_token_by_token(directory: Path, judge: ZeroShotJudge) -> None:
    a, b = (judge.backbone.preprocess.pixels(picture) for picture in pictures([(256, 256), (288, 256)]))
    question = f"<|im_start|>user\n<image>{rating_prompt('lighting')}<|im_end|>\n<|im_start|>assistant\n"
    expected = []
    for pair in ([a, b], [b, a]):
        montage = torch.cat(pair, dim=2)
        answer = logits_by_the_library(directory, judge, montage, question).softmax(0)
        after_one = logits_by_the_library(directory, judge, montage, question + "1").softmax(0)
        mass = {rating: float(answer[token(judge, str(rating))]) for rating in range(10)}
        zero_follows = float(after_one[token(judge, "0")])
        mass[10], mass[1] = mass[1] * zero_follows, mass[1] * (1 - zero_follows)
        expected.append(sum(rating * p for rating, p in mass.items()) / sum(mass.values()))
    assert float(judge.rate(a, b, "lighting")) == pytest.approx(sum(expected) / 2, abs=1e-4)


def test_the_choice_is_read_at_its_words(directory: Path, judge: ZeroShotJudge) -> None:
    reference, first, second = (judge.backbone.preprocess.pixels(p) for p in pictures([(256, 256)] * 3))
    question = f"<|im_start|>user\n<image>{two_afc_prompt('lighting')}<|im_end|>\n<|im_start|>assistant\n"
    words = [token(judge, "left"), token(judge, "right")]
    shown = [[first, reference, second], [second, reference, first]]
    chosen = [
        logits_by_the_library(directory, judge, torch.cat(one, dim=2), question)[words].softmax(0) for one in shown
    ]
    expected = (chosen[0] + chosen[1].flip(0)) / 2
    torch.testing.assert_close(judge.two_afc([reference, first, second], "lighting"), expected, atol=1e-4, rtol=0)


def test_the_order_of_the_images_does_not_matter(judge: ZeroShotJudge) -> None:
    a, b, c = pictures(SIZES)
    odd = judge.odd_one_out([a, b, c], ["overall", "lighting"])
    assert odd.shape == (2, 3)
    torch.testing.assert_close(odd.sum(-1), torch.ones(2))
    assert (odd.max(-1).values - odd.min(-1).values > 1e-4).all()
    torch.testing.assert_close(judge.odd_one_out([c, a, b], "lighting"), odd[1][[2, 0, 1]], atol=1e-5, rtol=0)
    closer = judge.two_afc([a, b, c], "lighting")
    torch.testing.assert_close(judge.two_afc([a, c, b], "lighting"), closer.flip(0), atol=1e-5, rtol=0)
    torch.testing.assert_close(judge.rate(a, b, "lighting"), judge.rate(b, a, "lighting"), atol=1e-4, rtol=0)


def test_shapes_and_ranges(judge: ZeroShotJudge) -> None:
    a, b, c = pictures(SIZES)
    assert isinstance(judge, Metric)
    rating = judge.rate(a, [b, c], ["overall", "lighting"])
    assert rating.shape == (2, 2)
    assert ((rating > 0) & (rating < 10)).all()
    torch.testing.assert_close(judge.similarity(a, b, "lighting"), rating[1, 0] / 10, atol=1e-5, rtol=0)
    torch.testing.assert_close(judge.distance(a, b, "lighting"), 1 - rating[1, 0] / 10, atol=1e-5, rtol=0)
    assert judge.two_afc([[a, b, c], [b, a, c]], ["overall", "lighting"]).shape == (2, 2, 2)
    assert judge.odd_one_out([[a, b, c]]).shape == (1, 3)
    assert compare(a, [b, c], ["lighting"], metric=judge).similarity.shape == (1, 2)


def test_side_by_side_keeps_proportions_at_the_smallest_height() -> None:
    low, high, tiny = torch.rand(3, 300, 200), torch.rand(3, 600, 100), torch.rand(3, 10, 5)
    both = side_by_side([low, high])
    assert both.shape == (3, 300, 250)
    torch.testing.assert_close(both[:, :, :200], low)
    assert side_by_side([low, tiny]).shape == (3, 256, round(200 * 256 / 300) + 128)


def test_wrong_use_is_refused(directory: Path, judge: ZeroShotJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="load it with generative=True"):
        ZeroShotJudge(load_backbone(directory, device="cpu"))
    with pytest.raises(ImageError, match="triplet 0 has 2 images"):
        judge.two_afc(pictures(SIZES)[:2])
    encode = judge.backbone.chat.encode
    digits = set("0123456789")
    monkeypatch.setattr(judge.backbone.chat, "encode", lambda p: encode(p) if set(p[0]) <= digits else [1])
    with pytest.raises(ModelError, match="begins the answers left, middle, right with the same token"):
        ZeroShotJudge(judge.backbone)
