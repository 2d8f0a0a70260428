"""Queries over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic_core import to_json

from apps.server.answer_models import BatchAnswer, HitsAnswer, PercentileAnswer
from apps.server.faults import FAULT_ANSWERS, Faults, RefusedError
from apps.server.pictures import check_picture, indexed_item, picture_of_text
from apps.server.request_models import (
    BatchRequest,
    PageRequest,
    PercentileRequest,
    QueryRequest,
    SimilarRequest,
    TermRequest,
)
from apps.server.request_reading import FORM_SCHEMA, read_json, read_similar
from apps.server.service import Service
from search import Hits, Term
from search.live import LiveLook
from tpips_model.aspects import Aspect

__all__ = ["query_routes"]

_FAULTS: Faults = {status: FAULT_ANSWERS[status] for status in (400, 401, 404, 408, 413, 415, 422, 500, 501, 503)}


def query_routes(service: Service) -> APIRouter:
    """Return the routes that search an index."""
    router = APIRouter(tags=["queries"], responses=_FAULTS)

    @router.post("/query", response_model=HitsAnswer, openapi_extra=_body("QueryRequest"))
    async def query(request: Request) -> Response:
        """The k best items by the weighted sum of similarities that the terms ask for."""
        asked = await read_json(request, QueryRequest)
        return await _answer(service, asked, asked.terms, lambda: _query(service, asked).to_record())

    @router.post("/query/batch", response_model=BatchAnswer, openapi_extra=_body("BatchRequest"))
    async def query_batch(request: Request) -> Response:
        """What /query gives for each of many queries."""
        asked = await read_json(request, BatchRequest)
        terms = [term for terms in asked.queries for term in terms]
        return await _answer(service, asked, terms, lambda: _query_batch(service, asked))

    @router.post("/query/percentile", response_model=PercentileAnswer, openapi_extra=_body("PercentileRequest"))
    async def percentile(request: Request) -> Response:
        """How rare scores are for a query: the percentage of the items that score lower."""
        asked = await read_json(request, PercentileRequest)
        return await _answer(service, asked, asked.terms, lambda: _percentiles(service, asked))

    @router.post(
        "/similar",
        response_model=HitsAnswer,
        openapi_extra=_body("SimilarRequest", {"multipart/form-data": {"schema": FORM_SCHEMA}}),
    )
    async def similar(request: Request) -> Response:
        """The k items most similar to one image by one aspect, with the penalty that the model recommends."""
        asked = await read_similar(request)
        return await _answer(service, asked, [asked], lambda: _similar(service, asked).to_record())

    return router


def _body(model: str, more: dict[str, object] | None = None) -> dict[str, object]:
    # The models themselves are put into the schema by ``openapi_schema``.
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{model}"}}, **(more or {})}
    return {"requestBody": {"required": True, "content": content}}


async def _answer(
    service: Service,
    asked: PageRequest,
    terms: Sequence[TermRequest | SimilarRequest],
    work: Callable[[], dict[str, Any]],
) -> Response:
    indexed = {aspect.slug for aspect in service.searcher.aspects}
    if asked.live is not None and not all(_aspect(term.aspect).slug in indexed for term in terms):
        _check_live(service, asked.live, queries=len(asked.queries) if isinstance(asked, BatchRequest) else 1)
        lane = service.live
    elif all(term.picture is None for term in terms):
        lane = service.search
    else:
        lane = service.embed
    # Written by the thread: validating an answer of our own again would cost as much as the search.
    content = await lane.run(lambda: to_json(work()))
    return Response(content, media_type="application/json")


def _check_live(service: Service, live: int, *, queries: int) -> None:
    most = service.settings.max_live
    if not most:
        raise RefusedError(422, "aspect", "this server answers queries by indexed aspects only; leave out live")
    if live * queries > most:
        of = "" if queries == 1 else f" for each of {queries} queries"
        raise RefusedError(
            422,
            "request",
            f"live is {live:,}{of}; this server looks at {most:,} items a request at most; ask for fewer",
        )


def _query(service: Service, asked: QueryRequest) -> Hits:
    terms = _terms(service, asked.terms)
    return service.searcher.query(terms, overall_penalty=asked.overall_penalty, **_options(service, asked))


def _query_batch(service: Service, asked: BatchRequest) -> dict[str, Any]:
    queries = [_terms(service, terms) for terms in asked.queries]
    answers = service.searcher.query_batch(queries, overall_penalty=asked.overall_penalty, **_options(service, asked))
    return {"answers": [hits.to_record() for hits in answers]}


def _percentiles(service: Service, asked: PercentileRequest) -> dict[str, Any]:
    hits = _query(service, asked)
    return {"percentiles": [hits.percentile(score) for score in asked.scores]}


def _similar(service: Service, asked: SimilarRequest) -> Hits:
    image = _image(service, asked)
    return service.searcher.similar(
        image, _aspect(asked.aspect), overall_penalty=asked.overall_penalty, **_options(service, asked)
    )


def _options(service: Service, asked: PageRequest) -> dict[str, Any]:
    # The fields are the Searcher's own arguments.
    options = {name: getattr(asked, name) for name in PageRequest.model_fields}
    if asked.live is not None:
        deadline = time.monotonic() + service.settings.live_seconds

        def in_time(done: int, total: int) -> None:
            # Its client is told so anyway, and the model is for the next.
            if time.monotonic() > deadline:
                raise RefusedError.busy(f"only {done:,} of {total:,} items were looked at in the time there is")

        options["live"] = LiveLook(asked.live, in_time)
    return options


def _terms(service: Service, terms: Sequence[TermRequest]) -> list[Term]:
    return [Term(_image(service, term), _aspect(term.aspect), term.weight) for term in terms]


@lru_cache(maxsize=256)
def _aspect(text: str) -> Aspect:
    # Reading words character by character costs as much as scoring a hundred items by them.
    return Aspect(text)


def _image(service: Service, asked: TermRequest | SimilarRequest) -> str | bytes:
    """Return the key of an item that there is, or the bytes of a picture.

    A text that is no key would be the path of a file to the Searcher; no client may read the server's files.
    """
    if asked.key is not None:
        indexed_item(service, asked.key)
        return asked.key
    assert asked.picture is not None  # the model has seen to that
    settings = service.settings
    return check_picture(picture_of_text(asked.picture), max_bytes=settings.max_upload, max_pixels=settings.max_pixels)
