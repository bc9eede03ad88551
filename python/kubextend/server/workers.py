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
        return await self._run("compute", work, body)

    async def bind(self, work: Callable[[bytes], _T], body: bytes) -> _T:
        """What ``work`` returns or raises, from a thread for waiting."""
        return await self._run("bind", work, body)

    def stop(self) -> None:
        """Nothing new starts; what runs is not waited for."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        self._pools.clear()

    async def _run(self, pool: str, work: Callable[[bytes], _T], body: bytes) -> _T:
        if pool not in self._pools:
            self._pools[pool] = ThreadPoolExecutor(
                self._sizes[pool], thread_name_prefix=f"kubextend-{pool}"
            )
        return await asyncio.get_running_loop().run_in_executor(self._pools[pool], work, body)
