"""Keeps reasons of rejected nodes stable for a while, so that kube-scheduler does not retry.

kube-scheduler writes the reasons of a rejection, and how many nodes gave each, into a condition of
the pod. A changed condition is an update of the pod, and an update makes kube-scheduler try the pod
again: a plugin whose reasons vary would keep kube-scheduler busy with one pod for ever.

kubextend therefore repeats the last reasons for a while when a pod fits nowhere, whatever the
plugins say meanwhile. A node may then have another node's reason. Whether a node is rejected, and
whether evicting pods may help there, is never changed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from kubextend import core
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Code
from kubextend.logs import shortened

__all__ = [
    "MOST_REASONS",
    "MOST_REASON_CHARS",
    "UNKNOWN_NODE",
    "Entry",
    "Reasons",
    "entries_of",
]

MOST_REASONS = 8
# kube-scheduler cuts the note of an Event at 1,024 characters; the note has every reason.
MOST_REASON_CHARS = 256

_HOLD_S = 30.0
_LONGEST_HOLD_S = 300.0
# New reasons that are seen twice, this many seconds apart, are told, however long the hold is.
_STAYED_S = 30.0
# kube-scheduler backs off for 10 s at most, so a change that lasts shows within a minute.
_LOOK_AGAIN_S = 40.0

UNKNOWN_NODE = "node is not in kubextend's node cache"
_OTHER_REASONS = "node was rejected for another reason"

Entry: TypeAlias = tuple[core.Mask, str, bool]
"""Rejected nodes, the reason, and whether the rejection is final whatever pods are evicted."""

Counts: TypeAlias = Mapping[str, int]
"""The number of nodes by the text of their reason."""


def entries_of(unknown: core.Mask, rejections: Sequence[Rejection]) -> list[Entry]:
    """Return the rejected nodes with their reasons, of at most 8 different texts.

    A node that several filters rejected has only the reason of its first rejection. ``unknown`` has
    the nodes whose names kubextend's watch has not brought.
    """
    left = ~unknown
    # So few texts need no count, even with that of the unknown nodes.
    few = len(rejections) + 1 < MOST_REASONS
    reason_for = _cut if few else _at_most(MOST_REASONS)
    entries = [(unknown, reason_for(UNKNOWN_NODE), True)] if unknown.any() else []
    for rejection in rejections:
        nodes = rejection.nodes & left
        left = left & ~nodes
        if nodes.any():
            status = rejection.status
            unresolvable = status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            entries.append((nodes, reason_for(status.reason), unresolvable))
    return entries


@dataclass(slots=True)
class Reasons:
    """The reasons for one pod's rejection: those told to kube-scheduler, and newer ones.

    kubextend repeats the reasons in ``told`` for 30 s or, while they keep changing, for up to
    5 min. New reasons that stay the same for 30 s are in the pod's next answer anyway.

    Attributes:
        told: how many nodes gave each text that was told; empty: nothing was told so far.
        told_s: since when kube-scheduler has the reasons in ``told``, in monotonic seconds.
        hold_s: for how many seconds the reasons in ``told`` are repeated.
        newer: the current reasons if they differ from ``told``; None: they do not differ.
        since_s: since when the reasons in ``newer`` hold, in monotonic seconds.
        due_s: when to run the filters again, to see whether the reasons in ``newer`` still hold.
    """

    told: Counts = field(default_factory=dict)
    told_s: float = -math.inf
    hold_s: float = _HOLD_S
    newer: Counts | None = None
    since_s: float = 0.0
    due_s: float = math.inf

    def steady(self, entries: Sequence[Entry], now_s: float) -> list[Entry]:
        """Return the rejected nodes with the reasons that kube-scheduler has, or with new ones.

        The method changes neither which nodes are rejected nor where preemption may help.
        """
        counts = _counted(entries)
        last = _fitted(self.told, sum(counts.values()))
        since_s = self.since_s if counts == self.newer else now_s
        self.settle()
        if last == counts:
            return list(entries)
        rest_s = now_s - self.told_s
        if rest_s >= self.hold_s or now_s - since_s >= _STAYED_S:
            restless = rest_s < 2 * self.hold_s
            self.hold_s = min(2 * self.hold_s, _LONGEST_HOLD_S) if restless else _HOLD_S
            self.told, self.told_s = counts, now_s
            return list(entries)
        self._note(counts, since_s)
        return _dealt(entries, last)

    def settle(self) -> None:
        """Forget the newer reasons, so that the filters do not run again because of them."""
        self.newer = None
        self.due_s = math.inf

    def stayed(self, entries: Sequence[Entry], now_s: float) -> bool:
        """Return whether kube-scheduler has to retry the pod because the newer reasons still hold.

        The entries are those of filters that ran outside of a request. If the reasons have changed
        once more, the filters run again later.
        """
        counts = _counted(entries)
        self.due_s = math.inf
        if counts == self.newer:
            # The next call has to know since when the reasons hold.
            return True
        if _fitted(self.told, sum(counts.values())) != counts:
            self._note(counts, now_s)
        return False

    def _note(self, counts: Counts, since_s: float) -> None:
        self.newer, self.since_s, self.due_s = counts, since_s, since_s + _LOOK_AGAIN_S


def _counted(entries: Sequence[Entry]) -> Counts:
    """Return how many nodes have each text as their reason."""
    counts: dict[str, int] = {}
    for nodes, text, _ in entries:
        counts[text] = counts.get(text, 0) + nodes.count()
    return counts


def _fitted(counts: Counts, total: int) -> Counts:
    """Return the counts for ``total`` nodes; the most frequent text takes the difference."""
    missing = total - sum(counts.values())
    if not missing:
        return counts
    fitted = dict(counts)
    for text in sorted(counts, key=lambda text: (-counts[text], text)):
        fitted[text] = max(0, counts[text] + missing)
        missing += counts[text] - fitted[text]
    return {text: count for text, count in fitted.items() if count}


def _dealt(entries: Sequence[Entry], counts: Counts) -> list[Entry]:
    """Return entries in which as many nodes have each text as ``counts`` says.

    As many nodes as possible keep their text.
    """
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
    """Return the entries with other reasons: one entry for each text and whether eviction may help.

    Args:
        entries: nodes with their reasons, as the plugins gave them.
        texts: the new reason of each node, by the node's row.
        told: the new reasons, each once.
    """
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


def _cut(text: str) -> str:
    return shortened(text, MOST_REASON_CHARS)


def _at_most(most: int) -> Callable[[str], str]:
    """Return a function that passes ``most - 1`` different texts, and replaces all others."""
    seen: set[str] = set()

    def reason_for(whole_text: str) -> str:
        text = _cut(whole_text)
        if text in seen or len(seen) < most - 1:
            seen.add(text)
            return text
        return _OTHER_REASONS

    return reason_for
