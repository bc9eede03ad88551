"""What the process does with freed memory. What it tells the C library lasts as long as it runs."""

import asyncio
import platform
import subprocess
import sys

import pytest

from kubextend import core
from kubextend.server.freed_memory import FreedMemory

MIB = 1024 * 1024
ON_GLIBC = platform.libc_ver()[0] == "glibc"


def run(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_glibc_can_be_told_and_others_are_left_alone() -> None:
    code = "from kubextend.server import keep_freed_memory; print(keep_freed_memory())"
    assert run(code) == str(ON_GLIBC)


@pytest.mark.parametrize(
    ("busiest_bytes", "gives_back"), [(0, True), (MIB, True), (4 * MIB, False), (80 * MIB, False)]
)
def test_freed_memory_is_kept_while_large_bodies_come(busiest_bytes: int, gives_back: bool) -> None:
    pool, trimmed = core.BodyPool(), []
    pool.take(MIB)
    assert pool.idle_bytes >= MIB
    freed = FreedMemory(pool, lambda: busiest_bytes, lambda: trimmed.append(True))
    asyncio.run(freed.look())
    assert (pool.idle_bytes == 0, bool(trimmed)) == (gives_back, gives_back)


GIVES_BACK = """
import asyncio, resource, threading
from pathlib import Path
from kubextend import core
from kubextend.server.freed_memory import FreedMemory, keep_freed_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

def use():
    pieces = [bytes([1]) * 2_000_000 for _ in range(20)]

keep_freed_memory()
before = resident()
# Threads have heaps of their own where nobody forbids it, and those cannot be trimmed.
for _ in range(4):
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
kept = resident()
asyncio.run(FreedMemory(core.BodyPool(), lambda: 0).look())
print(kept - before > 30_000_000, resident() - before < 10_000_000)
"""


@pytest.mark.skipif(not ON_GLIBC, reason="only glibc is told what to keep")
def test_what_any_thread_has_freed_goes_back_to_the_system() -> None:
    assert run(GIVES_BACK) == "True True"
