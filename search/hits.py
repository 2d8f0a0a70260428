"""The results of a query."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from indexer import IndexDirectory
from search.query_image import QueryImage
from search.small_pictures import item_thumbnail
from tpips_model.aspects import Aspect
from tpips_model.images import to_rgb

if TYPE_CHECKING:
    import pandas

__all__ = ["Hit", "Hits", "LiveFacts", "QueryFacts", "QueryTerm"]


@dataclass(frozen=True, eq=False)
class QueryTerm:
    """A term as the index understood it.

    Attributes:
        label: What to call its image: the key, or the file's name.
        aspect: The aspect, in the words that are indexed.
        weight: The weight.
    """

    label: str
    aspect: Aspect
    weight: float
    source: QueryImage = field(repr=False)

    def image(self, *, at_least: int | None = None) -> Image.Image:
        """Return the term's image as RGB, as ``Hit.image`` does.

        Raises:
            TpipsError: The item's picture cannot be read any more.
        """
        return self.source.image(at_least=at_least)

    def thumbnail(self, side: int) -> bytes:
        """Return the term's image as ``Hit.thumbnail`` does.

        Raises:
            TpipsError: The item's picture cannot be read any more, and has no thumbnail.
        """
        return self.source.thumbnail(side)


@dataclass(frozen=True, eq=False)
class Hit:
    """One result.

    Attributes:
        key: The item's key.
        score: Σ of the contributions: a weighted sum of inner products of unit vectors, not normalised. One term of
            weight 1 without penalty gives the cosine similarity, in [-1, 1].
        contributions: What each term adds to the score, in the order of the terms: w(f_aspect − λ·f_overall).
        row: The item's row in the index.
        metadata: The columns that came with the data.
        rank: Its place in the whole answer, from 1; a second page counts on from the first.
        duplicates: The keys of the near-duplicates that it stands for, the best first, if they were collapsed.
    """

    key: str
    score: float
    contributions: tuple[float, ...]
    row: int
    metadata: Mapping[str, Any]
    rank: int
    duplicates: tuple[str, ...]
    record: Mapping[str, Any] = field(repr=False)
    index: IndexDirectory = field(repr=False)

    def image(self, *, at_least: int | None = None) -> Image.Image:
        """Return the item's picture as RGB, upright.

        Args:
            at_least: If given, a JPEG may come smaller, with both sides of at least this many pixels; much faster.

        Raises:
            IndexDirectoryError: It is no longer where it was when it was indexed.
            ImageError: It cannot be decoded.
        """
        return to_rgb(self.index.item_bytes(self.record), at_least=at_least)

    def thumbnail(self, side: int) -> bytes:
        """Return the picture as an upright JPEG of at most ``side`` pixels a side: the index's thumbnail if it will do.

        Raises:
            IndexDirectoryError: It is no longer where it was when it was indexed, and has no thumbnail.
            ImageError: It cannot be decoded, and has no thumbnail.
        """
        return item_thumbnail(self.index, self.row, self.record, side)


@dataclass(frozen=True)
class LiveFacts:
    """How a query by words that are not indexed was answered.

    Attributes:
        aspects: The words.
        of: How many items there were, of which the likeliest were looked at.
        unreadable: How many more would have been looked at, but their pictures could not be read.
    """

    aspects: tuple[str, ...]
    of: int
    unreadable: int


@dataclass(frozen=True, eq=False)
class QueryFacts:
    """What a query asked, and how it was answered; ``Hits`` describes each."""

    terms: tuple[QueryTerm, ...]
    overall_penalty: float
    total: int
    where: str | None
    selected: int
    offset: int
    min_score: float | None
    dedupe: float | None
    exact: bool
    rescored: int
    sample_scores: Callable[[], NDArray[np.float64]] = field(repr=False)
    probed: int | None = None
    live: LiveFacts | None = None


class Hits(Sequence[Hit]):
    """The results of one query, best first.

    Attributes:
        terms: What was asked.
        overall_penalty: λ.
        total: N, the number of items in the index.
        where: What selected the items to choose from, in words; ``None`` if all were.
        selected: How many items there were to choose from; with ``live``, how many were looked at.
        offset: How many better items the query passed over.
        min_score: The lowest score that was wanted, or ``None``.
        dedupe: From which overall cosine on near-duplicates were collapsed, or ``None``.
        exact: Whether the hits are proven to be the best; if not, they were found by the codes.
        rescored: How many items were scored exactly.
        probed: How many inverted lists of the index were looked into; ``None`` if it did not go by lists.
        live: What was asked by words that are not indexed; ``None`` if nothing was.
    """

    def __init__(self, hits: Sequence[Hit], facts: QueryFacts) -> None:
        self._hits = tuple(hits)
        self._facts = facts
        self.terms = facts.terms
        self.overall_penalty = facts.overall_penalty
        self.total = facts.total
        self.where = facts.where
        self.selected = facts.selected
        self.offset = facts.offset
        self.min_score = facts.min_score
        self.dedupe = facts.dedupe
        self.exact = facts.exact
        self.rescored = facts.rescored
        self.probed = facts.probed
        self.live = facts.live

    def __len__(self) -> int:
        return len(self._hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...

    @overload
    def __getitem__(self, index: slice) -> Hits: ...

    def __getitem__(self, index: int | slice) -> Hit | Hits:
        if isinstance(index, slice):
            return Hits(self._hits[index], self._facts)
        return self._hits[index]

    def __repr__(self) -> str:
        asked = " + ".join(f"{term.weight:g} × {term.label} by {term.aspect}" for term in self.terms)
        chosen = "" if self.where is None else f" where {self.where}"
        return f"<Hits: {len(self)} of {self.selected:,} items{chosen} for {asked}>"

    @property
    def keys(self) -> list[str]:
        """The keys, best first."""
        return [hit.key for hit in self._hits]

    def image(self, position: int) -> Image.Image:
        """Return the picture of the hit at ``position`` as RGB, upright."""
        return self._hits[position].image()

    def percentile(self, score: float) -> float:
        """Return how many percent of the items to choose from score lower than ``score`` for this query, in [0, 100].

        Scores of different aspects, models and penalties are on different scales, so that no one threshold tells
        "similar" from "not"; this tells how rare a score is. With a ``where``, it counts the selected items alone.
        Beyond 10,000 items it goes by 10,000 of them, evenly spaced.
        """
        scores = self._facts.sample_scores()
        return 100.0 * float(np.searchsorted(scores, score)) / len(scores) if len(scores) else 0.0

    def to_records(self) -> list[dict[str, Any]]:
        """Return one dictionary a hit, JSON types only: rank, key, score, row, contributions, duplicates, metadata."""
        return [
            {
                "rank": hit.rank,
                "key": hit.key,
                "score": hit.score,
                "row": hit.row,
                "contributions": list(hit.contributions),
                "duplicates": list(hit.duplicates),
                "metadata": {
                    name: value if type(value) in _JSON_TYPES else _json_value(value)
                    for name, value in hit.metadata.items()
                },
            }
            for hit in self._hits
        ]

    def to_record(self) -> dict[str, Any]:
        """Return the query and its hits, JSON types only: the attributes of ``Hits`` by their names, and hits."""
        return {
            "terms": [{"image": term.label, "aspect": term.aspect.text, "weight": term.weight} for term in self.terms],
            "overall_penalty": self.overall_penalty,
            "total": self.total,
            "where": self.where,
            "selected": self.selected,
            "offset": self.offset,
            "min_score": self.min_score,
            "dedupe": self.dedupe,
            "exact": self.exact,
            "rescored": self.rescored,
            "probed": self.probed,
            "live": None if self.live is None else asdict(self.live) | {"aspects": list(self.live.aspects)},
            "hits": self.to_records(),
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Return ``to_record`` as JSON."""
        return json.dumps(self.to_record(), indent=indent, ensure_ascii=False, allow_nan=False)

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table: rank, key, score, row, ``contribution_<n>`` per term from 1, and the metadata columns.

        A metadata column of a name that is taken gets the prefix ``metadata_``.

        Raises:
            ImportError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError("Hits.to_pandas needs pandas; install it with: pip install pandas") from error
        shares = [f"contribution_{number}" for number in range(1, len(self.terms) + 1)]
        own = ["rank", "key", "score", "row", *shares]
        rows = []
        for hit in self._hits:
            row = dict(zip(own, (hit.rank, hit.key, hit.score, hit.row, *hit.contributions), strict=True))
            row.update({f"metadata_{name}" if name in own else name: v for name, v in hit.metadata.items()})
            rows.append(row)
        return pandas.DataFrame(rows) if rows else pandas.DataFrame(columns=own)

    def _repr_html_(self) -> str:
        """Return the results as HTML for a notebook, with the pictures inside."""
        from search.page import render_fragment

        return render_fragment(self)


# What JSON writes as it is; a float may be no number.
_JSON_TYPES = frozenset({str, int, bool, type(None)})


def _json_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no NaN and no infinity
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)
