"""Decides which pods are released, and when; keeps each pod's state until the pod is on a node.

To release a pod is to remove the queue's scheduling gate. The window is the set of items (lone pods
and pod groups) whose gate is being removed, and of released items that the queue waits for. The
state follows only from the pods that the watch shows, so every replica has the same state, and a
new replica continues where the last replica ended. Only one thread at a time may use the queue,
which has no thread and no clock of its own.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Final

from kubextend import core
from kubextend.framework.plugin import QueuedPodInfo
from kubextend.scheduling_queue.item import Item, Member, QueueEntry, Stage, State, info_of
from kubextend.scheduling_queue.order import Order
from kubextend.scheduling_queue.settings import Settings, Strategy
from kubextend.scheduling_queue.window import Window

__all__ = ["SchedulingQueue"]

GATED: Final = "SchedulingGated"
VERDICTS: Final = frozenset({"Unschedulable", "SchedulerError"})
"""The reasons that kube-scheduler gives for a pod that it has tried and not placed."""

_WAITING: Final = (State.READY, State.HELD, State.SET_ASIDE)
"""The states of a pod with its gate and without a patch under way."""
_WITH_PLACE: Final = (State.RELEASING, State.RELEASED)

FIRST_PAUSE_S: Final = 1.0
LONGEST_HELD_S: Final = 10.0
LONGEST_ASIDE_S: Final = 300.0
LONGEST_STOP_S: Final = 2.0
"""For how long the queue releases no pod after a fault of the API, unless the API asks for more."""
MOST_STOPS: Final = 6
"""For how many faults of the API in a row a pod stays the first, about 11 s. While the API is away,
this replica stops being the leader after 10 s, so a failure that lasts longer is due to the pod."""
STARTS_S: Final = 10.0
"""For how many seconds after a fault of the API a refusal counts as a fault too: an API server that
has just started forbids what it allows a second later."""
MOST_ASKED_S: Final = 30.0
"""The longest pause that the API may ask for."""
LONGEST_LOOK_S: Final = 1.0
"""Seconds after which ``due`` calls PreEnqueue plugins for no further pod, so that pods that may be
released do not wait until the plugins have decided about all other pods."""
MOST_WHY_CHARS: Final = 300
"""The most characters that are kept of the API's reason for a refused patch."""
UNANSWERED: Final = "its gate could not be removed within maxHold"


