"""The metric interface: two images and an aspect in, a similarity and a distance out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tpips_model.aspects import OVERALL, Aspect, AspectLike, several_aspects, unique_aspects
from tpips_model.embedder import Embedder
from tpips_model.errors import AspectError, ImageError, ModelError
from tpips_model.images import ImageLike

if TYPE_CHECKING:
    import torch

__all__ = [
    "EmbedderMetric",
    "ImagePairs",
    "Images",
    "Metric",
    "as_batch",
    "as_metric",
    "asked_aspects",
    "grad_if_asked",
    "metric_call",
    "pair_images",
    "similarity_matrix",
]

Images = ImageLike | Sequence[ImageLike]


@runtime_checkable
class Metric(Protocol):
    """A text-conditioned similarity f(x₁, x₂ | c) and its distance (section 4.2).

    Late and early fusion: similarity in [−1, 1] (a cosine) and distance = 1 − similarity. Mid fusion: distance ≥ 0
    and similarity = −distance. In every model a higher similarity is closer; values of different models cannot be
    compared with one another.

    Attributes:
        name: What ``load_model`` takes to load this model again.
    """

    name: str

    def similarity(self, a: Images, b: Images, aspect: AspectLike | Sequence[AspectLike] = OVERALL) -> torch.Tensor:
        """Return how similar a is to b under each aspect.

        Args:
            a: An image, or a batch of B images: a list or tuple, or a 4-d array or tensor. A torch tensor is
                (3, H, W) or (B, 3, H, W), float in [0, 1]; if it requires a gradient, the result carries it back, so
                that the metric can serve as a loss.
            b: As ``a``. Two batches are paired in order; a single image is paired with every image of a batch.
            aspect: One aspect, or a sequence of A aspects.

        Returns:
            float32 (), or (B,) if a or b is a batch; with a sequence of aspects (A,) or (A, B).

        Raises:
            ImageError: An image cannot be read, or the batches differ in length.
            AspectError: An aspect that is no words, or an empty sequence of them.
        """
        ...

    def distance(self, a: Images, b: Images, aspect: AspectLike | Sequence[AspectLike] = OVERALL) -> torch.Tensor:
        """Return how far a is from b under each aspect; arguments, shapes and errors as in ``similarity``."""
        ...


@dataclass(frozen=True)
class ImagePairs:
    """Images and which of them form pairs; an image that stands in several pairs is there once.

    Attributes:
        images: N images.
        left: For each of P pairs the index of its first image.
        right: For each of P pairs the index of its second image.
        shape: What the caller sees instead of (P,): () for two single images.
    """

    images: tuple[ImageLike, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    shape: tuple[int, ...]

    def shaped(self, scores: torch.Tensor, *, many_aspects: bool) -> torch.Tensor:
        """Bring scores (A, P) to the shape promised by ``Metric.similarity``.

        Raises:
            ModelError: They are not finite.
        """
        check_finite(scores)
        scores = scores.reshape(len(scores), *self.shape)
        return scores if many_aspects else scores[0]


def check_finite(scores: torch.Tensor) -> None:
    """Refuse scores that compare with nothing.

    Raises:
        ModelError: They are not finite.
    """
    if not bool(scores.isfinite().all()):
        raise ModelError(
            "the model gave scores that are not finite: load it with dtype='bfloat16' or 'float32', and if that does "
            "not help, its weights are damaged"
        )


def as_batch(images: Images, *, what: str = "images") -> tuple[list[ImageLike], bool]:
    """Return the images as a list, and whether they were given as a batch.

    A list, a tuple, and an array or tensor of four dimensions (its first axis) are batches; all else is one image.

    Raises:
        ImageError: The batch is empty, or a nested tensor.
    """
    if getattr(images, "is_nested", False):
        raise ImageError(f"the batch {what!r} is a nested tensor; give a list of tensors")
    is_batch = isinstance(images, (list, tuple)) or getattr(images, "ndim", 0) == 4
    batch: list[Any] = list(images) if is_batch else [images]  # type: ignore[arg-type]
    if not batch:
        raise ImageError(f"the batch {what!r} is empty; give at least one image")
    return batch, is_batch


def pair_images(a: Images, b: Images) -> ImagePairs:
    """Pair two batches in order, or one image with every image of a batch.

    Raises:
        ImageError: A batch is empty, or the two differ in length and neither is one image.

    Examples:
        >>> pairs = pair_images("reference.png", ["one.png", "two.png"])
        >>> pairs.images, pairs.left, pairs.right, pairs.shape
        (('reference.png', 'one.png', 'two.png'), (0, 0), (1, 2), (2,))
    """
    (firsts, many_a), (seconds, many_b) = as_batch(a, what="a"), as_batch(b, what="b")
    if not many_a:
        firsts = firsts * len(seconds)
    elif not many_b:
        seconds = seconds * len(firsts)
    if len(firsts) != len(seconds):
        raise ImageError(
            f"a holds {len(firsts)} images and b {len(seconds)}; they are paired in order, so give equally many, "
            "or a single image (not in a list) on one side"
        )
    indices: dict[int, int] = {}
    images: list[ImageLike] = []
    for image in (*firsts, *seconds):
        if id(image) not in indices:
            indices[id(image)] = len(images)
            images.append(image)
    shape = (len(firsts),) if many_a or many_b else ()
    left, right = (tuple(indices[id(image)] for image in side) for side in (firsts, seconds))
    return ImagePairs(tuple(images), left, right, shape)


def asked_aspects(aspect: AspectLike | Sequence[AspectLike]) -> tuple[tuple[Aspect, ...], bool]:
    """Return the aspects asked for, in their order, and whether they were given as a sequence.

    Raises:
        AspectError: No words, an empty sequence, or one aspect asked for twice.
    """
    if isinstance(aspect, (str, Aspect)):
        return (Aspect.of(aspect),), False
    asked = several_aspects(aspect)
    if not asked:
        raise AspectError("no aspect was given; give words such as 'brushwork', or 'overall' for no condition")
    if len(unique_aspects(asked)) != len(asked):
        raise AspectError(f"an aspect is asked for twice: {', '.join(map(str, asked))}; name each once")
    return asked, True


@contextmanager
def grad_if_asked(images: Iterable[ImageLike]) -> Iterator[None]:
    """Record the graph only if an image requires a gradient, so that plain use costs no memory for it."""
    import torch

    asked = any(isinstance(image, torch.Tensor) and image.requires_grad for image in images)
    with torch.set_grad_enabled(asked and torch.is_grad_enabled()):
        yield


@contextmanager
def metric_call(model: torch.nn.Module, images: Iterable[ImageLike]) -> Iterator[None]:
    """Score in evaluation mode, whatever the mode, as in ``grad_if_asked``; every part's mode is put back."""
    in_training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with grad_if_asked(images):
            yield
    finally:
        for module in in_training:
            module.training = True


