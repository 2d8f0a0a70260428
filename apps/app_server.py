"""The app as a web server: Streamlit's pages, and pictures at addresses of their own that browsers load when needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from streamlit.starlette import App

from apps.app_settings import AppSettings
from apps.first_pictures import FirstPictures
from apps.index_view import picture_stamp
from apps.query_state import PictureRef, QueryRow, QueryState
from apps.resources import Resources, open_resources
from apps.screens.compose_answer import Question, ask
from apps.thumbnails import SIZES, item_jpeg, upload_jpeg
from apps.uploads import MAX_UPLOAD_BYTES
from tpips_model.errors import TpipsError

__all__ = ["CONFIG", "LOCAL_HOSTS", "make_app", "shared_resources"]

SCRIPT = Path(__file__).with_name("app_script.py")
# The first page comes first; importing the model's libraries takes seconds.
WARM_AFTER_SECONDS = 3.0
SEARCH_SECONDS = 5.0
# What a browser may do with an answer: keep a picture, since another index or upload has another address.
PICTURE_HEADERS = {
    "Cache-Control": "private, max-age=86400",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
# The names by which a browser on this machine asks; another one is a web site that has its own name point here.
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
CONFIG = {
    "browser.gatherUsageStats": False,
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",
    "server.maxUploadSize": MAX_UPLOAD_BYTES >> 20,
    "server.fileWatcherType": "none",
    "server.runOnSave": False,
    "theme.light.primaryColor": "#2f61c2",
    "theme.light.backgroundColor": "#fbfaf8",
    "theme.light.secondaryBackgroundColor": "#f1efeb",
    "theme.light.textColor": "#1d1f24",
    "theme.dark.primaryColor": "#7aa5f5",
    "theme.dark.backgroundColor": "#16171a",
    "theme.dark.secondaryBackgroundColor": "#212328",
    "theme.dark.textColor": "#e8e6e1",
    "theme.baseRadius": "10px",
    "theme.font": "sans-serif",
}
_logger = logging.getLogger(__name__)


def shared_resources(settings: AppSettings) -> Resources:
    """Return what all sessions share, opened once."""
    return open_resources(settings)


def make_app(settings: AppSettings, *, host: str = "127.0.0.1", warm: bool = True) -> App:
    """Return the app.

    Args:
        settings: What to open.
        host: The address it listens on; a local one is answered under local names only.
        warm: Search once before the start, and load the model in the background soon after it.
    """

    # Plain functions: Starlette runs them in threads, since decoding a picture takes milliseconds.
    def picture(request: Request) -> Response:
        resources = shared_resources(settings)
        index, record = resources.view.index, resources.view.record
        row = int(request.path_params["row"])

        def make(size: int) -> bytes:
            return item_jpeg(index, row, record(row), size)

        try:
            stamp = picture_stamp(index, row)
            if request.query_params.get("of", stamp) != stamp:
                raise TpipsError("this picture is of an earlier state of the index; reload the page")
        except TpipsError as error:
            return _missing(error)
        return _answer(resources, request, (stamp, row), make)

    def upload(request: Request) -> Response:
        resources = shared_resources(settings)
        digest = str(request.path_params["digest"])
        return _answer(resources, request, digest, lambda size: upload_jpeg(resources.upload(digest), size))

    def compose(request: Request) -> Response:
        # The page that is shown first has no name of its own for Streamlit.
        return RedirectResponse(f"../?{request.url.query}")

    @asynccontextmanager
    async def lifespan(_: App) -> AsyncGenerator[dict[str, Any] | None, None]:
        task = None
        if warm:
            await _warm_search(settings)
            task = asyncio.create_task(_warm_model(settings))
        yield None
        if task is not None:
            task.cancel()

    routes = [
        Route("/picture/{row:int}", picture),
        Route("/upload/{digest}", upload),
        Route("/compose", compose),
    ]
    names = LOCAL_NAMES if host in LOCAL_HOSTS else ("*",)
    middleware = [
        Middleware(TrustedHostMiddleware, names),
        Middleware(FirstPictures, lambda: shared_resources(settings)),
    ]
    return App(SCRIPT, routes=routes, lifespan=lifespan, middleware=middleware)


def _answer(resources: Resources, request: Request, key: object, make: Callable[[int], bytes]) -> Response:
    size = request.query_params.get("size", "360")
    if size not in map(str, SIZES):
        return PlainTextResponse(f"size must be one of {', '.join(map(str, SIZES))}", status_code=400)
    try:
        data = resources.thumbnails.get(key, int(size), lambda: make(int(size)))
        return Response(data, 200, PICTURE_HEADERS, "image/jpeg")
    except TpipsError as error:
        return _missing(error)


def _missing(error: TpipsError) -> Response:
    return PlainTextResponse(str(error), status_code=404, headers={"Cache-Control": "no-store"})


async def _warm_search(settings: AppSettings) -> None:
    """Search once, so that the first user finds in memory what a search needs; a huge index is not waited for."""

    def search() -> None:
        resources = shared_resources(settings)
        for first in resources.view.records(resources.view.sample_rows(1)):
            row = QueryRow(PictureRef("key", first["key"]), resources.aspects[0])
            ask(resources, Question.of(QueryState(rows=(row,)), resources))

    with anyio.move_on_after(SEARCH_SECONDS):
        try:
            await anyio.to_thread.run_sync(search, abandon_on_cancel=True)
        except TpipsError as error:  # whoever searches is told on the page, too
            _logger.warning("%s", error)


async def _warm_model(settings: AppSettings) -> None:
    await asyncio.sleep(WARM_AFTER_SECONDS)
    try:
        await asyncio.to_thread(shared_resources(settings).embedder.warm)
    except TpipsError as error:  # whoever needs the model is told on the page, too
        _logger.warning("pictures of your own cannot be used: %s", error)
