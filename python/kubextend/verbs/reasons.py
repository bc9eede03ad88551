"""Why nodes were rejected, in texts that stay as they are for a while.

kube-scheduler writes the reasons of a rejection, and how many nodes gave each, into a condition of
the pod. A condition that changed is an update of the pod, and an update makes kube-scheduler ask
again: a plugin whose reasons vary would be asked about one pod for ever.

So a pod that fits nowhere is told the same for a while, whatever the plugins say meanwhile. Which
node gets which text may then differ from the truth. That a node is rejected, and whether evicting
pods may help there, never does.
"""

import logging
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kubextend import core
from kubextend.errors import PluginError
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Code

__all__ = ["MOST_REASONS", "MOST_REASON_CHARS", "Entry", "Reasons", "entries_of"]

_LOGGER = logging.getLogger(__name__)

MOST_REASONS = 8
# kube-scheduler cuts the note of an Event, which has all of them, at 1,024.
MOST_REASON_CHARS = 256

_HOLD_S = 30.0
_LONGEST_HOLD_S = 300.0
# What is seen twice so far apart has changed, however long the hold is.
_STAYED_S = 30.0
# With kube-scheduler's backoff of 10 s at most, what stays changed shows within a minute.
_LOOK_AGAIN_S = 40.0
_LIMIT = 4096
# Each of them keeps the node rows of its request alive.
_CHANGED_LIMIT = 512

_UNKNOWN = "node is not in kubextend's node cache"
_OTHER_REASONS = "node was rejected for another reason"

Entry: TypeAlias = tuple[core.Mask, str, bool]
"""Nodes, why they are rejected, and whether evicting pods cannot help."""

LookAgain: TypeAlias = Callable[[], Sequence[Entry] | None]
"""What the filters say of the pod now; None where some node passes."""

_Counts: TypeAlias = Mapping[str, int]


def entries_of(unknown: core.Mask, rejections: Sequence[Rejection]) -> list[Entry]:
    """Each rejected node in exactly one entry, the first that names it; eight texts at most."""
    left = ~unknown
    reason_for = _at_most(MOST_REASONS)
    entries = [(unknown, reason_for(_UNKNOWN), True)] if unknown.any() else []
    for rejection in rejections:
        nodes = rejection.nodes & left
        left = left & ~nodes
        if nodes.any():
            status = rejection.status
            unresolvable = status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            entries.append((nodes, reason_for(status.reason), unresolvable))
    return entries


@dataclass(slots=True)
class _Told:
    """What kube-scheduler was last told of a pod, and since when."""

    counts: _Counts
    at_s: float
    hold_s: float


@dataclass(slots=True)
class _Changed:
    """What it should be told instead, since when that is so, and when to look at it again."""

    pod: core.Pod
    counts: _Counts
    since_s: float
    due_s: float
    look_again: LookAgain


