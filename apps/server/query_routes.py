"""Queries over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic_core import to_json

from apps.server.answer_models import BatchAnswer, HitsAnswer, PercentileAnswer
from apps.server.attending import Patience, run_while_attended
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
        return await _answer(
            service, request, asked, [asked.terms], lambda look: _query(service, asked, look).to_record()
        )

    @router.post("/query/batch", response_model=BatchAnswer, openapi_extra=_body("BatchRequest"))
    async def query_batch(request: Request) -> Response:
        """What /query gives for each of many queries."""
        asked = await read_json(request, BatchRequest)
        return await _answer(service, request, asked, asked.queries, lambda look: _query_batch(service, asked, look))

    @router.post("/query/percentile", response_model=PercentileAnswer, openapi_extra=_body("PercentileRequest"))
    async def percentile(request: Request) -> Response:
        """How rare scores are for a query: the percentage of the items that score lower."""
        asked = await read_json(request, PercentileRequest)
        return await _answer(service, request, asked, [asked.terms], lambda look: _percentiles(service, asked, look))

    @router.post(
        "/similar",
        response_model=HitsAnswer,
        openapi_extra=_body("SimilarRequest", {"multipart/form-data": {"schema": FORM_SCHEMA}}),
    )
    async def similar(request: Request) -> Response:
        """The k items most similar to one image by one aspect, with the penalty that the model recommends."""
        asked = await read_similar(request)
        return await _answer(
            service, request, asked, [[asked]], lambda look: _similar(service, asked, look).to_record()
        )

    return router


def _body(model: str, more: dict[str, object] | None = None) -> dict[str, object]:
    # The models themselves are put into the schema by ``openapi_schema``.
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{model}"}}, **(more or {})}
    return {"requestBody": {"required": True, "content": content}}


async def _answer(
    service: Service,
    request: Request,
    asked: PageRequest,
    queries: Sequence[Sequence[TermRequest | SimilarRequest]],
    work: Callable[[LiveLook | None], Hits | dict[str, Any]],
) -> Response:
    looks = _live_queries(service, queries) if asked.live is not None else 0
    if asked.live is not None and looks:
        _check_live(service, asked.live, queries=looks)
        patience = Patience.of(service.settings.live_seconds)
        look = LiveLook(asked.live, patience.check)
        content = await run_while_attended(request, service.live, lambda: _json(work(look)), patience)
    else:
        by_keys = all(term.picture is None for terms in queries for term in terms)
        content = await (service.search if by_keys else service.embed).run(lambda: _json(work(None)))
    return Response(content, media_type="application/json")


def _json(answer: Hits | dict[str, Any]) -> bytes:
    # Written by the thread: validating an answer of our own again would cost as much as the search.
    return to_json(answer.to_record() if isinstance(answer, Hits) else answer)


def _live_queries(service: Service, queries: Sequence[Sequence[TermRequest | SimilarRequest]]) -> int:
    """Return how many of the queries name an aspect that is not indexed."""
    indexed = {aspect.slug for aspect in service.searcher.aspects}
    return sum(any(_aspect(term.aspect).slug not in indexed for term in terms) for terms in queries)


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


def _query(service: Service, asked: QueryRequest, look: LiveLook | None) -> Hits:
    terms = _terms(service, asked.terms)
    return service.searcher.query(terms, overall_penalty=asked.overall_penalty, **_options(asked, look))


def _query_batch(service: Service, asked: BatchRequest, look: LiveLook | None) -> dict[str, Any]:
    queries = [_terms(service, terms) for terms in asked.queries]
    answers = service.searcher.query_batch(queries, overall_penalty=asked.overall_penalty, **_options(asked, look))
    return {"answers": [hits.to_record() for hits in answers]}


def _percentiles(service: Service, asked: PercentileRequest, look: LiveLook | None) -> dict[str, Any]:
    hits = _query(service, asked, look)
    return {"percentiles": [hits.percentile(score) for score in asked.scores]}


def _similar(service: Service, asked: SimilarRequest, look: LiveLook | None) -> Hits:
    image = _image(service, asked)
    return service.searcher.similar(
        image, _aspect(asked.aspect), overall_penalty=asked.overall_penalty, **_options(asked, look)
    )


def _options(asked: PageRequest, look: LiveLook | None) -> dict[str, Any]:
    # The fields are the Searcher's own arguments.
    return {name: getattr(asked, name) for name in PageRequest.model_fields} | {"live": look}


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
