"""The bundled starter model: any words, any picture, on a CPU and without a download."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from tpips_model.aspects import Aspect, AspectLike, several_aspects
from tpips_model.embedder import images_to_embed
from tpips_model.errors import ModelError
from tpips_model.images import ImageLike, to_rgb
from tpips_model.mini.backbone import EfficientNetLite0
from tpips_model.mini.features import FEATURE_VERSION, INPUT_SIZE, image_features
from tpips_model.mini.head import Head
from tpips_model.mini.tensor_files import TEXT_FILE, WEIGHTS
from tpips_model.mini.text import TextTable
from tpips_model.mini.unfamiliar_words import remark_on_words

__all__ = ["WEIGHTS", "WEIGHT_FILES", "MiniEmbedder", "load", "to_pixels"]

WEIGHT_FILES = ("backbone.safetensors", TEXT_FILE, "head.safetensors")

# Raised whenever to_pixels turns the same image into other pixels.
PREPROCESSING_VERSION = 1
# The words are the whole text; "overall" is a word like others.
PROMPT_TEMPLATE = "{aspect}"

# Enough to keep the convolutions busy; more only costs memory.
_BATCH = 16


class MiniEmbedder:
    """The model "mini", an ``Embedder``: backbone and statistics once per image, a cheap gated head per aspect.

    Args:
        backbone: Turns pixels into maps.
        text: Turns words into vectors.
        head: Turns both into an embedding.
        fingerprint: See ``Embedder``.
        recommended_overall_penalty: See ``Embedder``.
    """

    name = "mini"
    prompt_template = PROMPT_TEMPLATE
    # What `to_pixels` asks of `to_rgb`, for those who decode pictures themselves before they embed them.
    decode_at_least: int | None = 2 * INPUT_SIZE

    def __init__(
        self,
        backbone: EfficientNetLite0,
        text: TextTable,
        head: Head,
        *,
        fingerprint: str,
        recommended_overall_penalty: float = 0.0,
    ) -> None:
        self.dim: int = head.dim
        self.fingerprint = fingerprint
        self.recommended_overall_penalty = recommended_overall_penalty
        self._backbone = backbone
        self._text = text
        self._head = head

    @classmethod
    def from_directory(cls, directory: str | os.PathLike[str] = WEIGHTS) -> MiniEmbedder:
        """Load the three weight files of a directory, such as ``tpips-train mini`` writes.

        Raises:
            ModelError: A file is missing or damaged, or the head was made for other features.
        """
        paths = [Path(directory) / name for name in WEIGHT_FILES]
        backbone = EfficientNetLite0.from_file(paths[0])
        text = TextTable.from_file(paths[1])
        head, metadata = Head.from_file(paths[2])
        return cls(
            backbone,
            text,
            head,
            fingerprint=_fingerprint(paths),
            recommended_overall_penalty=_penalty(metadata.get("recommended_overall_penalty", "0"), paths[2]),
        )

    def embed(self, images: Sequence[ImageLike], aspects: Sequence[AspectLike]) -> NDArray[np.float32]:
        """Embed every image under every aspect; see ``Embedder.embed``.

        Images are squeezed to a square, so a panorama and a portrait of one scene differ little.

        Raises:
            ImageError: An image cannot be read, or they are no list.
            AspectError: An aspect has no word that the model knows; it reads English. Or they are no list.
        """
        images, text = images_to_embed(images), self.encode(aspects)
        vectors = np.empty((len(images), len(text), self.dim), np.float32)
        for start in range(0, len(images), _BATCH):
            features = self.describe(images[start : start + _BATCH])
            vectors[start : start + _BATCH] = self.project(features, text).numpy()
        return vectors

    def encode(self, aspects: Sequence[AspectLike]) -> Tensor:
        """Turn A aspects into the head's float32 (A, 128) word vectors."""
        return torch.from_numpy(self._text.encode([aspect.text for aspect in several_aspects(aspects)]))

    def remark_on(self, aspect: AspectLike) -> str | None:
        """Return what to know of the words of an aspect before trusting its scores, or ``None``; see ``remarks``."""
        return remark_on_words(Aspect.of(aspect).text, self._text.index)

    def describe(self, images: Sequence[ImageLike]) -> Tensor:
        """Turn B images into what the head sees of them, float32 (B, F); aspects play no part in it."""
        pixels = np.stack([to_pixels(image) for image in images])
        with torch.inference_mode():
            return image_features(self._backbone, torch.from_numpy(pixels))

    def project(self, features: Tensor, text: Tensor) -> Tensor:
        """Turn float32 (B, F) of ``describe`` and (A, 128) of ``encode`` into unit vectors, float32 (B, A, D)."""
        with torch.inference_mode():
            vectors: Tensor = self._head(features, text)
            return vectors


def load() -> MiniEmbedder:
    """Load the weights that ship with the package.

    Raises:
        ModelError: A weight file is missing or damaged.
    """
    return MiniEmbedder.from_directory()


def to_pixels(image: ImageLike) -> NDArray[np.uint8]:
    """Turn an image into the model's input: RGB squeezed to a square, uint8 (INPUT_SIZE, INPUT_SIZE, 3).

    Raises:
        ImageError: The image cannot be read.
    """
    # A JPEG may be decoded at a fraction of its size, as long as twice the input's remains to be averaged.
    rgb = to_rgb(image, at_least=MiniEmbedder.decode_at_least)
    resized = rgb.resize((INPUT_SIZE, INPUT_SIZE), Image.Resampling.BILINEAR, reducing_gap=2.0)
    return np.asarray(resized, np.uint8)


def _fingerprint(paths: Sequence[Path]) -> str:
    digest = hashlib.sha256(f"{PREPROCESSING_VERSION} {FEATURE_VERSION} {PROMPT_TEMPLATE}".encode())
    for path in paths:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return f"mini:{digest.hexdigest()[:16]}"


def _penalty(stored: str, path: Path) -> float:
    try:
        penalty = float(stored)
    except ValueError:
        penalty = float("nan")
    if not 0 <= penalty <= 1:
        raise ModelError(f"{path} recommends the overall penalty {stored!r}, expected a number in [0, 1]; reinstall it")
    return penalty
