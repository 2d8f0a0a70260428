"""Features and head of the bundled model: fixed shapes, independence of the batch, unit vectors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tpips_model.errors import ModelError
from tpips_model.mini.backbone import EfficientNetLite0
from tpips_model.mini.features import FEATURE_GROUPS, FEATURE_VERSION, INPUT_SIZE, group_slices, image_features
from tpips_model.mini.foreground import MAP_SIZE, foreground_maps, map_statistics
from tpips_model.mini.head import GROUP_RANKS, Head, Whitening
from tpips_model.mini.pixel_statistics import cielab
from train.mini_training import MiniTrainingConfig, save_head


@pytest.fixture(scope="module")
def backbone() -> EfficientNetLite0:
    torch.manual_seed(0)
    return EfficientNetLite0()


def pictures(count: int, seed: int = 0) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)
    return torch.from_numpy(coarse.repeat(INPUT_SIZE // 8, 1).repeat(INPUT_SIZE // 8, 2))


def described(backbone: EfficientNetLite0, batch: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return image_features(backbone, batch)


def test_features_have_the_widths_that_are_declared(backbone):
    features = described(backbone, pictures(2))
    assert features.shape == (2, sum(FEATURE_GROUPS.values()))
    assert features.dtype == torch.float32
    assert torch.isfinite(features).all()
    assert sum(part.stop - part.start for part in group_slices().values()) == features.shape[1]
    assert set(GROUP_RANKS) == set(FEATURE_GROUPS)
    assert all(GROUP_RANKS[name] <= width for name, width in FEATURE_GROUPS.items())


def test_an_image_is_described_the_same_in_any_batch(backbone):
    batch = pictures(5)
    together = described(backbone, batch)
    torch.testing.assert_close(described(backbone, batch[3:4])[0], together[3], rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(described(backbone, batch.flip(0)).flip(0), together, rtol=1e-3, atol=1e-3)


def test_the_same_pixels_give_the_same_features(backbone):
    assert torch.equal(described(backbone, pictures(3)), described(backbone, pictures(3)))


@pytest.mark.parametrize("value", [0, 128, 255])
def test_an_even_picture_has_finite_features(backbone, value):
    even = torch.full((1, INPUT_SIZE, INPUT_SIZE, 3), value, dtype=torch.uint8)
    assert torch.isfinite(described(backbone, even)).all()


@pytest.mark.parametrize(
    "batch",
    [
        torch.zeros(1, INPUT_SIZE, INPUT_SIZE, 3),
        torch.zeros(1, 3, INPUT_SIZE, INPUT_SIZE, dtype=torch.uint8),
        torch.zeros(1, 32, 32, 3, dtype=torch.uint8),
    ],
)
def test_other_shapes_and_types_are_errors(backbone, batch):
    with pytest.raises(ValueError, match=r"expected uint8 images of shape \(B, 160, 160, 3\)"):
        image_features(backbone, batch)


def test_cielab_of_known_colors():
    rgb = torch.tensor([[1.0, 1, 1], [0, 0, 0], [1, 0, 0], [0, 0, 1]]).T.reshape(1, 3, 2, 2)
    lab = cielab(rgb).reshape(3, 4).T
    expected = torch.tensor([[100.0, 0, 0], [0, 0, 0], [53.24, 80.09, 67.20], [32.30, 79.19, -107.86]])
    torch.testing.assert_close(lab, expected, atol=0.6, rtol=0)


@pytest.mark.parametrize(("row", "column"), [(8, 8), (8, 30), (30, 20)])
def test_the_foreground_is_found_on_a_striped_background(row, column):
    lab = torch.zeros(1, 3, MAP_SIZE, MAP_SIZE)
    lab[:, 0, ::2] = 60
    lab[:, 1, row - 4 : row + 4, column - 4 : column + 4] = 70
    maps = foreground_maps(lab, torch.nn.functional.avg_pool2d(lab, 2))
    found = maps[0, 2] > 0.5
    rows, columns = torch.nonzero(found, as_tuple=True)
    assert abs(rows.float().mean() + 0.5 - row) < 1.5
    assert abs(columns.float().mean() + 0.5 - column) < 1.5
    assert found.sum() < 100


def test_map_statistics_count_pieces():
    maps = torch.zeros(3, 1, MAP_SIZE, MAP_SIZE)
    for picture, count in enumerate((1, 2, 5)):
        for piece in range(count):
            maps[picture, 0, 10:16, 1 + 8 * piece : 6 + 8 * piece] = 1
    statistics = map_statistics(maps)
    # The last four numbers are those of the highest threshold: area, boundary, pieces, area of a piece.
    assert statistics[:, -2].tolist() == [1, 2, 5]
    torch.testing.assert_close(statistics[0, -1], statistics[2, -1], atol=0.05, rtol=0)


def untrained() -> Head:
    torch.manual_seed(1)
    head = Head(hidden=(16, 8), learned=12, identity=4, gate_hidden=8)
    # Fitting the whitening to pictures takes seconds; any directions do for what is tested here.
    head.load_state_dict(
        {
            name: 0.03 * torch.randn_like(tensor) if "basis" in name else tensor
            for name, tensor in head.state_dict().items()
        }
    )
    return head.eval()


def test_head_gives_unit_vectors_that_depend_on_words_and_image():
    head = untrained()
    features, text = torch.randn(3, sum(FEATURE_GROUPS.values())), torch.randn(2, 128)
    with torch.inference_mode():
        vectors = head(features, text)
        alone = head(features[1:2], text[1:])
    assert vectors.shape == (3, 2, head.dim)
    torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(3, 2))
    torch.testing.assert_close(alone[0, 0], vectors[1, 1], rtol=1e-4, atol=1e-5)
    assert (vectors[:, 0] - vectors[:, 1]).abs().max() > 1e-3
    assert (vectors[0] - vectors[1]).abs().max() > 1e-3


def test_a_saved_head_gives_the_same_vectors(tmp_path):
    head = untrained()
    save_head(head, tmp_path / "head.safetensors", MiniTrainingConfig(seed=4, steps=9))
    loaded, metadata = Head.from_file(tmp_path / "head.safetensors")
    features, text = torch.randn(3, sum(FEATURE_GROUPS.values())), torch.randn(2, 128)
    with torch.inference_mode():
        similarity = (head(features, text) * loaded(features, text)).sum(-1)
    assert similarity.min() > 0.9999
    assert metadata["seed"] == "4"
    assert metadata["steps"] == "9"
    assert metadata["feature_version"] == str(FEATURE_VERSION)
    assert float(metadata["recommended_overall_penalty"]) == 0.0


def test_a_head_is_written_the_same_byte_for_byte(tmp_path):
    for name in ("one", "two"):
        save_head(untrained(), tmp_path / name, MiniTrainingConfig())
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_head_for_other_features_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "head.safetensors"
    monkeypatch.setattr("train.mini_training.FEATURE_VERSION", FEATURE_VERSION + 1)
    save_head(untrained(), path, MiniTrainingConfig())
    with pytest.raises(ModelError, match="was made for features of version"):
        Head.from_file(path)


def test_whitening_keeps_the_leading_directions_of_unit_spread():
    torch.manual_seed(0)
    whitening = Whitening()
    features = torch.randn(60, sum(FEATURE_GROUPS.values()))
    part = group_slices()["patterns"]
    features[:, part] = torch.randn(60, 1) @ torch.randn(1, 20) * 3 + 0.1 * torch.randn(60, 20) + 5
    whitening.fit_group(features, "patterns")
    with torch.inference_mode():
        whitened = whitening(features)
    kept = whitened[:, sum(GROUP_RANKS[name] for name in list(GROUP_RANKS)[: list(GROUP_RANKS).index("patterns")]) :]
    kept = kept[:, : GROUP_RANKS["patterns"]]
    assert kept.mean(0).abs().max() < 0.3
    # One direction holds almost all; it comes out large, and the fainter the others are, the smaller they stay.
    spreads = kept.std(0)
    assert spreads[0] > 0.8
    assert (spreads.diff() < 0).all()
    assert spreads[-1] < 0.1


@pytest.mark.parametrize("name", ["patterns", "b10", "b4 grid"])
def test_whitening_of_few_pictures_agrees_with_that_of_many(name):
    torch.manual_seed(0)
    width = FEATURE_GROUPS[name]
    few = torch.zeros(width - 4, sum(FEATURE_GROUPS.values()))
    few[:, group_slices()[name]] = torch.randn(width - 4, 6) @ torch.randn(6, width)
    repeated = few.repeat(2, 1)
    made = []
    for features in (few, repeated):
        whitening = Whitening()
        whitening.fit_group(features, name)
        with torch.inference_mode():
            made.append(whitening(few))
    # Directions may come out mirrored, or turned among faint ones, but distances do not depend on that.
    distances = [torch.cdist(whitened, whitened) for whitened in made]
    torch.testing.assert_close(*distances, rtol=0.05, atol=0.05)
