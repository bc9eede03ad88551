"""Decides which pods are released, and when; keeps each pod's state until the pod is on a node.

To release a pod is to remove the queue's scheduling gate. The window is the set of pods whose gate
is being removed, and of released pods that the queue waits for. The members of a pod group have one
place in the window together. The state follows only from the pods that the watch shows, so every
replica has the same state, and a new replica continues where the last replica ended. Only one
thread at a time may use the queue, which has no thread and no clock of its own.
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
from kubextend.queue.entry import Entry, GroupEntry, QueueEntry, State, info_of
from kubextend.queue.fair_queue import RELEASE_S, FairQueue
from kubextend.queue.heap import Before
from kubextend.queue.placement_waits import PlacementWaits
from kubextend.queue.unschedulable_delays import UnschedulableDelays
from kubextend.queue.window import VERDICTS, Window

__all__ = ["FairQueuing", "SchedulingQueue", "Settings", "Strategy"]

GATED: Final = "SchedulingGated"

_WAITING: Final = frozenset({State.READY, State.HELD, State.SET_ASIDE})
"""The states of a pod with its gate and without a patch under way."""

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 10.0
LONGEST_ASIDE_S: Final = 300.0
FIRST_LARGE_S: Final = 60.0
"""The first pause after a refused patch of a large pod: kube-apiserver may still be busy with the
patch when the patch has timed out."""
LATE_S: Final = 1 / 8
"""The most seconds for which other namespaces wait for kube-scheduler's attempt at a released pod,
if namespaces take turns. In that time kube-scheduler makes several attempts."""
LONGEST_LOOK_S: Final = 1.0
"""Seconds after which ``due`` calls PreEnqueue plugins for no further pod, so that pods that may be
released do not wait until the plugins have decided about all other pods."""
MOST_WHY_CHARS: Final = 300
"""The most characters that are kept of the API's reason for a refused patch."""
UNANSWERED: Final = "its gate could not be removed within maxHold"
ONE_LARGE: Final = "another pod of more than 64 KiB goes first"


class Strategy(StrEnum):
    """What the queue does while kube-scheduler finds no node for a released pod."""

    STRICT_FIFO = "StrictFIFO"
    """The queue, or with turns of namespaces only the pod's namespace, waits for the pod."""
    BEST_EFFORT_FIFO = "BestEffortFIFO"
    """The queue goes on with the next pod."""


