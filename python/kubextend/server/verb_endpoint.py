"""One verb as an ASGI application: the boundary at which every failure becomes an answer."""

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from kubextend.errors import WireError
from kubextend.server.body import read_body
from kubextend.server.reply import RefusedError, refuse, reply
from kubextend.server.while_wanted import while_wanted
from kubextend.verbs import Verbs
from kubextend.verbs.answer import Verb, failure

__all__ = ["VerbEndpoint"]

_LOGGER = logging.getLogger(__name__)


class VerbEndpoint:
    """Reads the body, runs the verb, writes its answer.

    Args:
        verb: which one.
        verbs: all of them.
        most_body_bytes: larger bodies are refused.
    """

    def __init__(self, verb: Verb, verbs: Verbs, *, most_body_bytes: int) -> None:
        self._verb: Verb = verb
        self._verbs = verbs
        self._metrics = verbs.metrics
        self._most_body_bytes = most_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The request is answered; a client that went away in the middle is not."""
        # The server calls this when the head is read. kube-scheduler's time runs since before that.
        arrived_s = time.monotonic()
        try:
            body = await read_body(scope, receive, self._most_body_bytes, "server.maxBodyBytes")
            answer = await self._run(body, scope, receive, arrived_s)
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

    async def _run(self, body: bytes, scope: Scope, receive: Receive, arrived_s: float) -> bytes:
        self._metrics.body_bytes(self._verb).observe(len(body))
        started_s = time.perf_counter()
        try:
            work = self._work(body, arrived_s)
            if isinstance(work, bytes):
                return work
            return await while_wanted(work, scope, receive)
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

    def _work(self, body: bytes, arrived_s: float) -> bytes | Coroutine[Any, Any, bytes]:
        """The answer, or what is to be awaited for it."""
        verb, verbs = self._verb, self._verbs
        if verb == "bind":
            return verbs.bind(body, arrived_s)
        if verbs.is_brief(verb, body):
            return verbs.run(verb, body)
        return verbs.in_time(verb, body, arrived_s)
