"""Spreads the answers about pods of one namespace that Permit held and rejected over time.

kube-scheduler tries a pod again at once whose bind failed. When a large gang fails, the attempts
for its pods would keep the pods of every other namespace waiting for seconds.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

__all__ = ["AnswerThrottle"]

INTERVAL_S: Final = 0.025
"""A quarter of the attempts that kube-scheduler makes in a second."""
AT_ONCE: Final = 20
LONGEST_S: Final = 25.0
"""Bounds how long kube-scheduler counts a rejected pod on its node: enough for a thousand pods."""
MOST_WAITING: Final = 1000
"""Each answer that waits keeps a connection, and so does each pod that Permit holds."""


class AnswerThrottle:
    """For each namespace: 20 answers at once, then one each 25 ms. For one event loop.

    An answer that would have to wait longer than 25 s leaves at once, and so does every answer
    while 1,000 answers wait.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # By namespace: when as many may be answered at once as at the beginning.
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
        """Wait for so many seconds, or until ``close``."""
        if seconds <= 0 or self._is_closed:
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
        """End the wait of all answers, and let no later answer wait; any thread may call."""
        self._is_closed = True
        for over in list(self._waiting):
            over.get_loop().call_soon_threadsafe(_end, over)

    def __len__(self) -> int:
        """Return how many answers wait."""
        return len(self._waiting)

    def _prune(self, now_s: float) -> None:
        """Forget, each second, the namespaces that have rested."""
        if now_s >= self._pruned_s + 1.0:
            self._pruned_s = now_s
            resting = self._rested_s.items()
            self._rested_s = {name: at_s for name, at_s in resting if at_s > now_s}


def _end(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)
