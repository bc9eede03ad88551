"""The Starlette application: which path leads to what."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from kubextend.metrics import Metrics
from kubextend.server.health import Health, health_routes
from kubextend.server.verb_endpoint import VerbEndpoint
from kubextend.server.workers import Workers
from kubextend.verbs import Verbs
from kubextend.verbs.answer import Verb

__all__ = ["Limits", "application", "health_application"]

_VERBS: Final[tuple[Verb, ...]] = ("filter", "prioritize", "preempt", "bind")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request may cost.

    Attributes:
        body_bytes: larger bodies get 413.
    """

    body_bytes: int = 512 * 1024 * 1024


def application(  # noqa: PLR0913  one argument for each thing it is joined to
    verbs: Verbs,
    health: Health,
    *,
    path: str = "/",
    limits: Limits = Limits(),
    more_routes: Iterable[Route] = (),
    workers: Workers | None = None,
    running: Callable[[], AbstractAsyncContextManager[None]] | None = None,
) -> Starlette:
    """An ASGI application that serves the verbs under a path, and health and metrics at the root.

    Args:
        verbs: bytes in, bytes out.
        health: what readiness depends on.
        path: the prefix of the verbs.
        limits: what a request may cost.
        more_routes: what else is served beside the verbs.
        workers: threads that wait for the Kubernetes API; ended with the application.
        running: entered when the server starts, left when it has ended its last request.
    """
    endpoints: dict[str, VerbEndpoint] = {
        f"{path.rstrip('/')}/{verb}": VerbEndpoint(verb, verbs, most_body_bytes=limits.body_bytes)
        for verb in _VERBS
    }

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        try:
            if running is None:
                yield
            else:
                async with running():
                    yield
        finally:
            verbs.limits.stop()
            if workers is not None:
                workers.stop()

    routes = [
        *(Route(at, endpoint, methods=["POST"]) for at, endpoint in endpoints.items()),
        *more_routes,
        *health_routes(health, verbs.metrics),
    ]
    return _starlette(routes, verbs.metrics, lifespan, endpoints)


def health_application(health: Health, metrics: Metrics) -> Starlette:
    """Health and metrics alone, for probes that have no client certificate."""
    return _starlette(health_routes(health, metrics), metrics)


class _Application(Starlette):
    """Starlette, and a way past it for the verbs, which answer their own failures.

    Its layers would cost every bind that waits 3 KB.
    """

    def __init__(self, endpoints: Mapping[str, VerbEndpoint], **starlette: Any) -> None:
        super().__init__(**starlette)
        self._endpoints = endpoints

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        if scope["type"] == "http" and scope["method"] == "POST" and not scope.get("root_path"):
            endpoint = self._endpoints.get(scope["path"])
            if endpoint is not None and not self.user_middleware:
                return endpoint(scope, receive, send)
        return super().__call__(scope, receive, send)


def _starlette(
    routes: list[Route],
    metrics: Metrics,
    lifespan: Callable[[Starlette], AbstractAsyncContextManager[None]] | None = None,
    endpoints: Mapping[str, VerbEndpoint] = MappingProxyType({}),
) -> Starlette:
    def on_http_exception(request: Request, error: Exception) -> Response:
        if not isinstance(error, HTTPException):
            raise error
        metrics.refused(str(error.status_code)).inc()
        return _refusal(request, error)

    listed: list[BaseRoute] = [*routes]
    app = _Application(
        endpoints,
        routes=listed,
        lifespan=lifespan,
        exception_handlers={HTTPException: on_http_exception},
    )
    # A redirect would turn kube-scheduler's POST into a GET.
    app.router.redirect_slashes = False
    return app


def _refusal(request: Request, error: HTTPException) -> Response:
    """404 and 405, in the form that every other refusal has."""
    message = f"{request.method} {request.url.path}: {error.detail}"
    response = Response(
        orjson.dumps({"Error": message}), error.status_code, media_type="application/json"
    )
    if error.headers and (allowed := error.headers.get("Allow")):
        response.headers["allow"] = ", ".join(sorted(allowed.split(", ")))
    if "expect" in request.headers:
        response.headers["connection"] = "close"
    return response