class Reasons:
    """The reasons of each pod that fits nowhere; safe to use from many threads.

    They change at most once in 30 s; while they keep changing, that doubles up to 5 min. What
    stayed changed for 30 s is told with the pod's next call, and ``due`` names the pods for which
    there has to be one.

    Args:
        clock: seconds that only go forward.
        limit: pods remembered; beyond it the one asked about least recently is forgotten.
        changed_limit: pods that may be looked at again; beyond it the same holds.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        limit: int = _LIMIT,
        changed_limit: int = _CHANGED_LIMIT,
    ) -> None:
        self._clock = clock
        self._limit = limit
        self._changed_limit = changed_limit
        self._lock = threading.Lock()
        self._told: OrderedDict[str, _Told] = OrderedDict()
        self._changed: OrderedDict[str, _Changed] = OrderedDict()

    def steady(
        self, pod: core.Pod, entries: Sequence[Entry], look_again: LookAgain | None = None
    ) -> list[Entry]:
        """The same nodes, each as resolvable as it was, with the texts that are to be told now.

        Args:
            pod: which fits nowhere; without a UID it is told the truth.
            entries: of every node of the request, each in one of them.
            look_again: called later on where the truth is not told; None: it is told when
                kube-scheduler asks the next time, whenever that is.
        """
        counts = _counted(entries)
        if not pod.uid or not counts:
            return list(entries)
        with self._lock:
            last = self._to_tell(pod, counts, look_again)
        return list(entries) if last is None else _dealt(entries, last)

    def passed(self, uid: str) -> None:
        """The pod fits somewhere: kube-scheduler need not ask for the sake of its reasons."""
        if self._changed:
            with self._lock:
                self._changed.pop(uid, None)

    def due(self) -> list[core.Pod]:
        """Pods whose reasons stayed changed while something else was told; each once.

        Runs their filters: call it off the event loop, about once a second.
        """
        now = self._clock()
        with self._lock:
            overdue = [changed for changed in self._changed.values() if changed.due_s <= now]
        return [changed.pod for changed in overdue if self._stayed(changed, now)]

    def __len__(self) -> int:
        """How many pods are remembered."""
        return len(self._told)

    def _to_tell(
        self, pod: core.Pod, counts: _Counts, look_again: LookAgain | None
    ) -> _Counts | None:
        """What is told instead of the truth; None: the truth is, and that is noted."""
        now = self._clock()
        told = self._told.get(pod.uid)
        changed = self._changed.pop(pod.uid, None)
        if told is None:
            self._tell(pod.uid, _Told(counts, now, _HOLD_S))
            return None
        self._told.move_to_end(pod.uid)
        last = _fitted(told.counts, sum(counts.values()))
        if last == counts:
            return None
        since_s = changed.since_s if changed is not None and changed.counts == counts else now
        if now - told.at_s >= told.hold_s or now - since_s >= _STAYED_S:
            self._tell(pod.uid, _Told(counts, now, _next_hold_s(told, now)))
            return None
        due_s = math.inf if look_again is None else since_s + _LOOK_AGAIN_S
        self._note(_Changed(pod, counts, since_s, due_s, look_again or _nothing_to_see))
        return last

    def _tell(self, uid: str, told: _Told) -> None:
        self._told[uid] = told
        if len(self._told) > self._limit:
            self._told.popitem(last=False)

    def _note(self, changed: _Changed) -> None:
        self._changed[changed.pod.uid] = changed
        if len(self._changed) > self._changed_limit:
            self._changed.popitem(last=False)

    def _stayed(self, changed: _Changed, now: float) -> bool:
        """Whether kube-scheduler has to ask; reasons that still vary are looked at once more."""
        try:
            entries = changed.look_again()
        except (PluginError, TimeoutError) as error:
            _LOGGER.warning("reasons cannot be looked at again: %s", error)
            return self._settled(changed, asks=False)
        if entries is None:
            return self._settled(changed, asks=True)
        counts = _counted(entries)
        with self._lock:
            told = self._told.get(changed.pod.uid)
            changed.due_s = math.inf
            if counts == changed.counts:
                # It stays noted: the call that comes is to know since when it is so.
                return self._changed.get(changed.pod.uid) is changed
            if told is None or _fitted(told.counts, sum(counts.values())) != counts:
                changed.counts = counts
                changed.since_s = now
                changed.due_s = now + _LOOK_AGAIN_S
        return False

    def _settled(self, changed: _Changed, *, asks: bool) -> bool:
        with self._lock:
            if self._changed.get(changed.pod.uid) is not changed:
                return False
            del self._changed[changed.pod.uid]
        return asks


def _next_hold_s(told: _Told, now: float) -> float:
    """Reasons that rested for twice their hold are taken to be steady again."""
    restless = now - told.at_s < 2 * told.hold_s
    return min(2 * told.hold_s, _LONGEST_HOLD_S) if restless else _HOLD_S


def _nothing_to_see() -> None:
    """In the place of a second look where nothing may be kept for it."""


def _counted(entries: Sequence[Entry]) -> dict[str, int]:
    """How many nodes give each text."""
    counts: dict[str, int] = {}
    for nodes, text, _ in entries:
        counts[text] = counts.get(text, 0) + nodes.count()
    return counts


def _fitted(counts: _Counts, total: int) -> _Counts:
    """The same texts for another number of nodes; the most frequent one takes the difference."""
    missing = total - sum(counts.values())
    if not missing:
        return counts
    fitted = dict(counts)
    for text in sorted(counts, key=lambda text: (-counts[text], text)):
        fitted[text] = max(0, counts[text] + missing)
        missing += counts[text] - fitted[text]
    return {text: count for text, count in fitted.items() if count}


def _dealt(entries: Sequence[Entry], counts: _Counts) -> list[Entry]:
    """The nodes of the entries with so many texts of each kind; as many as can be keep theirs."""
    quota = dict(counts)
    texts: dict[int, str] = {}
    others: list[int] = []
    for nodes, text, _ in entries:
        rows = nodes.indices()
        kept = min(quota.get(text, 0), len(rows))
        if kept:
            quota[text] -= kept
        texts.update(dict.fromkeys(rows[:kept], text))
        others += rows[kept:]
    left = [text for text, count in quota.items() for _ in range(count)]
    texts.update(zip(others, left, strict=True))
    return _retold(entries, texts, list(counts))


def _retold(entries: Sequence[Entry], texts: Mapping[int, str], told: list[str]) -> list[Entry]:
    """One entry for each text and each answer to whether evicting pods can help."""
    rows = len(entries[0][0])
    masks = {text: core.Mask([texts.get(row) == text for row in range(rows)]) for text in told}
    unresolvable = core.Mask([False] * rows)
    for nodes, _, hopeless in entries:
        unresolvable = unresolvable | nodes if hopeless else unresolvable
    retold = []
    for text, nodes in masks.items():
        for hopeless, part in ((True, nodes & unresolvable), (False, nodes & ~unresolvable)):
            if part.any():
                retold.append((part, text, hopeless))
    return retold


def _at_most(most: int) -> Callable[[str], str]:
    """A filter of texts that lets so many different ones through, then always says the same."""
    seen: set[str] = set()

    def reason_for(whole_text: str) -> str:
        text = _shortened(whole_text)
        if text in seen or len(seen) < most - 1:
            seen.add(text)
            return text
        return _OTHER_REASONS

    return reason_for


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_REASON_CHARS else f"{text[: MOST_REASON_CHARS - 3]}..."
