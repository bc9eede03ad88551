"""How much freed memory the process keeps, and when it goes back."""

import asyncio
import ctypes
from typing import Final

from kubextend import core
from kubextend.server.request_body import BytesInFlight

__all__ = ["give_memory_back", "keep_freed_memory"]

# malloc.h of glibc.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8

_KEPT_BYTES: Final = 64 * 1024 * 1024
_MAPPED_FROM_BYTES: Final = 32 * 1024 * 1024
# A names request about 15,000 nodes is 1 MB.
_LARGE_BODY_BYTES: Final = 4 * 1024 * 1024
_LOOK_S: Final = 10.0


def keep_freed_memory() -> None:
    """Keep 64 MiB of freed memory for the next request, where the C library is glibc.

    By default glibc gives the end of its heap back to the system when a few hundred KB are free
    there, and the next request takes this memory again page by page: 138 page faults, half of the
    time of a request with 60 whole nodes. The settings also make all threads share one heap,
    because nothing could give back 64 MiB in the heap of each thread.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_FROM_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_ARENA_MAX, 1)


async def give_memory_back(pool: core.BodyPool, in_flight: BytesInFlight) -> None:
    """Give the memory of large bodies back to the system once none came for 10 s; never return.

    The system is slow to hand memory out again, so that the next large body gets what is kept.
    """
    is_kept = False
    trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)
    while True:
        await asyncio.sleep(_LOOK_S)
        comes = in_flight.peak >= _LARGE_BODY_BYTES
        in_flight.peak = in_flight.count
        if is_kept and not comes:
            pool.clear()
            await asyncio.to_thread(trim, 0)
        is_kept = comes
