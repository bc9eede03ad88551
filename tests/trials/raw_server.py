"""Runs the server for hostile clients: verbs without plugins, and delayed or large answers.

``python -m tests.trials.raw_server PORT HASTY_PORT [FOLDER]`` listens on two ports, which differ in
how long they wait for a client, with the certificate of a folder if there is one.
"""

import asyncio
import contextlib
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Final

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

LARGE_BYTES: Final = 8 * 1024 * 1024
MOST_BODY_BYTES: Final = 4 * 1024 * 1024
HASTY: Final = Deadlines(head_s=0.5, body_s=0.5, answer_s=0.5, slowest_bytes=1 << 30)
_going: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)


class Hold:
    """``/hold/KEY`` is answered once a request for ``/release/KEY`` comes."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The end of the server cancels what is held.
        with contextlib.suppress(asyncio.CancelledError):
            await _going[Request(scope).path_params["key"]].wait()
            await reply(send, 200, b"{}")


class Release:
    """Lets the answer of ``/hold/KEY`` go."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _going[Request(scope).path_params["key"]].set()
        await reply(send, 200, b"{}")


class Large:
    """Answers with 8 MB."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await reply(send, 200, b"x" * LARGE_BYTES)


def main(port: str, hasty_port: str, folder: str = "") -> None:
    tls = TlsFiles(Path(folder, "tls.crt"), Path(folder, "tls.key")) if folder else None
    health, metrics = Health(), Metrics()
    memory = Memory.of(NO_CLUSTER, metrics, look_again_s=1.0)
    memory = replace(memory, pool=core.BodyPool())
    app = application(
        Verbs(Context(Profiles({}), memory, metrics=metrics)),
        health,
        limits=Limits(MOST_BODY_BYTES, 4 * MOST_BODY_BYTES),
        more_routes=[
            Route("/hold/{key}", Hold()),
            Route("/release/{key}", Release()),
            Route("/large", Large()),
        ],
    )
    hasty = Listener(app, "127.0.0.1", int(hasty_port), tls=tls, deadlines=HASTY)
    Service(Listener(app, "127.0.0.1", int(port), tls=tls), health, probes=hasty).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
