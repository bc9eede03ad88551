"""Threads that wait for the Kubernetes API."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

__all__ = ["Workers"]

_T = TypeVar("_T")

# A binding is a wait for the API; kube-scheduler itself runs any number of them at once.
BIND_THREADS: Final = 64


class Workers:
    """A pool of threads, made when first used. No code of a plugin runs there.

    Args:
        most: how many threads.
    """

    def __init__(self, most: int = BIND_THREADS) -> None:
        self._most = most
        self._pool: ThreadPoolExecutor | None = None

    async def wait_for(self, call: Callable[[], _T]) -> _T:
        """What ``call`` returns or raises, from a thread.

        Cancelled before it begins it never does; once it has begun its outcome counts, so that a
        binding that is on its way is not taken for one that is not.
        """
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._most, thread_name_prefix="kubextend-api")
        begun = self._pool.submit(call)
        outcome = asyncio.wrap_future(begun)
        while not outcome.done():
            try:
                await asyncio.shield(outcome)
            except asyncio.CancelledError:
                # More than one may cancel: a deadline, a client that goes away, a newer request.
                if begun.cancel():
                    raise
        return outcome.result()

    def stop(self) -> None:
        """Nothing new starts; what runs is not waited for."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
