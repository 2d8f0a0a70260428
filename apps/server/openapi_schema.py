"""The OpenAPI schema: what FastAPI derives from the routes, with the request models and the API key."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from apps.server.gate import OPEN_PATHS
from apps.server.request_models import BatchRequest, PercentileRequest, QueryRequest, SimilarRequest

__all__ = ["openapi_schema"]

DESCRIPTION = """\
Finds images by one sense of similarity ("aspect") at a time, alone or composed.

Every refusal is `{"error": {"kind", "message"}}`.
"""
_REQUESTS = (QueryRequest, BatchRequest, PercentileRequest, SimilarRequest)


def openapi_schema(app: FastAPI, *, with_key: bool) -> dict[str, Any]:
    """Return an app's schema.

    Args:
        app: The app, with all its routes.
        with_key: Whether it asks for an API key.
    """
    schema = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes)
    components = schema.setdefault("components", {})
    # The routes read their bodies themselves, so that FastAPI does not know the models of them.
    _, requests = models_json_schema(
        [(model, "validation") for model in _REQUESTS], ref_template="#/components/schemas/{model}"
    )
    components.setdefault("schemas", {}).update(requests["$defs"])
    if with_key:
        components["securitySchemes"] = {"api_key": {"type": "http", "scheme": "bearer"}}
        for path, operations in schema["paths"].items():
            if path not in OPEN_PATHS:
                for operation in operations.values():
                    operation["security"] = [{"api_key": []}]
    return schema
