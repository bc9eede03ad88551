"""How the core behaves as a guest of the interpreter: its imports, its threads, its errors."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Self

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


class OtherThread:
    """Another thread, which acts whenever the interpreter is given away, and never takes it."""

    def __init__(self) -> None:
        self._acts: list[None] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._act)

    def __enter__(self) -> Self:
        self._interval = sys.getswitchinterval()
        # No thread is asked for the interpreter; a thread gets it from one that gives it away.
        sys.setswitchinterval(3600)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        sys.setswitchinterval(self._interval)

    def _act(self) -> None:
        while not self._done.is_set():
            self._acts.append(None)
            time.sleep(0.0002)

    def acts_while(self, work: Callable[[], object]) -> bool:
        """Return whether the thread acts while some work is done."""
        before = len(self._acts)
        work()
        return len(self._acts) > before


HASHED = bytes(100_000)


def another_goes_on(make: Callable[[], Callable[[], object]]) -> bool:
    """Return whether another thread acts at some time in which the returned work is done.

    A processor that others want too lets a thread act late or not at all while the interpreter is
    given away. Work counts as keeping the interpreter only if the thread acts in 200 rounds while
    hashlib, which gives the interpreter away for a short time, works in the work's place.
    """
    with OtherThread() as other:
        hashed = 0
        while hashed < 200:
            if other.acts_while(make()):
                return True
            hashed += other.acts_while(partial(sha256, HASHED))
    return False


def test_only_work_that_gives_the_interpreter_away_lets_another_thread_go_on() -> None:
    assert another_goes_on(lambda: partial(sha256, HASHED))
    # What hashlib is given piece by piece, it hashes with the interpreter held.
    pieces = [bytes(2000)] * 50
    assert not another_goes_on(lambda: partial(list, map(sha256, pieces)))


def test_another_thread_goes_on_while_a_large_body_is_read() -> None:
    body = large_body()
    assert another_goes_on(lambda: partial(core.read_args, body))


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
