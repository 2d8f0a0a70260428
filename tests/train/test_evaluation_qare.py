"""QARE-Bench: mAP and AIS of embeddings whose ranks can be told by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from tests.fixtures.judges import comparing_judge
from tpips_model.aspects import Aspect
from tpips_model.errors import ModelError
from train.evaluation.evaluate import evaluate_judges
from train.evaluation.judges import EmbeddingJudge, ModelRow
from train.evaluation.qare import QARE_ATTRIBUTES, QareDataError, attribute_precision, load_qare, measure_qare

OBJECTS, BACKGROUNDS, STYLES = (
    ("car", "cat", "dog", "person"),
    ("beach", "forest", "room", "street"),
    ("digital", "oil", "photo"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published layout; a picture's colour tells its three values."""
    root = tmp_path_factory.mktemp("qare")
    place = root / "AttriVerse/A"
    place.mkdir(parents=True)
    for red, thing in enumerate(OBJECTS):
        for green, scene in enumerate(BACKGROUNDS):
            for blue, style in enumerate(STYLES):
                Image.new("RGB", (2, 2), (red, green, blue)).save(place / f"{thing}_{scene}_{style}.png")
    return root


def of_attribute(images: Sequence[Image.Image], aspects: Sequence[Aspect]) -> NDArray[np.floating]:
    """A model without fault: one direction a value, and none is shared by two attributes."""
    vectors = np.zeros((len(images), len(aspects), 3, 4))
    for number, image in enumerate(images):
        values = image.getpixel((0, 0))
        assert isinstance(values, tuple)
        for place, aspect in enumerate(aspects):
            attribute = QARE_ATTRIBUTES.index(aspect.text)
            vectors[number, place, attribute, values[attribute]] = 1
    return vectors.reshape(len(images), len(aspects), -1)


def of_picture(images: Sequence[Image.Image], aspects: Sequence[Aspect]) -> NDArray[np.floating]:
    """A model that hears no words: every picture has one vector, and all pictures are equally far."""
    codes = [values[0] * 12 + values[1] * 3 + values[2] for values in (image.getpixel((0, 0)) for image in images)]  # type: ignore[index]
    return np.repeat(np.eye(48)[codes][:, None], len(aspects), axis=1)


def judge(embed: object) -> EmbeddingJudge:
    return EmbeddingJudge("model", "fake", ModelRow("Late Fusion"), embed)  # type: ignore[arg-type]


def test_the_published_layout_is_read(folder: Path) -> None:
    found = load_qare(folder)
    assert len(found.pictures) == 48
    assert found.values[0] == ("car", "beach", "digital")
    assert load_qare(folder / "AttriVerse/A") == found


def test_a_model_without_fault_reaches_the_ceilings_of_table_5(folder: Path) -> None:
    (figures,) = measure_qare([judge(of_attribute)], load_qare(folder))
    # eleven of twelve pictures with the query's object, and fifteen of sixteen with its style, stand before all others
    assert figures.mean_average_precision == pytest.approx({"object": 11 / 12, "background": 11 / 12, "style": 15 / 16})
    assert figures.overall == pytest.approx((11 / 12 * 2 + 15 / 16) / 3)
    assert figures.intra_image_similarity == pytest.approx(0.0)


def test_a_model_that_hears_no_words_finds_its_own_copies_first(folder: Path) -> None:
    (figures,) = measure_qare([judge(of_picture)], load_qare(folder))
    assert figures.intra_image_similarity == pytest.approx(1.0)
    # Two copies of the query come first, all 141 others tie: a hit's precision is 11 (15) of 143.
    assert figures.mean_average_precision == pytest.approx(
        {"object": 11 * 11 / 143 / 12, "background": 11 * 11 / 143 / 12, "style": 15 * 15 / 143 / 16}
    )


def test_ranks_told_by_hand() -> None:
    # three pictures, two attributes; under the first the query 0 is nearest to 2 (another value), then to 1 (its own)
    angles = np.array([[0.0, 1.5], [0.6, 1.5], [0.3, 1.5]])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    values = [("x", "u"), ("x", "v"), ("y", "u")]
    # query 0: ranks 2, 1, then the other attribute: precision at its hit 1/2; query 1 alike; query 2 has no other hit
    assert attribute_precision(vectors, values, 0) == pytest.approx((1 / 2 / 2 + 1 / 2 / 2 + 0) / 3)


def test_pictures_are_decoded_once_and_comparing_models_left_out(folder: Path) -> None:
    found = evaluate_judges([judge(of_attribute), judge(of_picture)], [], qare=[load_qare(folder)])
    assert [figures.pictures for figures in found.qare] == [48, 48]
    with pytest.raises(
        ModelError, match=r"the data hold no judgements, and QARE-Bench needs a model that makes vectors"
    ):
        evaluate_judges([comparing_judge()], [], qare=[load_qare(folder)])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], r"holds no pictures; QARE-Bench's are {object}_{background}_{style}\.png"),
        (
            ["car_beach_oil.png", "car_beach.png"],
            r"car_beach\.png: the name must be {object}_{background}_{style}\.png",
        ),
        (["car_beach_oil.png", "cat_beach_photo.png"], "share one value of an attribute"),
    ],
)
def test_other_folders_are_refused(tmp_path: Path, names: list[str], message: str) -> None:
    for name in names:
        Image.new("RGB", (2, 2)).save(tmp_path / name)
    with pytest.raises(QareDataError, match=message):
        load_qare(tmp_path)
    with pytest.raises(QareDataError, match="there is no folder"):
        load_qare(tmp_path / "nowhere")
