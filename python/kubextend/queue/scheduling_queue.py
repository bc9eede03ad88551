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
from kubextend.queue.holds import Holds

__all__ = ["SchedulingQueue", "Settings", "Strategy"]

GATED: Final = "SchedulingGated"
VERDICTS: Final = frozenset({"Unschedulable", "SchedulerError"})
"""What kube-scheduler says of a pod that it has tried and not placed."""

_WAITING: Final = frozenset({State.READY, State.HELD, State.SET_ASIDE})
"""The states of a pod that has its gate, and no patch under way."""

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 10.0
LONGEST_ASIDE_S: Final = 300.0
FIRST_LARGE_S: Final = 60.0
"""kube-apiserver may be busy with a large pod for longer than the patch is waited for."""
MOST_WHY_CHARS: Final = 300
"""The API's own words are as long as it likes."""
UNANSWERED: Final = "its gate could not be taken off within maxHold"
ONE_LARGE: Final = "another pod of more than 64 KiB goes first"


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
        max_hold_s: no pod keeps a place in the window for longer: not while its gate is taken off,
            and not once it is released.
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
        leads: whether this replica is the one that releases pods now.
    """

    def __init__(
        self,
        settings: Settings,
        order: Before,
        why_held: Callable[[core.Pod], str],
        clock: Callable[[], float],
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self._settings = settings
        self._why_held = why_held
        self._clock = clock
        self._leads = leads
        self._holds = Holds(settings.max_hold_s, clock)
        self._known: dict[str, Entry] = {}
        self._ready = Heap(order)
        # Those that are set aside are in here too.
        self._held: set[Entry] = set()
        # When held pods are due again; what has changed since is passed over when its time comes.
        self._again: list[tuple[float, int, Entry]] = []
        self._in_window: set[Entry] = set()
        # While large pods are refused, when the next one is tried, and how many were in a row.
        self._large_again_at_s = -math.inf
        self._large_refused = 0
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
        while self._ready and self._places_taken() < self._settings.window:
            entry = self._ready.pop()
            why = self._why_not_now(entry)
            if why:
                self._hold_for_a_while(entry, why)
            else:
                self._enter_window(entry, State.RELEASING, self._settings.max_hold_s)
                entry.tried = True
                released.append(entry.pod)
        return released

    def released(self, uid: str) -> None:
        """The gate of a pod that was due is off, however late the answer comes."""
        entry = self._in_state(uid, State.RELEASING, *_WAITING)
        if entry is not None:
            if entry.pod.truncated:
                self._large_refused = 0
            self._release(entry)

    def refused(self, uid: str, why: str) -> None:
        """The pod's gate cannot be taken off now: others go on, and it is tried again later."""
        entry = self._in_state(uid, State.RELEASING, State.READY)
        if entry is not None:
            if entry.pod.truncated:
                self._pause_large_pods()
            self._set_aside(entry, why)

    def returned(self, uid: str) -> None:
        """Nothing was done about a pod that was due."""
        entry = self._in_state(uid, State.RELEASING)
        if entry is not None:
            self._queue(entry)

    def held_in_permit(self, uid: str) -> None:
        """kube-scheduler found a node for the pod, and a Permit plugin holds it there."""
        entry = self._in_state(uid, State.RELEASING, State.RELEASED)
        if entry is not None:
            self._pass(entry)

    def next_look_s(self) -> float | None:
        """Seconds until ``due`` may answer something new without anything being told; None: never.

        Waits for nothing that only counts once there is room in the window.
        """
        times = [entry.leaves_at_s for entry in self._in_window]
        if self._places_taken() < self._settings.window and self._again:
            times.append(self._again[0][0])
        earliest = min(times, default=math.inf)
        return None if math.isinf(earliest) else max(0.0, earliest - self._clock())

    def counts(self) -> dict[State, int]:
        """How many pods are in each state; those that have passed are no part of the queue."""
        # Another thread than the queue's may ask, and the window change under it.
        in_window, held_back = tuple(self._in_window), tuple(self._held)
        releasing = sum(entry.state is State.RELEASING for entry in in_window)
        held = sum(entry.state is State.HELD for entry in held_back)
        return {
            State.READY: len(self._ready),
            State.HELD: held,
            State.SET_ASIDE: len(held_back) - held,
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
        """The queue in the order in which it is shown: released, next, held back or set aside."""
        first = sorted(self._in_window, key=lambda entry: entry.sequence)
        for entry in first:
            yield QueueEntry(None, entry.info, entry.state, _why_in_window(entry.pod))
        taking = [entry for entry in first if not _is_apart(entry)]
        full = len(taking) >= self._settings.window
        why = f"waits for {_name(taking[0].pod)}" if full else "is next"
        for position, entry in enumerate(self._ready.ordered(), start=1):
            yield QueueEntry(position, entry.info, entry.state, why)
        for entry in sorted(self._held, key=lambda entry: entry.sequence):
            yield QueueEntry(None, entry.info, entry.state, entry.why)

    def _why_not_now(self, entry: Entry) -> str:
        """What stands against releasing a pod whose turn has come; empty for nothing."""
        if entry.pod.truncated and (
            self._clock() < self._large_again_at_s or any(map(_is_apart, self._in_window))
        ):
            return ONE_LARGE
        return self._why_held(entry.pod)

    def _pause_large_pods(self) -> None:
        """No large pod is tried for a while: each such patch may keep kube-apiserver busy."""
        pause_s = min(FIRST_LARGE_S * 2.0 ** min(self._large_refused, 10), LONGEST_ASIDE_S)
        self._large_refused += 1
        self._large_again_at_s = self._clock() + pause_s

    def _places_taken(self) -> int:
        """How many pods take a place in the window."""
        return sum(not _is_apart(entry) for entry in self._in_window)

    def _meet(self, pod: core.Pod) -> None:
        """A pod is seen for the first time."""
        entry = Entry(info_of(pod), next(self._sequence), State.PASSED)
        self._known[pod.uid] = entry
        if self._settings.gate in pod.scheduling_gates:
            self._queue(entry)
        elif self._was_released(pod):
            self._adopt(entry)

    def _update(self, entry: Entry) -> None:
        """A known pod may have changed; a late view of one that is released changes nothing."""
        pod = entry.pod
        gated = self._settings.gate in pod.scheduling_gates
        if entry.state in _WAITING:
            self._update_waiting(entry)
        elif entry.state is State.RELEASING and not gated:
            self._release(entry)
        elif entry.state is State.RELEASED:
            self._judge(entry)

    def _update_waiting(self, entry: Entry) -> None:
        """A pod that waits may have changed, or somebody has taken its gate off.

        A change does not end the pause of a pod that is set aside: who may change a pod could have
        it tried without end.
        """
        pod = entry.pod
        if self._settings.gate in pod.scheduling_gates:
            if entry.state is not State.SET_ASIDE:
                entry.held_times = 0
                self._queue(entry)
        elif pod.scheduling_gates:
            self._pass(entry)
        elif entry.tried:
            self._release(entry)
        elif self._leads():
            # Nobody but the leader takes gates off for the queue.
            self._pass(entry)
        else:
            self._adopt(entry)

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

    def _hold(
        self, entry: Entry, why: str, again_at_s: float = math.inf, state: State = State.HELD
    ) -> None:
        self._move(entry, state)
        entry.why = why
        entry.again_at_s = again_at_s
        if not math.isinf(again_at_s):
            heapq.heappush(self._again, (again_at_s, next(self._pushes), entry))

    def _hold_for_a_while(self, entry: Entry, why: str) -> None:
        pause_s = min(FIRST_PAUSE_S * 2.0 ** min(entry.held_times, 10), LONGEST_PAUSE_S)
        entry.held_times += 1
        self._hold(entry, why, self._clock() + pause_s)

    def _set_aside(self, entry: Entry, why: str) -> None:
        pause_s = min(FIRST_PAUSE_S * 2.0 ** min(entry.refused_times, 10), LONGEST_ASIDE_S)
        entry.refused_times += 1
        again_at_s = self._clock() + pause_s
        self._hold(entry, why[:MOST_WHY_CHARS], again_at_s, State.SET_ASIDE)

    def _release(self, entry: Entry) -> None:
        self._enter_window(entry, State.RELEASED, self._holds.hold_s(entry.pod.namespace))
        self._judge(entry)

    def _adopt(self, entry: Entry) -> None:
        """A pod without a gate may have been released by another replica, or by ourselves before.

        Whoever released it did so into a free place, so of more pods than the window has places
        those that came last are the ones that kube-scheduler is at.
        """
        self._release(entry)
        free = [entry for entry in self._in_window if entry.state is State.RELEASED]
        free.sort(key=lambda entry: (entry.entered_at_s, entry.sequence))
        surplus = self._places_taken() - self._settings.window
        for oldest in free[: max(surplus, 0)]:
            self._pass(oldest)

    def _enter_window(self, entry: Entry, state: State, hold_s: float) -> None:
        self._move(entry, state)
        entry.entered_at_s = self._clock()
        entry.leaves_at_s = entry.entered_at_s + hold_s

    def _judge(self, entry: Entry) -> None:
        """A pod that kube-scheduler could not place holds up nobody, unless it is to."""
        best_effort = self._settings.strategy is Strategy.BEST_EFFORT_FIFO
        if best_effort and entry.pod.scheduled_reason in VERDICTS:
            self._pass(entry)

    def _pass(self, entry: Entry) -> None:
        self._move(entry, State.PASSED)

    def _expire(self) -> None:
        """Pods that kept their places for as long as they may leave the window."""
        now = self._clock()
        for entry in [entry for entry in self._in_window if now >= entry.leaves_at_s]:
            if entry.state is State.RELEASING:
                self._set_aside(entry, UNANSWERED)
                continue
            if entry.pod.scheduled_reason in VERDICTS:
                self._holds.ran_out(entry.pod.namespace)
            self._pass(entry)

    def _bring_back(self) -> None:
        """Held pods whose time has come wait for their turn again."""
        now = self._clock()
        while self._again and self._places_taken() < self._settings.window:
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
        could not place, a spec that was changed says that it had one; an API before 1.33 counts no
        changes, and the pod is not waited for.
        """
        if pod.scheduling_gates:
            return False
        if pod.scheduled_reason in VERDICTS:
            return pod.generation > 1
        return pod.scheduled_reason == GATED

    def _in_state(self, uid: str, *states: State) -> Entry | None:
        """The known pod of this UID if it is in one of these states."""
        entry = self._known.get(uid)
        return entry if entry is not None and entry.state in states else None

    def _move(self, entry: Entry, state: State) -> None:
        self._leave(entry)
        entry.state = state
        entry.why = ""
        if state is State.READY:
            self._ready.push(entry)
        elif state in {State.HELD, State.SET_ASIDE}:
            self._held.add(entry)
        elif state is not State.PASSED:
            self._in_window.add(entry)

    def _leave(self, entry: Entry) -> None:
        self._ready.remove(entry)
        self._held.discard(entry)
        self._in_window.discard(entry)


def _is_apart(entry: Entry) -> bool:
    """Whether a large pod's gate is being taken off, which others do not wait for.

    kube-apiserver compares tolerations each with each: 14,000 of them take more time than a patch
    has, so whoever may create pods could have the queue wait for one after the other.
    """
    return entry.state is State.RELEASING and entry.pod.truncated


def _as_listed(pod: core.Pod) -> tuple[float, str, str]:
    return info_of(pod).timestamp, pod.namespace, pod.name


def _name(pod: core.Pod) -> str:
    return f"{pod.namespace}/{pod.name}"


def _why_in_window(pod: core.Pod) -> str:
    if pod.scheduled_reason in VERDICTS:
        return f"released; kube-scheduler says {pod.scheduled_reason}"
    return "released; kube-scheduler has not placed it yet"
