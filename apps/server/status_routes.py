"""What the server tells of itself and of its index."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from apps.server.answer_models import (
    AspectAnswer,
    ColumnAnswer,
    HealthAnswer,
    IndexAnswer,
    LimitsAnswer,
    ModelAnswer,
)
from apps.server.faults import FAULT_ANSWERS, Faults, RefusedError
from apps.server.request_models import MAX_BATCH_HITS, MAX_K, MAX_OFFSET, MAX_QUERIES, MAX_TERMS
from apps.server.service import Service
from apps.server.warming import Warming

__all__ = ["status_routes"]

_OPEN_FAULTS: Faults = {400: FAULT_ANSWERS[400]}
_FAULTS: Faults = {status: FAULT_ANSWERS[status] for status in (400, 401, 500)}
_TEXT = {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Metrics in Prometheus' format."}


def status_routes(service: Service, warming: Warming) -> APIRouter:
    """Return the routes that tell how the server and its index are."""
    router = APIRouter(tags=["status"])

    @router.get("/health", responses=_OPEN_FAULTS)
    async def health() -> HealthAnswer:
        """Whether the server runs."""
        return HealthAnswer(status="ok")

    @router.get("/ready", responses={**_OPEN_FAULTS, 503: FAULT_ANSWERS[503]})
    async def ready() -> HealthAnswer:
        """Whether everything that is loaded at the start has been."""
        if warming.fault is not None:
            raise RefusedError.busy(f"not ready: {warming.fault}")
        return HealthAnswer(status="ready")

    @router.get("/metrics", response_class=Response, responses={**_FAULTS, 200: _TEXT})
    async def metrics() -> Response:
        """Counts and times in Prometheus' text format."""
        return Response(service.measurements.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    @router.get("/index", responses=_FAULTS)
    async def index() -> IndexAnswer:
        """What the index holds, and what one request may ask for."""
        return await service.search.run(lambda: _index(service))

    return router


def _index(service: Service) -> IndexAnswer:
    searcher, model = service.searcher, service.searcher.index.manifest.model
    coded = set(searcher.index.coded_aspects)
    return IndexAnswer(
        items=len(searcher),
        aspects=[
            AspectAnswer(aspect=aspect.text, slug=aspect.slug, codes=aspect in coded) for aspect in searcher.aspects
        ],
        columns=[ColumnAnswer(name=column.name, type=str(column.type)) for column in searcher.columns],
        model=ModelAnswer(
            # A model may be named by its directory, whose place on the server is nobody's business.
            name=Path(model.name).name if Path(model.name).is_absolute() else model.name,
            fingerprint=model.fingerprint,
            dim=model.dim,
            recommended_overall_penalty=model.recommended_overall_penalty,
        ),
        limits=LimitsAnswer(
            k=MAX_K,
            offset=MAX_OFFSET,
            terms=MAX_TERMS,
            queries=MAX_QUERIES,
            live=service.settings.max_live,
            batch_hits=MAX_BATCH_HITS,
            picture_bytes=service.settings.max_upload,
            picture_pixels=service.settings.max_pixels,
        ),
    )
