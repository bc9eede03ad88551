"""Filters that let pods onto open nodes only, and differ in what they say of the others."""

import itertools

from kubextend.core import Mask, NodeInfo, Nodes, Pod
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status

OPEN = "e2e.kubextend.dev/open"
WEATHER = "e2e.kubextend.dev/weather"


def _closed(nodes: Nodes) -> Mask:
    return ~nodes.matches(f"{OPEN}=yes")


class Counting:
    """Another text at each call."""

    name = "Counting"

    def __init__(self) -> None:
        self._calls = itertools.count()

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> list[Rejection]:
        del state, pod
        reason = f"{next(self._calls)} of 999 seats are taken"
        return [Rejection(_closed(nodes), Status.unschedulable(reason))]


class Proportions:
    """Two texts, which share the nodes differently at each call."""

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


class Weather:
    """A text that changes when the label of the node does, and at no other time."""

    name = "Weather"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        del state, pod
        if node.label(OPEN) == "yes":
            return None
        return Status.unschedulable(f"node has {node.label(WEATHER)}")


class Fails:
    """An Error for every node: kube-scheduler tries such a pod again after each backoff."""

    name = "Fails"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        del state, pod, node
        return Status.error("not now")
