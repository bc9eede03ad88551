"""One verb as an ASGI application: the boundary at which every failure becomes an answer."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from functools import partial
from http import HTTPStatus
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from kubextend.errors import WireError
from kubextend.server.cancel_on_disconnect import while_wanted
from kubextend.server.connection.body_reader import BodyReader
from kubextend.server.connection.limits import Admission, Share
from kubextend.server.connection.shortcut import MOST_SHORTCUT_BYTES, ShortAnswer, Shortcut
from kubextend.server.reply import RefusedError, error_body, refuse, reply
from kubextend.verbs import Verbs
from kubextend.verbs.answer import Body, Verb, failure

__all__ = ["VerbEndpoint"]

_LOGGER = logging.getLogger(__name__)


class VerbEndpoint:
    """Reads the body, runs the verb, writes its answer.

    Args:
        verb: which one.
        verbs: all of them.
        bodies: how a body is read.
        admission: what is in flight, of all verbs.
    """

    def __init__(
        self,
        verb: Verb,
        verbs: Verbs,
        *,
        bodies: BodyReader,
        admission: Admission,
    ) -> None:
        self._verb: Verb = verb
        self._verbs = verbs
        self._metrics = verbs.metrics
        self._body_bytes = verbs.metrics.body_bytes(verb)
        self._duration = verbs.metrics.duration(verb)
        self._bodies = bodies
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The request is answered; a client that went away in the middle is not."""
        # The server calls this when the head is read. kube-scheduler's time runs since before that.
        arrived_s = time.monotonic()
        share = Share(self._admission)
        try:
            body = await self._bodies.read(scope, receive, share)
            if self._verb == "bind":
                # Permit may hold it for minutes, and by then nothing is left of its body.
                share.give_back()
            answer = await self._run(body, scope, receive, arrived_s, share)
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
        finally:
            share.give_back()

    def shortcut(self) -> Shortcut | None:
        """Answers small bodies where they are read; None where the verb may take its time."""
        verb = self._verb
        if verb == "bind" or not self._verbs.is_brief(verb, MOST_SHORTCUT_BYTES):
            return None
        if self._bodies.most_bytes < MOST_SHORTCUT_BYTES:
            return None
        return partial(self._answer_at_once, partial(self._verbs.run, verb))

    def _answer_at_once(self, run: Callable[[bytes], Body], body: bytes) -> ShortAnswer:
        self._body_bytes.observe(len(body))
        started_s = time.perf_counter()
        try:
            return ShortAnswer(HTTPStatus.OK, run(body))
        except RefusedError as refused:
            self._metrics.refused(str(refused.status)).inc()
            return ShortAnswer(HTTPStatus(refused.status), error_body(refused.message))
        except WireError as error:
            self._metrics.refused(str(int(HTTPStatus.BAD_REQUEST))).inc()
            return ShortAnswer(HTTPStatus.BAD_REQUEST, error_body(str(error)))
        except BaseException:
            _LOGGER.exception("%s failed", self._verb)
            return ShortAnswer(HTTPStatus.OK, failure(self._verb))
        finally:
            self._duration.observe(time.perf_counter() - started_s)

    async def _run(
        self, body: Body, scope: Scope, receive: Receive, arrived_s: float, share: Share
    ) -> Body:
        verb, verbs = self._verb, self._verbs
        self._body_bytes.observe(len(body))
        started_s = time.perf_counter()
        try:
            work: Coroutine[Any, Any, Body]
            if verb == "bind":
                work = verbs.bind(body, arrived_s)
            elif verbs.is_brief(verb, len(body)):
                return verbs.run(verb, body)
            else:
                work = verbs.in_time(verb, body, arrived_s, share.keep_until)
            return await while_wanted(work, scope, receive)
        except WireError as error:
            raise RefusedError(HTTPStatus.BAD_REQUEST, str(error), unread=False) from error
        except (asyncio.CancelledError, ClientDisconnect):
            raise
        except BaseException:
            # A panic of the core is a BaseException, and a plugin may raise SystemExit.
            _LOGGER.exception("%s failed", self._verb)
            return failure(self._verb)
        finally:
            self._duration.observe(time.perf_counter() - started_s)
