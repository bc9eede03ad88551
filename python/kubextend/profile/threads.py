"""A pool of threads for calls that may never return, such as calls of plugins.

A thread of ``concurrent.futures`` that hangs takes a place in its pool for ever, and keeps the
interpreter from ending. The threads of this pool are daemons, and a new thread takes the place of
an abandoned thread.
"""

import gc
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context, copy_context
from enum import Enum, auto
from functools import partial
from queue import SimpleQueue
from types import FrameType
from typing import Final, Generic, NamedTuple, TypeVar

from kubextend.metrics import ScrapedGauge

__all__ = ["THREADS", "Job", "ThreadUse", "Threads"]

_LOGGER = logging.getLogger(__name__)

_T = TypeVar("_T")

_MOST_FRAMES: Final = 20
_MOST_STACK_CHARS: Final = 4000
# Held while the garbage collection is off.
_UNCOLLECTED: Final = threading.Lock()


class ThreadUse(NamedTuple):
    """How many threads of a pool work now.

    Attributes:
        busy: how many threads run a call; abandoned threads do not count.
        most: the most threads that run calls at a time.
        waiting: how many calls wait for a thread.
    """

    busy: int
    most: int
    waiting: int


# Scraped with the label ``pool``.
THREADS: Final[tuple[ScrapedGauge[ThreadUse], ...]] = (
    ScrapedGauge("kubextend_threads_busy", "Threads that run a call.", lambda use: use.busy),
    ScrapedGauge("kubextend_threads_limit", "The most threads that run.", lambda use: use.most),
    ScrapedGauge(
        "kubextend_threads_waiting_calls",
        "Calls that wait for a thread.",
        lambda use: use.waiting,
    ),
)


class _Phase(Enum):
    QUEUED = auto()
    RUNNING = auto()
    DONE = auto()
    GIVEN_UP = auto()


class Job(Generic[_T]):
    """One call that a thread of the pool runs.

    Attributes:
        future: gets the result of the call when the call ends, even after the thread was abandoned.
        context: the context in which the call runs; by default a copy of the present one.
        on_end: called on the thread after the call, before the result is put into ``future``.
    """

    def __init__(
        self,
        work: Callable[[], _T],
        context: Context | None = None,
        on_end: Callable[[], object] | None = None,
    ) -> None:
        self.future: Future[_T] = Future()
        self.context = copy_context() if context is None else context
        self.on_end = on_end or _nothing
        self._work = work
        self._phase = _Phase.QUEUED
        self._on_return: Callable[[], object] = _nothing
        self._thread_id: int | None = None

    def stack(self) -> str:
        """Return where the thread that runs the call is now, innermost frame last; "" if none.

        The text has at most 20 frames and 4,000 characters: the innermost ones.
        """
        frame = None if self._thread_id is None else _frame_of(self._thread_id)
        if frame is None or self.future.done():
            return ""
        inner = traceback.StackSummary.extract(traceback.walk_stack(frame), limit=_MOST_FRAMES)
        inner.reverse()
        return "".join(inner.format())[-_MOST_STACK_CHARS:]

    def withdraw(self) -> None:
        """Cancel the call if it has not begun, and free what the call refers to.

        If the call has begun, it goes on.
        """
        if self.future.cancel():
            self._work = _nothing  # type: ignore[assignment]

    def taken(self) -> Callable[[], _T]:
        """Return what to call, once; whoever is told may count as free what it held, as a body."""
        work, self._work = self._work, _nothing  # type: ignore[assignment]
        return work


