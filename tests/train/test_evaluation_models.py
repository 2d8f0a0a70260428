"""Every model's name leads to a judge whose scores are those of the model itself; what cannot be loaded is told."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.fixtures.qwen import make_backbone, pictures
from tpips_model.aspects import Aspect
from tpips_model.errors import ModelError
from tpips_model.loading import load_model
from tpips_model.qwen.adapters import LoraSettings, attach_lora
from tpips_model.qwen.backbone_loading import load_backbone
from tpips_model.qwen.checkpoint import save_model
from tpips_model.qwen.early_fusion import EarlyFusion
from tpips_model.qwen.late_fusion import LateFusion
from tpips_model.qwen.mid_fusion import MidFusion
from tpips_model.qwen.triplet_head import TripletHead
from tpips_model.qwen.zero_shot import ZeroShotJudge
from train.evaluation.judges import Judge, ModelRow
from train.evaluation.model_names import MODEL_PREFIXES, check_model_names, load_judge
from train.evaluation.open_pictures import OpenItem, OpenPicture
from train.evaluation.own_models import judge_of_model, parameter_count
from train.judgements import Kind

ASPECTS = (Aspect("lighting"), Aspect("overall"))
IMAGES = pictures([(256, 256), (256, 256), (256, 256), (256, 256)])
KINDS = {"late": LateFusion, "mid": MidFusion, "early": EarlyFusion, "triplet": TripletHead}


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_backbone(tmp_path_factory.mktemp("models") / "backbone", layers=2)


def saved(backbone: Path, kind: str) -> Path:
    """A checkpoint of a kind with adapters and head that are not zero."""
    loaded = load_backbone(backbone, device="cpu")
    attach_lora(loaded, LoraSettings(r=2, alpha=4, targets=("q_proj",)))
    model = KINDS[kind](loaded)
    generator = torch.Generator().manual_seed(5)
    for name, parameter in model.named_parameters():
        if ".lora_" in name or not name.startswith("backbone."):
            parameter.data.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return save_model(model.eval(), backbone.parent / kind)


def items(kind: Kind, images: Sequence[Image.Image] = IMAGES) -> list[OpenItem]:
    """Two items that share two pictures."""
    opened = [OpenPicture(image, ASPECTS) for image in images]
    return [OpenItem(kind, tuple(opened[number] for number in places), ASPECTS) for places in ((0, 1, 2), (2, 1, 3))]


def expected_pairs(similarity: Callable[..., Any], kind: Kind) -> np.ndarray:
    """What a metric says of the pairs of both items, (item, aspect, choice)."""
    pairs = {"odd-one-out": ((1, 2), (0, 2), (0, 1)), "2afc": ((0, 1), (0, 2))}[kind]
    rows = [
        [[float(similarity(IMAGES[p[i]], IMAGES[p[j]], str(aspect))) for i, j in pairs] for aspect in ASPECTS]
        for p in ((0, 1, 2), (2, 1, 3))
    ]
    return np.array(rows)


@pytest.mark.parametrize("kind", ["late", "mid", "early"])
def test_our_models_compare_as_they_do_alone(backbone: Path, kind: str) -> None:
    path = saved(backbone, kind)
    judge = load_judge(str(path), device="cpu")
    assert isinstance(judge, Judge)
    assert judge.row == ModelRow(
        {"late": "Late Fusion", "mid": "Mid-Fusion", "early": "Early Fusion"}[kind], "Ours", "0M"
    )
    similarity = load_model(path, device="cpu").similarity
    for asked in ("odd-one-out", "2afc"):
        np.testing.assert_allclose(judge.scores(items(asked)), expected_pairs(similarity, asked), atol=2e-6)


def test_a_triplet_head_answers_odd_one_out_alone(backbone: Path) -> None:
    path = saved(backbone, "triplet")
    judge = load_judge(str(path), device="cpu")
    assert judge.kinds == {"odd-one-out"}
    model = load_model(path, device="cpu")
    found = judge.scores(items("odd-one-out"))
    for number, places in enumerate(((0, 1, 2), (2, 1, 3))):
        alone = model.odd_one_out([IMAGES[place] for place in places], ASPECTS)
        np.testing.assert_allclose(found[number], alone.numpy(), atol=1e-6)


def test_zero_shot_models_stand_where_table_3_has_them(backbone: Path) -> None:
    late = load_judge(str(backbone), device="cpu")
    mid = load_judge(f"zero-shot-mid:{backbone}", device="cpu")
    triplet = load_judge(f"zero-shot:{backbone}", device="cpu")
    rating = load_judge(f"zero-shot-rating:{backbone}", device="cpu")
    rows = [(judge.row.type, judge.row.family) for judge in (late, mid, triplet, rating)]
    assert rows == [
        ("Late Fusion", "Qwen3-VL-Emb"),
        ("Mid-Fusion", "Qwen3-VL-Emb"),
        ("Triplet", "Qwen3-VL"),
        ("Early Fusion", "Qwen3-VL"),
    ]
    assert len({judge.fingerprint for judge in (late, mid, triplet, rating)}) == 3  # one judge, asked in two ways
    assert len({judge.name for judge in (late, mid, triplet, rating)}) == 4
    alone = ZeroShotJudge(load_backbone(backbone, device="cpu", generative=True))
    assert triplet.kinds == {"odd-one-out", "2afc"}
    np.testing.assert_allclose(triplet.scores(items("2afc"))[0], alone.two_afc(IMAGES[:3], ASPECTS).numpy(), atol=1e-6)
    np.testing.assert_allclose(
        triplet.scores(items("odd-one-out"))[1],
        alone.odd_one_out([IMAGES[2], IMAGES[1], IMAGES[3]], ASPECTS).numpy(),
        atol=1e-6,
    )
    np.testing.assert_allclose(rating.scores(items("2afc")), expected_pairs(alone.similarity, "2afc"), atol=1e-6)
    frozen = MidFusion(load_backbone(backbone, device="cpu"), learned_weights=False).eval()
    np.testing.assert_allclose(mid.scores(items("2afc")), expected_pairs(frozen.similarity, "2afc"), atol=1e-6)


def test_a_picture_is_embedded_once_for_all_its_items_and_aspects(backbone: Path, monkeypatch: Any) -> None:
    model = load_model(backbone, device="cpu")
    seen: Counter[int] = Counter()
    features = model.features

    def counting(patches: Any) -> Any:
        seen["pictures"] += len(patches)
        return features(patches)

    monkeypatch.setattr(model, "features", counting)
    judge = judge_of_model(model, name="late")
    both = items("odd-one-out")
    judge.scores(both[:1])
    judge.scores(both)
    assert seen["pictures"] == 4  # of two items under two aspects each


def test_fingerprints_follow_the_weights(backbone: Path) -> None:
    early = EarlyFusion(load_backbone(backbone, device="cpu"))
    first = judge_of_model(early, name="early").fingerprint
    assert judge_of_model(early, name="other name").fingerprint == first
    early.register_embed.weight.data += 0.1
    assert judge_of_model(early, name="early").fingerprint != first


def test_mini_is_a_late_fusion_model_the_paper_does_not_know() -> None:
    judge = load_judge("mini")
    assert judge.row == ModelRow("Late Fusion")
    similarity = judge.scores(items("2afc"))
    np.testing.assert_allclose(similarity, expected_pairs(_mini_similarity, "2afc"), atol=1e-6)


def _mini_similarity(a: Image.Image, b: Image.Image, aspect: str) -> float:
    first, second = load_model("mini").embed([a, b], [aspect])[:, 0]
    return float(first @ second)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "no model was named"),
        (["mini", "mini"], "'mini' is named twice"),
        (["clip:ViT-B"], "unknown model 'clip:ViT-B'; give mini, the directory or hub id"),
        (["lpips:"], "unknown model 'lpips:'"),
        (["lpips:alex"], r"needs the package 'lpips', which is not installed: pip install lpips"),
        (["dreamsim:ensemble"], r"pip install dreamsim"),
        (["open_clip:ViT-B-32/openai"], r"pip install open_clip_torch"),
        (["tpips:embedding"], r"pip install tpips"),
    ],
)
def test_names_are_checked_before_anything_is_loaded(
    names: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("train.evaluation.model_names.find_spec", lambda package: None)
    with pytest.raises(ModelError, match=message):
        check_model_names(names)


def test_a_directory_with_a_colon_is_a_directory(tmp_path: Path) -> None:
    path = make_backbone(tmp_path / "a:b", layers=2)
    check_model_names([str(path), f"{path}?max_pixels=65536"])
    assert load_judge(str(path), device="cpu").row.family == "Qwen3-VL-Emb"


@pytest.mark.parametrize(
    ("prefix", "kind", "message"),
    [
        ("zero-shot-mid", "late", r"late is a trained model; .*needs a backbone without adapters"),
        ("zero-shot", "early", r"a 'qwen3_vl' backbone is needed"),
        ("zero-shot-rating", "triplet", r"a 'qwen3_vl' backbone is needed"),
    ],
)
def test_a_checkpoint_of_another_kind_is_told(backbone: Path, prefix: str, kind: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_judge(f"{prefix}:{saved(backbone, kind)}", device="cpu")


def test_what_is_no_model_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"holds no config\.json"):
        load_judge(str(tmp_path))
    with pytest.raises(ModelError, match=r"is a Linear, which makes no vectors and compares no images"):
        judge_of_model(torch.nn.Linear(1, 1), name="line")


def test_sizes_are_written_as_in_table_3() -> None:
    meta = torch.nn.Linear(2_000_000, 4_000, bias=False, device="meta")
    assert parameter_count(meta) == "8B"


# The fakes below follow the interfaces that the packages document; the pixels' mean stands for what a network sees.


def brightness(batch: torch.Tensor) -> torch.Tensor:
    return batch.double().mean(dim=(1, 2, 3))


class FakeLpips(torch.nn.Module):
    """lpips.LPIPS(net=…): two batches of one size in [−1, 1], distances (N, 1, 1, 1)."""

    def __init__(self, net: str = "alex") -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, in0: torch.Tensor, in1: torch.Tensor) -> torch.Tensor:
        assert in0.shape == in1.shape
        assert in0.ndim == 4
        assert min(in0.min(), in1.min()) >= -1
        assert max(in0.max(), in1.max()) <= 1
        return (brightness(in0) - brightness(in1)).abs().reshape(-1, 1, 1, 1) * self.weight


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put a module of some attributes where import finds it."""

    def put(name: str, **attributes: Any) -> None:
        module = ModuleType(name)
        module.__spec__ = SimpleNamespace(name=name)  # type: ignore[assignment]
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, name, module)

    return put


