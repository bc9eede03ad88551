"""Filters whose answers change at each call, or are an Error."""

import itertools

from kubextend.core import NodeInfo, Nodes, Pod
from kubextend.framework import CycleState, Rejection, Status

OPEN = "e2e.kubextend.dev/open"


class Counting:
    """Rejects nodes without the label ``open``, with a different reason at each call."""

    name = "Counting"

    def __init__(self) -> None:
        self._calls = itertools.count()

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> list[Rejection]:
        reason = f"{next(self._calls)} of 999 seats are taken"
        return [Rejection(~nodes.matches(f"{OPEN}=yes"), Status.unschedulable(reason))]


class Fails:
    """Returns an Error for every node: kube-scheduler retries the pod after each backoff."""

    name = "Fails"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return Status.error("not now")
