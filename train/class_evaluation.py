"""Retrieval by "subject" among pictures in class folders, against the plain backbone."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tpips_model.errors import TpipsError
from tpips_model.images import IMAGE_SUFFIXES
from train.retrieval_views import View

__all__ = ["ClassFolder", "find_classes", "same_class_share"]

# A picture with fewer companions could not fill half of its first five hits.
SMALLEST_CLASS = 4
HITS = 5


@dataclass(frozen=True)
class ClassFolder:
    """Pictures and what they show.

    Attributes:
        paths: N picture files.
        classes: For each, the folder that holds it.
    """

    paths: Sequence[Path]
    classes: Sequence[str]


def find_classes(folder: str | os.PathLike[str]) -> ClassFolder:
    """Find pictures below a folder, the folder that directly holds a picture being its class.

    Classes with fewer than SMALLEST_CLASS pictures are left out.

    Raises:
        TpipsError: There are fewer than two classes.
    """
    root = Path(folder)
    paths = sorted(path for path in root.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES)
    classes = [path.parent.relative_to(root).as_posix() for path in paths]
    sizes = Counter(classes)
    kept = [number for number, name in enumerate(classes) if sizes[name] >= SMALLEST_CLASS]
    if len({classes[number] for number in kept}) < 2:
        raise TpipsError(
            f"{folder} must hold two or more folders with {SMALLEST_CLASS} or more images each, one folder per class; "
            f"found {dict(sizes) or 'no images'}"
        )
    return ClassFolder([paths[number] for number in kept], [classes[number] for number in kept])


def same_class_share(view: View, classes: Sequence[str], words: Sequence[str]) -> float:
    """Return the share of the same class among every picture's first five hits, averaged over the words.

    Args:
        view: Of the pictures.
        classes: N class names.
        words: How to ask, such as "subject".
    """
    labels = np.array(classes)
    vectors = view(words).transpose(1, 0, 2)
    scores = vectors @ vectors.transpose(0, 2, 1)
    scores[:, np.arange(len(labels)), np.arange(len(labels))] = -np.inf
    hits = np.argsort(-scores, axis=2, kind="stable")[..., :HITS]
    return float((labels[hits] == labels[None, :, None]).mean())
