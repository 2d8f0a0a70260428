"""What the server answers, as JSON; ``HitsAnswer`` is what ``search.Hits.to_json`` writes."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

__all__ = [
    "AspectAnswer",
    "BatchAnswer",
    "ColumnAnswer",
    "HealthAnswer",
    "HitAnswer",
    "HitsAnswer",
    "IndexAnswer",
    "ItemAnswer",
    "KeysAnswer",
    "LimitsAnswer",
    "LiveAnswer",
    "ModelAnswer",
    "PercentileAnswer",
    "TermAnswer",
]

Metadata = dict[str, str | int | float | bool | None]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TermAnswer(_Answer):
    """A term as the index understood it."""

    image: str = Field(description="The key, or what to call the picture.")
    aspect: str
    weight: float


class HitAnswer(_Answer):
    """One result."""

    rank: int = Field(description="Its place in the whole answer, from 1.")
    key: str
    score: float = Field(description="The sum of the contributions.")
    row: int
    contributions: list[float] = Field(description="What each term adds to the score.")
    duplicates: list[str] = Field(description="The keys of the near-duplicates that it stands for.")
    metadata: Metadata


class LiveAnswer(_Answer):
    """How a query by words that are not indexed was answered."""

    aspects: list[str]
    of: int = Field(description="How many items there were, of which the likeliest were looked at.")
    unreadable: int = Field(description="How many more would have been, but their pictures cannot be read.")


class HitsAnswer(_Answer):
    """The results of one query, best first."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "terms": [{"image": "a.jpg", "aspect": "brushwork", "weight": 1.0}],
                    "overall_penalty": 0.3,
                    "total": 240,
                    "where": None,
                    "selected": 240,
                    "offset": 0,
                    "min_score": None,
                    "dedupe": None,
                    "exact": True,
                    "rescored": 240,
                    "probed": None,
                    "live": None,
                    "hits": [
                        {
                            "rank": 1,
                            "key": "b.jpg",
                            "score": 0.71,
                            "row": 17,
                            "contributions": [0.71],
                            "duplicates": [],
                            "metadata": {"style": "pointillism", "year": 1887},
                        }
                    ],
                }
            ]
        },
    )

    terms: list[TermAnswer]
    overall_penalty: float
    total: int = Field(description="The number of items in the index.")
    where: str | None
    selected: int = Field(
        description="How many items there were to choose from; where there is live, how many were looked at."
    )
    offset: int
    min_score: float | None
    dedupe: float | None
    exact: bool = Field(description="Whether the hits are proven to be the best.")
    rescored: int = Field(description="How many items were scored exactly.")
    probed: int | None = Field(description="How many inverted lists were looked into; null if it went by none.")
    live: LiveAnswer | None = Field(description="What was asked by words that are not indexed; null if nothing was.")
    hits: list[HitAnswer]


class BatchAnswer(_Answer):
    """The results of many queries, in their order."""

    answers: list[HitsAnswer]


class PercentileAnswer(_Answer):
    """How many percent of the items to choose from score lower than each score, in [0, 100]."""

    percentiles: list[float]


class ItemAnswer(_Answer):
    """One indexed picture."""

    key: str
    row: int
    width: int
    height: int
    size: int = Field(description="Bytes of the picture file.")
    metadata: Metadata


class KeysAnswer(_Answer):
    """Some of the keys, in the order of the index."""

    total: int
    offset: int
    keys: list[str]


class AspectAnswer(_Answer):
    """An aspect that can be asked for."""

    aspect: str
    slug: str = Field(description="Words that give the same slug mean the same aspect.")
    codes: bool = Field(description="Whether it can be searched approximately.")


class ColumnAnswer(_Answer):
    """A column that a filter may name."""

    name: str
    type: str


class ModelAnswer(_Answer):
    """The model that made the index."""

    name: str
    fingerprint: str
    dim: int
    recommended_overall_penalty: float


class LimitsAnswer(_Answer):
    """What one request may ask for."""

    k: int
    offset: int
    terms: int
    queries: int
    live: int
    batch_hits: int
    picture_bytes: int
    picture_pixels: int


class IndexAnswer(_Answer):
    """What the index holds."""

    items: int
    aspects: list[AspectAnswer]
    columns: list[ColumnAnswer]
    model: ModelAnswer
    limits: LimitsAnswer


class HealthAnswer(_Answer):
    """Whether the server runs, or is ready."""

    status: str
