"""HTTP endpoints that tell what kubextend decided about a pod; they change nothing.

An endpoint checks the caller before it looks for the pod, so only an allowed caller learns whether
there is a record.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Final, TypeAlias

import orjson
from starlette.datastructures import QueryParams
from starlette.routing import Route
from starlette.types import Receive, Scope

from kubextend.decisions import DecisionReader
from kubextend.metrics import Metrics
from kubextend.server.access import Access, CheckedEndpoint
from kubextend.server.reply import RefusedError

__all__ = ["decision_routes"]

_TIMES: Final = orjson.OPT_UTC_Z
_NODE_FIELDS: Final = ("reason", "plugin", "node")
# To read a record of 15,000 nodes takes a tenth of a second of the interpreter.
_MOST_AT_ONCE: Final = 2

_Read: TypeAlias = Callable[[DecisionReader, str, QueryParams], object]
"""A function of the reader, the UID of the path and the query; returns the JSON answer."""


def decision_routes(
    reader: DecisionReader, access: Access, metrics: Metrics, *, path: str = "/"
) -> list[Route]:
    """Return the HTTP routes that tell decisions about pods, the health of plugins, and a summary.

    Args:
        reader: reads the records.
        access: decides who may read.
        metrics: counts refusals.
        path: the prefix of the routes, the same as that of the verbs.
    """
    prefix = path.rstrip("/")
    busy = threading.Semaphore(_MOST_AT_ONCE)

    def route(where: str, read: _Read) -> Route:
        async def answer(_who: str, scope: Scope, _receive: Receive) -> bytes:
            uid, query = scope["path_params"].get("uid", ""), QueryParams(scope["query_string"])
            # Readers must not take all threads from the verbs.
            if not busy.acquire(blocking=False):
                raise RefusedError(503, "other readers are being answered: ask again in a second")
            try:
                return await asyncio.to_thread(lambda: _json(read(reader, uid, query)))
            finally:
                busy.release()

        endpoint = CheckedEndpoint(access, metrics, answer)
        return Route(f"{prefix}{where}", endpoint, methods=["GET"])

    return [
        route("/decisions", _pod),
        route("/decisions/{uid}/nodes", _nodes),
        route("/plugins", lambda *_: reader.plugins()),
        route("/overview", lambda *_: reader.overview()),
    ]


def _json(answer: object) -> bytes:
    return orjson.dumps(answer, option=_TIMES, default=str)


def _pod(reader: DecisionReader, _uid: str, query: QueryParams) -> object:
    wanted = query.get("pod", "")
    if not wanted:
        raise RefusedError(400, "pod: Required value: namespace/name, or a UID")
    namespace, slash, name = wanted.partition("/")
    return reader.pod("", namespace, name) if slash else reader.pod(wanted)


def _nodes(reader: DecisionReader, uid: str, query: QueryParams) -> object:
    if unknown := sorted(query.keys() - set(_NODE_FIELDS)):
        raise RefusedError(400, f"{unknown[0]}: unknown; known: {', '.join(_NODE_FIELDS)}")
    answer = reader.nodes(uid, dict(query))
    if answer is None:
        raise RefusedError(404, f"there is no record of a pod of UID {uid}")
    return answer
