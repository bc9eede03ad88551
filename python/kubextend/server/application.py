"""The ASGI application of a listener: routes each path to a verb, a probe or the metrics."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Lifespan

from kubextend import core
from kubextend.config.model import Server
from kubextend.metrics import Metrics
from kubextend.server.health import Health, health_routes
from kubextend.server.memory import give_memory_back
from kubextend.server.reply import REFUSED, refusal
from kubextend.server.request_body import BodyReader, BytesInFlight
from kubextend.server.verb_endpoint import VerbEndpoint
from kubextend.verbs import Verbs

__all__ = ["application", "health_application"]


def application(
    verbs: Verbs,
    health: Health,
    settings: Server,
    *,
    more_routes: Iterable[Route] = (),
    running: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
) -> Starlette:
    """Return an ASGI application with the verbs below a path, and health and metrics at the root.

    Args:
        verbs: each verb that the configuration needs gets a path.
        health: answers the probes.
        settings: path and limits of the verbs.
        more_routes: further routes.
        running: the context in which requests are answered.
    """
    pool = verbs.pool or core.BodyPool()
    bodies = BodyReader(settings.max_body_bytes, pool, " (server.maxBodyBytes)")
    in_flight = BytesInFlight(settings.max_in_flight_bytes)
    verbs.metrics.scrape(in_flight.METRICS, lambda: in_flight)
    prefix = settings.path.rstrip("/")
    routes = [*more_routes, *health_routes(health, verbs.metrics)]
    for verb in verbs.served:
        endpoint = VerbEndpoint(verb, verbs.metrics, bodies, in_flight)
        routes.append(Route(f"{prefix}/{verb.name}", endpoint, methods=["POST"]))

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        giving_back = asyncio.create_task(give_memory_back(pool, in_flight))
        try:
            async with running():
                yield
        finally:
            giving_back.cancel()
            verbs.limits.stop()

    return _refusing(routes, verbs.metrics, lifespan)


def health_application(health: Health, metrics: Metrics) -> Starlette:
    """Return an ASGI application with health and metrics only, for clients without certificates."""
    return _refusing(health_routes(health, metrics), metrics, None)


def _refusing(
    routes: list[Route], metrics: Metrics, lifespan: Lifespan[Starlette] | None
) -> Starlette:
    """Return an application that counts what it refuses.

    Args:
        routes: its routes.
        metrics: counts refusals.
        lifespan: the context in which requests are answered; None: any.
    """

    async def refuse(request: Request, error: HTTPException) -> Response:
        metrics.counter(REFUSED, str(error.status_code)).inc()
        return refusal(request.scope, error)

    handlers: dict[Any, Any] = {HTTPException: refuse}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    # A redirect would turn kube-scheduler's POST into a GET.
    app.router.redirect_slashes = False
    return app
