"""A pool of threads that wait for the Kubernetes API, so that the event loop does not."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from kubextend.profile.threads import ThreadUse

__all__ = ["ApiThreads"]

_T = TypeVar("_T")

# A binding is a wait for the API; kube-scheduler itself runs any number of them at once.
BIND_THREADS: Final = 64


class ApiThreads:
    """A pool of threads for calls of the Kubernetes API; runs no code of plugins.

    Args:
        most: the number of threads.
    """

    def __init__(self, most: int = BIND_THREADS) -> None:
        self._most = most
        self._calls = 0
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="kubextend-api")

    async def wait_for(self, call: Callable[[], _T]) -> _T:
        """Run ``call`` on a thread of the pool; return its result, or raise its exception.

        If the task is cancelled before the call begins, the call never begins. If the call has
        begun, this method waits for the call, because a Binding that is on its way must not count
        as a Binding that was never sent.
        """
        begun = self._pool.submit(call)
        outcome = asyncio.wrap_future(begun)
        self._calls += 1
        outcome.add_done_callback(self._end_call)
        while not outcome.done():
            try:
                await asyncio.shield(outcome)
            except asyncio.CancelledError:
                # A deadline, a client that goes away and a newer request may all cancel.
                if begun.cancel():
                    raise
        return outcome.result()

    def _end_call(self, _outcome: object) -> None:
        self._calls -= 1

    def use(self) -> ThreadUse:
        """Return how many threads work now, and how many calls wait for a thread."""
        calls = self._calls
        return ThreadUse(min(calls, self._most), self._most, max(calls - self._most, 0))

    def stop(self) -> None:
        """Stop the pool: start no further call, and do not wait for the calls that are running."""
        self._pool.shutdown(wait=False, cancel_futures=True)
