"""The metric interface, over an embedder that needs no model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from tpips_model.aspects import Aspect, AspectLike
from tpips_model.embedder import Embedder
from tpips_model.errors import AspectError, ImageError, ModelError
from tpips_model.images import ImageLike, to_rgb
from tpips_model.metric import (
    EmbedderMetric,
    Metric,
    as_batch,
    as_metric,
    asked_aspects,
    pair_images,
    similarity_matrix,
)


class MeanColourEmbedder:
    """Vectors that follow an image's mean colour, turned by the aspect; counts how many images it saw."""

    name, dim, fingerprint, prompt_template, recommended_overall_penalty = "mean-colour", 3, "mean:1", "{aspect}", 0.0
    decode_at_least: int | None = None

    def __init__(self) -> None:
        self.seen = 0

    def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> np.ndarray:
        self.seen += len(images)
        means = np.stack([np.asarray(to_rgb(image), dtype=np.float32).mean((0, 1)) + 1 for image in images])
        turned = np.stack([np.roll(means, len(str(aspect)), 1) * [1, 2, 3] for aspect in aspects], axis=1)
        return (turned / np.linalg.norm(turned, axis=-1, keepdims=True)).astype(np.float32)


def pictures(n: int, seed: int = 0) -> list[np.ndarray]:
    colours = np.random.default_rng(seed).integers(0, 256, (n, 1, 1, 3), dtype=np.uint8)
    return [np.tile(colour, (4, 5, 1)) for colour in colours]


@pytest.fixture
def metric() -> EmbedderMetric:
    return EmbedderMetric(MeanColourEmbedder())


def test_shapes_of_the_interface(metric: EmbedderMetric) -> None:
    x, y, z = pictures(3)
    assert metric.similarity(x, y).shape == ()
    assert metric.similarity(x, [y, z]).shape == (2,)
    assert metric.similarity([x, y], z).shape == (2,)
    assert metric.similarity([x], [y]).shape == (1,)
    assert metric.similarity(np.stack([x, y]), [y, z], "light").shape == (2,)
    assert metric.similarity(x, y, ["light", "overall"]).shape == (2,)
    assert metric.similarity(x, [y, z, x], ["light", "overall"]).shape == (2, 3)
    assert metric.similarity(x, y).dtype == torch.float32


def test_every_pair_and_aspect_stands_in_its_place(metric: EmbedderMetric) -> None:
    a, b = pictures(3, 1), pictures(3, 2)
    aspects = ["x", "xy", "xyz"]
    scores = metric.similarity(a, b, aspects)
    for row, aspect in enumerate(aspects):
        for column in range(3):
            torch.testing.assert_close(scores[row, column], metric.similarity(a[column], b[column], Aspect(aspect)))
    torch.testing.assert_close(metric.distance(a, b, aspects), 1 - scores)


def test_matrix_equals_single_pairs_and_embeds_each_image_once() -> None:
    embedder = MeanColourEmbedder()
    a, b = pictures(3, 1), pictures(4, 2)
    matrix = similarity_matrix(embedder, a, b, ["x", "xy"])
    assert embedder.seen == 7
    assert matrix.shape == (2, 3, 4)
    assert similarity_matrix(embedder, a, b).shape == (3, 4)
    torch.testing.assert_close(matrix[1, 2, 3], EmbedderMetric(embedder).similarity(a[2], b[3], "xy"))


def test_an_image_given_twice_is_kept_once() -> None:
    x, y = pictures(2)
    pairs = pair_images([x, y, x], x)
    assert (pairs.left, pairs.right, pairs.shape) == ((0, 1, 0), (0, 0, 0), (3,))
    assert len(pairs.images) == 2


def test_what_counts_as_a_batch() -> None:
    assert as_batch(np.zeros((2, 4, 4, 3)))[1]
    assert len(as_batch(torch.zeros(2, 3, 4, 4))[0]) == 2
    assert as_batch(("a.png",)) == (["a.png"], True)
    assert as_batch("a.png") == (["a.png"], False)
    assert not as_batch(np.zeros((4, 4, 3)))[1]
    assert not as_batch(b"bytes of a picture")[1]


def test_unequal_and_empty_batches_are_refused(metric: EmbedderMetric) -> None:
    x = pictures(4)
    with pytest.raises(ImageError, match="a holds 2 images and b 3"):
        metric.similarity(x[:2], x[:3])
    with pytest.raises(ImageError, match="a holds 1 images and b 3"):
        metric.similarity(x[:1], x[:3])
    with pytest.raises(ImageError, match="'b' is empty"):
        metric.similarity(x[0], [])


def test_aspects_are_checked() -> None:
    assert asked_aspects("light") == ((Aspect("light"),), False)
    assert asked_aspects(["light"]) == ((Aspect("light"),), True)
    with pytest.raises(AspectError, match="no aspect was given"):
        asked_aspects([])
    with pytest.raises(AspectError, match="asked for twice"):
        asked_aspects(["light", "light"])


def test_as_metric_takes_metrics_and_embedders_only(metric: EmbedderMetric) -> None:
    assert isinstance(metric, Metric)
    assert isinstance(metric.embedder, Embedder)
    assert as_metric(metric) is metric
    assert isinstance(as_metric(MeanColourEmbedder()), EmbedderMetric)
    with pytest.raises(ModelError, match="dict has neither"):
        as_metric({})  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="no-such-model"):
        as_metric("no-such-model")
