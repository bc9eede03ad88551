"""Runs a scheduling queue on a thread: passes events to the queue, and releases its pods.

No other module of the package has a thread. The runner calls plugins on its thread, so a plugin
that hangs stops the queue and nothing else.
"""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, TypeVarTuple

from kubextend import core
from kubextend.scheduling_queue.gated_pods import SchedulingQueue

if TYPE_CHECKING:
    from kubextend.scheduling_queue.item import State

__all__ = ["QueueRunner"]

_LOGGER = logging.getLogger(__name__)
_Args = TypeVarTuple("_Args")

JOIN_S: Final = 2.0
FAULT_PAUSE_S: Final = 1.0
FOLLOWER_LOOKS_S: Final = 1.0
"""Seconds between two checks whether this replica leads, while it does not lead."""
STUCK_S: Final = 60.0
"""Seconds after which a turn of the queue counts as stuck: much longer than it takes to sort a
hundred thousand pods."""


class QueueRunner:
    """Runs a SchedulingQueue on a thread of its own. Any thread may call the methods.

    Args:
        queue: the queue, which nobody else may use.
        release: begins to remove a pod's gate; must not wait, and reports the result by
            ``tell`` and the queue's ``released``, ``forget``, ``refused`` or ``returned``.
    """

    def __init__(self, queue: SchedulingQueue, release: Callable[[core.Pod], object]) -> None:
        self._queue = queue
        self._release = release
        self._busy_since_s: float | None = None
        self._inbox: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubextend-queue", daemon=True)
        # What any thread may read of the queue.
        self.counts: Callable[[], dict[State, int]] = queue.counts
        self.why_waiting: Callable[[str], str] = queue.why_waiting

    def start(self) -> None:
        """Start the queue's thread, which releases pods while this replica leads."""
        self._thread.start()

    def stop(self) -> None:
        """End the queue's thread, so that no further pod is released."""
        self._stopped.set()
        self.wake()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def tell(self, change: Callable[[SchedulingQueue, *_Args], object], *args: *_Args) -> None:
        """Make the runner's thread call a method of the queue; never wait.

        Args:
            change: the method, such as ``SchedulingQueue.released``.
            args: its arguments, such as the UID of the pod that is released.
        """
        self._inbox.put(partial(change, self._queue, *args))

    def wake(self) -> None:
        """Make the queue look for pods to release, because the Lease or a plugin's data changed."""
        self._inbox.put(lambda: None)

    def why_not_alive(self) -> str:
        """Return why the queue is stuck, for the probe `/livez`; empty if it is not stuck."""
        since_s = self._busy_since_s
        stuck_s = 0.0 if since_s is None else time.monotonic() - since_s
        if stuck_s < STUCK_S:
            return ""
        return f"the queue is stuck in a plugin's less or pre_enqueue for {stuck_s:.0f} s"

    def _run(self) -> None:
        wait_s: float | None = None
        while not self._stopped.is_set():
            wait_s = self._turn(self._told(wait_s))

    def _turn(self, event: Callable[[], object] | None) -> float | None:
        """Pass all events to the queue, and release pods that are due.

        Returns: the seconds until the next turn if no event comes; None: for ever.
        """
        self._busy_since_s = time.monotonic()
        try:
            while event is not None:
                event()
                event = self._told(0.0)
            return self._send_out()
        except Exception:
            _LOGGER.exception("the queue failed unexpectedly")
            return FAULT_PAUSE_S
        finally:
            self._busy_since_s = None

    def _told(self, wait_s: float | None) -> Callable[[], object] | None:
        """Wait at most ``wait_s`` seconds for the next event; None: there is none."""
        try:
            return self._inbox.get(timeout=wait_s) if wait_s != 0.0 else self._inbox.get_nowait()
        except Empty:
            return None

    def _send_out(self) -> float | None:
        """Release the pods that are due; return the seconds until the next pod may be due."""
        if self._stopped.is_set():
            return None
        if not self._queue.leads():
            self._queue.expire()
            return FOLLOWER_LOOKS_S
        for pod in self._queue.due():
            self._release(pod)
        return self._queue.next_look_s()
