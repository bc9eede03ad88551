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
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from kubextend.decisions import DecisionReader
from kubextend.metrics import Metrics
from kubextend.server.access import Access, refuse_caller
from kubextend.server.reply import RefusedError, reply

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
        endpoint = _Endpoint(reader, access, metrics, read, busy)
        return Route(f"{prefix}{where}", endpoint, methods=["GET"])

    return [
        route("/decisions", _pod),
        route("/decisions/{uid}/nodes", _nodes),
        route("/plugins", _plugins),
        route("/overview", _overview),
    ]


class _Endpoint:
    """The ASGI application of one question."""

    def __init__(
        self,
        reader: DecisionReader,
        access: Access,
        metrics: Metrics,
        read: _Read,
        busy: threading.Semaphore,
    ) -> None:
        self._reader = reader
        self._access = access
        self._metrics = metrics
        self._read = read
        self._busy = busy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the ASGI request of ``scope``."""
        try:
            await self._access.caller(scope, self._metrics)
            request = Request(scope, receive)
            uid = str(request.path_params.get("uid", ""))
            body = await self._answer(uid, request.query_params)
        except RefusedError as refused:
            await refuse_caller(send, refused, self._metrics)
        else:
            await reply(send, 200, body)

    async def _answer(self, uid: str, query: QueryParams) -> bytes:
        # Readers must not take all threads from the verbs.
        if not self._busy.acquire(blocking=False):
            raise RefusedError(503, "other readers are being answered: ask again in a second")
        try:
            return await asyncio.to_thread(self._json, uid, query)
        finally:
            self._busy.release()

    def _json(self, uid: str, query: QueryParams) -> bytes:
        return orjson.dumps(self._read(self._reader, uid, query), option=_TIMES, default=str)


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


def _plugins(reader: DecisionReader, _uid: str, _query: QueryParams) -> object:
    return reader.plugins()


def _overview(reader: DecisionReader, _uid: str, _query: QueryParams) -> object:
    return reader.overview()
