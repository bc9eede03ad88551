"""Spreads answers about pods of one namespace over time.

kube-scheduler tries a pod again at once whose bind failed. When a large gang fails, the attempts
for its pods would keep the pods of every other namespace waiting for seconds.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

__all__ = ["AnswerThrottle"]

INTERVAL_S: Final = 0.05
"""kube-scheduler makes some hundred attempts a second."""
AT_ONCE: Final = 20


class AnswerThrottle:
    """For each namespace: 20 answers at once, then one each 50 ms. For one event loop.

    Args:
        clock: monotonic seconds.
        sleep: waits as many seconds as it is given.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        # By namespace: when as many may be answered at once as at the beginning.
        self._rested_s: dict[str, float] = {}

    async def turn(self, namespace: str, until_s: float | None) -> None:
        """Wait until the next pod of the namespace may be answered.

        Args:
            namespace: the namespace of the pod.
            until_s: when the answer has to leave in any case; None: never.
        """
        now_s = self._clock()
        self._rested_s = {name: at_s for name, at_s in self._rested_s.items() if at_s > now_s}
        rested_s = self._rested_s.get(namespace, now_s) + INTERVAL_S
        self._rested_s[namespace] = rested_s
        turn_s = rested_s - AT_ONCE * INTERVAL_S
        if until_s is not None:
            turn_s = min(turn_s, until_s)
        if turn_s > now_s:
            await self._sleep(turn_s - now_s)
