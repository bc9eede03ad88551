"""The ASGI application of one verb, such as filter; every failure becomes an answer."""

import asyncio
import logging
import time
from contextlib import closing
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from kubextend.errors import WireError
from kubextend.metrics import HistogramFamily, Metrics, exponential
from kubextend.server.cancel_on_disconnect import cancel_on_disconnect
from kubextend.server.reply import REFUSED, send_json
from kubextend.server.request_body import BodyReader, BytesInFlight, Share
from kubextend.verbs import Verb
from kubextend.verbs.answer import Answer

__all__ = ["VerbEndpoint"]

_LOGGER = logging.getLogger(__name__)
# kube-scheduler's scheduling_algorithm_duration_seconds has ExponentialBuckets(0.001, 2, 15)
# (kubernetes v1.36 pkg/scheduler/metrics/metrics.go). Five more buckets halve the millisecond,
# because most answers of a names-mode verb take less.
_DURATION: Final = HistogramFamily(
    "kubextend_verb_duration_seconds",
    "From the whole body read to the answer ready.",
    exponential(0.001 / 2**5, 2, 20),
    ("verb",),
)
_BODY_BYTES: Final = HistogramFamily(
    "kubextend_request_body_bytes", "Bytes of a body.", exponential(1024.0, 4.0, 11), ("verb",)
)
_INTERNAL: Final = "kubextend failed internally; its log says where"


class VerbEndpoint:
    """Reads the body of a request, runs a verb such as filter, and sends the verb's answer.

    Args:
        verb: the verb to run.
        metrics: counts the requests.
        bodies: reads bodies within their limits.
        in_flight: the bytes of the requests of all verbs.
    """

    def __init__(
        self, verb: Verb, metrics: Metrics, bodies: BodyReader, in_flight: BytesInFlight
    ) -> None:
        self._verb = verb
        self._metrics = metrics
        self._body_bytes = metrics.histogram(_BODY_BYTES, verb.name)
        self._duration = metrics.histogram(_DURATION, verb.name)
        self._bodies = bodies
        self._in_flight = in_flight

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the ASGI request of ``scope``, unless the client disconnects before.

        Raises: HTTPException: the request is refused, and the verb has no answer for that.
        """
        # kube-scheduler began to count its timeout before this.
        arrived_s = time.monotonic()
        with closing(Share(self._in_flight)) as share:
            try:
                body = await self._bodies.read(scope, receive, share)
                self._body_bytes.observe(len(body))
                started_s = time.perf_counter()
                try:
                    answer = self._verb.at_once(body)
                    if answer is None:
                        work = self._verb.answer(body, arrived_s, share.keep_until)
                        if not self._verb.holds_body:
                            # The verb may take minutes, and reads the body before it waits.
                            del body
                            share.close()
                        answer = await cancel_on_disconnect(work, receive)
                finally:
                    self._duration.observe(time.perf_counter() - started_s)
                share.take_in_all(len(answer.body))
            except ClientDisconnect:
                return
            except BaseException as error:  # noqa: BLE001  becomes an answer, or is raised again
                answer = self._in_place_of(error)
            body = b""
            await send_json(scope, send, 200, answer.body)

    def _in_place_of(self, error: BaseException) -> Answer:
        """Return the answer that tells an error; raise HTTPException if only HTTP can tell it."""
        match error:
            case HTTPException():
                refused = error
            case WireError():
                refused = HTTPException(400, str(error))
            case asyncio.CancelledError():
                # Only the end of the server cancels a request; uvicorn would log a traceback.
                refused = HTTPException(503, "kubextend is shutting down")
            case _:
                # A panic of the core is a BaseException, and a plugin may raise SystemExit.
                _LOGGER.error("%s failed", self._verb.name, exc_info=error)
                return self._verb.instead(_INTERNAL)
        if not self._verb.answers_refusals:
            raise refused
        self._metrics.counter(REFUSED, str(refused.status_code)).inc()
        return self._verb.instead(refused.detail)
