"""Threads that may be given up: who takes their place, and what becomes of what they bring."""

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from kubextend.profile.threads import Job, Threads, ThreadUse

# Only a test that is about to fail waits so long.
SOON_S = 60.0


@pytest.fixture
def threads() -> Iterator[Threads]:
    made = Threads(2, "test")
    yield made
    made.stop()


def test_results_and_errors_come_back(threads: Threads) -> None:
    assert threads.submit(lambda: 7).future.result(SOON_S) == 7
    with pytest.raises(SystemExit):
        threads.submit(lambda: exec("raise SystemExit")).future.result(SOON_S)
    assert threads.submit(lambda: 8).future.result(SOON_S) == 8


def test_work_beyond_the_threads_waits_and_is_done(threads: Threads) -> None:
    names: set[str] = set()
    go = threading.Event()

    def work() -> int:
        names.add(threading.current_thread().name)
        assert go.wait(SOON_S)
        return threading.get_ident()

    jobs = [threads.submit(work) for _ in range(9)]
    go.set()
    assert len({job.future.result(SOON_S) for job in jobs}) <= 2
    assert names == {"kubextend-test"}


def test_a_thread_that_is_given_up_has_its_place_taken(threads: Threads) -> None:
    go, back = threading.Event(), threading.Event()
    started = threading.Semaphore(0)

    def hang() -> None:
        started.release()
        assert go.wait(SOON_S)

    stuck = [threads.submit(hang), threads.submit(hang)]
    waiting = threads.submit(lambda: "done")
    assert started.acquire(timeout=SOON_S)
    assert started.acquire(timeout=SOON_S)
    assert not waiting.future.done()
    assert threads.give_up(stuck[0], back.set)
    assert waiting.future.result(SOON_S) == "done"
    assert not threads.give_up(waiting)
    go.set()
    assert back.wait(SOON_S)
    assert stuck[0].future.result(SOON_S) is None
    assert stuck[1].future.result(SOON_S) is None
    assert threads.submit(lambda: 1).future.result(SOON_S) == 1


def test_work_that_is_given_up_before_it_began_never_does(threads: Threads) -> None:
    go = threading.Event()
    done: list[str] = []
    busy = [threads.submit(lambda: go.wait(SOON_S)) for _ in range(2)]
    given_up = threads.submit(lambda: done.append("given up"))
    cancelled = threads.submit(lambda: done.append("cancelled"))
    assert not threads.give_up(given_up)
    cancelled.withdraw()
    last = threads.submit(lambda: done.append("last"))
    go.set()
    last.future.result(SOON_S)
    assert all(job.future.result(SOON_S) for job in busy)
    assert done == ["last"]


@pytest.mark.parametrize("how", [Threads.give_up, lambda _, job: job.withdraw()])
def test_work_that_nobody_wants_is_let_go_of_before_a_thread_is_free(
    threads: Threads, how: Callable[[Threads, Job[None]], object]
) -> None:
    class Body:
        """Large."""

    body = Body()
    held = weakref.ref(body)
    go = threading.Event()
    busy = [threads.submit(lambda: go.wait(SOON_S)) for _ in range(2)]
    queued: Job[None] = threads.submit(partial(print, body))
    del body
    assert held() is not None
    how(threads, queued)
    assert held() is None
    go.set()
    assert all(job.future.result(SOON_S) for job in busy)


