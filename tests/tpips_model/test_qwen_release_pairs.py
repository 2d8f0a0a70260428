"""Mid and early fusion agree with what the authors' release computes from the same checkpoints.

The checkpoints and numbers are not part of this repository; where the folder is absent there is nothing to compare.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from tpips_model.loading import load_model
from tpips_model.metric import similarity_matrix

RELEASE = Path(__file__).resolve().parents[3] / "shared" / "spec" / "tiny"

pytestmark = pytest.mark.skipif(not RELEASE.is_dir(), reason="the release's tiny checkpoints are not here")
# bfloat16: the release's own difference between one image and a batch is 6e-3.
TOLERANCES = {"float32": 2e-4, "bfloat16": 1e-2}
TAGS = {"float32": "fp32", "bfloat16": "bf16"}


@pytest.fixture(scope="module")
def reference() -> dict[str, np.ndarray]:
    with np.load(RELEASE / "reference.npz", allow_pickle=False) as arrays:
        return dict(arrays)


def matrix(kind: str, dtype: str, reference: dict[str, np.ndarray], aspects: list[str]) -> np.ndarray:
    images = [RELEASE / "images" / f"{name}.png" for name in reference["image_names"]]
    model = load_model(RELEASE / kind, device="cpu", dtype=dtype)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="mid fusion compares images of one size")
        return similarity_matrix(model, images, images, aspects).double().numpy()


def expected_and_found(
    kind: str, dtype: str, array: str, reference: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the release's numbers and our similarities; bfloat16, slow on a CPU, under the last aspect alone."""
    aspects = [str(aspect) for aspect in reference["aspects"]]
    first = 0 if dtype == "float32" else len(aspects) - 1
    expected = reference[f"{kind}_{TAGS[dtype]}_{array}"][first:]
    return expected, matrix(kind, dtype, reference, aspects[first:])


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_early_fusion_agrees(dtype: str, reference: dict[str, np.ndarray]) -> None:
    expected, found = expected_and_found("early_fusion", dtype, "similarity", reference)
    np.testing.assert_allclose(found, expected, atol=TOLERANCES[dtype], rtol=0)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_mid_fusion_agrees(dtype: str, reference: dict[str, np.ndarray]) -> None:
    expected, found = expected_and_found("activation_dist", dtype, "distance", reference)
    np.testing.assert_allclose(-found, expected, atol=TOLERANCES[dtype], rtol=0)


def test_early_fusion_of_the_release_is_symmetric_in_float64(reference: dict[str, np.ndarray]) -> None:
    images = [RELEASE / "images" / f"{name}.png" for name in reference["image_names"]]
    model = load_model(RELEASE / "early_fusion", device="cpu", dtype="float32").double()
    scores = similarity_matrix(model, images, images, ["lighting"])[0]
    assert (scores - scores.T).abs().max() <= 1e-9
    assert (scores.diagonal() - 1).abs().max() <= 1e-9
