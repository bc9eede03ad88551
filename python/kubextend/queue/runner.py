"""Runs a queue on a thread of its own: what is told to it comes in, what is due goes out.

The one place of the package with a thread. Plugins are called on it, so one that hangs holds up the
queue and nothing else.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final

from kubextend import core
from kubextend.queue.entry import State
from kubextend.queue.scheduling_queue import SchedulingQueue

__all__ = ["QueueRunner"]

_LOGGER = logging.getLogger(__name__)

JOIN_S: Final = 2.0
FAULT_PAUSE_S: Final = 1.0
FOLLOWER_LOOKS_S: Final = 1.0
"""Bounds what a change of leadership that nobody tells of may cost."""
STUCK_S: Final = 60.0
"""Sorting a hundred thousand pods takes a small part of it."""


class QueueRunner:
    """Tells a queue what happens, and releases what it says is due. Safe to use from any thread.

    Args:
        queue: nobody else may use it.
        release: begins to take a pod's gate off; must not wait, and has the outcome told by
            ``released``, ``gone``, ``refused`` or ``returned``.
        leads: whether this replica is the one that releases.
        clock: seconds that only go forward.
    """

    def __init__(
        self,
        queue: SchedulingQueue,
        release: Callable[[core.Pod], object],
        leads: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queue = queue
        self._release = release
        self._leads = leads
        self._clock = clock
        self._busy_since_s: float | None = None
        self._inbox: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubextend-queue", daemon=True)

    def start(self) -> None:
        """Begin to release."""
        self._thread.start()

    def stop(self) -> None:
        """Nothing is released after this."""
        self._stopped.set()
        self.wake()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def replace(self, pods: Iterable[core.Pod]) -> None:
        """These are all pods that are on no node."""
        self._inbox.put(partial(self._queue.replace, list(pods)))

    def observe(self, pod: core.Pod) -> None:
        """This is what the API shows of a pod now."""
        self._inbox.put(partial(self._queue.observe, pod))

    def forget(self, uid: str) -> None:
        """The pod is on a node, or gone."""
        self._inbox.put(partial(self._queue.forget, uid))

    def released(self, pod: core.Pod) -> None:
        """The gate is off."""
        self._inbox.put(partial(self._queue.released, pod.uid))

    def gone(self, pod: core.Pod) -> None:
        """The pod was not there any more."""
        self._inbox.put(partial(self._queue.forget, pod.uid))

    def refused(self, pod: core.Pod, why: str) -> None:
        """The pod's gate cannot be taken off now."""
        self._inbox.put(partial(self._queue.refused, pod.uid, why))

    def held_in_permit(self, pod: core.Pod) -> None:
        """A Permit plugin holds the pod on the node that kube-scheduler found for it."""
        self._inbox.put(partial(self._queue.held_in_permit, pod.uid))

    def returned(self, pod: core.Pod) -> None:
        """Nothing was done about the pod."""
        self._inbox.put(partial(self._queue.returned, pod.uid))

    def wake(self) -> None:
        """Something else has changed that decides what is due."""
        self._inbox.put(_nothing)

    def counts(self) -> dict[State, int]:
        """How many pods are in each state, from any thread."""
        return self._queue.counts()

    def why_not_alive(self) -> str:
        """Why the queue will not go on by itself; empty if it does."""
        since_s = self._busy_since_s
        stuck_s = 0.0 if since_s is None else self._clock() - since_s
        if stuck_s < STUCK_S:
            return ""
        return f"the queue is stuck in a plugin's less or pre_enqueue for {stuck_s:.0f} s"

    def turn(self, wait_s: float | None) -> float | None:
        """Takes in what is told, after waiting for it at most so long, and releases what is due.

        For the runner's own thread, and for tests.

        Returns: the seconds to wait for the next turn where nothing is told; None: for ever.
        """
        told = self._told(wait_s)
        self._busy_since_s = self._clock()
        try:
            told()
            self._take_in()
            return self._send_out()
        except Exception:
            _LOGGER.exception("the queue failed in a way it should not")
            return FAULT_PAUSE_S
        finally:
            self._busy_since_s = None

    def _run(self) -> None:
        wait_s: float | None = None
        while not self._stopped.is_set():
            wait_s = self.turn(wait_s)

    def _told(self, wait_s: float | None) -> Callable[[], object]:
        """The next that is told, waiting for it at most so long."""
        try:
            return self._inbox.get(timeout=wait_s)
        except Empty:
            return _nothing

    def _take_in(self) -> None:
        """Everything else that was told meanwhile."""
        try:
            while True:
                self._inbox.get_nowait()()
        except Empty:
            return

    def _send_out(self) -> float | None:
        """Releases what is due; the seconds until something may be without being told."""
        if self._stopped.is_set():
            return None
        if not self._leads():
            return FOLLOWER_LOOKS_S
        for pod in self._queue.due():
            self._release(pod)
        return self._queue.next_look_s()


def _nothing() -> None:
    """Only wakes the thread."""
