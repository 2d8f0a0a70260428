"""An index of a Qwen3-VL checkpoint, from the build to the hits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from indexer.building.build import build
from indexer.building.build_config import BuildConfig
from indexer.directory import IndexDirectory
from search import Searcher
from tests.fixtures.qwen import make_backbone, pictures
from tpips_model.errors import ModelError
from tpips_model.loading import load_embedder
from tpips_model.qwen.adapters import LoraSettings, attach_lora
from tpips_model.qwen.backbone_loading import load_backbone
from tpips_model.qwen.checkpoint import save_model
from tpips_model.qwen.late_fusion import LateFusion

ASPECTS = ("overall", "lighting", "color palette")
SIZES = [(256, 256), (320, 200), (200, 360), (64, 64), (500, 40)]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    backbone = load_backbone(make_backbone(folder / "backbone"), device="cpu")
    attach_lora(backbone, LoraSettings(r=2, alpha=4))
    generator = torch.Generator().manual_seed(2)
    for name, parameter in backbone.named_parameters():
        if ".lora_B" in name:
            parameter.data.copy_(torch.randn(parameter.shape, generator=generator) * 0.2)
    return save_model(LateFusion(backbone), folder / "checkpoint")


def test_an_index_answers_as_brute_force_over_embed(checkpoint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    images = pictures([*SIZES, (256, 256)])
    for number, image in enumerate(images):
        image.save(folder / f"{number:02d}.png")
    build(
        BuildConfig(
            out=tmp_path / "index",
            data=str(folder),
            aspects=ASPECTS,
            model=str(checkpoint),
            max_pixels=65536,
            shard_size=4,
            progress=False,
        )
    )
    searcher = Searcher.open(tmp_path / "index")  # the model is loaded again, by the name in the index
    one, two = pictures([(300, 260), (260, 300)], seed=9)
    terms = [(one, "lighting", 1.0), (two, "color palette", 0.7)]
    hits = searcher.query(terms, k=len(images), overall_penalty=0.3)

    model = load_embedder(checkpoint, device="cpu", max_pixels=65536)
    items, (first, second) = model.embed(images, ASPECTS), model.embed([one, two], ASPECTS)
    overall, lighting, palette = (items[:, column] for column in range(3))
    expected = lighting @ first[1] - 0.3 * overall @ first[0] + 0.7 * (palette @ second[2] - 0.3 * overall @ second[0])
    by_key = {hit.key: hit.score for hit in hits}
    assert len(by_key) == len(images)
    found = np.array([by_key[key] for key in IndexDirectory.open(tmp_path / "index").items()["key"].to_pylist()])
    # stored as float16
    np.testing.assert_allclose(found, expected, atol=2e-3)
    assert np.ptp(expected) > 0.02
    assert [hit.score for hit in hits] == sorted(by_key.values(), reverse=True)


def test_another_model_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number, image in enumerate(pictures(SIZES[:2])):
        image.save(folder / f"{number:02d}.png")
    build(BuildConfig(out=tmp_path / "index", data=str(folder), model=str(checkpoint), progress=False))
    other = load_embedder(checkpoint, device="cpu", max_pixels=65536)
    with pytest.raises(ModelError, match="fingerprint"):
        Searcher.open(tmp_path / "index", model=other)