class SchedulingQueue:
    """The scheduling queue of the pods of all profiles.

    Args:
        settings: how the queue runs.
        order: compares two pods as the profiles' QueueSort plugin does.
        why_held: returns why a pod may not be released; empty if it may be.
        clock: returns monotonic seconds.
        leads: returns whether this replica is the one that releases pods now.
    """

    def __init__(
        self,
        settings: Settings,
        order: Order,
        why_held: Callable[[core.Pod], str],
        clock: Callable[[], float],
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self._settings = settings
        self._why_held = why_held
        self._clock = clock
        self.leads = leads
        self._known: dict[str, Member] = {}
        self._window = Window(settings, order, clock)
        # Until when no pod is released, and a refusal may not be due to the pod: the API failed.
        self._stopped_until_s = self._doubted_until_s = -math.inf
        self._sequence = count()

    def replace(self, pods: Iterable[core.Pod]) -> None:
        """Take in a complete list of the pods that are on no node, and forget all other pods."""
        listed = {pod.uid: pod for pod in pods}
        for uid in self._known.keys() - listed.keys():
            self.forget(uid)
        for pod in sorted(listed.values(), key=_as_listed):
            self.observe(pod)

    def observe(self, pod: core.Pod) -> None:
        """Process a pod as the Kubernetes API shows it now: a new pod, or a change."""
        is_ours = self._has_gate(pod) or pod.scheduler_name in self._settings.scheduler_names
        if pod.node_name or pod.deletion_timestamp is not None or not is_ours:
            self.forget(pod.uid)
        elif (member := self._known.get(pod.uid)) is not None:
            member.info = QueuedPodInfo(pod, member.info.timestamp)
            self._update(member)
        else:
            self._meet(pod)

    def forget(self, uid: str) -> None:
        """Forget the pod with this UID, which is on a node or deleted."""
        member = self._known.get(uid)
        if member is None:
            return
        if member.state is State.RELEASED:
            self._window.tried(member.item)
        self._move(member, State.PASSED)
        del self._known[uid]
        self._window.quit(member.item)

    def due(self) -> list[core.Pod]:
        """Return the pods to release now, in order.

        The caller reports what becomes of each pod by ``released``, ``refused``, ``returned`` or
        ``forget``. PreEnqueue plugins may take long, so the method returns after a second or so;
        ``next_look_s`` is 0 then.
        """
        self.expire()
        released: list[core.Pod] = []
        ends_s = self._clock() + LONGEST_LOOK_S
        while self._clock() < ends_s and (member := self._next()) is not None:
            if why := self._why_held(member.pod):
                self._window.put_off(member.item.line)
                self._hold(member, why)
                continue
            if member.item.stage is Stage.WAITING:
                self._window.take_turn(member.item)
            self._move(member, State.RELEASING)
            member.was_patched = True
            released.append(member.pod)
        return released

    def expire(self) -> None:
        """Do what time alone asks for; called while this replica does not lead, too."""
        for owner in self._window.due():
            if isinstance(owner, Member):
                self._queue(owner)
            elif self._clock() < owner.leaves_s:
                self._window.let_others_go(owner, Stage.LATE)
            else:
                self._end_wait(owner)

    def released(self, uid: str) -> None:
        """Record that a pod's gate is removed, however late the answer of the API comes."""
        member = self._in_state(uid, State.RELEASING, *_WAITING)
        if member is not None:
            self._release(member)

    def refused(
        self, uid: str, why: str, retry_after_s: float = 0.0, *, api_fails: bool = False
    ) -> None:
        """Go on without a pod whose gate cannot be removed; the queue tries again after a pause.

        Args:
            uid: the UID of the pod.
            why: the reason, for people.
            retry_after_s: the least seconds of the pause.
            api_fails: whether other pods would fare no better: no pod is released for a second or
                two. The pod keeps its place in line, unless it is the only one that fails.
        """
        member = self._in_state(uid, State.RELEASING, State.READY)
        if member is None:
            return
        now_s, asked_s = self._clock(), min(retry_after_s, MOST_ASKED_S)
        pause_s = _pause_s(member.refused_times, LONGEST_ASIDE_S)
        if api_fails:
            self._doubted_until_s = now_s + STARTS_S
        if now_s < self._doubted_until_s:
            stop_s = max(min(pause_s, LONGEST_STOP_S), asked_s)
            self._stopped_until_s = now_s + stop_s
            if member.refused_times < MOST_STOPS:
                # A pause of its own might end after that of the queue, and another pod go first.
                pause_s = asked_s = 0.0
        self._set_aside(member, why[:MOST_WHY_CHARS], max(pause_s, asked_s))

    def returned(self, uid: str) -> None:
        """Queue a pod again that ``due`` returned and whose gate nobody tried to remove."""
        member = self._in_state(uid, State.RELEASING)
        if member is not None:
            self._queue(member)

    def held_in_permit(self, uid: str) -> None:
        """Stop waiting for a released pod, because Permit plugins hold the pod for a node."""
        member = self._known.get(uid)
        if member is not None and member.state not in _WAITING:
            self._window.tried(member.item)
            self._move(member, State.IN_PERMIT)

    def left_permit(self, uid: str) -> None:
        """Record that Permit no longer holds a pod, which may count as unplaced again."""
        member = self._in_state(uid, State.IN_PERMIT)
        if member is not None:
            self._pass(member)

    def next_look_s(self) -> float | None:
        """Return the seconds until ``due`` or ``expire`` has work without an event; None: never."""
        if self._next() is not None:
            return 0.0
        now_s, look_s = self._clock(), self._window.next_look_s()
        if now_s < self._stopped_until_s < look_s:
            look_s = self._stopped_until_s
        return None if math.isinf(look_s) else max(0.0, look_s - now_s)

    def counts(self) -> dict[State, int]:
        """Return how many pods are in each state of a pod that waits or is waited for.

        Any thread may call this method.
        """
        # A tuple, because the dict may change meanwhile.
        states = Counter(member.state for member in tuple(self._known.values()))
        return {state: states[state] for state in (*_WAITING, *_WITH_PLACE)}

    def why_waiting(self, uid: str) -> str:
        """Return what holds a pod with its gate back, as far as this needs no order of the pods.

        Any thread may call this method.

        Returns: a phrase; "" if nothing but the pod's turn is known, or for another pod.
        """
        member = self._known.get(uid)
        if member is None or member.state not in _WAITING:
            return ""
        return self._window.why_ready(member) if member.state is State.READY else member.why

    def look_ahead(self) -> None:
        """Call PreEnqueue plugins for every pod that could be released now, and release no pod.

        ``entries`` then has the plugins' answers.
        """
        for member in self._in_states(State.READY):
            if why := self._why_held(member.pod):
                self._hold(member, why)

    def entries(self) -> Iterator[QueueEntry]:
        """Yield pods as `kubextend queue` shows them: released, ready, held or set aside."""
        for member in self._in_states(*_WITH_PLACE):
            yield QueueEntry(None, member.info, member.state, _why_with_place(member.pod))
        window = self._window
        for member in window.following():
            yield QueueEntry(None, member.info, member.state, window.why_ready(member))
        for position, member in enumerate(window.in_line(), 1):
            why = window.why_ready(member) or "is next"
            yield QueueEntry(position, member.info, member.state, why)
        for member in window.paused():
            yield QueueEntry(None, member.info, member.state, window.why_ready(member))
        for member in self._in_states(State.HELD, State.SET_ASIDE):
            yield QueueEntry(None, member.info, member.state, member.why)

    def _next(self) -> Member | None:
        return None if self._clock() < self._stopped_until_s else self._window.next()

    def _meet(self, pod: core.Pod) -> None:
        """Add a pod that the queue sees for the first time."""
        member = Member(info_of(pod), next(self._sequence), self._window.join(pod))
        self._known[pod.uid] = member
        if self._has_gate(pod):
            self._queue(member)
        elif _was_released(pod):
            self._adopt(member)
        else:
            self._pass(member)

    def _update(self, member: Member) -> None:
        """Process a change of a known pod; ignore a gate that a released pod still shows."""
        if member.state in _WAITING:
            self._update_waiting(member)
        elif member.state is State.RELEASING:
            if not self._has_gate(member.pod):
                self._release(member)
        elif member.state is State.RELEASED:
            self._judge(member)
        elif member.state is not State.IN_PERMIT:
            self._pass(member)

    def _update_waiting(self, member: Member) -> None:
        """Process a change of a waiting pod, such as that somebody else removed its gate.

        A change does not end the pause of a pod that is set aside: otherwise a user who may
        change a pod could make the queue retry it without end.
        """
        if self._has_gate(member.pod):
            if member.state is not State.SET_ASIDE:
                member.held_times = 0
                self._queue(member)
        elif member.pod.scheduling_gates:
            self._pass(member)
        elif member.was_patched:
            self._release(member)
        elif self.leads():
            # The leader alone removes gates for the queue.
            self._pass(member)
        else:
            self._adopt(member)

    def _queue(self, member: Member, why: str = "") -> None:
        """Make a pod that has the queue's gate ready, or hold it if it may not be released.

        Args:
            member: the pod.
            why: why a ready pod's gate is still there, if that is known.
        """
        pod = member.pod
        others = [gate for gate in pod.scheduling_gates if gate != self._settings.gate]
        if pod.scheduler_name not in self._settings.scheduler_names:
            self._move(member, State.HELD, f"no profile is for the scheduler {pod.scheduler_name}")
        elif others:
            self._move(member, State.HELD, f"has other scheduling gates: {', '.join(others)}")
        else:
            self._move(member, State.READY, why)

    def _hold(self, member: Member, why: str) -> None:
        pause_s = _pause_s(member.held_times, LONGEST_HELD_S)
        member.held_times += 1
        self._move(member, State.HELD, why, self._clock() + pause_s)

    def _set_aside(self, member: Member, why: str, pause_s: float) -> None:
        """Note that a pod's gate could not be removed; without a pause it keeps its place."""
        member.refused_times += 1
        if pause_s > 0:
            self._move(member, State.SET_ASIDE, why, self._clock() + pause_s)
        else:
            self._queue(member, why)

    def _release(self, member: Member) -> None:
        """Wait for a pod whose gate is gone.

        If the queue had given up the attempt, it waits for a member of a pod group only with its
        group: one member after the other could else give the group a new place each time.
        """
        item = member.item
        if item.stage is Stage.WAITING and item.following is not None and member.was_patched:
            self._pass(member)
            return
        if item.stage in {Stage.WAITING, Stage.RELEASING}:
            self._window.enter(item, Stage.RELEASED)
        self._move(member, State.RELEASED)
        self._judge(member)

    def _adopt(self, member: Member) -> None:
        """Count a pod without a gate as released by another replica, or by an earlier process.

        Each release took a free place in the window. If more items of a line were released than the
        window has places, the oldest had left the window, and the queue does not wait for these.
        """
        self._release(member)
        for oldest in self._window.surplus(member.item.line):
            self._end_wait(oldest)

    def _end_wait(self, item: Item) -> None:
        """Stop waiting for an item, and set aside its pods that still have the gate."""
        for member in tuple(item.waited_for):
            if member.state is State.RELEASING:
                pause_s = _pause_s(member.refused_times, LONGEST_ASIDE_S)
                self._set_aside(member, UNANSWERED, pause_s)
            else:
                self._pass(member)

    def _judge(self, member: Member) -> None:
        """Stop the wait for a released pod if kube-scheduler could not place the pod.

        With the strategy StrictFIFO, the queue goes on waiting for the pod; if namespaces take
        turns, only the pod's namespace waits.
        """
        if member.pod.scheduled_reason in VERDICTS:
            self._window.tried(member.item)
            if self._settings.strategy is Strategy.BEST_EFFORT_FIFO:
                self._pass(member)

    def _pass(self, member: Member) -> None:
        """Wait no longer for a pod; count it if kube-scheduler tried it and could not place it."""
        pod = member.pod
        is_unplaced = pod.scheduled_reason in VERDICTS and not pod.scheduling_gates
        self._move(member, State.UNPLACED if is_unplaced else State.PASSED)

    def _move(self, member: Member, state: State, why: str = "", due_s: float = math.inf) -> None:
        """Give a pod a new state, with all that follows from it; the one place that does."""
        item, old = member.item, member.state
        member.state, member.why = state, why
        member.version += 1
        self._window.wake(member, due_s)
        item.releasing += (state is State.RELEASING) - (old is State.RELEASING)
        if (state is State.UNPLACED) is not (old is State.UNPLACED):
            self._window.count_unplaced(item.line, 1 if state is State.UNPLACED else -1)
        if state in _WITH_PLACE:
            item.waited_for[member] = None
        elif old in _WITH_PLACE:
            del item.waited_for[member]
            if not item.waited_for:
                self._window.leave(item)
        if state is State.READY:
            self._window.push(member)

    def _has_gate(self, pod: core.Pod) -> bool:
        return self._settings.gate in pod.scheduling_gates

    def _in_state(self, uid: str, *states: State) -> Member | None:
        """Return the known pod of this UID if it is in one of these states."""
        member = self._known.get(uid)
        return member if member is not None and member.state in states else None

    def _in_states(self, *states: State) -> list[Member]:
        """Return all pods in one of these states, in order of arrival."""
        return [member for member in self._known.values() if member.state in states]


def _pause_s(times: int, longest_s: float) -> float:
    """Return the seconds until another attempt after so many."""
    return min(FIRST_PAUSE_S * 2.0 ** min(times, 10), longest_s)


def _was_released(pod: core.Pod) -> bool:
    """Return whether a pod, first seen without a gate, was released before this process began.

    A pod that kube-scheduler has not tried has a condition that names the gate. For a pod that
    kube-scheduler could not place, a changed spec shows that there was a gate.
    """
    if pod.scheduling_gates:
        return False
    if pod.scheduled_reason in VERDICTS:
        return pod.generation > 1
    return pod.scheduled_reason == GATED


def _as_listed(pod: core.Pod) -> tuple[float, str, str]:
    return info_of(pod).timestamp, pod.namespace, pod.name


def _why_with_place(pod: core.Pod) -> str:
    if pod.scheduled_reason in VERDICTS:
        return f"released; kube-scheduler says {pod.scheduled_reason}"
    return "released; kube-scheduler has not placed it yet"