class EmbedderMetric:
    """The metric of any embedder: the cosine of the two vectors (late fusion, section 4.2).

    It works through ``Embedder.embed``, which returns numpy, so no gradient reaches the images. A model with a
    ``similarity`` of its own, such as ``LateFusion``, is used as it is by ``as_metric``.
    """

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self.name = embedder.name

    def similarity(self, a: Images, b: Images, aspect: AspectLike | Sequence[AspectLike] = OVERALL) -> torch.Tensor:
        """Return the cosines, float32 in [−1, 1]; arguments, shapes and errors as in ``Metric.similarity``."""
        import torch

        pairs = pair_images(a, b)
        aspects, many = asked_aspects(aspect)
        vectors = torch.from_numpy(self.embedder.embed(pairs.images, aspects))
        cosines = (vectors[list(pairs.left)] * vectors[list(pairs.right)]).sum(-1).clamp(-1.0, 1.0)
        return pairs.shaped(cosines.T, many_aspects=many)

    def distance(self, a: Images, b: Images, aspect: AspectLike | Sequence[AspectLike] = OVERALL) -> torch.Tensor:
        """Return 1 − similarity, float32 in [0, 2]."""
        return 1.0 - self.similarity(a, b, aspect)


def as_metric(model: Metric | Embedder | str) -> Metric:
    """Return a metric for a model, an embedder, or a name that ``load_model`` takes.

    Raises:
        ModelError: Nothing of the three.
    """
    if isinstance(model, str):
        from tpips_model.loading import load_model

        return as_metric(load_model(model))
    if isinstance(model, Metric):
        return model
    if isinstance(model, Embedder):
        return EmbedderMetric(model)
    raise ModelError(
        f"a metric is needed, but {type(model).__name__} has neither similarity and distance nor embed; "
        "give what load_model returns, or a model's name"
    )


def similarity_matrix(
    metric: Metric | Embedder | str,
    a: Images,
    b: Images,
    aspect: AspectLike | Sequence[AspectLike] = OVERALL,
) -> torch.Tensor:
    """Return the similarity of every image of a to every image of b.

    Args:
        metric: A metric, an embedder, or a model's name.
        a: N images, as a list or a 4-d array or tensor.
        b: M images.
        aspect: One aspect, or a sequence of A aspects.

    Returns:
        float32 (N, M), or (A, N, M) with a sequence of aspects.
    """
    rows, _ = as_batch(a, what="a")
    columns, _ = as_batch(b, what="b")
    # The same objects are repeated, so that pair_images keeps each image once.
    firsts = [row for row in rows for _ in columns]
    scores = as_metric(metric).similarity(firsts, columns * len(rows), aspect)
    return scores.unflatten(-1, (len(rows), len(columns)))
