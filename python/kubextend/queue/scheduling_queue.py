"""Which pods are released, and when: the state of every pod that is in the queue or just left it.

Built from what the watch shows and from nothing else, so every replica knows the same and a new one
goes on where the last one ended. Not safe to use from several threads; has no thread and no clock
of its own.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import Final

from kubextend import core
from kubextend.framework.plugin import QueuedPodInfo
from kubextend.queue.entry import Entry, QueueEntry, State, info_of
from kubextend.queue.heap import Before, Heap

__all__ = ["SchedulingQueue", "Settings", "Strategy"]

GATED: Final = "SchedulingGated"
VERDICTS: Final = frozenset({"Unschedulable", "SchedulerError"})
"""What kube-scheduler says of a pod that it has tried and not placed."""

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 10.0
REFUSED_PAUSE_S: Final = 30.0


class Strategy(StrEnum):
    """What becomes of the queue while a released pod finds no node."""

    STRICT_FIFO = "StrictFIFO"
    """It waits for that pod."""
    BEST_EFFORT_FIFO = "BestEffortFIFO"
    """It goes on with the next."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a queue runs.

    Attributes:
        gate: the name of our scheduling gate.
        scheduler_names: whose pods are queued.
        strategy: what an unschedulable pod means to those behind it.
        window: how many released pods kube-scheduler may have at a time.
        max_hold_s: no released pod is waited for longer.
    """

    gate: str
    scheduler_names: AbstractSet[str]
    strategy: Strategy = Strategy.BEST_EFFORT_FIFO
    window: int = 1
    max_hold_s: float = 60.0


class SchedulingQueue:
    """The queue of all profiles.

    Args:
        settings: how it runs.
        order: of the profiles' QueueSort plugin.
        why_held: what stands against releasing a pod; empty for nothing.
        clock: seconds that only go forward.
    """

    def __init__(
        self,
        settings: Settings,
        order: Before,
        why_held: Callable[[core.Pod], str],
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._why_held = why_held
        self._clock = clock
        self._known: dict[str, Entry] = {}
        self._ready = Heap(order)
        self._held: set[Entry] = set()
        # When held pods are due again; what has changed since is passed over when its time comes.
        self._again: list[tuple[float, int, Entry]] = []
        self._in_window: set[Entry] = set()
        self._sequence = count()
        self._pushes = count()

    def replace(self, pods: Iterable[core.Pod]) -> None:
        """These are all pods that are on no node."""
        listed = {pod.uid: pod for pod in pods}
        for uid in self._known.keys() - listed.keys():
            self.forget(uid)
        for pod in sorted(listed.values(), key=_as_listed):
            self.observe(pod)

    def observe(self, pod: core.Pod) -> None:
        """This is what the API shows of a pod now."""
        gated = self._settings.gate in pod.scheduling_gates
        others = pod.scheduler_name not in self._settings.scheduler_names
        if pod.node_name or pod.deletion_timestamp is not None or (others and not gated):
            self.forget(pod.uid)
            return
        entry = self._known.get(pod.uid)
        if entry is None:
            self._meet(pod)
        else:
            entry.info = QueuedPodInfo(pod, entry.info.timestamp)
            self._update(entry)

    def forget(self, uid: str) -> None:
        """The pod is on a node, or gone."""
        entry = self._known.pop(uid, None)
        if entry is not None:
            self._leave(entry)

    def due(self) -> list[core.Pod]:
        """The pods to release now, in order. Each is to be answered for by one of the below."""
        self._expire()
        self._bring_back()
        released: list[core.Pod] = []
        while self._ready and len(self._in_window) < self._settings.window:
            entry = self._ready.pop()
            why = self._why_held(entry.pod)
            if why:
                self._hold_for_a_while(entry, why)
            else:
                self._move(entry, State.RELEASING)
                released.append(entry.pod)
        return released

    def released(self, uid: str) -> None:
        """The gate of a pod that was due is off."""
        entry = self._releasing(uid)
        if entry is not None:
            self._release(entry)

    def refused(self, uid: str, why: str) -> None:
        """The API does not let us take its gate off; it is tried again in a while."""
        entry = self._releasing(uid)
        if entry is not None:
            self._hold(entry, why, self._clock() + REFUSED_PAUSE_S)

    def returned(self, uid: str) -> None:
        """Nothing was done about a pod that was due."""
        entry = self._releasing(uid)
        if entry is not None:
            self._queue(entry)

    def next_look_s(self) -> float | None:
        """Seconds until ``due`` may answer something new without anything being told; None: never.

        Waits for nothing that only counts once there is room in the window.
        """
        times = [entry.released_at_s + self._settings.max_hold_s for entry in self._in_window]
        if len(self._in_window) < self._settings.window and self._again:
            times.append(self._again[0][0])
        earliest = min(times, default=math.inf)
        return None if math.isinf(earliest) else max(0.0, earliest - self._clock())

    def counts(self) -> dict[State, int]:
        """How many pods are in each state; those that have passed are no part of the queue."""
        # Another thread than the queue's may ask, and the window change under it.
        in_window = tuple(self._in_window)
        releasing = sum(entry.state is State.RELEASING for entry in in_window)
        return {
            State.READY: len(self._ready),
            State.HELD: len(self._held),
            State.RELEASING: releasing,
            State.RELEASED: len(in_window) - releasing,
        }

    def look_ahead(self) -> None:
        """Every pod is asked about now and not when its turn comes; releases nothing."""
        for entry in list(self._ready):
            why = self._why_held(entry.pod)
            if why:
                self._hold_for_a_while(entry, why)

    def entries(self) -> Iterator[QueueEntry]:
        """The queue for who looks at it: the released, the next ones in order, those held back."""
        first = sorted(self._in_window, key=lambda entry: entry.sequence)
        for entry in first:
            yield QueueEntry(None, entry.info, entry.state, _why_in_window(entry.pod))
        full = len(first) >= self._settings.window
        why = f"waits for {_name(first[0].pod)}" if full else "is next"
        for position, entry in enumerate(self._ready.ordered(), start=1):
            yield QueueEntry(position, entry.info, entry.state, why)
        for entry in sorted(self._held, key=lambda entry: entry.sequence):
            yield QueueEntry(None, entry.info, entry.state, entry.why)

    def _meet(self, pod: core.Pod) -> None:
        """A pod is seen for the first time."""
        entry = Entry(info_of(pod), next(self._sequence), State.PASSED)
        self._known[pod.uid] = entry
        if self._settings.gate in pod.scheduling_gates:
            self._queue(entry)
        elif self._was_released(pod):
            self._release(entry)

    def _update(self, entry: Entry) -> None:
        """A known pod may have changed; a late view of one that is released changes nothing."""
        pod = entry.pod
        gated = self._settings.gate in pod.scheduling_gates
        if entry.state in {State.READY, State.HELD}:
            if gated:
                entry.held_times = 0
                self._queue(entry)
            elif pod.scheduling_gates:
                self._pass(entry)
            else:
                self._release(entry)
        elif entry.state is State.RELEASING and not gated:
            self._release(entry)
        elif entry.state is State.RELEASED:
            self._judge(entry)

    def _queue(self, entry: Entry) -> None:
        """A pod with our gate waits for its turn, or for what we have no say in."""
        scheduler = entry.pod.scheduler_name
        others = [gate for gate in entry.pod.scheduling_gates if gate != self._settings.gate]
        if scheduler not in self._settings.scheduler_names:
            self._hold(entry, f"no profile is for the scheduler {scheduler}")
        elif others:
            self._hold(entry, f"has other scheduling gates: {', '.join(others)}")
        else:
            self._move(entry, State.READY)

    def _hold(self, entry: Entry, why: str, again_at_s: float = math.inf) -> None:
        self._move(entry, State.HELD)
        entry.why = why
        entry.again_at_s = again_at_s
        if not math.isinf(again_at_s):
            heapq.heappush(self._again, (again_at_s, next(self._pushes), entry))

    def _hold_for_a_while(self, entry: Entry, why: str) -> None:
        pause_s = min(FIRST_PAUSE_S * 2.0 ** min(entry.held_times, 10), LONGEST_PAUSE_S)
        entry.held_times += 1
        self._hold(entry, why, self._clock() + pause_s)

    def _release(self, entry: Entry) -> None:
        self._move(entry, State.RELEASED)
        entry.released_at_s = self._clock()
        self._judge(entry)

    def _judge(self, entry: Entry) -> None:
        """A pod that kube-scheduler could not place holds up nobody, unless it is to."""
        best_effort = self._settings.strategy is Strategy.BEST_EFFORT_FIFO
        if best_effort and entry.pod.scheduled_reason in VERDICTS:
            self._pass(entry)

    def _pass(self, entry: Entry) -> None:
        self._move(entry, State.PASSED)

    def _expire(self) -> None:
        now = self._clock()
        for entry in list(self._in_window):
            if now - entry.released_at_s >= self._settings.max_hold_s:
                self._pass(entry)

    def _bring_back(self) -> None:
        """Held pods whose time has come wait for their turn again."""
        now = self._clock()
        while self._again and len(self._in_window) < self._settings.window:
            again_at_s, _, entry = self._again[0]
            current = entry in self._held and entry.again_at_s == again_at_s
            if current and again_at_s > now:
                return
            heapq.heappop(self._again)
            if current:
                self._queue(entry)

    def _was_released(self, pod: core.Pod) -> bool:
        """Whether a pod without a gate, seen for the first time, was released before we came.

        A pod that kube-scheduler has not tried says for itself that it had a gate. Of one that it
        could not place, a spec that was never changed says that it had none.
        """
        if pod.scheduling_gates:
            return False
        if pod.scheduled_reason in VERDICTS:
            return pod.generation != 1
        return pod.scheduled_reason == GATED

    def _releasing(self, uid: str) -> Entry | None:
        entry = self._known.get(uid)
        return entry if entry is not None and entry.state is State.RELEASING else None

    def _move(self, entry: Entry, state: State) -> None:
        self._leave(entry)
        entry.state = state
        entry.why = ""
        if state is State.READY:
            self._ready.push(entry)
        elif state is State.HELD:
            self._held.add(entry)
        elif state is not State.PASSED:
            self._in_window.add(entry)

    def _leave(self, entry: Entry) -> None:
        self._ready.remove(entry)
        self._held.discard(entry)
        self._in_window.discard(entry)


def _as_listed(pod: core.Pod) -> tuple[float, str, str]:
    return info_of(pod).timestamp, pod.namespace, pod.name


def _name(pod: core.Pod) -> str:
    return f"{pod.namespace}/{pod.name}"


def _why_in_window(pod: core.Pod) -> str:
    if pod.scheduled_reason in VERDICTS:
        return f"released; kube-scheduler says {pod.scheduled_reason}"
    return "released; kube-scheduler has not placed it yet"