class FairQueuing(StrEnum):
    """Whether the pods of different namespaces take turns."""

    NONE = "None"
    """The order of the QueueSort plugin holds among all pods."""
    BY_NAMESPACE = "ByNamespace"
    """Namespaces take turns, and the QueueSort plugin's order holds within a namespace."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a scheduling queue.

    Attributes:
        gate: the name of the scheduling gate that the queue removes.
        scheduler_names: the queue releases the pods with one of these values of
            ``spec.schedulerName``.
        strategy: whether a released pod that finds no node holds up the pods behind it.
        window: the most released pods, at a time, that kube-scheduler has not tried yet; the
            members of a pod group count as one. If namespaces take turns and kube-scheduler is
            slow, this limit holds for each namespace. The queue removes the gates of at most as
            many members of one group at a time.
        max_hold_s: the most seconds for which a pod or pod group takes a place in the window: once
            before its first gate is gone, and again after that.
        fair_queuing: whether namespaces take turns.
        most_unschedulable: used if namespaces take turns. While a namespace has so many pods that
            kube-scheduler cannot place, the queue pauses before it releases another pod of the
            namespace. An event may make kube-scheduler try all these pods, at some hundred attempts
            a second.
    """

    gate: str
    scheduler_names: AbstractSet[str]
    strategy: Strategy = Strategy.BEST_EFFORT_FIFO
    window: int = 1
    max_hold_s: float = 60.0
    fair_queuing: FairQueuing = FairQueuing.NONE
    most_unschedulable: int = 100


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
        order: Before[Entry],
        why_held: Callable[[core.Pod], str],
        clock: Callable[[], float],
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self._settings = settings
        self._why_held = why_held
        self._clock = clock
        self._leads = leads
        self._window_waits = PlacementWaits(settings.max_hold_s, clock)
        self._known: dict[str, Entry] = {}
        self._fair = settings.fair_queuing is FairQueuing.BY_NAMESPACE
        self._ready = FairQueue(order, _namespace if self._fair else _one_flow)
        self._unschedulable = UnschedulableDelays(
            settings.most_unschedulable, settings.max_hold_s, clock
        )
        # Pods that are held or set aside.
        self._held: set[Entry] = set()
        # When held pods are due again; a pod that has changed since is skipped when its time comes.
        self._again: list[tuple[float, int, Entry]] = []
        self._window = Window(settings.window)
        # The place of each pod group that has released members for which the queue waits.
        self._groups: dict[str, GroupEntry] = {}
        # While large pods are refused: when the next one is tried, and how many were refused in a
        # row.
        self._large_again_at_s = -math.inf
        self._large_refused = 0
        self._sequence = count()
        self._pushes = count()

    def replace(self, pods: Iterable[core.Pod]) -> None:
        """Take in a complete list of the pods that are on no node, and forget all other pods."""
        listed = {pod.uid: pod for pod in pods}
        for uid in self._known.keys() - listed.keys():
            self.forget(uid)
        for pod in sorted(listed.values(), key=_as_listed):
            self.observe(pod)

    def observe(self, pod: core.Pod) -> None:
        """Process a pod as the Kubernetes API shows it now: a new pod, or a change."""
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
        self._count(self._known[pod.uid])

    def forget(self, uid: str) -> None:
        """Forget the pod with this UID, which is on a node or deleted."""
        entry = self._known.pop(uid, None)
        if entry is not None:
            self._leave(entry)

    def due(self) -> list[core.Pod]:
        """Return the pods to release now, in order.

        The caller reports what becomes of each pod by ``released``, ``refused``, ``refused_once``,
        ``returned`` or ``forget``. PreEnqueue plugins may take long, so the method returns after a
        second or so; ``next_look_s`` is 0 then.
        """
        self.expire()
        self._bring_back()
        self._end_pauses()
        released: list[core.Pod] = []
        asked_at_s = self._clock()
        ends_at_s = asked_at_s + LONGEST_LOOK_S
        while asked_at_s < ends_at_s and (entry := self._next(asked_at_s)) is not None:
            self._ready.remove(entry)
            why = self._why_not_now(entry)
            began_s, asked_at_s = asked_at_s, self._clock()
            self._ready.charge(entry, asked_at_s - began_s)
            if why:
                self._hold_for_a_while(entry, why)
            else:
                self._enter_window(entry, State.RELEASING, self._settings.max_hold_s)
                entry.tried = True
                released.append(entry.pod)
        return released

    def expire(self) -> None:
        """Stop waiting for pods whose time is over; called while this replica does not lead."""
        now = self._clock()
        for entry in self._window.released():
            if now >= entry.entered_at_s + LATE_S:
                self._step_aside(entry)
        for entry in [entry for entry in self._window if now >= entry.leaves_at_s]:
            if entry.pod.scheduled_reason in VERDICTS:
                self._window_waits.ran_out(entry.pod.namespace)
            self._end_wait(entry)

    def released(self, uid: str) -> None:
        """Record that a pod's gate is removed, however late the answer of the API comes."""
        entry = self._in_state(uid, State.RELEASING, *_WAITING)
        if entry is not None:
            if entry.pod.truncated:
                self._large_refused = 0
            if entry.state is State.RELEASING:
                self._release(entry)
            else:
                self._release_late(entry)

    def refused(self, uid: str, why: str) -> None:
        """Go on without a pod whose gate cannot be removed; the queue tries again after a pause."""
        entry = self._in_state(uid, State.RELEASING, State.READY)
        if entry is not None:
            if entry.pod.truncated:
                self._pause_large_pods()
            self._set_aside(entry, why)

    def refused_once(self, uid: str) -> None:
        """Record that the API refused a pod's first patch, and that the patch is repeated.

        If namespaces take turns, only the pod's own namespace waits for the repeated patches.
        """
        entry = self._in_state(uid, State.RELEASING)
        if entry is not None:
            place = self._place_of(entry)
            if not place.beside:
                self._step_aside(place)

    def returned(self, uid: str) -> None:
        """Queue a pod again that ``due`` returned and whose gate nobody tried to remove."""
        entry = self._in_state(uid, State.RELEASING)
        if entry is not None:
            self._queue(entry)

    def held_in_permit(self, uid: str) -> None:
        """Stop waiting for a released pod, because Permit plugins hold the pod for a node."""
        entry = self._in_state(uid, State.RELEASING, State.RELEASED, State.PASSED)
        if entry is not None:
            entry.in_permit = True
            self._pass(entry)

    def left_permit(self, uid: str) -> None:
        """Record that Permit no longer holds a pod, which may count as unschedulable again."""
        entry = self._known.get(uid)
        if entry is not None:
            entry.in_permit = False
            self._count(entry)

    def next_look_s(self) -> float | None:
        """Return the seconds until ``due`` or ``expire`` has work without an event; None: never.

        While the window is full, the end of a namespace's pause is not counted. The end of a pod's
        pause is counted only if the queue has begun to release a pod group.
        """
        now_s = self._clock()
        if self._next(now_s) is not None:
            return 0.0
        times = [entry.leaves_at_s for entry in self._window]
        if self._window.has_room() or self._groups:
            times += [again_at_s for again_at_s, *_ in self._again[:1]]
        if self._window.has_room():
            times += self._ends_of_pauses()
            late = self._window.late.delaying(now_s)
            if late is not None and self._ready.has_next:
                times.append(self._window.late.delays_until_s(late))
        if self._fair:
            times += [entry.entered_at_s + LATE_S for entry in self._window.released()]
        earliest = min(times, default=math.inf)
        return None if math.isinf(earliest) else max(0.0, earliest - now_s)

    def counts(self) -> dict[State, int]:
        """Return how many pods are in each state, without pods in the state PASSED."""
        # Another thread than the queue's may call this while the window changes.
        in_window, held_back = tuple(self._window), tuple(self._held)
        in_window = tuple(pod for entry in in_window for pod in entry.waited_for)
        releasing = sum(entry.state is State.RELEASING for entry in in_window)
        held = sum(entry.state is State.HELD for entry in held_back)
        return {
            State.READY: len(self._ready),
            State.HELD: held,
            State.SET_ASIDE: len(held_back) - held,
            State.RELEASING: releasing,
            State.RELEASED: len(in_window) - releasing,
        }

    def why_waiting(self, uid: str) -> str:
        """Return what holds a pod with its gate back, as far as this needs no order of the pods.

        Returns: a phrase; "" if nothing but the pod's turn is known, or for another pod.
        """
        # Another thread than the queue's may call this.
        entry = self._known.get(uid)
        if entry is None or entry.state not in _WAITING:
            return ""
        if entry.state is not State.READY:
            return entry.why
        if self._ready.is_paused(entry.pod.namespace):
            return "waits for released pods of its namespace"
        places = self._window.taking_places()
        return f"waits for {places[0].name}" if places and not self._window.has_room() else ""

    def look_ahead(self) -> None:
        """Call PreEnqueue plugins for every pod that could be released now, and release no pod.

        ``entries`` then has the plugins' answers.
        """
        for entry in list(self._ready):
            why = self._why_held(entry.pod)
            if why:
                self._hold_for_a_while(entry, why)

    def entries(self) -> Iterator[QueueEntry]:
        """Yield pods as `kubextend queue` shows them: released, ready, held or set aside."""
        in_window = [entry for place in self._window for entry in place.waited_for]
        for entry in sorted(in_window, key=_by_arrival):
            yield QueueEntry(None, entry.info, entry.state, _why_in_window(entry.pod))
        for entry in self._ready.following():
            why = f"follows released pods of {self._groups[entry.group].name}"
            yield QueueEntry(None, entry.info, entry.state, why)
        full = None if self._window.has_room() else self._window.taking_places()[0]
        for position, (entry, late) in enumerate(self._behind_late_pods(), start=1):
            ahead = full or late
            why = "is next" if ahead is None else f"waits for {ahead.name}"
            yield QueueEntry(position, entry.info, entry.state, why)
        for entry in self._ready.paused():
            yield QueueEntry(None, entry.info, entry.state, self._why_paused(entry.pod.namespace))
        for entry in sorted(self._held, key=_by_arrival):
            yield QueueEntry(None, entry.info, entry.state, entry.why)

    def _behind_late_pods(self) -> Iterator[tuple[Entry, Entry | None]]:
        """Yield each ready pod that waits for its turn, with the late pod that it may not overtake.

        If the first pod of a namespace may not overtake a late pod, all of its pods wait.
        """
        late = self._window.late.delaying(self._clock())
        may_overtake: dict[str, bool] = {}
        for entry in self._ready.ordered():
            is_behind = late is None or entry.scheduler_order > late.scheduler_order
            may_go = may_overtake.setdefault(entry.pod.namespace, is_behind)
            yield entry, None if may_go else late

    def _why_not_now(self, entry: Entry) -> str:
        """Return why the pod whose turn it is may not be released; empty if it may be."""
        too_early = self._clock() < self._large_again_at_s
        if entry.pod.truncated and (too_early or self._window.has_large()):
            return ONE_LARGE
        return self._why_held(entry.pod)

    def _pause_large_pods(self) -> None:
        """Release no pod that the queue knows without its large fields, for 60 to 300 s.

        Each patch of such a large pod may keep kube-apiserver busy.
        """
        pause_s = min(FIRST_LARGE_S * 2.0 ** min(self._large_refused, 10), LONGEST_ASIDE_S)
        self._large_refused += 1
        self._large_again_at_s = self._clock() + pause_s

    def _next(self, now_s: float) -> Entry | None:
        """Return the pod to release now; None: no pod may be released now."""
        if self._window.has_room():
            entry = self._ready.next(behind=self._window.late.delaying(now_s))
            if entry is not None:
                return entry
        return self._next_member()

    def _next_member(self) -> Entry | None:
        """Return the next pod of a pod group of which a pod was released; None: there is none.

        One patch removes the gate of one pod. As many patches of one group run at a time as the
        setting ``window`` allows pods to be released, so that the pods of others need not wait for
        all patches of a large group.
        """
        for group in self._groups.values():
            if len(group.releasing) < self._settings.window:
                member = self._ready.member(group)
                if member is not None:
                    return member
        return None

    def _count(self, entry: Entry) -> None:
        """Update whether the pod counts as unschedulable: tried by kube-scheduler, but not placed.

        Pods count only if namespaces take turns and once the queue no longer waits for the pod.
        """
        pod = entry.pod
        counts = (
            self._fair
            and entry.state is State.PASSED
            and pod.scheduled_reason in VERDICTS
            and not (entry.in_permit or pod.scheduling_gates)
        )
        self._set_counted(entry, counts)

    def _set_counted(self, entry: Entry, counts: bool) -> None:
        if entry.unschedulable is counts:
            return
        entry.unschedulable = counts
        change = self._unschedulable.add if counts else self._unschedulable.remove
        change(entry.pod.namespace)
        self._pause_or_resume(entry.pod.namespace)

    def _pause_or_resume(self, namespace: str) -> None:
        """Pause or resume a namespace's releases, as its released pods require.

        The namespace pauses if it has many unschedulable pods, or to wait for a released pod of its
        own.
        """
        if not self._fair:
            return
        next_at_s = self._unschedulable.next_at_s(namespace)
        has_many = next_at_s is not None and self._clock() < next_at_s
        if has_many or self._window.awaited(namespace) is not None:
            self._ready.pause(namespace)
        else:
            self._ready.resume(namespace)

    def _end_pauses(self) -> None:
        """End the pause of each namespace whose time is over."""
        for namespace in self._unschedulable.namespaces():
            self._pause_or_resume(namespace)

    def _ends_of_pauses(self) -> Iterator[float]:
        """Yield the end of the pause of each namespace that waits for its unschedulable pods."""
        for namespace in self._unschedulable.namespaces():
            next_at_s = self._unschedulable.next_at_s(namespace)
            waits = self._ready.is_paused(namespace) and self._window.awaited(namespace) is None
            if waits and next_at_s is not None:
                yield next_at_s

    def _why_paused(self, namespace: str) -> str:
        awaited = self._window.awaited(namespace)
        if awaited is not None:
            return f"waits for {awaited.name}"
        number = self._unschedulable.count(namespace)
        return f"waits because kube-scheduler cannot place {number} pods of its namespace"

    def _meet(self, pod: core.Pod) -> None:
        """Add a pod that the queue sees for the first time."""
        entry = Entry(info_of(pod), next(self._sequence), State.PASSED)
        self._known[pod.uid] = entry
        if self._settings.gate in pod.scheduling_gates:
            self._queue(entry)
        elif self._was_released(pod):
            self._adopt(entry)

    def _update(self, entry: Entry) -> None:
        """Process a change of a known pod; ignore a gate that a released pod still shows."""
        pod = entry.pod
        gated = self._settings.gate in pod.scheduling_gates
        if entry.state in _WAITING:
            self._update_waiting(entry)
        elif entry.state is State.RELEASING and not gated:
            self._release(entry)
        elif entry.state is State.RELEASED:
            self._judge(entry)

    def _update_waiting(self, entry: Entry) -> None:
        """Process a change of a waiting pod, such as that somebody else removed its gate.

        A change does not end the pause of a pod that is set aside: otherwise whoever may change a
        pod could make the queue retry it without end.
        """
        pod = entry.pod
        if self._settings.gate in pod.scheduling_gates:
            if entry.state is not State.SET_ASIDE:
                entry.held_times = 0
                self._queue(entry)
        elif pod.scheduling_gates:
            self._pass(entry)
        elif entry.tried:
            self._release_late(entry)
        elif self._leads():
            # The leader alone removes gates for the queue.
            self._pass(entry)
        else:
            self._adopt(entry)

    def _queue(self, entry: Entry) -> None:
        """Make a pod that has the queue's gate ready, or hold it if it may not be released."""
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
        self._enter_window(entry, State.RELEASED, self._settings.max_hold_s)
        self._judge(entry)

    def _release_late(self, entry: Entry) -> None:
        """Note that a gate is gone, after the queue has given up the attempt to remove it.

        The queue waits for such a pod, but for a member of a pod group only with its group: one
        member after the other could else give the group a new place each time its time is over.
        """
        if entry.group and entry.group not in self._groups:
            self._pass(entry)
        else:
            self._release(entry)

    def _adopt(self, entry: Entry) -> None:
        """Count a pod without a gate as released by another replica, or by an earlier process.

        Each release took a free place in the window, the limited number of released pods that the
        queue waits for. If more pods were released than the window has places, the oldest pods had
        left the window, and the queue does not wait for these. If namespaces take turns, that holds
        only within a namespace: if the pods of several namespaces are too many, the oldest pods
        keep only their own namespaces waiting, because kube-scheduler may not have tried these pods
        yet.
        """
        self._release(entry)
        if not self._fair:
            for oldest in self._surplus(self._window.taking_places()):
                self._end_wait(oldest)
            return
        for oldest in self._surplus(self._window.of(entry.pod.namespace)):
            self._end_wait(oldest)
        for oldest in self._surplus(self._window.taking_places()):
            self._step_aside(oldest)

    def _surplus(self, taking: list[Entry]) -> list[Entry]:
        """Return the oldest of the given released pods, as many as exceed the window's places."""
        released = [entry for entry in taking if entry.state is State.RELEASED]
        released.sort(key=lambda entry: (entry.entered_at_s, entry.sequence))
        return released[: max(len(taking) - self._settings.window, 0)]

    def _enter_window(self, entry: Entry, state: State, hold_s: float) -> None:
        """Wait for a pod: in a place of its own, or in the place of its pod group.

        A large pod has a place of its own even so: no pod waits while its gate is being removed.
        """
        if not entry.group or entry.pod.truncated:
            self._take_place(entry, state, hold_s)
            return
        group = self._groups.get(entry.group)
        if group is None:
            group = GroupEntry(entry.info, entry.sequence)
            self._groups[entry.group] = group
            self._ready.begin_group(group)
            self._take_place(group, state, hold_s)
        elif state is State.RELEASED and group.state is State.RELEASING:
            self._take_place(group, state, hold_s)
        elif state is State.RELEASING:
            self._ready.charge(entry, RELEASE_S)
        # Before the move: a group without members would end.
        group.releasing.pop(entry, None)
        self._move(entry, state)
        members = group.releasing if state is State.RELEASING else group.released
        members[entry] = None

    def _take_place(self, entry: Entry, state: State, hold_s: float) -> None:
        """Give a pod, or a pod group, a place in the window."""
        if entry not in self._window:
            self._ready.release(entry)
            self._unschedulable.released(entry.pod.namespace)
        self._move(entry, state)
        self._window.enter(entry)
        self._ready.begin(entry)
        self._pause_or_resume(entry.pod.namespace)
        entry.entered_at_s = self._clock()
        entry.leaves_at_s = entry.entered_at_s + hold_s

    def _place_of(self, entry: Entry) -> Entry:
        """Return what is in the window for a pod that the queue waits for: its group, or itself."""
        return entry if entry in self._window else self._groups[entry.group]

    def _end_wait(self, place: Entry) -> None:
        """Stop waiting for what is in the window, and set aside what still has its gate."""
        for entry in place.waited_for:
            if entry.state is State.RELEASING:
                self._set_aside(entry, UNANSWERED)
            else:
                self._pass(entry)

    def _judge(self, entry: Entry) -> None:
        """Stop or shorten the wait for a released pod if kube-scheduler could not place the pod.

        With the strategy BestEffortFIFO, the queue goes on with the next pod. With StrictFIFO, the
        queue goes on waiting for the pod; if namespaces take turns, only the pod's namespace waits.
        Earlier waits for pods of the namespace that ended without a node shorten the wait. Before
        kube-scheduler has tried the pod, nothing shortens the wait: kube-scheduler could get more
        pods than it can try.
        """
        if entry.pod.scheduled_reason not in VERDICTS:
            return
        if self._settings.strategy is Strategy.BEST_EFFORT_FIFO:
            self._pass(entry)
        else:
            hold_s = self._window_waits.hold_s(entry.pod.namespace)
            place = self._place_of(entry)
            place.info = entry.info
            place.leaves_at_s = min(place.leaves_at_s, place.entered_at_s + hold_s)
            self._step_aside(place)

    def _step_aside(self, entry: Entry) -> None:
        """Let only a released pod's own namespace wait for the pod, if namespaces take turns."""
        if not self._fair:
            return
        if not entry.beside:
            self._ready.end(entry, self._used_s(entry))
        self._window.step_aside(entry, self._clock())
        self._pause_or_resume(entry.pod.namespace)

    def _used_s(self, entry: Entry) -> float:
        """Return for how many seconds the pod took a place in the window.

        A released pod counts for 1/8 s at most, because it gives up its place after that time,
        which a replica that does not lead may notice up to a second late.
        """
        used_s = self._clock() - entry.entered_at_s
        return min(used_s, LATE_S) if entry.state is State.RELEASED else used_s

    def _pass(self, entry: Entry) -> None:
        self._move(entry, State.PASSED)

    def _bring_back(self) -> None:
        """Make those held pods ready whose pause is over."""
        now = self._clock()
        while self._again and (self._groups or self._window.has_room()):
            again_at_s, _, entry = self._again[0]
            current = entry in self._held and entry.again_at_s == again_at_s
            if current and again_at_s > now:
                return
            heapq.heappop(self._again)
            if current:
                self._queue(entry)

    def _was_released(self, pod: core.Pod) -> bool:
        """Return whether a pod, first seen without a gate, was released before this process began.

        A pod that kube-scheduler has not tried has a condition that names the gate. For a pod that
        kube-scheduler could not place, a changed spec shows that there was a gate; an API before
        1.33 counts no changes, and the queue does not wait for the pod.
        """
        if pod.scheduling_gates:
            return False
        if pod.scheduled_reason in VERDICTS:
            return pod.generation > 1
        return pod.scheduled_reason == GATED

    def _in_state(self, uid: str, *states: State) -> Entry | None:
        """Return the known pod of this UID if it is in one of these states."""
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
        self._count(entry)

    def _leave(self, entry: Entry) -> None:
        self._set_counted(entry, counts=False)
        self._ready.remove(entry)
        self._held.discard(entry)
        group = self._groups.get(entry.group)
        if group is not None and entry in group:
            self._leave_group(entry, group)
        if entry in self._window:
            if not entry.beside:
                self._ready.end(entry, self._used_s(entry))
            self._window.leave(entry, self._clock())
            self._pause_or_resume(entry.pod.namespace)

    def _leave_group(self, entry: Entry, group: GroupEntry) -> None:
        """Stop waiting for a member of a pod group, and for the group after its last member."""
        group.discard(entry)
        if not (group.releasing or group.released):
            del self._groups[group.group]
            self._ready.end_group(group)
            self._leave(group)


def _by_arrival(entry: Entry) -> int:
    return entry.sequence


def _namespace(entry: Entry) -> str:
    return entry.pod.namespace


def _one_flow(entry: Entry) -> str:
    """Return the name of the flow of all pods, the same for every pod."""
    del entry
    return ""


def _as_listed(pod: core.Pod) -> tuple[float, str, str]:
    return info_of(pod).timestamp, pod.namespace, pod.name


def _why_in_window(pod: core.Pod) -> str:
    if pod.scheduled_reason in VERDICTS:
        return f"released; kube-scheduler says {pod.scheduled_reason}"
    return "released; kube-scheduler has not placed it yet"