def refuse_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do what the system does at its limit of threads."""

    def refuse(_: threading.Thread) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    monkeypatch.setattr(threading.Thread, "start", refuse)


def test_a_call_waits_for_the_next_where_the_system_refuses_the_first_thread(
    threads: Threads, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        refuse_threads(patched)
        waiting = [threads.submit(partial(str, number)) for number in range(3)]
    assert threads.use() == ThreadUse(0, 2, 3)
    assert threads.submit(lambda: "later").future.result(SOON_S) == "later"
    assert [job.future.result(SOON_S) for job in waiting] == ["0", "1", "2"]
    assert caplog.messages == ["calls of test wait for a thread: can't start new thread"]


def test_a_call_waits_for_a_busy_thread_where_the_system_refuses_another(threads: Threads) -> None:
    go, begun = threading.Event(), threading.Event()

    def busy() -> None:
        begun.set()
        assert go.wait(SOON_S)

    threads.submit(busy)
    assert begun.wait(SOON_S)
    with pytest.MonkeyPatch.context() as patched:
        refuse_threads(patched)
        waiting = threads.submit(lambda: "waited")
        go.set()
        assert waiting.future.result(SOON_S) == "waited"


@pytest.mark.parametrize("returns", [False, True])
def test_a_call_waits_on_where_the_system_refuses_the_thread_for_an_abandoned_one(
    returns: bool,
) -> None:
    threads, go, begun = Threads(1, "test"), threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        assert go.wait(SOON_S)

    hung = threads.submit(hang)
    waiting = threads.submit(lambda: "waited")
    assert begun.wait(SOON_S)
    with pytest.MonkeyPatch.context() as patched:
        refuse_threads(patched)
        assert threads.give_up(hung)
        assert threads.use().waiting == 1
        if returns:
            go.set()
            assert waiting.future.result(SOON_S) == "waited"
    assert threads.submit(lambda: "next").future.result(SOON_S) == "next"
    assert waiting.future.result(SOON_S) == "waited"
    go.set()
    threads.stop()


def test_after_stop_nothing_is_taken_and_the_threads_end() -> None:
    threads = Threads(2, "ends")
    ends = [threads.submit(threading.current_thread).future.result(SOON_S) for _ in range(3)]
    threads.stop()
    for thread in ends:
        thread.join(SOON_S)
        assert not thread.is_alive()
    with pytest.raises(RuntimeError, match="ends threads have been stopped"):
        threads.submit(lambda: 1)


def test_an_idle_thread_keeps_nothing_of_its_last_work(threads: Threads) -> None:
    class Body:
        def read(self) -> int:
            return threading.get_ident()

    body, gone = Body(), threading.Event()
    weakref.finalize(body, gone.set)
    first = threads.submit(body.read).future.result(SOON_S)
    del body
    assert gone.wait(SOON_S)
    # It was that thread that let go, and not the end of it.
    assert threads.submit(threading.get_ident).future.result(SOON_S) == first


def test_an_idle_thread_keeps_nothing_of_its_last_result(threads: Threads) -> None:
    class Answer:
        pass

    gone = threading.Event()
    answer = threads.submit(Answer).future.result(SOON_S)
    weakref.finalize(answer, gone.set)
    del answer
    assert gone.wait(SOON_S)


def test_what_work_held_is_let_go_of_before_its_result_is_told(threads: Threads) -> None:
    go, told = threading.Event(), threading.Event()

    class Work:
        def __call__(self) -> bool:
            return go.wait(SOON_S)

    held: list[bool] = []

    def tell(_future: object) -> None:
        held.append(known() is not None)
        told.set()

    work = Work()
    known = weakref.ref(work)
    job = threads.submit(work)
    del work
    job.future.add_done_callback(tell)
    go.set()
    assert told.wait(SOON_S)
    assert held == [False]


@pytest.mark.parametrize("is_on", [True, False])
def test_no_garbage_collection_begins_while_the_frames_of_all_threads_are_copied(
    threads: Threads, monkeypatch: pytest.MonkeyPatch, is_on: bool
) -> None:
    """Python before 3.11.9 may stand still for ever if one does (CPython issue 106883)."""
    began, go, seen = threading.Event(), threading.Event(), list[bool]()
    copied = sys._current_frames

    def noted() -> object:
        seen.append(gc.isenabled())
        return copied()

    def hang() -> None:
        began.set()
        assert go.wait(SOON_S)

    job = threads.submit(hang)
    assert began.wait(SOON_S)
    monkeypatch.setattr(sys, "_current_frames", noted)
    try:
        if not is_on:
            gc.disable()
        assert "in hang" in job.stack()
        assert (seen, gc.isenabled()) == ([False], is_on)
    finally:
        gc.enable()
        go.set()
