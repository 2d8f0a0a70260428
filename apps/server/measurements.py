"""What the server counts, in Prometheus' text format."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apps.server.lanes import Lane

__all__ = ["Measured", "Measurements"]

# The names of routes and methods that there are; anything else would let clients make up as many series as they like.
_METHODS = frozenset({"GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE"})
_NO_ROUTE = "none"
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
# No answer is a page, and none may be taken for one: an item's "picture" is whatever file was indexed.
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"referrer-policy", b"no-referrer"),
]


class Measurements:
    """The metrics of one server, in a registry of its own.

    Args:
        items: Tells how many items the index has.
        lanes: The lanes whose load is told.
    """

    def __init__(self, *, items: Callable[[], int], lanes: Sequence[Lane]) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "tpips_requests", "Requests answered.", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "tpips_request_seconds", "From a request's head to its answer.", ("route",),
            registry=self.registry, buckets=_SECONDS,
        )  # fmt: skip
        Gauge("tpips_index_items", "Items in the index.", registry=self.registry).set_function(items)
        held = Gauge("tpips_requests_held", "Requests that run or wait.", ("work",), registry=self.registry)
        for lane in lanes:
            held.labels(lane.name).set_function(lambda lane=lane: lane.held)  # type: ignore[misc]
        ProcessCollector(registry=self.registry)

    def text(self) -> bytes:
        """Return all metrics."""
        return generate_latest(self.registry)


class Measured:
    """Counts what an app answers and how long it takes, and sets the headers that every answer has.

    Args:
        app: What answers.
        measurements: Where it is counted.
    """

    def __init__(self, app: ASGIApp, measurements: Measurements) -> None:
        self._app = app
        self._measurements = measurements

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 500  # unless an answer begins

        async def measured_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        try:
            await self._app(scope, receive, measured_send)
        finally:
            route = getattr(scope.get("route"), "path_format", _NO_ROUTE)
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._measurements.requests.labels(method, route, str(status)).inc()
            self._measurements.seconds.labels(route).observe(time.perf_counter() - began)
