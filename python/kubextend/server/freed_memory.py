"""Controls how much freed memory the process keeps, and when it goes back to the system."""

import asyncio
import ctypes
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from kubextend import core

__all__ = ["FreedMemory", "keep_freed_memory"]

# malloc.h of glibc.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8

_KEPT_BYTES: Final = 64 * 1024 * 1024
_MAPPED_FROM_BYTES: Final = 32 * 1024 * 1024
# Less free memory stays: to give back 100 MB of small pieces takes up to 60 ms.
_WORTH_GIVING_BACK_BYTES: Final = 8 * 1024 * 1024
# A names request about 15,000 nodes is 1 MB.
_LARGE_BODY_BYTES: Final = 4 * 1024 * 1024
_LOOK_S: Final = 10.0


def keep_freed_memory() -> bool:
    """Keep 64 MiB of freed memory for the next request; return whether glibc took the settings.

    By default glibc gives the end of its heap back to the system when a few hundred KB are free
    there, and the next request takes this memory again page by page: 138 page faults, half of the
    time of a request with 60 whole nodes. The settings also make all threads share one heap,
    because nothing could give back 64 MiB in the heap of each thread.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        # Another C library has no mallopt.
        return False
    settings = {
        _M_MMAP_THRESHOLD: _MAPPED_FROM_BYTES,
        _M_TRIM_THRESHOLD: _KEPT_BYTES,
        _M_ARENA_MAX: 1,
    }
    return all(mallopt(name, value) for name, value in settings.items())


class FreedMemory:
    """Keeps memory that requests have freed while large bodies come, then gives the memory back.

    The memory is kept because the operating system is slow to hand memory out again.

    Args:
        pool: holds the memory of large bodies.
        highest_count: returns the most bytes that requests held since it was last called.
        trim: gives the free memory of the heap back to the system; None: glibc's ``malloc_trim``.
    """

    def __init__(
        self,
        pool: core.BodyPool,
        highest_count: Callable[[], int],
        trim: Callable[[], object] | None = None,
    ) -> None:
        self._pool = pool
        self._highest_count = highest_count
        self._trim = trim or _trim_heap

    async def watch(self, every_s: float = _LOOK_S) -> None:
        """Call ``look`` every ``every_s`` seconds, until cancelled."""
        while True:
            await asyncio.sleep(every_s)
            await self.look()

    async def look(self) -> None:
        """Give freed memory back, unless requests held 4 MiB or more since the last look."""
        if self._highest_count() < _LARGE_BODY_BYTES:
            await asyncio.to_thread(self._give_back)

    def _give_back(self) -> None:
        self._pool.clear()
        self._trim()


class _Mallinfo2(ctypes.Structure):
    """``struct mallinfo2`` of glibc's malloc.h: statistics of the heap, in bytes."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def _trim_heap() -> None:
    """Give the free pages of glibc's heap back to the system, if at least 8 MiB are free."""
    # Another C library, or a glibc before 2.33, has no mallinfo2.
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallinfo2.restype = _Mallinfo2
        if libc.mallinfo2().fordblks >= _WORTH_GIVING_BACK_BYTES:
            libc.malloc_trim(0)
