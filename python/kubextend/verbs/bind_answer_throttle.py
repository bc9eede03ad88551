"""Keeps waiting the answers of bind to which kube-scheduler would react at once.

kube-scheduler tries a pod again at once whose bind failed. When a large gang fails, the attempts
for its pods would keep the pods of every other namespace waiting for seconds. The answers about
pods of one namespace that Permit held and rejected are therefore spread over time.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

__all__ = ["AnswerThrottle"]

INTERVAL_S: Final = 0.025
"""Seconds between two answers: a quarter of kube-scheduler's attempts at pods in that time."""
AT_ONCE: Final = 20
LONGEST_S: Final = 25.0
"""The most seconds that an answer waits, in which kube-scheduler counts the pod on its node."""
MOST_WAITING: Final = 1000
"""The most answers that wait at a time: each keeps a connection, as a pod in Permit does."""


class AnswerThrottle:
    """Lets 20 answers about pods of a namespace leave at once, and then one each 25 ms.

    An answer that would have to wait longer than 25 s leaves at once, and so does every answer
    while 1,000 answers wait. Use an instance on one event loop only.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Namespace -> when 20 answers may leave at once again, in monotonic seconds.
        self._rested_s: dict[str, float] = {}
        self._pruned_s = clock()
        self._waiting: set[asyncio.Future[None]] = set()
        self._is_closed = False

    def delay_s(self, namespace: str) -> float:
        """Return how many seconds the next answer about a pod of the namespace has to wait."""
        now_s = self._clock()
        self._prune(now_s)
        rested_s = max(self._rested_s.get(namespace, now_s), now_s) + INTERVAL_S
        delay_s = max(0.0, rested_s - now_s - AT_ONCE * INTERVAL_S)
        if delay_s > LONGEST_S or len(self._waiting) >= MOST_WAITING or self._is_closed:
            return 0.0
        self._rested_s[namespace] = rested_s
        return delay_s

    async def wait(self, seconds: float) -> None:
        """Wait for so many seconds, or until ``close``; not at all while 1,000 answers wait."""
        if seconds <= 0 or self._is_closed or len(self._waiting) >= MOST_WAITING:
            return
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(seconds, _end, over)
        self._waiting.add(over)
        try:
            await over
        finally:
            timer.cancel()
            self._waiting.discard(over)

    def close(self) -> None:
        """End the wait of all answers, and let no later answer wait. Any thread may call."""
        self._is_closed = True
        for over in list(self._waiting):
            over.get_loop().call_soon_threadsafe(_end, over)

    def __len__(self) -> int:
        """Return how many answers wait."""
        return len(self._waiting)

    def _prune(self, now_s: float) -> None:
        """Forget, once a second, the namespaces that again may get 20 answers at once."""
        if now_s >= self._pruned_s + 1.0:
            self._pruned_s = now_s
            resting = self._rested_s.items()
            self._rested_s = {name: at_s for name, at_s in resting if at_s > now_s}


def _end(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)
