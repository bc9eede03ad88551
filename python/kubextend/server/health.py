"""Serves ``/livez``, ``/readyz`` and ``/metrics`` in the form of Kubernetes' own components."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from kubextend.metrics import Metrics, ScrapedGauge

__all__ = ["Health", "HealthCheck", "health_routes"]

_LEAST_RENDER_GAP_S: Final = 1.0
# Half of the connections that the health listener may have.
_MOST_SCRAPES: Final = 32
_MOST_QUERY_BYTES: Final = 64
_MOST_BODY_BYTES: Final = 4096

# Labels as those of kubernetes_healthcheck.
_CONDITIONS: Final[tuple[ScrapedGauge[dict[tuple[str, ...], bool]]]] = (
    ScrapedGauge(
        "kubextend_healthcheck",
        "1 while a condition of the probe livez or readyz holds.",
        lambda conditions: conditions,
        ("type", "name"),
    ),
)


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One condition of readiness or liveness.

    Attributes:
        name: the name of the condition in the text of ``readyz?verbose``.
        why_not: returns on one line why the condition does not hold; empty: it holds. Called on the
            event loop.
    """

    name: str
    why_not: Callable[[], str]


class Health:
    """Answers the liveness and readiness probes from lists of conditions.

    Args:
        checks: the conditions of readiness, besides those of liveness and that the process is not
            shutting down.
        alive: the conditions of liveness: those that only a restart of the process can restore.
        on_shut_down: called as soon as the process is to end; may be called twice.
    """

    def __init__(
        self,
        checks: Sequence[HealthCheck] = (),
        alive: Sequence[HealthCheck] = (),
        on_shut_down: Callable[[], object] = lambda: None,
    ) -> None:
        self._shutting_down = False
        self._on_shut_down = on_shut_down
        self._alive = (HealthCheck("ping", lambda: ""), *alive)
        self._ready = (*self._alive, *checks, HealthCheck("shutdown", self._why_shut))

    def shut_down(self) -> None:
        """Fail readiness from now on; the process stays alive."""
        self._shutting_down = True
        self._on_shut_down()

    def conditions(self) -> dict[tuple[str, ...], bool]:
        """Return (probe, name of a condition) -> whether the condition holds now."""
        probes = (("livez", self._alive), ("readyz", self._ready))
        return {
            (probe, check.name): not check.why_not() for probe, checks in probes for check in checks
        }

    def livez(self, *, verbose: bool) -> tuple[int, str]:
        """Return the HTTP status and text of ``/livez``; the text names each failing check."""
        return _report("livez", self._alive, verbose=verbose)

    def readyz(self, *, verbose: bool) -> tuple[int, str]:
        """Return the HTTP status and text of ``/readyz``; the text names each failing check."""
        return _report("readyz", self._ready, verbose=verbose)

    def _why_shut(self) -> str:
        return "kubextend is shutting down" if self._shutting_down else ""


def health_routes(health: Health, metrics: Metrics) -> list[Route]:
    """Return the routes ``/livez``, ``/readyz`` and ``/metrics``."""

    async def livez(request: Request) -> Response:
        status, text = health.livez(verbose=_is_verbose(request))
        return PlainTextResponse(text, status)

    async def readyz(request: Request) -> Response:
        status, text = health.readyz(verbose=_is_verbose(request))
        return PlainTextResponse(text, status)

    page = _MetricsPage(metrics, health)

    async def show_metrics(_request: Request) -> Response:
        text, content_type = await page.fresh()
        return Response(text, headers={"content-type": content_type})

    return [
        _BodilessRoute("/livez", livez),
        _BodilessRoute("/readyz", readyz),
        _BodilessRoute("/metrics", show_metrics),
    ]


class _BodilessRoute(Route):
    """A route whose requests need no body: a chunked body, or one above 4 KiB, gets 413.

    The answer 413 ends the connection. On routes of other classes the server drops up to 16 MiB of
    a body that no endpoint reads, and keeps the connection.
    """

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        is_chunked = b"transfer-encoding" in headers
        if is_chunked or int(headers.get(b"content-length", 0)) > _MOST_BODY_BYTES:
            what = "comes in chunks" if is_chunked else f"is larger than {_MOST_BODY_BYTES} bytes"
            message = f"the body {what}; send none"
            raise HTTPException(413, message, headers={"Connection": "close"})
        await super().handle(scope, receive, send)


class _MetricsPage:
    """The text of all metrics, rendered at most once a second, however many clients request it.

    A hundred histograms take 20 ms to render, in which verbs get less time of the interpreter. A
    request that comes too early waits for the next text, so that no text is older than its request.
    If 32 requests wait, the next gets the last text at once: connections that await an answer give
    way to nobody, and would keep out the probes.

    Args:
        metrics: the metrics to render.
        health: the conditions of the probes, which are among the metrics.
    """

    def __init__(self, metrics: Metrics, health: Health) -> None:
        self._metrics = metrics
        self._health = health
        self._next: asyncio.Task[tuple[bytes, str]] | None = None
        self._last: tuple[bytes, str] | None = None
        self._not_before_s = 0.0
        self._waiting = 0

    async def fresh(self) -> tuple[bytes, str]:
        """Return the text of all metrics and its content type.

        The text is rendered after this call, unless 32 other requests wait for that text.

        Raises: HTTPException: 503: 32 other requests wait for the very first text.
        """
        if self._waiting >= _MOST_SCRAPES:
            if self._last is not None:
                return self._last
            message = f"{_MOST_SCRAPES} requests wait for the metrics: ask again in a second"
            raise HTTPException(503, message, headers={"Retry-After": "1"})
        if self._next is None:
            self._next = asyncio.create_task(self._rendered())
        self._waiting += 1
        try:
            # Another scrape may wait for the same text.
            return await asyncio.shield(self._next)
        finally:
            self._waiting -= 1

    async def _rendered(self) -> tuple[bytes, str]:
        loop = asyncio.get_running_loop()
        try:
            await asyncio.sleep(self._not_before_s - loop.time())
        finally:
            self._next = None
        self._not_before_s = loop.time() + _LEAST_RENDER_GAP_S
        # Conditions may be asked on the event loop only, and the text is rendered on a thread.
        conditions = self._health.conditions()
        self._metrics.scrape(_CONDITIONS, lambda: conditions)
        self._last = await asyncio.to_thread(self._metrics.render)
        return self._last


def _is_verbose(request: Request) -> bool:
    """Return whether ``verbose`` is in the first 64 bytes of the query; only these are parsed."""
    query: bytes = request.scope["query_string"]
    return b"verbose" in query[:_MOST_QUERY_BYTES].replace(b"=", b"&").split(b"&")


def _report(endpoint: str, checks: Sequence[HealthCheck], *, verbose: bool) -> tuple[int, str]:
    reasons = [(check.name, check.why_not()) for check in checks]
    failed = any(reason for _, reason in reasons)
    if not (failed or verbose):
        return 200, "ok"
    lines = [
        f"[-]{name} failed: {reason}" if reason else f"[+]{name} ok" for name, reason in reasons
    ]
    lines.append(f"{endpoint} check {'failed' if failed else 'passed'}")
    return 503 if failed else 200, "\n".join(lines) + "\n"
