"""The core in its process: imports, the interpreter, threads, memory, errors."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from hashlib import sha256

import pytest
from tests.doors import core_objects as world

from kubextend import core

IMPORT = """
import sys
before = set(sys.modules)
import kubextend.core
print(*sorted(set(sys.modules) - before))
"""


def printed(program: str, *arguments: str) -> str:
    """Run a program in a process of its own."""
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_the_core_is_imported_with_next_to_nothing() -> None:
    brought = set(printed(IMPORT).split())
    assert "asyncio" not in brought
    ours = {name for name in brought if name.partition(".")[0] not in sys.stdlib_module_names}
    assert ours == {"kubextend", "kubextend._native", "kubextend.core"}


def large_body() -> bytes:
    filler = {"filler": "x" * 200, "numbers": list(range(200))}
    return world.full([world.node(f"n{i}", status={"images": [filler] * 16}) for i in range(600)])


HASHED = bytes(100_000)


@contextmanager
def another_thread() -> Iterator[list[None]]:
    """Let a thread act whenever the interpreter is given away; it never takes the interpreter."""
    acts: list[None] = []
    done = threading.Event()

    def act() -> None:
        while not done.is_set():
            acts.append(None)
            time.sleep(0.0002)

    interval, thread = sys.getswitchinterval(), threading.Thread(target=act)
    # No thread is asked for the interpreter; a thread gets it from one that gives it away.
    sys.setswitchinterval(3600)
    thread.start()
    try:
        yield acts
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)


def another_goes_on(make: Callable[[], Callable[[], object]]) -> bool:
    """Return whether another thread acts at some time in which the returned work is done.

    A processor that others want too lets a thread act late or not at all while the interpreter is
    given away. Work counts as keeping the interpreter only if the thread acts in 200 rounds while
    hashlib, which gives the interpreter away for a short time, works in the work's place.
    """

    def acts_while(work: Callable[[], object]) -> bool:
        before = len(acts)
        work()
        return len(acts) > before

    with another_thread() as acts:
        hashed = 0
        while hashed < 200:
            if acts_while(make()):
                return True
            hashed += acts_while(partial(sha256, HASHED))
    return False


@pytest.mark.slow
def test_another_thread_goes_on_while_a_large_body_is_read() -> None:
    body = large_body()
    assert another_goes_on(lambda: partial(core.read_args, body))


PODS = world.listed([world.pod(f"p{number}", node="n") for number in range(1000)])


def uncommitted() -> object:
    relist = core.PodStore().relist()
    relist.page(PODS)
    return relist


def outlived() -> object:
    """Return a snapshot whose pods the store does not have any more."""
    store = core.PodStore()
    store.replace(PODS)
    snapshot = store.snapshot()
    store.replace(world.listed([]))
    store.snapshot()
    return snapshot


def answered() -> object:
    return core.read_args(world.full([world.node(f"n{number}") for number in range(5000)]))


@pytest.mark.slow
@pytest.mark.parametrize("make", [uncommitted, outlived, answered])
def test_another_thread_goes_on_while_many_pods_or_nodes_are_freed(
    make: Callable[[], object],
) -> None:
    def work() -> Callable[[], object]:
        last = [make()]
        return last.clear

    assert another_goes_on(work)


def test_threads_share_a_store_and_every_answer_is_right() -> None:
    store, failures = core.RequestStore(max_bytes=200_000), []

    def ask(thread: int) -> None:
        for turn in range(60):
            version = f"{thread}-{turn % 7}"
            body = world.full([world.node(f"n{i}", {"v": version}) for i in range(30)])
            args = core.read_args(body, store)
            kept = args.nodes.matches(f"v={version}") if args.nodes else core.Mask([])
            if not (kept.all() and kept.count() == 30):
                failures.append((thread, turn))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(ask, range(4)))
    assert failures == []
    assert store.stats().hits + store.stats().misses == 4 * 60 * 30


PEAK = """
import resource, sys
from kubextend import core
body = b"".join([sys.argv[1].encode(), b"{}" + b",{}" * 2_700_000, sys.argv[2].encode()])
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before = peak()
try:
    core.read_args(body)
