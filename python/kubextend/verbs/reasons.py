"""The reasons of rejected nodes as kube-scheduler gets them: few, short and steady.

kube-scheduler writes the reasons of a rejection, and how many nodes gave each, into a condition of
the pod. A changed condition is an update of the pod, and an update makes kube-scheduler try the pod
again: a plugin whose reasons vary would keep kube-scheduler busy with one pod for ever. If a pod is
rejected again within a minute, each node's reason is therefore the one that was sent for the node.
Whether evicting pods may help on a node is always told as it is.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import orjson

from kubextend import core
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Code
from kubextend.logs import shortened
from kubextend.verbs.bounded_dict import BoundedDict

__all__ = ["UNKNOWN_NODE", "Entry", "SentReasons", "entries_of", "to_keep"]

_MOST_REASONS: Final = 8
# kube-scheduler cuts the note of an Event at 1,024 characters; the note has every reason.
_MOST_REASON_CHARS: Final = 256

_REPEATED_S: Final = 60.0
# The reasons of one pod take 20 KB with 5,000 names of nodes, and 100 KB with whole nodes.
_MOST_PODS: Final = 256
# A node's name is as long as the sender of the request makes it. Those of 15,000 nodes take 400 KB.
_MOST_NAME_BYTES: Final = 1 << 20

UNKNOWN_NODE: Final = "node is not in kubextend's node cache"
_OTHER_REASONS: Final = "node was rejected for another reason"

Entry: TypeAlias = tuple[core.Mask, str, bool]
"""Rejected nodes, the reason, and whether the rejection is final whatever pods are evicted."""


def entries_of(unknown: core.Mask, rejections: Sequence[Rejection]) -> list[Entry]:
    """Return the rejected nodes with their reasons, of at most 8 different texts.

    A node that several filters rejected has only the reason of its first rejection. ``unknown`` has
    the nodes whose names kubextend's watch has not brought.
    """
    left = ~unknown
    entries = [(unknown, UNKNOWN_NODE, True)] if unknown.any() else []
    texts = {text for _, text, _ in entries}
    for rejection in rejections:
        nodes = rejection.nodes & left
        left = left & ~nodes
        if nodes.any():
            status = rejection.status
            text = shortened(status.reason, _MOST_REASON_CHARS)
            if text not in texts and len(texts) >= _MOST_REASONS - 1:
                text = _OTHER_REASONS
            else:
                texts.add(text)
            entries.append((nodes, text, status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE))
    return entries


def to_keep(nodes: core.Nodes, *, names_mode: bool) -> core.Nodes | bytes | None:
    """Return what may be kept of the nodes of a request; None: their names take over 1 MiB.

    Returns: the nodes, or, if the request brought them whole, their names as a JSON list: nodes of
    the request would keep its body in memory.
    """
    if names_mode:
        kept = nodes.kept()
        return kept if kept.held_bytes <= _MOST_NAME_BYTES else None
    names = nodes.names_json()
    return names if len(names) <= _MOST_NAME_BYTES else None


@dataclass(frozen=True, slots=True)
class _Sent:
    """The reasons that kube-scheduler got for one pod, which was rejected on every node.

    Attributes:
        at_s: when they were sent, in monotonic seconds.
        entries: the nodes with their reasons.
        nodes: the nodes, as ``to_keep`` returned them.
    """

    at_s: float
    entries: Sequence[Entry]
    nodes: core.Nodes | bytes

    def repeated(self, nodes: core.Nodes, entries: Sequence[Entry]) -> list[Entry] | None:
        """Return the entries with the texts that were sent for each node.

        Returns: None if the texts were sent for other nodes.
        """
        old: list[str]
        old = orjson.loads(self.nodes) if isinstance(self.nodes, bytes) else self.nodes.names
        said = {old[row]: text for mask, text, _ in self.entries for row in mask.indices()}
        names = nodes.names
        if said.keys() != set(names):
            return None
        # The number of the text and flag of each node: numbers are compared fast.
        numbers: dict[tuple[str, bool], int] = {}
        told = [0] * len(names)
        for mask, _, hopeless in entries:
            for row in mask.indices():
                told[row] = numbers.setdefault((said[names[row]], hopeless), len(numbers))
        return [
            (core.Mask([each == number for each in told]), text, hopeless)
            for (text, hopeless), number in numbers.items()
        ]


class SentReasons:
    """The reasons that kube-scheduler got for pods that fit nowhere; any thread may use them.

    Of more than 256 pods, the one is forgotten whose reasons were sent first; a nominated pod may
    count twice.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._sent: BoundedDict[_Sent] = BoundedDict(_MOST_PODS)

    def steady(
        self,
        pod: core.Pod,
        nodes: core.Nodes,
        entries: list[Entry],
        *,
        alone: bool,
        names_mode: bool,
    ) -> list[Entry]:
        """Return the reasons to send for a pod that was rejected on every node.

        They are the reasons that were sent within the last minute for the same nodes, or else the
        present ones. Nothing is remembered of nodes whose names take over 1 MiB together.

        Args:
            pod: the pod.
            nodes: the nodes of the request.
            entries: the nodes with their present reasons; each node is in one entry.
            alone: whether the request is about the pod's nominated node alone. What it sends does
                not replace what was sent about all nodes.
            names_mode: whether the request named nodes that the watched store has.
        """
        if not pod.uid:
            return entries
        key = f"{pod.uid} alone" if alone else pod.uid
        now_s, sent = self._clock(), self._sent.get(key)
        if sent is not None and now_s - sent.at_s < _REPEATED_S:
            if _counts(sent.entries) == _counts(entries):
                return entries
            if (repeated := sent.repeated(nodes, entries)) is not None:
                return repeated
        if (kept := to_keep(nodes, names_mode=names_mode)) is not None:
            with self._lock:
                self._sent.put(key, _Sent(now_s, entries, kept))
        return entries


def _counts(entries: Sequence[Entry]) -> Counter[str]:
    """Return how many nodes gave each text, which is all that kube-scheduler writes."""
    counts: Counter[str] = Counter()
    for mask, text, _ in entries:
        counts[text] += mask.count()
    return counts
