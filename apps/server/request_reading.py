"""Requests' bodies as request models: JSON, or the fields and the picture of a form."""

from __future__ import annotations

import base64
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from apps.server.faults import RefusedError, validation_refusal
from apps.server.request_models import SimilarRequest
from search.live.look import MAX_LOOKED_AT

__all__ = ["FORM_SCHEMA", "read_json", "read_similar"]

MAX_FIELDS = 20
# Commas, colons and brackets: several times what the largest batch needs.
MAX_MARKS = 100_000

_Model = TypeVar("_Model", bound=BaseModel)

# The fields of a form are text; these say what it must spell.
FORM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["picture", "aspect"],
    "additionalProperties": False,
    "properties": {
        "picture": {"type": "string", "format": "binary", "description": "A picture file."},
        "aspect": {"type": "string", "minLength": 1},
        "k": {"type": "integer", "minimum": 1, "maximum": 1000},
        "offset": {"type": "integer", "minimum": 0, "maximum": 100_000},
        "overall_penalty": {"type": "number"},
        "exclude_queries": {"type": "boolean"},
        "where": {"type": "string"},
        "min_score": {"type": "number"},
        "dedupe": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        "exact": {"type": "boolean"},
        "nprobe": {"type": "integer", "minimum": 1},
        "live": {"type": "integer", "minimum": 1, "maximum": MAX_LOOKED_AT},
    },
}


class _InMemoryParser(MultiPartParser):
    # Starlette would write larger files to disk; here the gate has bounded the body, and no picture goes there.
    spool_max_size = 1 << 40


async def read_json(request: Request, model: type[_Model]) -> _Model:
    """Return a request's body as a model.

    Raises:
        RefusedError: It is not JSON, or not as the model describes it.
    """
    _check_type(request, "application/json")
    body = await request.body()
    # Pictures have none of these. Millions of tiny values would hold up everybody for seconds while they are read.
    if sum(body.count(mark) for mark in (b",", b":", b"[", b"{")) > MAX_MARKS:
        raise RefusedError(422, "request", "the request holds too many values; ask for less at once")
    try:
        # Straight from the bytes: bounded in depth, and NaN, huge numbers and broken UTF-8 are all one kind of error.
        return model.model_validate_json(body)
    except ValidationError as error:
        raise validation_refusal(error) from error


async def read_similar(request: Request) -> SimilarRequest:
    """Return the body of a request for similar items: JSON, or a form with the picture as a file.

    Raises:
        RefusedError: It is neither, or not as the schema describes it.
    """
    if _media_type(request) != "multipart/form-data":
        return await read_json(request, SimilarRequest)
    try:
        form = await _InMemoryParser(request.headers, request.stream(), max_files=1, max_fields=MAX_FIELDS).parse()
    except MultiPartException as error:
        raise RefusedError(400, "request", f"the form cannot be read: {error.message}") from error
    fields: dict[str, Any] = {}
    try:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile) != (name == "picture") or name in fields:
                raise RefusedError(
                    422, "request", "a form must hold one file, picture, and each of its other fields once, as text"
                )
            fields[name] = base64.b64encode(await value.read()).decode() if isinstance(value, UploadFile) else value
    finally:
        await form.close()
    try:
        return SimilarRequest.model_validate_strings(fields, strict=False)
    except ValidationError as error:
        raise validation_refusal(error) from error


def _check_type(request: Request, expected: str) -> None:
    given = _media_type(request)
    if given != expected:
        # A type that a web page of another site may not send unasked, besides.
        raise RefusedError(415, "type", f"the body must be of the type {expected}, not {given or 'unnamed'}")


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
