"""The ASGI application of a listener: routes each path to a verb, a probe or the metrics."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final, get_args

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kubextend import core
from kubextend.config import VerbName
from kubextend.metrics import Metrics
from kubextend.server.connection.body_reader import BodyReader
from kubextend.server.connection.bytes_in_flight import BytesInFlight
from kubextend.server.freed_memory import FreedMemory
from kubextend.server.health import Health, health_routes
from kubextend.server.reply import REFUSED
from kubextend.server.verb_endpoint import VerbEndpoint
from kubextend.verbs import Verbs

__all__ = ["Application", "Limits", "application", "health_application"]

# Limit on what all requests to a listener for probes hold together beyond 4 KiB a connection.
_MOST_PROBE_BYTES: Final = 1024 * 1024

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the bytes that requests may hold in memory.

    Attributes:
        body_bytes: the most bytes of the body of one request; the server answers a request with a
            larger body with the status 413.
        in_flight_bytes: the most bytes that all requests hold at a time; the server answers a
            request that would exceed them with the status 503.
    """

    body_bytes: int = 512 * 1024 * 1024
    in_flight_bytes: int = 1024 * 1024 * 1024

    @property
    def reserved_bytes(self) -> int:
        """The bytes of ``in_flight_bytes`` that only bodies of at most 1 MiB may take.

        The reserve is a sixteenth of ``in_flight_bytes``, or less if the largest allowed body needs
        more than the other fifteen sixteenths.
        """
        return max(0, min(self.in_flight_bytes // 16, self.in_flight_bytes - self.body_bytes))


def application(
    verbs: Verbs,
    health: Health,
    *,
    path: str = "/",
    limits: Limits = Limits(),
    more_routes: Iterable[Route] = (),
    running: Callable[[], AbstractAsyncContextManager[None]] | None = None,
) -> "Application":
    """Return an ASGI application with the verbs below a path, and health and metrics at the root.

    Args:
        verbs: the verbs; each verb that the configuration needs gets a path.
        health: answers the probes.
        path: the prefix of every verb's path.
        limits: how many bytes requests may hold.
        more_routes: further routes, served beside the verbs.
        running: returns a context that is entered when the server starts and left after the
            server's last request.
    """
    pool = verbs.pool or core.BodyPool()
    bodies = BodyReader(limits.body_bytes, pool, "server.maxBodyBytes")
    in_flight = BytesInFlight(
        limits.in_flight_bytes, "server.maxInFlightBytes", limits.reserved_bytes
    )
    freed = FreedMemory(pool, in_flight.highest_count)
    verbs.metrics.scrape(in_flight.METRICS, lambda: in_flight)

    paths: dict[VerbName, str] = {name: f"{path.rstrip('/')}/{name}" for name in get_args(VerbName)}
    endpoints = {
        paths[verb.name]: VerbEndpoint(verb, verbs.metrics, bodies, in_flight)
        for verb in verbs.served
    }

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        giving_back = asyncio.create_task(freed.watch())
        try:
            if running is None:
                yield
            else:
                async with running():
                    yield
        finally:
            giving_back.cancel()
            verbs.limits.stop()

    routes = [*more_routes, *health_routes(health, verbs.metrics)]
    not_served = paths.values() - endpoints.keys()
    return Application(
        endpoints,
        routes,
        verbs.metrics,
        in_flight=in_flight,
        lifespan=lifespan,
        not_served=not_served,
    )


def health_application(health: Health, metrics: Metrics) -> "Application":
    """Return an ASGI application with health and metrics only, for clients without certificates."""
    in_flight = BytesInFlight(_MOST_PROBE_BYTES)
    return Application({}, health_routes(health, metrics), metrics, in_flight=in_flight)


class Application(Starlette):
    """A Starlette application that calls the endpoints of verbs without Starlette's layers.

    For each call, Starlette's layers take as long as the Rust core for some hundred node names, and
    3 KB of memory while a bind request waits. The endpoints of verbs need no such layers, because
    each endpoint turns its own failures into answers. If the application has middleware, every call
    goes through Starlette's layers.

    Args:
        endpoints: the endpoints of the verbs, by path.
        others: all other routes.
        metrics: counts refusals.
        in_flight: counts the bytes that requests hold; also an attribute.
        lifespan: returns a context that is entered when the server starts.
        not_served: paths of verbs that no plugin needs; the first call of each path is logged.
    """

    def __init__(
        self,
        endpoints: Mapping[str, VerbEndpoint],
        others: Sequence[Route],
        metrics: Metrics,
        *,
        in_flight: BytesInFlight,
        lifespan: Callable[[Starlette], AbstractAsyncContextManager[None]] | None = None,
        not_served: Iterable[str] = (),
    ) -> None:
        unlogged = {*not_served}

        def on_http_exception(request: Request, error: Exception) -> Response:
            if not isinstance(error, HTTPException):
                raise error
            if request.url.path in unlogged:
                unlogged.discard(request.url.path)
                _LOGGER.warning(
                    "%s is called and answered with 404: no plugin of the configuration needs it; "
                    "kubextend check FILE --scheduler FILE says where that file differs",
                    request.url.path,
                )
            metrics.counter(REFUSED, str(error.status_code)).inc()
            return _refusal(request, error)

        verbs = [Route(path, endpoint, methods=["POST"]) for path, endpoint in endpoints.items()]
        super().__init__(
            routes=[*verbs, *others],
            lifespan=lifespan,
            exception_handlers={HTTPException: on_http_exception},
        )
        # A redirect would turn kube-scheduler's POST into a GET.
        self.router.redirect_slashes = False
        self.in_flight = in_flight
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request by the verb's endpoint or by Starlette.

        ASGI servers take an application whose ``__call__`` is no coroutine function for ASGI 2.
        """
        answer: ASGIApp = super().__call__
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        if is_post and not scope.get("root_path") and not self.user_middleware:
            answer = self._endpoints.get(scope["path"], answer)
        await answer(scope, receive, send)


def _refusal(request: Request, error: HTTPException) -> Response:
    """Return the response to a request that Starlette refuses: Starlette's status, a JSON Error."""
    message = f"{request.method} {request.scope['path']}: {error.detail}"
    response = Response(
        orjson.dumps({"Error": message}), error.status_code, media_type="application/json"
    )
    for name, value in (error.headers or {}).items():
        response.headers[name] = ", ".join(sorted(value.split(", ")))
    return response
