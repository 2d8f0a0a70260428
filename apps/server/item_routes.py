"""The index's items over HTTP."""

from __future__ import annotations

from functools import partial
from typing import Annotated
from urllib.parse import quote, unquote

from fastapi import APIRouter, Path, Query, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from apps.server.answer_models import ItemAnswer, KeysAnswer
from apps.server.faults import FAULT_ANSWERS, Faults, RefusedError
from apps.server.pictures import ServedPicture, indexed_item, served_original, served_thumbnail
from apps.server.service import Service
from search.items import Items

__all__ = ["RawItemPaths", "item_routes"]

MAX_KEYS = 1000
MIN_SIZE, MAX_SIZE = 16, 2048
_PREFIX = b"/items/"
_FAULTS: Faults = {status: FAULT_ANSWERS[status] for status in (400, 401, 404, 422, 500, 503)}
# A key stays the same picture for as long as the server has the index open; later, browsers ask again.
_PICTURE_HEADERS = {"Cache-Control": "private, max-age=3600"}
_PICTURE = {"content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}, "description": "The picture."}

_Key = Annotated[str, Path(description="The item's key, percent-encoded; a slash within it may stay one.")]
_Offset = Annotated[int, Query(ge=0, le=1 << 53, description="How many keys to pass over.")]
_Limit = Annotated[int, Query(ge=1, le=MAX_KEYS, description="How many keys.")]
_Size = Annotated[
    int | None,
    Query(ge=MIN_SIZE, le=MAX_SIZE, description="Pixels of the longer side of a JPEG; without it, the file."),
]


class RawItemPaths:
    """Leaves the paths of items as they were sent, so that ``a%2Fimage`` is a key and ``a/image`` a key's picture.

    Args:
        app: What answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            raw = scope.get("raw_path") or quote(scope["path"]).encode()
            if raw.startswith(_PREFIX):
                # In place, so that the route that is found shows to the middleware that counts by it.
                scope["path"] = raw.decode("ascii", "replace")
        await self._app(scope, receive, send)


def item_routes(service: Service) -> APIRouter:
    """Return the routes that tell of an index's items."""
    router = APIRouter(tags=["items"], responses=_FAULTS)

    @router.get("/items")
    async def keys(offset: _Offset = 0, limit: _Limit = 100) -> KeysAnswer:
        """Some of the keys, in the order of the index."""
        return await service.pictures.run(lambda: _keys(service, offset, limit))

    # Before the next one, which would take "/image" for a part of the key.
    @router.get("/items/{key:path}/image", response_class=Response, responses={200: _PICTURE})
    async def image(key: _Key, size: _Size = None) -> Response:
        """The bytes of an item's picture file, or a JPEG of a smaller size."""
        name = _decoded(key)
        work = (
            partial(served_original, service, name) if size is None else partial(served_thumbnail, service, name, size)
        )
        picture: ServedPicture = await service.pictures.run(work)
        return Response(picture.data, media_type=picture.media_type, headers=_PICTURE_HEADERS)

    @router.get("/items/{key:path}")
    async def item(key: _Key) -> ItemAnswer:
        """What the index keeps of an item."""
        name = _decoded(key)
        return await service.pictures.run(lambda: _item(service, name))

    return router


def _decoded(key: str) -> str:
    try:
        return unquote(key, errors="strict")
    except UnicodeDecodeError as error:
        raise RefusedError(404, "key", "the key in the path is no UTF-8; percent-encode its UTF-8 bytes") from error


def _keys(service: Service, offset: int, limit: int) -> KeysAnswer:
    keys = service.searcher.keys
    return KeysAnswer(total=len(keys), offset=offset, keys=keys.page(offset, limit))


def _item(service: Service, key: str) -> ItemAnswer:
    found = indexed_item(service, key)
    record = found.record
    return ItemAnswer(
        key=key,
        row=found.row,
        width=record["width"],
        height=record["height"],
        size=record["size"],
        metadata=Items.metadata(record),
    )
