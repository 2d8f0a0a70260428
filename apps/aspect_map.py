"""A map of an index under one aspect: pictures that are alike in it lie close together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["FEWEST", "positions"]

# Below this t-SNE has no neighbourhoods to keep.
FEWEST = 8
PERPLEXITY = 15.0
# Half of scikit-learn's, in which a thousand pictures take some seconds; neighbourhoods have settled by then.
STEPS = 500


def positions(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return where pictures lie on a map, float64 (N, 2) in [0, 1]: t-SNE of their vectors, the same every time.

    Both directions are evened out by rank halfway, so that dense places open up and empty ones close.

    Args:
        vectors: float64 (N, D), unit rows; N at least ``FEWEST``.
    """
    # SciPy, which scikit-learn imports, asks a torch that another thread is just importing for what is not in it yet.
    import torch  # noqa: F401
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    # OpenMP's threads spin while they wait for each other: on a busy machine two take twenty times as long as one.
    with threadpool_limits(1, user_api="openmp"):
        flat = TSNE(
            2, perplexity=perplexity, init="pca", max_iter=STEPS, random_state=0
        ).fit_transform(vectors)  # fmt: skip
    spread = flat - flat.min(axis=0)
    spread = spread / np.maximum(spread.max(axis=0), 1e-12)
    ranks = spread.argsort(axis=0).argsort(axis=0) / (len(vectors) - 1)
    even: NDArray[np.float64] = 0.5 * spread + 0.5 * ranks
    return even
