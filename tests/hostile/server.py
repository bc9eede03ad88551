"""Runs the server for hostile clients: verbs without plugins, and delayed or large answers.

The program prints the ports of two listeners that differ in how long they wait for a client, and
runs until its standard input ends.
"""

import asyncio
import contextlib
import json
import sys
import threading
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from kubextend import core
from kubextend.framework.handle import NO_CLUSTER
from kubextend.metrics import Metrics
from kubextend.profile import Profiles
from kubextend.server import Deadlines, Health, Limits, Listener, Service, TlsFiles, application
from kubextend.server.reply import reply
from kubextend.verbs import Context, Memory, Verbs

LARGE_BYTES = 8 * 1024 * 1024
MOST_BODY_BYTES = 4 * 1024 * 1024
HASTY = Deadlines(head_s=0.5, body_s=0.5, answer_s=0.5, slowest_bytes=1 << 30)


class Held:
    """Endpoints: ``/hold/KEY`` is answered once a request for ``/release/KEY`` comes."""

    def __init__(self) -> None:
        self._go: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def hold(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The end of the server cancels what is held.
        with contextlib.suppress(asyncio.CancelledError):
            await self._go[Request(scope).path_params["key"]].wait()
            await reply(send, 200, b"{}")

    async def release(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._go[Request(scope).path_params["key"]].set()
        await reply(send, 200, b"{}")


class Asgi:
    """Wraps an ASGI application so that Starlette does not take it for a request handler."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope, receive, send)  # type: ignore[operator]


async def large(scope: Scope, receive: Receive, send: Send) -> None:
    await reply(send, 200, b"x" * LARGE_BYTES)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    tls = None if folder is None else TlsFiles(folder / "tls.crt", folder / "tls.key")
    held, health = Held(), Health()
    metrics = Metrics()
    memory = Memory.of(NO_CLUSTER, metrics, look_again_s=1.0)
    memory = replace(memory, pool=core.BodyPool())
    app = application(
        Verbs(Context(Profiles({}), memory, metrics=metrics)),
        health,
        limits=Limits(MOST_BODY_BYTES, 4 * MOST_BODY_BYTES),
        more_routes=[
            Route("/hold/{key}", Asgi(held.hold)),
            Route("/release/{key}", Asgi(held.release)),
            Route("/large", Asgi(large)),
        ],
    )

    def tell(urls: list[str]) -> None:
        ports = [int(url.rpartition(":")[2]) for url in urls]
        sys.stdout.write(json.dumps(ports) + "\n")
        sys.stdout.flush()

    service = Service(
        Listener(app, "127.0.0.1", 0, tls=tls),
        health,
        probes=Listener(app, "127.0.0.1", 0, tls=tls, deadlines=HASTY),
        announce=tell,
    )

    def end_with_parent() -> None:
        sys.stdin.buffer.read()
        service.stop()
        service.stop()

    threading.Thread(target=end_with_parent, daemon=True).start()
    service.run()


if __name__ == "__main__":
    main()
