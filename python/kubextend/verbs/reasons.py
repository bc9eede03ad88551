"""The reasons of rejected nodes, in texts that stay as they are for a while.

kube-scheduler writes the reasons of a rejection, and how many nodes gave each, into a condition of
the pod. A changed condition is an update of the pod, and an update makes kube-scheduler ask again:
a plugin whose reasons vary would be asked about one pod for ever.

kubextend therefore repeats the last reasons for a while when a pod fits nowhere, whatever the
plugins say meanwhile. A node may then have another node's text. Whether a node is rejected, and
whether evicting pods may help there, is always true.
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
# kube-scheduler cuts the note of an Event at 1,024 characters; the note has every reason.
MOST_REASON_CHARS = 256

_HOLD_S = 30.0
_LONGEST_HOLD_S = 300.0
# Reasons that are seen twice at this distance have changed, however long the hold is.
_STAYED_S = 30.0
# kube-scheduler backs off for 10 s at most, so a change that lasts shows within a minute.
_LOOK_AGAIN_S = 40.0
_LIMIT = 4096
# Each entry keeps the node rows of its request alive.
_CHANGED_LIMIT = 512

_UNKNOWN = "node is not in kubextend's node cache"
_OTHER_REASONS = "node was rejected for another reason"

Entry: TypeAlias = tuple[core.Mask, str, bool]
"""Rejected nodes, the reason, and whether the rejection is final whatever pods are evicted."""

LookAgain: TypeAlias = Callable[[], Sequence[Entry] | None]
"""Returns the filters' current entries for the pod; None where some node passes."""

_Counts: TypeAlias = Mapping[str, int]


def entries_of(unknown: core.Mask, rejections: Sequence[Rejection]) -> list[Entry]:
    """Put each rejected node into one entry, the first that names it; eight texts at most."""
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
    """The last reasons that kube-scheduler read for a pod, and since when."""

    counts: _Counts
    at_s: float
    hold_s: float


@dataclass(slots=True)
class _Changed:
    """Newer reasons of a pod, since when they hold, and when to look at them again."""

    pod: core.Pod
    counts: _Counts
    since_s: float
    due_s: float
    look_again: LookAgain


class Reasons:
    """The reasons of each pod that fits nowhere; safe to use from many threads.

    The reasons change at most once in 30 s; while they keep changing, the hold doubles up to 5 min.
    The pod's next call tells reasons that stayed changed for 30 s, and ``due`` names the pods that
    need such a call.

    Args:
        clock: monotonic seconds.
        limit: pods remembered; beyond it the one asked about least recently is forgotten.
        changed_limit: pods with changed reasons; beyond it the one noted first is forgotten.
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
        """Return the same nodes, each as resolvable as before, with the texts to tell now.

        Args:
            pod: a pod that fits nowhere; a pod without a UID gets the current texts.
            entries: each node of the request in one entry.
            look_again: called later where the current texts are held back; None: they are told when
                kube-scheduler asks the next time.
        """
        counts = _counted(entries)
        if not pod.uid or not counts:
            return list(entries)
        with self._lock:
            last = self._to_tell(pod, counts, look_again)
        return list(entries) if last is None else _dealt(entries, last)

    def passed(self, uid: str) -> None:
        """Forget the changed reasons of a pod that fits somewhere: nobody has to ask for them."""
        if self._changed:
            with self._lock:
                self._changed.pop(uid, None)

    def due(self) -> list[core.Pod]:
        """Return, once, each pod whose reasons stayed changed while kube-scheduler has old ones.

        Runs the filters of these pods: call it off the event loop, about once a second.
        """
        now = self._clock()
        with self._lock:
            overdue = [changed for changed in self._changed.values() if changed.due_s <= now]
        return [changed.pod for changed in overdue if self._stayed(changed, now)]

    def __len__(self) -> int:
        """Return how many pods are remembered."""
        return len(self._told)

    def _to_tell(
        self, pod: core.Pod, counts: _Counts, look_again: LookAgain | None
    ) -> _Counts | None:
        """Return the held reasons; None where the current ones are told, and noted as such."""
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
        """Return whether kube-scheduler has to ask; varying reasons have a second look later."""
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
                # The entry stays, so that the next call knows since when the reasons hold.
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
    """Return the next hold: reasons that rested for twice their hold count as steady again."""
    restless = now - told.at_s < 2 * told.hold_s
    return min(2 * told.hold_s, _LONGEST_HOLD_S) if restless else _HOLD_S


def _nothing_to_see() -> None:
    """Stand for a second look where nothing may be kept for one."""


def _counted(entries: Sequence[Entry]) -> dict[str, int]:
    """Count how many nodes give each text."""
    counts: dict[str, int] = {}
    for nodes, text, _ in entries:
        counts[text] = counts.get(text, 0) + nodes.count()
    return counts


def _fitted(counts: _Counts, total: int) -> _Counts:
    """Fit the counts to another number of nodes; the most frequent text takes the difference."""
    missing = total - sum(counts.values())
    if not missing:
        return counts
    fitted = dict(counts)
    for text in sorted(counts, key=lambda text: (-counts[text], text)):
        fitted[text] = max(0, counts[text] + missing)
        missing += counts[text] - fitted[text]
    return {text: count for text, count in fitted.items() if count}


def _dealt(entries: Sequence[Entry], counts: _Counts) -> list[Entry]:
    """Deal the texts to the nodes, as often as counted; as many nodes as possible keep theirs."""
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
    """Make one entry for each text and each answer to whether evicting pods can help."""
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
    """Return a function that passes a number of different texts, and then always says the same."""
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
