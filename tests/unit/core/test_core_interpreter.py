"""How the core behaves as a guest of the interpreter: its imports, its threads, its errors."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable

import core_world as world
import pod_world as pods
import pytest

from kubextend import core, errors

IMPORT = """
import sys
before = set(sys.modules)
import kubextend.core
print(*sorted(set(sys.modules) - before))
"""


def test_the_core_is_imported_with_next_to_nothing() -> None:
    command = [sys.executable, "-c", IMPORT]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    brought = set(shown.split())
    assert "asyncio" not in brought
    ours = {name for name in brought if name.partition(".")[0] not in sys.stdlib_module_names}
    assert ours == {"kubextend", "kubextend._native", "kubextend.core"}


def large_body() -> bytes:
    filler = {"filler": "x" * 200, "numbers": list(range(200))}
    return world.full([world.node(f"n{i}", status={"images": [filler] * 16}) for i in range(600)])


def turns_while(work: Callable[[], object]) -> int:
    """How often another thread came to act while some work was done."""
    done, began, turns = threading.Event(), threading.Event(), 0

    def act() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            began.set()
            time.sleep(0.0002)

    other = threading.Thread(target=act)
    other.start()
    try:
        assert began.wait(60)
        before = turns
        work()
        return turns - before
    finally:
        done.set()
        other.join()


def test_another_thread_goes_on_while_a_large_body_is_read() -> None:
    body = large_body()
    # With the interpreter held the other thread would act once or twice, at the edges. A processor
    # that others want too makes a round longer, and a few of them odd.
    rounds = sorted(turns_while(lambda: core.read_args(body)) for _ in range(7))
    assert rounds[3] > 10, rounds


def uncommitted() -> object:
    relist = core.PodStore().relist()
    relist.page(pods.listed([pods.pod(f"p{number}", node="n") for number in range(1000)]))
    return relist


def outlived() -> object:
    """Return a snapshot whose pods the store does not have any more."""
    store = core.PodStore()
    store.replace(pods.listed([pods.pod(f"p{number}", node="n") for number in range(1000)]))
    snapshot = store.snapshot()
    store.replace(pods.listed([]))
    store.snapshot()
    return snapshot


def answered() -> object:
    return core.read_args(world.full([world.node(f"n{number}") for number in range(5000)]))


def brought() -> object:
    nodes = world.nodes_of(*(world.node(f"n{number}") for number in range(1000)))
    return nodes.with_pods(core.PodStore().snapshot())


@pytest.mark.parametrize("make", [uncommitted, outlived, answered, brought])
def test_another_thread_goes_on_while_many_pods_or_nodes_are_freed(
    make: Callable[[], object],
) -> None:
    last = []
    interval = sys.getswitchinterval()
    try:
        # A thread that needs the interpreter gets it only if the other gives it away.
        sys.setswitchinterval(3600)
        for _ in range(1000):
            last.append(make())
            if turns_while(last.clear):
                return
    finally:
        sys.setswitchinterval(interval)
    pytest.fail("no other thread acted in any of a thousand times")


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
