"""One reference, several candidates, several aspects: which candidate is closest in which sense (Figure 1)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tpips_model.aspects import Aspect, AspectLike
from tpips_model.embedder import Embedder
from tpips_model.errors import ImageError
from tpips_model.images import ImageLike
from tpips_model.metric import Images, Metric, as_batch, as_metric, asked_aspects

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True)
class Comparison:
    """The similarity of every candidate to the reference under every aspect.

    Attributes:
        aspects: A aspects, the rows.
        names: N names of candidates, the columns.
        similarity: float32 (A, N), higher is closer; the range is the metric's. Rows of different aspects need not
            share a scale: compare within a row.
    """

    aspects: tuple[Aspect, ...]
    names: tuple[str, ...]
    similarity: NDArray[np.float32]

    @property
    def closest(self) -> dict[str, str]:
        """For each aspect the name of the most similar candidate, the first of equal ones."""
        return {
            aspect.text: self.names[best]
            for aspect, best in zip(self.aspects, self.similarity.argmax(axis=1), strict=True)
        }

    def records(self) -> list[dict[str, Any]]:
        """Return one record per cell: aspect, candidate, similarity, and its rank in the row from 1 (closest)."""
        ranks = (-self.similarity).argsort(axis=1, kind="stable").argsort(axis=1) + 1
        return [
            {"aspect": aspect.text, "candidate": name, "similarity": float(score), "rank": int(rank)}
            for aspect, scores, row in zip(self.aspects, self.similarity, ranks, strict=True)
            for name, score, rank in zip(self.names, scores, row, strict=True)
        ]

    def to_table(self, *, digits: int = 3) -> Table:
        """Return a table for ``rich.print``, the closest candidate of each row in bold."""
        from rich.markup import escape
        from rich.table import Table

        table = Table("aspect", *[escape(name) for name in self.names])
        for aspect, cells in zip(self.aspects, self._cells(digits, "[bold]{}[/bold]"), strict=True):
            table.add_row(escape(aspect.text), *cells)
        return table

    def to_markdown(self, *, digits: int = 3) -> str:
        """Return a Markdown table, the closest candidate of each row in bold."""
        rows = [["aspect", *self.names], ["---"] + ["---:"] * len(self.names)]
        cells = self._cells(digits, "**{}**")
        rows += [[aspect.text, *row] for aspect, row in zip(self.aspects, cells, strict=True)]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)

    def __str__(self) -> str:
        return self.to_markdown()

    def _cells(self, digits: int, emphasis: str) -> list[list[str]]:
        best = self.similarity.argmax(axis=1)
        return [
            [emphasis.format(f"{x:.{digits}f}") if n == best[a] else f"{x:.{digits}f}" for n, x in enumerate(row)]
            for a, row in enumerate(self.similarity)
        ]


def compare(
    reference: ImageLike,
    candidates: Images,
    aspects: Sequence[AspectLike],
    *,
    metric: Metric | Embedder | str = "mini",
    names: Sequence[str] | None = None,
) -> Comparison:
    """Compare one image with several under several aspects, the table of the paper's Figure 1.

    Args:
        reference: The image compared with.
        candidates: N images, as a list or a 4-d array or tensor.
        aspects: A aspects.
        metric: A metric, an embedder, or a name that ``load_model`` takes.
        names: N names for the columns. By default the file's name, or ``candidate 1``, ``candidate 2``, …

    Raises:
        ImageError: An image cannot be read, or the number of names is not that of the candidates.
        AspectError: An aspect is no words.

    Examples:
        >>> import numpy as np
        >>> blue, red = (np.full((64, 64, 3), colour, np.uint8) for colour in ((20, 40, 200), (200, 30, 20)))
        >>> compare(blue, [red, blue], ["color palette"], names=["red", "blue"]).closest
        {'color palette': 'blue'}
    """
    import torch

    images, _ = as_batch(candidates, what="candidates")
    if names is not None and len(names) != len(images):
        raise ImageError(f"{len(names)} names were given for {len(images)} candidates; give one each")
    asked, _ = asked_aspects(aspects)
    with torch.no_grad():
        scores = as_metric(metric).similarity(reference, images, list(asked))
    shown = tuple(names) if names is not None else tuple(_name(image, n) for n, image in enumerate(images, start=1))
    return Comparison(asked, shown, scores.float().cpu().numpy())


def _name(image: ImageLike, number: int) -> str:
    return Path(image).name if isinstance(image, (str, os.PathLike)) else f"candidate {number}"
