"""Threads for what would hold up the event loop."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

__all__ = ["Workers"]

_T = TypeVar("_T")

# A binding is a wait for the API; kube-scheduler itself runs any number of them at once.
BIND_THREADS: Final = 64


class Workers:
    """Two pools, made when first used: large bodies must not wait behind slow bindings.

    Args:
        compute_threads: for work in the core, which releases the GIL.
        bind_threads: for calls that wait on the Kubernetes API.
    """

    def __init__(
        self, compute_threads: int | None = None, bind_threads: int = BIND_THREADS
    ) -> None:
        self._sizes = {"compute": compute_threads or os.cpu_count() or 1, "bind": bind_threads}
        self._pools: dict[str, ThreadPoolExecutor] = {}

    async def compute(self, work: Callable[[bytes], _T], body: bytes) -> _T:
        """What ``work`` returns or raises, from a thread for computing."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool("compute"), work, body)

    async def wait_for(self, call: Callable[[], _T]) -> _T:
        """What ``call`` returns or raises, from a thread for waiting.

        Cancelled before it begins it never does; once it has begun its outcome counts, so that a
        binding that is on its way is not taken for one that is not.
        """
        begun = self._pool("bind").submit(call)
        try:
            return await asyncio.shield(asyncio.wrap_future(begun))
        except asyncio.CancelledError:
            if begun.cancel():
                raise
            return await asyncio.wrap_future(begun)

    def stop(self) -> None:
        """Nothing new starts; what runs is not waited for."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        self._pools.clear()

    def _pool(self, name: str) -> ThreadPoolExecutor:
        if name not in self._pools:
            self._pools[name] = ThreadPoolExecutor(
                self._sizes[name], thread_name_prefix=f"kubextend-{name}"
            )
        return self._pools[name]