def of_lightness() -> list[Image.Image]:
    """Pictures of levels 0, 100, 40 and 250; the last is smaller."""
    return [Image.new("RGB", (8, 8), (level,) * 3) for level in (0, 100, 40)] + [Image.new("RGB", (4, 6), (250,) * 3)]


def test_lpips(install: Any) -> None:
    install("lpips", LPIPS=FakeLpips)
    judge = load_judge("lpips:alex", device="cpu")
    assert judge.row == ModelRow("Classic", "LPIPS", "62M")
    first, second = judge.scores(items("2afc", of_lightness()))
    np.testing.assert_allclose(first, [[-200 / 255, -80 / 255]] * 2, atol=1e-6)  # every aspect is the same to it
    np.testing.assert_allclose(second, [[-120 / 255, -420 / 255]] * 2, atol=1e-6)
    assert load_judge("lpips:vgg", device="cpu").fingerprint != judge.fingerprint
    with pytest.raises(ModelError, match=r"give one of alex, vgg, squeeze"):
        load_judge("lpips:resnet", device="cpu")


def test_dreamsim(install: Any) -> None:
    class Model(torch.nn.Module):
        def embed(self, batch: torch.Tensor) -> torch.Tensor:
            return torch.stack([brightness(batch) + 1, torch.ones(len(batch)).double()], dim=1)

    def dreamsim(pretrained: bool, device: str, dreamsim_type: str) -> Any:
        if dreamsim_type != "ensemble":
            raise ValueError("no such type")
        return Model(), lambda image: torch.from_numpy(np.array(image, np.float32) / 255).permute(2, 0, 1)[None]

    install("dreamsim", dreamsim=dreamsim)
    judge = load_judge("dreamsim:ensemble", device="cpu")
    assert judge.row == ModelRow("Classic", "DreamSim", "258M")
    vectors = {level: np.array([1 + level / 255, 1]) for level in (0, 100, 40)}
    unit = {level: vector / np.linalg.norm(vector) for level, vector in vectors.items()}
    found = judge.scores(items("odd-one-out", of_lightness()))[0]
    expected = [unit[100] @ unit[40], unit[0] @ unit[40], unit[0] @ unit[100]]
    np.testing.assert_allclose(found, [expected] * 2, atol=1e-6)
    with pytest.raises(ModelError, match=r"dreamsim cannot make 'other' \(no such type\)"):
        load_judge("dreamsim:other", device="cpu")


