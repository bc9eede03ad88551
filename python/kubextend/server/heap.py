"""What the process keeps of memory that it has freed, and when it gives that back."""

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
# Giving back takes up to 60 ms for 100 MB of small pieces, so it has to be worth it.
_WORTH_GIVING_BACK_BYTES: Final = 8 * 1024 * 1024
# A names request about 15,000 nodes is 1 MB.
_LARGE_BODY_BYTES: Final = 4 * 1024 * 1024
_LOOK_S: Final = 10.0


def keep_freed_memory() -> bool:
    """The heap keeps 64 MiB at its end for the next request; whether the C library can be told so.

    glibc hands the end of its heap back whenever a few hundred KB are free there, and every request
    would then take them again page by page: 138 page faults, half of the time of 60 whole nodes.
    All threads share one heap: each would keep 64 MiB of its own, and nobody could trim those.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        # Not glibc.
        return False
    settings = {
        _M_MMAP_THRESHOLD: _MAPPED_FROM_BYTES,
        _M_TRIM_THRESHOLD: _KEPT_BYTES,
        _M_ARENA_MAX: 1,
    }
    return all(mallopt(name, value) for name, value in settings.items())


class FreedMemory:
    """Memory that requests have freed; it goes back to the system when large bodies stay away.

    While large bodies come, freed memory is kept: the system is slow to hand it out again.

    Args:
        pool: of the bodies.
        busiest_bytes: the most bytes that were in flight since the last call.
        trim: gives back what the heap keeps.
    """

    def __init__(
        self,
        pool: core.BodyPool,
        busiest_bytes: Callable[[], int],
        trim: Callable[[], object] | None = None,
    ) -> None:
        self._pool = pool
        self._busiest_bytes = busiest_bytes
        self._trim = trim or _trim_heap

    async def watch(self, every_s: float = _LOOK_S) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(every_s)
            await self.look()

    async def look(self) -> None:
        """Give back what was freed, unless a large body has come since the last look."""
        if self._busiest_bytes() < _LARGE_BODY_BYTES:
            await asyncio.to_thread(self._give_back)

    def _give_back(self) -> None:
        self._pool.clear()
        self._trim()


class _Mallinfo2(ctypes.Structure):
    """``struct mallinfo2`` of glibc's malloc.h."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def _trim_heap() -> None:
    """The free pages of the heap go back to the system, where they are many and it is glibc's."""
    # Not glibc, or one before 2.33.
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallinfo2.restype = _Mallinfo2
        if libc.mallinfo2().fordblks >= _WORTH_GIVING_BACK_BYTES:
            libc.malloc_trim(0)
