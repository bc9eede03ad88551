"""One verb as an ASGI application: the boundary at which every failure becomes an answer."""

import asyncio
import inspect
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any, cast

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from kubextend.errors import WireError
from kubextend.metrics import Metrics
from kubextend.server.body import read_body
from kubextend.server.reply import RefusedError, refuse, reply
from kubextend.server.workers import Workers
from kubextend.verbs.answer import Verb, failure

__all__ = ["VerbEndpoint"]

_LOGGER = logging.getLogger(__name__)
# A thread hop costs 50 to 75 us; below this size the core needs less than a millisecond or two.
_INLINE_BYTES = 1_000_000


class VerbEndpoint:
    """Reads the body, runs the verb, writes its answer.

    Args:
        verb: which one.
        answer: bytes of a request to bytes of its answer; awaited if it is ``async``.
        workers: where large bodies run.
        metrics: what is counted.
        most_body_bytes: larger bodies are refused.
    """

    def __init__(
        self,
        verb: Verb,
        answer: Callable[[bytes], bytes] | Callable[[bytes], Coroutine[Any, Any, bytes]],
        *,
        workers: Workers,
        metrics: Metrics,
        most_body_bytes: int,
    ) -> None:
        self._verb: Verb = verb
        self._answer = answer
        self._workers = workers
        self._metrics = metrics
        self._most_body_bytes = most_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The request is answered; a client that went away in the middle is not."""
        try:
            body = await read_body(scope, receive, self._most_body_bytes)
            answer = await self._run(body, receive)
        except ClientDisconnect:
            return
        except asyncio.CancelledError:
            # Only the end of the server cancels a request; uvicorn would log a traceback.
            await refuse(scope, send, RefusedError(503, "kubextend is shutting down"))
        except RefusedError as refused:
            self._metrics.refused(str(refused.status)).inc()
            await refuse(scope, send, refused)
        else:
            await reply(send, 200, answer)

    async def _run(self, body: bytes, receive: Receive) -> bytes:
        self._metrics.body_bytes(self._verb).observe(len(body))
        started_s = time.perf_counter()
        try:
            return await self._where_it_belongs(body, receive)
        except WireError as error:
            raise RefusedError(400, str(error), unread=False) from error
        except (asyncio.CancelledError, ClientDisconnect):
            raise
        except BaseException:
            # A panic of the core is a BaseException, and a plugin may raise SystemExit.
            _LOGGER.exception("%s failed", self._verb)
            return failure(self._verb)
        finally:
            self._metrics.duration(self._verb).observe(time.perf_counter() - started_s)

    async def _where_it_belongs(self, body: bytes, receive: Receive) -> bytes:
        if inspect.iscoroutinefunction(self._answer):
            return await _while_wanted(self._answer(body), receive)
        answer = cast("Callable[[bytes], bytes]", self._answer)
        if len(body) > _INLINE_BYTES:
            return await _while_wanted(self._workers.compute(answer, body), receive)
        return answer(body)


async def _while_wanted(work: Coroutine[Any, Any, bytes], receive: Receive) -> bytes:
    """What the work returns; work that has not begun in a thread, or is held, ends with its client.

    kube-scheduler places a pod anew once a bind of it timed out: an old one that begins after that
    would take the pod to a node that is no longer meant.

    Raises: ClientDisconnect: the client went away first.
    """
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_client_gone(receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientDisconnect
    finally:
        working.cancel()
        gone.cancel()


async def _client_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
