"""What clients ask, as JSON."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator
from pydantic.json_schema import SkipJsonSchema

from search.live.look import MAX_LOOKED_AT

__all__ = ["BatchRequest", "PageRequest", "PercentileRequest", "QueryRequest", "SimilarRequest", "TermRequest"]

MAX_TERMS = 64
MAX_QUERIES = 64
MAX_K = 1000
MAX_OFFSET = 100_000
# The hits of all queries of a batch.
MAX_BATCH_HITS = 10_000
MAX_KEY_LENGTH = 4096
MAX_ASPECT_LENGTH = 1000
MAX_FILTER_LENGTH = 10_000
MAX_SCORES = 1000
# More than any index has.
MAX_LISTS = 1 << 31

_KEY = "0190-tree-autumn-pointillism.jpg"
_OTHER_KEY = "0104-sailing-boat-sea-oil-strokes.jpg"
_TERMS: list[JsonValue] = [
    {"key": _KEY, "aspect": "color palette", "weight": 1.0},
    {"key": _OTHER_KEY, "aspect": "brushwork", "weight": 0.7},
]


class _Request(BaseModel):
    # Strict: "1" is no number and true is no count. JSON has no NaN, and a field that is misspelt is no default.
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class _OneImage(_Request):
    key: Annotated[
        Annotated[str, Field(max_length=MAX_KEY_LENGTH)] | SkipJsonSchema[None],
        Field(description="The key of an indexed item; this or picture."),
    ] = None
    picture: Annotated[
        str | SkipJsonSchema[None],
        Field(description="The bytes of a picture file in base64, or as a data: URL; this or key."),
    ] = None

    @model_validator(mode="after")
    def _has_one(self) -> _OneImage:
        if (self.key is None) == (self.picture is None) or not {"key", "picture"} - self.model_fields_set:
            raise ValueError("give either the key of an indexed item or a picture")
        return self


_EITHER: dict[str, JsonValue] = {"oneOf": [{"required": ["key"]}, {"required": ["picture"]}]}


class TermRequest(_OneImage):
    """One sense of similarity to one image."""

    model_config = ConfigDict(json_schema_extra={"examples": _TERMS, **_EITHER})

    aspect: Annotated[
        str,
        Field(
            min_length=1, max_length=MAX_ASPECT_LENGTH, description="One of the indexed aspects; any words with live."
        ),
    ]
    weight: Annotated[float, Field(description="How much it counts; negative asks for dissimilarity.")] = 1.0


class PageRequest(_Request):
    """Which of the ranked items are wanted; as for ``Searcher.query``."""

    k: Annotated[int, Field(ge=1, le=MAX_K, description="How many hits.")] = 10
    offset: Annotated[int, Field(ge=0, le=MAX_OFFSET, description="How many of the best are passed over.")] = 0
    exclude_queries: Annotated[bool, Field(description="Leave out the query's own images and copies of them.")] = True
    where: Annotated[
        Annotated[str, Field(max_length=MAX_FILTER_LENGTH)] | None,
        Field(description="A filter over the columns, such as 'year >= 1900'."),
    ] = None
    min_score: Annotated[float | None, Field(description="Leave out hits of a lower score.")] = None
    dedupe: Annotated[
        Annotated[float, Field(gt=0, le=1)] | None,
        Field(description="Show one of several items whose overall vectors have at least this cosine."),
    ] = None
    exact: Annotated[
        bool | None, Field(description="true scans every vector, false goes by the codes, null chooses by size.")
    ] = None
    nprobe: Annotated[
        Annotated[int, Field(ge=1, le=MAX_LISTS)] | None,
        Field(description="How many of the index's inverted lists are looked into."),
    ] = None
    live: Annotated[
        Annotated[int, Field(ge=1, le=MAX_LOOKED_AT)] | None,
        Field(
            description="Allows aspects that are not indexed, in any words: so many of the likeliest items are "
            "embedded under them for this query. At most what /index tells under limits."
        ),
    ] = None


_Terms = Annotated[list[TermRequest], Field(min_length=1, max_length=MAX_TERMS, description="What is asked for.")]
_Penalty = Annotated[float, Field(description="How much overall similarity is taken off (λ; the paper: 0.3).")]


class QueryRequest(PageRequest):
    """A query: terms, each an image, an aspect and a weight."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"terms": _TERMS, "k": 20, "overall_penalty": 0.3},
                {"terms": [{"key": _KEY, "aspect": "brushwork"}], "where": "width >= height", "dedupe": 0.98},
            ]
        }
    )

    terms: _Terms
    overall_penalty: _Penalty = 0.0


class PercentileRequest(QueryRequest):
    """A query, and scores whose rarity among its answers is asked."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"terms": _TERMS, "scores": [0.9, 1.2]}]})

    scores: Annotated[list[float], Field(min_length=1, max_length=MAX_SCORES, description="Scores of this query.")]


class BatchRequest(PageRequest):
    """Many queries, answered in one pass over the index."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"queries": [_TERMS, [_TERMS[0]]], "k": 5}]})

    queries: Annotated[list[_Terms], Field(max_length=MAX_QUERIES, description="The terms of each query.")]
    overall_penalty: _Penalty = 0.0

    @model_validator(mode="after")
    def _not_too_many(self) -> BatchRequest:
        if len(self.queries) * self.k > MAX_BATCH_HITS:
            raise ValueError(f"{len(self.queries)} queries of k = {self.k} are more than {MAX_BATCH_HITS:,} hits")
        return self


class SimilarRequest(_OneImage, PageRequest):
    """One image and one aspect."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"key": _KEY, "aspect": "brushwork", "k": 20}], **_EITHER}
    )

    aspect: Annotated[
        str,
        Field(
            min_length=1, max_length=MAX_ASPECT_LENGTH, description="One of the indexed aspects; any words with live."
        ),
    ]
    overall_penalty: Annotated[
        float | None, Field(description="λ; null takes what the index's model recommends (0.3 for TPIPS).")
    ] = None
