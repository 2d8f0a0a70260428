"""What an evaluation asks of a model: the vectors of fixed pictures under any words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tpips_model.mini.embedder import MiniEmbedder
from tpips_model.mini.features import group_slices

__all__ = ["View", "backbone_view", "model_view"]

# A words -> float32 (N, A, D), unit rows, of N pictures that the view was made for
View = Callable[[Sequence[str]], NDArray[np.float32]]

_BATCH = 1024


def model_view(model: MiniEmbedder, features: Tensor | NDArray[np.floating]) -> View:
    """Return how a model sees N pictures, given their features (N, F) as ``MiniEmbedder.describe`` returns them."""
    described = torch.as_tensor(features)

    def view(words: Sequence[str]) -> NDArray[np.float32]:
        text = model.encode(words)
        return np.concatenate([model.project(part.float(), text).numpy() for part in described.split(_BATCH)])

    return view


def backbone_view(features: Tensor | NDArray[np.floating]) -> View:
    """Return how the plain backbone sees N pictures: its pooled last layer, the same whatever the words."""
    pooled = torch.as_tensor(features)[:, group_slices()["head"]].float()
    vectors: NDArray[np.float32] = torch.nn.functional.normalize(pooled, dim=1).numpy()

    def view(words: Sequence[str]) -> NDArray[np.float32]:
        return np.repeat(vectors[:, None], len(words), axis=1)

    return view
