"""How the core behaves as a guest of the interpreter: its imports, its threads, its errors."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable

import core_world as world
import pytest

from kubextend import core, errors

IMPORT = """
import sys, time
began = time.perf_counter()
import kubextend.core
took = time.perf_counter() - began
heavy = {name.partition(".")[0] for name in sys.modules} & set(sys.argv[1].split(","))
print(f"{took:.4f}", ",".join(sorted(heavy)))
"""


def import_in_a_new_interpreter() -> tuple[float, str]:
    heavy = "starlette,uvicorn,kubernetes,pydantic,yaml,click,prometheus_client,numpy,asyncio"
    command = [sys.executable, "-c", IMPORT, heavy]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    took, _, found = shown.rstrip("\n").partition(" ")
    return float(took), found


def test_the_core_is_imported_alone_and_at_once() -> None:
    timed = [import_in_a_new_interpreter() for _ in range(5)]
    assert {found for _, found in timed} == {""}
    assert min(took for took, _ in timed) < 0.05


def large_body() -> bytes:
    filler = {"filler": "x" * 200, "numbers": list(range(200))}
    return world.full([world.node(f"n{i}", status={"images": [filler] * 16}) for i in range(2000)])


def ticks_while(work: Callable[[], object]) -> tuple[float, int]:
    """How long some work took, and how often another thread came to act meanwhile."""
    done, ticks = threading.Event(), 0

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.0002)

    other = threading.Thread(target=tick)
    other.start()
    time.sleep(0.01)
    before, began = ticks, time.perf_counter()
    try:
        work()
        return time.perf_counter() - began, ticks - before
    finally:
        done.set()
        other.join()


def test_another_thread_goes_on_while_a_large_body_is_read() -> None:
    body = large_body()
    # With the interpreter held the other thread would act at most once, at the end.
    took, during = ticks_while(lambda: [core.read_args(body) for _ in range(3)])
    assert during > 5, f"{during} turns in {took * 1000:.0f} ms"


def test_threads_share_a_store_and_every_answer_is_right() -> None:
    store, failures = core.NodeStore(max_bytes=200_000), []

    def ask(thread: int) -> None:
        for turn in range(60):
            version = f"{thread}-{turn % 7}"
            body = world.full([world.node(f"n{i}", {"v": version}) for i in range(30)])
            args = core.read_args(body, store)
            kept = args.nodes.matches(f"v={version}") if args.nodes else core.Mask([])
            if not (kept.all() and kept.count() == 30):
                failures.append((thread, turn))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert store.stats().hits + store.stats().misses == 4 * 60 * 30


def test_errors_are_one_tree_under_their_public_names() -> None:
    assert core.WireError is errors.WireError
    assert core.KubextendError is errors.KubextendError
    assert issubclass(core.WireError, core.KubextendError)
    assert issubclass(core.KubextendError, Exception)
    assert not issubclass(core.WireError, ValueError)
    assert core.WireError.__module__ == "kubextend.errors"


@pytest.mark.parametrize("name", core.__all__)
def test_every_public_class_says_where_it_belongs(name: str) -> None:
    value = getattr(core, name)
    assert value.__module__ in {"kubextend.core", "kubextend.errors", "kubextend._native"}
    assert value.__name__ == name
