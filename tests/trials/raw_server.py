"""Runs the server for hostile clients: verbs, and answers that are held or large.

``/hold/KEY`` is answered after ``/release/KEY``, and ``/large`` with 8 MB.

``python -m tests.trials.raw_server FILE [FOLDER]`` writes the URLs of two listeners into a file as
JSON; the second gives clients half a second. A folder has the certificate of both. The program runs
until it is killed.
"""

import asyncio
import json
import sys
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.doors.extender import Extender
from tests.doors.sockets import serve

LARGE_BYTES: Final = 8 * 1024 * 1024
MOST_BODY_BYTES: Final = 4 * 1024 * 1024
HASTY_S: Final = 0.5


_going: Final[defaultdict[str, asyncio.Event]] = defaultdict(asyncio.Event)


async def hold(request: Request) -> Response:
    await _going[request.path_params["key"]].wait()
    return Response("{}")


async def release(request: Request) -> Response:
    _going[request.path_params["key"]].set()
    return Response("{}")


async def large(_: Request) -> Response:
    return Response("x" * LARGE_BYTES)


def main(file: str, folder: str = "") -> None:
    limits = {"maxBodyBytes": MOST_BODY_BYTES, "maxInFlightBytes": 4 * MOST_BODY_BYTES}
    files = {"certFile": f"{folder}/tls.crt", "keyFile": f"{folder}/tls.key"}
    server: dict[str, Any] = limits | ({"tls": files} if folder else {})
    extender = Extender(server=server)
    delayed = {"/hold/{key}": hold, "/release/{key}": release, "/large": large}
    extender.asgi.router.routes.extend(Route(path, answer) for path, answer in delayed.items())
    with serve(extender) as patient, serve(extender, deadline_s=HASTY_S) as hasty:
        written = Path(file).with_suffix(".part")
        written.write_text(json.dumps([patient.url, hasty.url]))
        written.rename(file)
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
