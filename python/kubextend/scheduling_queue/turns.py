"""Rounds: each namespace that has a ready pod gets one turn a round, whatever its priority.

kube-scheduler tries released pods of a higher priority first, and among equals those that were
created first, however late their gate was removed. A round therefore ends only once kube-scheduler
has tried what was released in it: otherwise two namespaces with many waiting pods could keep a slow
kube-scheduler from all others. If all pods have one order, they are one line, and the same code
runs.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from kubextend.scheduling_queue.item import Item, Line

__all__ = ["Turns"]

PATIENCE_S: Final = 1.5
"""For how many seconds without an attempt of kube-scheduler a round waits for its untried pods:
kube-scheduler never tries some pods, and reports on others only once their volume is made. With 1 s
two namespaces with many pods starve others at one attempt a second."""


class Turns:
    """Decides which line of pods is next.

    Args:
        window: a round ends when fewer than so many of its items are untried.
        clock: returns monotonic seconds.
    """

    def __init__(self, window: int, clock: Callable[[], float]) -> None:
        self._window = window
        self._clock = clock
        self.lines: dict[str, Line] = {}
        # The names of the lines that have a turn in this round, the next one first; and of those
        # that had it, even if they have no pod any more.
        self._left: OrderedDict[str, None] = OrderedDict()
        self._had: dict[str, None] = {}
        # What was released in this round, and kube-scheduler has not tried.
        self._untried: dict[Item, None] = {}
        self._moved_s = -math.inf

    def come(self, line: Line) -> None:
        """Give a line with a ready pod the next turn, unless it is part of the round already."""
        if line.name not in self._left and line.name not in self._had:
            self._left[line.name] = None
            self._left.move_to_end(line.name, last=False)

    def next(self, may_go: Callable[[Line], bool]) -> Line | None:
        """Return the line whose turn it is, of those that may go; None: no line may."""
        if (line := self._first(may_go)) is None and self._is_over():
            self._begin()
            line = self._first(may_go)
        return line

    def put_off(self, line: Line) -> None:
        """Let the other lines of the round go before this one, whose first pod may not go yet."""
        if line.name in self._left:
            self._left.move_to_end(line.name)

    def take(self, item: Item) -> None:
        """Record that an item had the turn of its line."""
        self._left.pop(item.line.name, None)
        self._had[item.line.name] = None
        self._untried[item] = None
        self._moved_s = self._clock()

    def drop(self, item: Item, *, tried: bool) -> None:
        """Wait no longer for an item: kube-scheduler tried it, or its time is over."""
        if item in self._untried:
            del self._untried[item]
            if tried:
                self._moved_s = self._clock()

    def awaited(self, line: Line) -> Item | None:
        """Return the untried item for which the line waits, as it had its turn in this round."""
        if line.name in self._left or self._is_over():
            return None
        return next(iter(tuple(self._untried)), None)

    @property
    def ends_s(self) -> float:
        """When the round ends if kube-scheduler tries no pod; infinite if nothing is untried."""
        return self._moved_s + PATIENCE_S if self._untried else math.inf

    def in_order(self) -> list[tuple[int, Line]]:
        """Return each line with its next turn: 0 is this round, 1 the next one."""
        names = [*self._had, *self._left]
        lines = [self.lines[name] for name in names if name in self.lines]
        return [(int(line.name not in self._left), line) for line in lines]

    def _first(self, may_go: Callable[[Line], bool]) -> Line | None:
        lines = (self.lines.get(name) for name in self._left)
        return next((line for line in lines if line is not None and may_go(line)), None)

    def _is_over(self) -> bool:
        # kube-scheduler tries no pod of a group of which a pod has its gate.
        untried = sum(item.releasing == 0 for item in tuple(self._untried))
        return untried < self._window or self._clock() >= self.ends_s

    def _begin(self) -> None:
        """Begin a round; forget the names of lines that have no ready pod."""
        if self._clock() >= self.ends_s:
            self._untried.clear()
        names = (*self._left, *self._had)
        ready = (name for name in names if name in self.lines and self.lines[name].ready.first)
        self._left = OrderedDict.fromkeys(ready)
        self._had.clear()
