"""Filters that reject nodes without the label ``open``, with reasons that change in other ways."""

import itertools

from kubextend.core import Mask, NodeInfo, Nodes, Pod
from kubextend.framework import CycleState, Rejection, Status

OPEN = "e2e.kubextend.dev/open"


def _closed(nodes: Nodes) -> Mask:
    return ~nodes.matches(f"{OPEN}=yes")


class Counting:
    """Rejects nodes with a different reason at each call."""

    name = "Counting"

    def __init__(self) -> None:
        self._calls = itertools.count()

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> list[Rejection]:
        del state, pod
        reason = f"{next(self._calls)} of 999 seats are taken"
        return [Rejection(_closed(nodes), Status.unschedulable(reason))]


class Proportions:
    """Rejects nodes with two reasons, whose numbers of nodes change at each call."""

    name = "Proportions"

    def __init__(self) -> None:
        self._calls = itertools.count()

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> list[Rejection]:
        del state, pod
        warm = 1 + next(self._calls) % (len(nodes) - 1)
        first = Mask([row < warm for row in range(len(nodes))])
        closed = _closed(nodes)
        return [
            Rejection(closed & first, Status.unschedulable("node is too warm")),
            Rejection(closed & ~first, Status.unschedulable("node is too loud")),
        ]


class Fails:
    """Returns an Error for every node: kube-scheduler retries the pod after each backoff."""

    name = "Fails"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        del state, pod, node
        return Status.error("not now")