class Threads:
    """A pool of daemon threads, which are started when they are needed.

    Args:
        most: the most threads that run at a time, without abandoned threads; further calls wait.
        name: the end of the threads' names, after ``kubextend-``.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[Job[object] | None] = SimpleQueue()
        self._serving = 0
        self._spare = 0
        self._waiting = 0
        self._stopped = False
        # Whether the system refused the last thread that was to begin, which is logged once.
        self._is_refused = False

    def submit(
        self,
        work: Callable[[], _T],
        context: Context | None = None,
        on_end: Callable[[], object] | None = None,
    ) -> Job[_T]:
        """Queue a call, which begins as soon as a thread is free.

        If the system refuses a new thread, as at a limit of processes, the call waits for a thread
        of this pool. The arguments are those of ``Job``.

        Raises: RuntimeError: ``stop`` was called before.
        """
        job = Job(work, context, on_end)
        with self._lock:
            if self._stopped:
                message = f"the {self._name} threads have been stopped"
                raise RuntimeError(message)
            if self._spare:
                self._spare -= 1
            elif not (self._serving < self._most and self._begins_thread()):
                self._waiting += 1
            self._jobs.put(job)  # type: ignore[arg-type]
        return job

    def give_up(self, job: Job[_T], on_return: Callable[[], object] | None = None) -> bool:
        """Cancel a job's call, or, if the call has begun, abandon the thread that runs it.

        Args:
            job: a job of this pool.
            on_return: called on the abandoned thread if its call returns after all.

        Returns: whether the call was running, so that its thread was abandoned and replaced.
        """
        with self._lock:
            if job._phase is _Phase.QUEUED:  # noqa: SLF001  of the same file
                job.withdraw()
                job._phase = _Phase.DONE  # noqa: SLF001
            if job._phase is not _Phase.RUNNING:  # noqa: SLF001
                return False
            job._phase = _Phase.GIVEN_UP  # noqa: SLF001
            job._on_return = on_return or _nothing  # noqa: SLF001
            self._serving -= 1
            if self._waiting and self._begins_thread():
                self._waiting -= 1
            return True

    def use(self) -> ThreadUse:
        """Return how many threads work now, and how many calls wait for a thread."""
        with self._lock:
            return ThreadUse(self._serving - self._spare, self._most, self._waiting)

    def stop(self) -> None:
        """Accept no further call and end the idle threads, without waiting for running calls."""
        with self._lock:
            self._stopped = True
            for _ in range(self._spare):
                self._jobs.put(None)
            self._spare = 0

    def _begins_thread(self) -> bool:
        """Begin a thread, and return whether the system allows one more.

        The caller holds the lock.
        """
        thread = threading.Thread(target=self._serve, name=f"kubextend-{self._name}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if not self._is_refused:
                _LOGGER.error("calls of %s wait for a thread: %s", self._name, error)  # noqa: TRY400
            self._is_refused = True
            return False
        self._is_refused = False
        self._serving += 1
        return True

    def _serve(self) -> None:
        goes_on = True
        while goes_on and (job := self._jobs.get()) is not None:
            tell: Callable[[], object] = _nothing
            if self._begins(job):
                try:
                    tell = partial(job.future.set_result, job.context.run(job.taken()))
                except BaseException as error:  # noqa: BLE001  told to whoever waits
                    tell = partial(job.future.set_exception, error)
                job.on_end()
            goes_on = self._ends(job)
            tell()
            # The thread may now wait for long, and must not hold a large body. ``del`` also breaks
            # the reference cycle with an error, which refers to this frame.
            del job, tell

    def _begins(self, job: Job[object]) -> bool:
        """Record that a job's call begins; return False if the job was withdrawn or given up."""
        with self._lock:
            wanted = job._phase is _Phase.QUEUED  # noqa: SLF001
            if not (wanted and job.future.set_running_or_notify_cancel()):
                return False
            job._phase = _Phase.RUNNING  # noqa: SLF001
            job._thread_id = threading.get_ident()  # noqa: SLF001
            return True

    def _ends(self, job: Job[object]) -> bool:
        """Record that this thread is done with a job; return whether it takes another job."""
        with self._lock:
            given_up = job._phase is _Phase.GIVEN_UP  # noqa: SLF001
            job._phase = _Phase.DONE  # noqa: SLF001
            if not given_up:
                return self._stays()
        job._on_return()  # noqa: SLF001
        with self._lock:
            # The system may have refused the thread that was to replace this one.
            comes_back = self._waiting > 0 and self._serving < self._most and not self._stopped
            if comes_back:
                self._waiting -= 1
                self._serving += 1
            return comes_back

    def _stays(self) -> bool:
        """Return whether this thread should take another job; False ends it after ``stop``.

        The caller holds the lock.
        """
        if self._waiting:
            self._waiting -= 1
        elif self._stopped:
            self._serving -= 1
            return False
        else:
            self._spare += 1
        return True


def _frame_of(thread_id: int) -> FrameType | None:
    """Return the innermost frame of a thread; None: the thread has ended."""
    # CPython copies the frames of all threads with a lock that threads need to start and to end.
    # Before 3.11.9, a garbage collection in the middle may wait there for the GIL, and the thread
    # that has the GIL for the lock: the process then stands still for ever (CPython issue 106883).
    with _UNCOLLECTED:
        was_on = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames().get(thread_id)  # noqa: SLF001  the only way
        finally:
            if was_on:
                gc.enable()


def _nothing() -> None:
    pass
