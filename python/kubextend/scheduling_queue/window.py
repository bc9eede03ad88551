"""The window: the items whose gate is being removed, or that the queue waits for after that.

An item is a lone pod or a pod group, and has at most one place. If namespaces take turns, an item
keeps the pods of other namespaces waiting for an eighth of a second at most once its gate is gone.
"""

import math
from collections.abc import Callable, Iterator
from typing import Final

from kubextend import core
from kubextend.scheduling_queue.item import Alarm, Item, Line, Member, Stage, Ticket
from kubextend.scheduling_queue.lazy_heap import LazyHeap
from kubextend.scheduling_queue.order import Order
from kubextend.scheduling_queue.settings import Settings
from kubextend.scheduling_queue.turns import Turns

__all__ = ["Window"]

LATE_S: Final = 1 / 8
"""The most seconds for which other namespaces wait for kube-scheduler's attempt at a released item.
In that time kube-scheduler makes several attempts."""


class Window:
    """Gives items places, and says which ready pod may be released next.

    Args:
        settings: how the queue runs.
        order: compares two pods as the profiles' QueueSort plugin does.
        clock: returns monotonic seconds.
    """

    def __init__(self, settings: Settings, order: Order, clock: Callable[[], float]) -> None:
        self._settings = settings
        self._fair = settings.by_namespace
        self._order = order
        self._clock = clock
        self._turns = Turns(settings.window, clock)
        self._groups: dict[str, Item] = {}
        # All items with a place, in order of arrival; and those that keep all pods waiting.
        self._places: dict[Item, None] = {}
        self._fresh: dict[Item, None] = {}
        # The lines with many unplaced pods.
        self._slowed: dict[Line, None] = {}
        self._alarms: LazyHeap[Alarm] = LazyHeap()

    def join(self, pod: core.Pod) -> Item:
        """Return the item that a new pod belongs to: its pod group, or a new item for it alone."""
        name = pod.namespace if self._fair else ""
        line = self._turns.lines.setdefault(name, Line(name))
        line.pods += 1
        if not pod.scheduling_group:
            return Item(f"{pod.namespace}/{pod.name}", line, pods=1)
        group = f"pod group {pod.namespace}/{pod.scheduling_group}"
        item = self._groups.get(group)
        if item is None:
            item = self._groups[group] = Item(group, line, following=LazyHeap())
        item.pods += 1
        return item

    def quit(self, item: Item) -> None:
        """Forget a pod of an item; its namespace is forgotten with its last pod."""
        line = item.line
        item.pods -= 1
        line.pods -= 1
        # The outdated tickets of a heap would keep all of this until a garbage collection.
        if item.following is not None and not item.pods:
            del self._groups[item.name]
            item.following = None
        if not line.pods:
            del self._turns.lines[line.name]
            line.ready = LazyHeap()

    def push(self, member: Member) -> None:
        """Add a ready pod to its line, or to those that follow their pod group without a turn."""
        if (following := member.item.following) is not None:
            following.push(Ticket(member, self._order, follows=True))
        if member.item.stage is Stage.WAITING:
            self._line_up(member)

    def take_turn(self, item: Item) -> None:
        """Give an item a place, as its line has its turn."""
        self.enter(item, Stage.RELEASING)
        self._turns.take(item)

    def put_off(self, line: Line) -> None:
        """Let other lines go first, as the first pod of this one may not be released yet."""
        self._turns.put_off(line)

    def enter(self, item: Item, stage: Stage) -> None:
        """Give an item a place, or begin its time there again when its first gate is gone."""
        now_s = self._clock()
        item.stage = stage
        item.leaves_s = now_s + self._settings.max_hold_s
        is_short = self._fair and stage is Stage.RELEASED
        self.wake(item, min(now_s + LATE_S, item.leaves_s) if is_short else item.leaves_s)
        if item not in self._places and item.line in self._slowed:
            item.line.paused_s = now_s
        self._places[item] = item.line.places[item] = self._fresh[item] = None

    def tried(self, item: Item) -> None:
        """Record that kube-scheduler has tried an item."""
        if item.stage in {Stage.RELEASED, Stage.LATE}:
            self._turns.drop(item, tried=True)
            self.let_others_go(item, Stage.TRIED)

    def let_others_go(self, item: Item, stage: Stage) -> None:
        """If namespaces take turns, let only the item's own namespace wait for it."""
        item.stage = stage
        self._fresh.pop(item, None)
        self.wake(item, item.leaves_s)

    def leave(self, item: Item) -> None:
        """Take the place of an item from it; its ready pods wait for a turn of their own."""
        self._turns.drop(item, tried=False)
        for places in (self._places, item.line.places, self._fresh):
            places.pop(item, None)
        item.stage = Stage.WAITING
        item.due_s = item.leaves_s = math.inf
        for ticket in item.following.ordered() if item.following else ():
            self._line_up(ticket.member)

    def surplus(self, line: Line) -> list[Item]:
        """Return the oldest released items of a line, as many as exceed the window's places."""
        released = [item for item in line.places if item.stage is not Stage.RELEASING]
        return released[: max(len(line.places) - self._settings.window, 0)]

    def count_unplaced(self, line: Line, change: int) -> None:
        """Change the number of the pods of a line that kube-scheduler could not place."""
        line.unplaced += change
        if not self._fair or line.unplaced < self._settings.most_unschedulable:
            self._slowed.pop(line, None)
        elif line not in self._slowed:
            self._slowed[line] = None
            line.paused_s = self._clock()

    def next(self) -> Member | None:
        """Return the pod to release now; None: no pod may be released now.

        One patch removes the gate of one pod. As many patches of one pod group run at a time as the
        window has places, so that the pods of others need not wait for a large group.
        """
        if len(self._fresh) < self._settings.window:
            line = self._turns.next(self._may_go)
            if line is not None and line.ready.first is not None:
                return line.ready.first.member
        for item in self._places:
            ticket = item.following.first if item.following else None
            if ticket is not None and item.releasing < self._settings.window:
                return ticket.member
        return None

    def wake(self, owner: Item | Member, due_s: float) -> None:
        """Have ``due`` return an item or a pod at a time; the time that was set before is void."""
        owner.due_s = due_s
        if not math.isinf(due_s):
            self._alarms.push(Alarm(due_s, owner))

    def due(self) -> Iterator[Item | Member]:
        """Yield what is due now; the caller has to give it another time, or none."""
        now_s = self._clock()
        while (alarm := self._alarms.first) is not None and alarm.at_s <= now_s:
            yield alarm.owner

    def next_look_s(self) -> float:
        """Return the time at which ``due`` or ``next`` may have an answer; infinite: never."""
        now_s, alarm = self._clock(), self._alarms.first
        times = [math.inf if alarm is None else alarm.at_s]
        if self._fair:
            later = (self._turns.ends_s, *map(self._pause_ends_s, self._slowed))
            times += [at_s for at_s in later if at_s > now_s]
        return min(times)

    def following(self) -> list[Member]:
        """Return the ready pods that need no turn, group by group."""
        groups = [item.following for item in self._places if item.following]
        return [ticket.member for group in groups for ticket in group.ordered()]

    def in_line(self) -> list[Member]:
        """Return the ready pods about which turns decide, in the order of their release.

        The order assumes that kube-scheduler places each pod as soon as it is released.
        """
        turns: list[tuple[int, list[Member]]] = []
        for first, line in self._turns.in_order():
            if not self._is_paused(line):
                items: dict[Item, list[Member]] = {}
                for member in _in_order(line):
                    items.setdefault(member.item, []).append(member)
                turns += enumerate(items.values(), first + len(line.places))
        turns.sort(key=lambda turn: turn[0])
        return [member for _, members in turns for member in members]

    def paused(self) -> list[Member]:
        """Return the ready pods of the lines that have too many unplaced pods for a turn now."""
        lines = filter(self._is_paused, self._slowed)
        return [member for line in lines for member in _in_order(line)]

    def why_ready(self, member: Member) -> str:
        """Return what a ready pod waits for; "" if nothing but its turn is known.

        Any thread may call this method.
        """
        item, line = member.item, member.item.line
        if member.why:
            return member.why
        if item.stage is not Stage.WAITING:
            return f"follows released pods of {item.name}"
        if self._is_paused(line):
            return (
                f"waits because kube-scheduler cannot place {line.unplaced} pods of its namespace"
            )
        # A tuple, because the dicts may change meanwhile.
        for places in map(tuple, (line.places, self._fresh if self._fair else self._places)):
            if len(places) >= self._settings.window:
                return f"waits for {places[0].name}"
        awaited = self._turns.awaited(line)
        return "" if awaited is None else f"waits for {awaited.name}"

    def _line_up(self, member: Member) -> None:
        line = member.item.line
        line.ready.push(Ticket(member, self._order, follows=False))
        self._turns.come(line)

    def _may_go(self, line: Line) -> bool:
        """Return whether a line has a pod that may have a turn now."""
        is_full = len(line.places) >= self._settings.window
        return not is_full and line.ready.first is not None and not self._is_paused(line)

    def _is_paused(self, line: Line) -> bool:
        return self._clock() < self._pause_ends_s(line)

    def _pause_ends_s(self, line: Line) -> float:
        """Return when a line with many unplaced pods may have its next turn; -inf: at any time.

        kube-scheduler tries an unplaced pod again and again, and a removed gate cannot be put back.
        """
        if line not in self._slowed:
            return -math.inf
        share = line.unplaced / self._settings.most_unschedulable
        return line.paused_s + self._settings.max_hold_s * share


def _in_order(line: Line) -> list[Member]:
    """Return the ready pods of a line that need a turn, sorted."""
    return list(dict.fromkeys(ticket.member for ticket in line.ready.ordered()))
