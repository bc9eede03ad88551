"""Serves ``/livez``, ``/readyz`` and ``/metrics`` in the form of Kubernetes' own components."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from kubextend.metrics import Metrics, ScrapedGauge

__all__ = ["Health", "HealthCheck", "health_routes"]

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
        self._why_shut = ""
        self._on_shut_down = on_shut_down
        live = (HealthCheck("ping", lambda: ""), *alive)
        shut = HealthCheck("shutdown", lambda: self._why_shut)
        self._probes = {"livez": live, "readyz": (*live, *checks, shut)}

    def shut_down(self) -> None:
        """Fail readiness from now on; the process stays alive."""
        self._why_shut = "kubextend is shutting down"
        self._on_shut_down()

    def conditions(self) -> dict[tuple[str, ...], bool]:
        """Return (probe, name of a condition) -> whether the condition holds now."""
        return {
            (probe, check.name): not check.why_not()
            for probe, checks in self._probes.items()
            for check in checks
        }

    def livez(self, *, verbose: bool) -> tuple[int, str]:
        """Return the HTTP status and text of ``/livez``; the text names each failing check."""
        return self._report("livez", verbose=verbose)

    def readyz(self, *, verbose: bool) -> tuple[int, str]:
        """Return the HTTP status and text of ``/readyz``; the text names each failing check."""
        return self._report("readyz", verbose=verbose)

    def _report(self, probe: str, *, verbose: bool) -> tuple[int, str]:
        reasons = [(check.name, check.why_not()) for check in self._probes[probe]]
        failed = any(reason for _, reason in reasons)
        if not (failed or verbose):
            return 200, "ok"
        lines = [
            f"[-]{name} failed: {reason}" if reason else f"[+]{name} ok" for name, reason in reasons
        ]
        lines.append(f"{probe} check {'failed' if failed else 'passed'}\n")
        return 503 if failed else 200, "\n".join(lines)


def health_routes(health: Health, metrics: Metrics) -> list[Route]:
    """Return the routes ``/livez``, ``/readyz`` and ``/metrics``.

    A hundred histograms take 20 ms to render, in which verbs get less time of the interpreter. The
    text of all metrics is therefore rendered on a thread, one at a time.
    """
    rendering = asyncio.Lock()

    async def show(_request: Request) -> Response:
        async with rendering:
            # Conditions may be asked on the event loop only.
            conditions = health.conditions()
            metrics.scrape(_CONDITIONS, lambda: conditions)
            text, content_type = await asyncio.to_thread(metrics.render)
        return Response(text, headers={"content-type": content_type})

    def probe(path: str, report: Callable[..., tuple[int, str]]) -> Route:
        async def answer(request: Request) -> Response:
            status, text = report(verbose="verbose" in request.query_params)
            return PlainTextResponse(text, status)

        return Route(path, answer)

    return [
        probe("/livez", health.livez),
        probe("/readyz", health.readyz),
        Route("/metrics", show),
    ]
