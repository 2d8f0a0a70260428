"""Every refusal as one kind of JSON: {"error": {"kind", "message"}}."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from indexer import IndexDirectory, IndexDirectoryError
from search.terms import QueryError
from tpips_model.errors import AspectError, ImageError, ModelError, TpipsError

__all__ = [
    "FAULT_ANSWERS",
    "Fault",
    "FaultAnswer",
    "Faults",
    "RefusedError",
    "add_fault_handlers",
    "validation_refusal",
]

RETRY_AFTER_SECONDS = 1
MAX_MESSAGE = 2000
MAX_FAULTS_NAMED = 3
# Listing a hundred thousand takes a second.
MAX_FAULTS_LISTED = 100

# The first that fits; what is the client's fault is 4xx.
_STATUS: dict[type[TpipsError], tuple[int, str]] = {
    QueryError: (422, "query"),
    AspectError: (422, "aspect"),
    ImageError: (422, "image"),
    ModelError: (501, "model"),
    IndexDirectoryError: (500, "index"),
    TpipsError: (500, "index"),
}
_KINDS = {404: "route", 405: "method"}

logger = logging.getLogger("uvicorn.error")


class Fault(BaseModel):
    """Why a request was refused: the kind is for programs, the message for people."""

    kind: str
    message: str


class FaultAnswer(BaseModel):
    """What is answered instead of a result."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"error": {"kind": "key", "message": "no item has the key 'a.jpg'"}}]}
    )

    error: Fault


_DESCRIPTIONS = {
    400: "The Host header or the form cannot be read.",
    401: "The API key is missing or wrong.",
    404: "No item has this key, or its picture is gone.",
    408: "The body took too long to arrive.",
    413: "The body or the picture is too large.",
    415: "The body is of another type than this route reads.",
    422: "The request makes no query; the message says what is wrong and what would do.",
    500: "The index is damaged, or the server is at fault; its log says more.",
    501: "The server cannot embed pictures; queries by key work.",
    503: "Too many requests wait, or the answer took too long; try again after Retry-After seconds.",
}
Faults = dict[int | str, dict[str, Any]]

FAULT_ANSWERS: Faults = {status: {"model": FaultAnswer, "description": text} for status, text in _DESCRIPTIONS.items()}


class RefusedError(Exception):
    """A request that is not answered.

    Args:
        status: The HTTP status.
        kind: What went wrong, in one word for programs.
        message: What was given, what was expected and what to do.
        headers: Further headers.
    """

    def __init__(self, status: int, kind: str, message: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.headers = dict(headers or {})

    @classmethod
    def busy(cls, message: str) -> RefusedError:
        """Return a refusal that asks the client to come again."""
        return cls(503, "busy", message, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})

    def response(self) -> Response:
        """Return it as JSON in plain ASCII, which can say any text."""
        message = str(self)
        if len(message) > MAX_MESSAGE:
            message = f"{message[:MAX_MESSAGE]}…"
        content = json.dumps({"error": {"kind": self.kind, "message": message}})
        return Response(content, self.status, media_type="application/json", headers=self.headers)


def validation_refusal(error: ValidationError | RequestValidationError) -> RefusedError:
    """Say in words where a request differs from its schema, without repeating what was sent."""
    if isinstance(error, ValidationError) and error.error_count() > MAX_FAULTS_LISTED:
        places = [f"it differs from the schema in {error.error_count():,} places"]
    else:
        found = error.errors()
        places = [
            f"{'.'.join(str(step) for step in fault['loc'])}: {fault['msg']}".removeprefix(": ")
            for fault in found[:MAX_FAULTS_NAMED]
        ]
        if len(found) > MAX_FAULTS_NAMED:
            places.append(f"and {len(found) - MAX_FAULTS_NAMED} more")
    words = f"the request cannot be read: {'; '.join(places)}; /openapi.json describes it"
    return RefusedError(422, "request", words)


def add_fault_handlers(app: FastAPI, index: Callable[[], IndexDirectory]) -> None:
    """Make every error that an app raises a ``FaultAnswer``; the server's own paths are left out of it.

    Args:
        app: The app.
        index: Gives the index that is searched now.
    """

    def without_paths(message: str) -> str:
        opened = index()
        paths = {str(root): "DATA" for root in opened.data_roots} | {str(opened.path): "INDEX"}
        # The longer first: one may be inside the other.
        for path in sorted(paths, key=len, reverse=True):
            message = message.replace(path, paths[path]) if path.strip("/") else message
        return message

    async def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, RefusedError)
        return error.response()

    async def of_ours(_: Request, error: Exception) -> Response:
        status, kind = next(found for known, found in _STATUS.items() if isinstance(error, known))
        message = str(error)
        if status >= 500:
            logger.error("%s", message)
        return RefusedError(status, kind, without_paths(message)).response()

    async def gone(_: Request, error: Exception) -> Response:
        # Nobody reads it, but it is counted.
        return RefusedError(400, "request", "the client went away before its request was whole").response()

    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return validation_refusal(error).response()

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        reason = f"{request.method} {request.scope['path']}: {HTTPStatus(error.status_code).phrase.lower()}"
        kind = _KINDS.get(error.status_code, "request")
        message = f"{reason}; /openapi.json lists what this server answers"
        return RefusedError(error.status_code, kind, message, headers=error.headers).response()

    async def unexpected(_: Request, error: Exception) -> Response:
        # Starlette raises it again once this is sent, and uvicorn writes the traceback into its log.
        return RefusedError(500, "internal", "the server failed at this request; its log says where").response()

    app.add_exception_handler(RefusedError, refused)
    app.add_exception_handler(TpipsError, of_ours)
    app.add_exception_handler(ClientDisconnect, gone)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(Exception, unexpected)
