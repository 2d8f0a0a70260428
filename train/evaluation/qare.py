"""QARE-Bench (synthetic): is an image's object, background or style found by the words for it, and for no other?

Table 5 of the paper; the benchmark of Wei et al., "Towards Text-Guided Attribute-Disentangled Multimodal
Representation Learning" (CVPR 2026 Findings). The published layout (data set card of ``sudeepk/QARE-Bench`` on the
Hugging Face hub) is accepted as it is: ``AttriVerse/A/{object}_{background}_{style}.png``, 48 pictures of 4 objects ×
4 backgrounds × 3 styles. The folder given may be the data set's or the pictures' own; other values and numbers of
pictures are welcome.

mAP, as the benchmark's published evaluation ranks: the candidates are all pictures under all three attributes, so that
a picture's own vector under another attribute is the nearest distractor; relevant are the pictures with the query's
value, under the query's attribute. The query itself is not ranked, yet counts among the relevant ones: so reads the
91.7 = 11/12 that many rows of Table 5 share, the highest mAP for an object or a background (a style's is 15/16 = 93.8).
AIS ("average intra-image similarity") is the mean cosine between the vectors of one picture under two attributes.

The paper does not say which words it gave for the attributes; here they are "object", "background" and "style".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tpips_model.aspects import Aspect
from tpips_model.errors import TpipsError
from train.evaluation.judges import EmbeddingJudge, Judge
from train.judgements.picture_sources import FilePicture

__all__ = ["QARE_ATTRIBUTES", "QareDataError", "QareFigures", "QareSet", "load_qare", "measure_qare"]

# In the order in which a file's name gives their values.
QARE_ATTRIBUTES = ("object", "background", "style")
PICTURES_FOLDER = Path("AttriVerse") / "A"
SUFFIXES = (".png", ".jpg", ".jpeg")


class QareDataError(TpipsError):
    """A folder that does not hold QARE-Bench's pictures."""


@dataclass(frozen=True)
class QareSet:
    """Pictures and the three values of each.

    Attributes:
        pictures: N pictures.
        values: For each its object, background and style.
    """

    pictures: tuple[FilePicture, ...]
    values: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class QareFigures:
    """One model's row of Table 5.

    Attributes:
        model: Its name.
        mean_average_precision: For each of ``QARE_ATTRIBUTES`` its mAP, in [0, 1].
        intra_image_similarity: AIS, in [−1, 1].
        pictures: N.
    """

    model: str
    mean_average_precision: dict[str, float]
    intra_image_similarity: float
    pictures: int

    @property
    def overall(self) -> float:
        """The mean over the attributes, Table 5's column "all"."""
        return float(np.mean(list(self.mean_average_precision.values())))


def load_qare(folder: Path) -> QareSet:
    """Find the pictures of QARE-Bench, unopened.

    Raises:
        QareDataError: There is no such folder, it holds no pictures, a name has not three parts, or every picture has
            the same value.
    """
    place = folder / PICTURES_FOLDER if (folder / PICTURES_FOLDER).is_dir() else folder
    if not place.is_dir():
        raise QareDataError(f"there is no folder {folder}; give the one that holds {PICTURES_FOLDER}")
    files = sorted(file for file in place.iterdir() if file.suffix.lower() in SUFFIXES)
    if not files:
        raise QareDataError(f"{place} holds no pictures; QARE-Bench's are {{object}}_{{background}}_{{style}}.png")
    values = []
    for file in files:
        parts = file.stem.split("_")
        if len(parts) != len(QARE_ATTRIBUTES) or not all(parts):
            raise QareDataError(f"{file}: the name must be {{object}}_{{background}}_{{style}}{file.suffix}")
        values.append((parts[0], parts[1], parts[2]))
    if any(len({row[place] for row in values}) < 2 for place in range(len(QARE_ATTRIBUTES))):
        raise QareDataError(f"the pictures in {place} share one value of an attribute; there is nothing to tell apart")
    return QareSet(tuple(FilePicture(str(file.resolve()), file.name) for file in files), tuple(values))


def measure_qare(judges: Sequence[Judge], data: QareSet) -> list[QareFigures]:
    """Measure every model that makes vectors; the others cannot rank across attributes. Each picture is decoded once.

    Raises:
        ImageError: A picture cannot be read.
    """
    embedders = [judge for judge in judges if isinstance(judge, EmbeddingJudge)]
    images = [picture.load() for picture in data.pictures] if embedders else []
    return [_measure(judge, images, data) for judge in embedders]


def _measure(judge: EmbeddingJudge, images: Sequence[Image.Image], data: QareSet) -> QareFigures:
    vectors = np.asarray(judge.embed(images, [Aspect(name) for name in QARE_ATTRIBUTES]), dtype=np.float64)
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    return QareFigures(
        judge.name,
        {name: attribute_precision(vectors, data.values, place) for place, name in enumerate(QARE_ATTRIBUTES)},
        intra_image_similarity(vectors),
        len(images),
    )


def attribute_precision(vectors: NDArray[np.float64], values: Sequence[Sequence[str]], attribute: int) -> float:
    """Return the mean average precision of queries under one attribute.

    Args:
        vectors: float64 (N, A, D), unit length: N pictures under A attributes.
        values: For each picture its A values.
        attribute: Which of them is queried.
    """
    count, attributes, _ = vectors.shape
    own = np.array([row[attribute] for row in values])
    # Rounded, so that equal vectors tie whatever the order of a sum.
    scores = np.einsum("qd,nad->qna", vectors[:, attribute], vectors).round(12)
    precisions = []
    for query in range(count):
        relevant = np.zeros((count, attributes), dtype=bool)
        relevant[:, attribute] = own == own[query]
        ranked = np.ones((count, attributes), dtype=bool)
        ranked[query, attribute] = False
        precisions.append(average_precision(scores[query][ranked], relevant[ranked], relevant=int(relevant.sum())))
    return float(np.mean(precisions))


def average_precision(scores: NDArray[np.float64], hits: NDArray[np.bool_], *, relevant: int) -> float:
    """Return Σ precision at each hit over the number of relevant ones; what ties shares the precision at its end.

    Args:
        scores: float64 (N,), higher is earlier.
        hits: bool (N,), which are relevant.
        relevant: How many are, ranked or not.

    Examples:
        >>> average_precision(np.array([0.9, 0.8, 0.1]), np.array([True, False, True]), relevant=2)
        0.8333333333333333
        >>> average_precision(np.array([0.5, 0.5]), np.array([True, False]), relevant=1)
        0.5
    """
    order = np.argsort(-scores, kind="stable")
    ordered, found = scores[order], hits[order]
    ends = np.searchsorted(-ordered, -ordered, side="right")  # of each tie, how many stand at or above it
    return float((np.cumsum(found)[ends - 1] / ends)[found].sum() / relevant)


def intra_image_similarity(vectors: NDArray[np.float64]) -> float:
    """Return AIS: the mean cosine between the vectors of one picture under two attributes, (N, A, D) of unit length."""
    pairs = list(combinations(range(vectors.shape[1]), 2))
    return float(np.mean([(vectors[:, a] * vectors[:, b]).sum(-1).mean() for a, b in pairs]))
