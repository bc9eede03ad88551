"""A filter that bounds the CPU that the pods of a node request, by a limit of its own."""

from pydantic import BaseModel

from kubextend.core import NodeInfo, Nodes, Pod
from kubextend.framework import CycleState, Handle, Status


class Room:
    """Rejects nodes whose pods would request too much CPU, and prefers the first node by name.

    Permit holds every pod until filter is called for a pod with the label ``starts=yes``.
    """

    name = "Room"
    needs_pods = True

    class Args(BaseModel, extra="forbid"):
        limit_milli: int
        timeout_s: float

    def __init__(self, args: Args, handle: Handle) -> None:
        self._args = args
        self._handle = handle
        self._started = False

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if pod.matches("starts=yes"):
            self._start()
            return Status.unresolvable("it has started the others")
        if node.requested("cpu") + pod.request("cpu") > self._args.limit_milli:
            return Status.unschedulable("node has no room")
        return None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> list[int]:
        first = min(nodes.names)
        return [100 if name == first else 0 for name in nodes.names]

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status, float] | None:
        return None if self._started else (Status.wait(), self._args.timeout_s)

    def _start(self) -> None:
        self._started = True
        for held in self._handle.waiting_pods:
            held.allow(self.name)
