"""Keeps waiting the answers of bind to which kube-scheduler would react at once.

kube-scheduler 1.37 tries a member of a pod group again without any backoff when its bind failed,
hundreds of times a second. And when the gang of a Permit plugin fails, the attempts for all of its
pods would keep the pods of other namespaces waiting for seconds.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from kubextend import core
from kubextend.verbs.bounded_dict import BoundedDict

__all__ = ["AnswerThrottle"]

_LOGGER = logging.getLogger(__name__)

# The refusals of a member are answered after 1, 2, 4, 8 and 10 s, as kube-scheduler backs off for
# other pods.
_FIRST_S: Final = 1.0
_LONGEST_S: Final = 10.0
# Of the pods of a namespace that Permit held, 20 are answered at once, and then one each 25 ms: a
# quarter of kube-scheduler's attempts at pods in that time.
_AT_ONCE: Final = 20
_INTERVAL_S: Final = 0.025
# Each answer that waits keeps a connection, as a pod in Permit does.
_MOST_WAITING: Final = 1000
_MOST_PODS: Final = 4096


class AnswerThrottle:
    """Delays the answers of bind about pods that are not bound. Use it on one event loop only.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Pod -> how often bind refused it; namespace -> until when its next 25 ms are taken.
        self._refusals: BoundedDict[int] = BoundedDict(_MOST_PODS)
        self._taken_s: BoundedDict[float] = BoundedDict(_MOST_PODS)
        self._waiting: set[asyncio.Future[None]] = set()
        self._is_closed = False

    def delay_s(self, pod: core.Pod, *, was_held: bool) -> float:
        """Return in how many seconds kube-scheduler is to hear that a pod is not bound.

        Args:
            pod: the pod.
            was_held: whether Permit held the pod and then rejected it.
        """
        if pod.scheduling_group:
            refusals = self._refusals.get(pod.uid, 0) + 1
            self._refusals.put(pod.uid, refusals)
            delay_s = min(_FIRST_S * 2.0 ** min(refusals - 1, 10), _LONGEST_S)
            _LOGGER.info(
                "kube-scheduler hears in %g s of refusal %d of pod %s/%s in pod group %s",
                *(delay_s, refusals, pod.namespace, pod.name, pod.scheduling_group),
            )
            return delay_s
        if not was_held:
            return 0.0
        now_s = self._clock()
        taken_s = max(self._taken_s.get(pod.namespace, now_s), now_s) + _INTERVAL_S
        self._taken_s.put(pod.namespace, taken_s)
        return max(0.0, taken_s - now_s - _AT_ONCE * _INTERVAL_S)

    async def wait(self, seconds: float) -> None:
        """Wait for so many seconds, or until ``close``; not at all while 1,000 answers wait."""
        if seconds <= 0 or self._is_closed or len(self._waiting) >= _MOST_WAITING:
            return
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(over)
        try:
            await asyncio.wait([over], timeout=seconds)
        finally:
            self._waiting.discard(over)

    def forget(self, uid: str) -> None:
        """Forget how often bind refused a pod that is bound or deleted. Any thread may call."""
        self._refusals.pop(uid, None)

    def close(self) -> None:
        """End the wait of all answers, and let no later answer wait. Any thread may call."""
        self._is_closed = True
        for over in list(self._waiting):
            over.get_loop().call_soon_threadsafe(_end, over)


def _end(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)
