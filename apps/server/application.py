"""The server as an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from importlib.metadata import version

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from apps.server.faults import add_fault_handlers
from apps.server.following import follow
from apps.server.gate import Gate
from apps.server.item_routes import RawItemPaths, item_routes
from apps.server.measurements import Measured
from apps.server.openapi_schema import openapi_schema
from apps.server.query_routes import query_routes
from apps.server.service import Service
from apps.server.settings import ServerSettings
from apps.server.status_routes import status_routes
from apps.server.warming import Warming
from indexer import IndexDirectory
from tpips_model.embedder import Embedder

__all__ = ["make_application"]


def make_application(
    index: IndexDirectory,
    settings: ServerSettings | None = None,
    *,
    embedder: Embedder | None = None,
    device: str | None = None,
) -> FastAPI:
    """Return the application that answers queries to an opened index.

    Args:
        index: The index.
        settings: The limits; by default ``ServerSettings()``.
        embedder: Embeds pictures instead of the model that the index names.
        device: Where exact scans run, as ``Searcher.open`` takes it.

    Raises:
        ModelError: ``embedder`` is not the one that made the index.
        DeviceError: There is no such GPU.
    """
    settings = settings or ServerSettings()
    service = Service.of_index(index, settings, embedder=embedder, device=device)
    warming = Warming(service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await warming.load_index()
        tasks = [asyncio.create_task(warming.load_model()), asyncio.create_task(follow(service, warming))]
        yield
        warming.stop()
        for task in tasks:
            task.cancel()
        for lane in service.lanes:
            lane.close()

    app = FastAPI(
        title="tpips-serve",
        version=version("tpips-retrieval"),
        lifespan=lifespan,
        # Their pages would load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        # A redirect would be made of the Host header, and a key may end in a slash.
        redirect_slashes=False,
    )
    add_fault_handlers(app, lambda: service.searcher.index)
    for routes in (query_routes(service), item_routes(service), status_routes(service, warming)):
        app.include_router(routes)
    # The last one added is the first that a request meets.
    app.add_middleware(RawItemPaths)
    app.add_middleware(Gate, settings=settings)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    app.add_middleware(Measured, measurements=service.measurements)
    app.openapi = lru_cache(maxsize=1)(lambda: openapi_schema(app, with_key=settings.api_key is not None))  # type: ignore[method-assign]
    return app