except core.WireError as error:
    print(int(peak() - before), error)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after"),
    [('{"Pod":{"spec":{"containers":[', "]}}}"), ('{"Nodes":{"items":[', "]}}")],
)
def test_eight_megabytes_of_empty_objects_take_no_hundreds_more(before: str, after: str) -> None:
    megabytes, error = printed(PEAK, before, after).split(" ", 1)
    assert "more elements than a body of this length may have" in error
    # Four times the body and 1 MiB, and what the allocator takes while a list grows.
    assert int(megabytes) <= 60


@pytest.mark.slow
def test_what_large_pods_took_is_given_back_when_they_are_deleted() -> None:
    program = """
import ctypes, json, sys
from kubextend import core
trim = ctypes.CDLL("libc.so.6").malloc_trim
def resident():
    trim(0)
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6
def told(kind, number, **more):
    named = {"name": f"p{number}", "namespace": "t", "uid": f"u{number}"}
    store.apply(json.dumps({"type": kind, "object": {"metadata": named | more}}).encode())
store = core.PodStore()
told("ADDED", 0)
before = resident()
for number in range(1, 10_001):
    told("ADDED", number, annotations={"a": "x" * 3500 + str(number)})
held = resident()
for number in range(1, 10_001):
    told("DELETED", number)
print(json.dumps([held - before, resident() - before, len(store)]))
"""
    held, left, pods = json.loads(printed(program))
    assert pods == 1
    assert held > 35
    assert left < 15


MIB = 1 << 20


def filled(pool: core.BodyPool, content: bytes) -> core.BodyBuffer:
    buffer = pool.take(len(content))
    with memoryview(buffer) as view:
        view[:] = content
    return buffer


def test_a_buffer_that_is_still_written_to_is_not_read() -> None:
    buffer = filled(core.BodyPool(), world.names(["n1"]))
    view = memoryview(buffer)
    part = view[1:]
    view.release()
    with pytest.raises(BufferError, match="still open for writing"):
        core.read_args(buffer)
    part.release()
    assert core.read_args(buffer).names_mode


def test_nobody_writes_to_a_buffer_that_was_read() -> None:
    body = world.names(["n1"])
    buffer = filled(core.BodyPool(), body)
    args = core.read_args(buffer)
    view = memoryview(buffer)
    assert view.readonly
    assert view == body
    with pytest.raises(TypeError, match="read-only"):
        view[0] = 0
    # A view open for reading stands in nobody's way.
    again = core.read_args(buffer)
    assert args.nodes.names == again.nodes.names == ["n1"]
    # Nor does one that was released open the buffer again.
    view.release()
    assert memoryview(buffer).readonly
    assert core.read_args(buffer).names_mode


def test_memory_goes_back_when_the_last_reference_is_gone() -> None:
    pool = core.BodyPool()
    buffer = filled(pool, world.names(["n1"]) + b" " * MIB)
    args = core.read_args(buffer)
    nodes = args.nodes
    view = memoryview(buffer)
    del buffer
    assert pool.idle_bytes == 0
    del args
    assert pool.idle_bytes == 0
    view.release()
    del view
    assert pool.idle_bytes >= MIB
    assert nodes.names == ["n1"]


def test_idle_memory_is_bounded_and_the_oldest_goes_first() -> None:
    pool = core.BodyPool(max_idle_bytes=10 * MIB)
    first, second, third = pool.take(2 * MIB), pool.take(6 * MIB), pool.take(7 * MIB)
    del first, second
    assert 8 * MIB <= pool.idle_bytes < 9 * MIB
    del third
    assert 7 * MIB <= pool.idle_bytes < 8 * MIB
    huge = pool.take(11 * MIB)
    del huge
    assert pool.idle_bytes == 0


@pytest.mark.slow
def test_threads_take_and_give_back_at_the_same_time() -> None:
    pool = core.BodyPool(max_idle_bytes=8 * MIB)
    wrong: list[int] = []

    def work(number: int) -> None:
        content = bytes([number]) * MIB
        for _ in range(200):
            buffer = filled(pool, content)
            if bytes(buffer) != content:
                wrong.append(number)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert not wrong
    assert pool.idle_bytes <= 8 * MIB