def test_open_clip(install: Any) -> None:
    asked = []

    class Model(torch.nn.Module):
        def encode_image(self, batch: torch.Tensor) -> torch.Tensor:
            return torch.stack([brightness(batch), torch.ones(len(batch)).double()], dim=1)

    def create(model_name: str, pretrained: str | None = None) -> Any:
        asked.append((model_name, pretrained))
        if model_name == "ViT-X":
            raise RuntimeError("Model config for ViT-X not found.")
        resize = lambda image: torch.from_numpy(np.array(image.resize((2, 2)), np.float32) / 255).permute(2, 0, 1)  # noqa: E731
        return Model(), None, resize

    install("open_clip", create_model_and_transforms=create)
    judge = load_judge("open_clip:ViT-B-32/laion2b_s34b_b79k", device="cpu")
    load_judge("open_clip:hf-hub:laion/CLIP", device="cpu")
    assert asked == [("ViT-B-32", "laion2b_s34b_b79k"), ("hf-hub:laion/CLIP", None)]
    found = judge.scores(items("2afc", of_lightness()))[1]
    vectors = [np.array([level / 255, 1]) for level in (40, 100, 250)]
    unit = [vector / np.linalg.norm(vector) for vector in vectors]
    np.testing.assert_allclose(found, [[unit[0] @ unit[1], unit[0] @ unit[2]]] * 2, atol=1e-6)
    with pytest.raises(ModelError, match=r"open_clip cannot make 'ViT-X/x': Model config for ViT-X not found"):
        load_judge("open_clip:ViT-X/x", device="cpu")
    with pytest.raises(ModelError, match=r"names no weights; give open_clip:MODEL/TAG"):
        load_judge("open_clip:ViT-B-32", device="cpu")


def test_the_authors_package(install: Any, tmp_path: Path) -> None:
    asked = []

    class Model:
        """embed(images, factor) gives float32 vectors; distance(a, b, factor) a value a pair."""

        def embed(
            self, images: Sequence[Image.Image], factor: str = "overall", normalized: bool = False
        ) -> torch.Tensor:
            level = torch.tensor([float(np.array(image).mean()) / 255 for image in images])
            return torch.stack([level, torch.full_like(level, len(factor))], dim=1)

        def distance(self, a: Sequence[Image.Image], b: Sequence[Image.Image], factor: str = "overall") -> torch.Tensor:
            means = [[float(np.array(image).mean()) for image in side] for side in (a, b)]
            return (torch.tensor(means[0]) - torch.tensor(means[1])).abs() * len(factor)

    def load(kind: str, model_path: str | None = None, device: str = "cuda", *, cache_dir: str | None = None) -> Any:
        asked.append((kind, model_path, device))
        return Model()

    install("tpips", load_model=load)
    late = load_judge("tpips:embedding", device="cpu")
    assert late.row == ModelRow("Late Fusion", "Ours", "8B")
    found = late.scores(items("2afc", of_lightness()))[0]
    for row, aspect in zip(found, ASPECTS, strict=True):
        vectors = [np.array([level / 255, len(str(aspect))]) for level in (0, 100, 40)]
        unit = [vector / np.linalg.norm(vector) for vector in vectors]
        np.testing.assert_allclose(row, [unit[0] @ unit[1], unit[0] @ unit[2]], atol=1e-6)
    (tmp_path / "model.pt").write_bytes(b"weights")
    mid = load_judge(f"tpips:activation_dist:{tmp_path}", device="cpu")
    expected = [[-100.0 * len(str(aspect)), -40.0 * len(str(aspect))] for aspect in ASPECTS]
    np.testing.assert_allclose(mid.scores(items("2afc", of_lightness()))[0], expected)
    assert asked == [("embedding", None, "cpu"), ("activation_dist", str(tmp_path), "cpu")]
    (tmp_path / "model.pt").write_bytes(b"other weights")
    assert load_judge(f"tpips:activation_dist:{tmp_path}", device="cpu").fingerprint != mid.fingerprint
    with pytest.raises(ModelError, match=r"tpips knows embedding, early_fusion, activation_dist"):
        load_judge("tpips:triplet", device="cpu")
    with pytest.raises(ModelError, match=r"there is no directory /nowhere"):
        load_judge("tpips:embedding:/nowhere", device="cpu")


def test_every_prefix_has_an_example_that_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("train.evaluation.model_names.find_spec", lambda package: object())
    check_model_names([prefix.example for prefix in MODEL_PREFIXES.values()])
