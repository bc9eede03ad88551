"""NetworkOverhead: a pod goes near the pods that it depends on, by the costs between zones.

Source: kubernetes-sigs/scheduler-plugins v0.33.5 pkg/networkaware/networkoverhead
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from pydantic import Field

from kubextend import core
from kubextend.framework.args_model import ArgsModel
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle
from kubextend.framework.informer import Informer, KubeObject
from kubextend.framework.plugin import Rejection, Scores
from kubextend.framework.status import Status

__all__ = ["NetworkOverhead", "NetworkOverheadArgs"]

_APP_GROUPS: Final = "appgroup.diktyo.x-k8s.io/v1alpha1/appgroups"
_TOPOLOGIES: Final = "networktopology.diktyo.x-k8s.io/v1alpha1/networktopologies"
_GROUP: Final = "appgroup.diktyo.x-k8s.io"
_WORKLOAD: Final = "appgroup.diktyo.x-k8s.io.workload"
_REGION: Final = "topology.kubernetes.io/region"
_ZONE: Final = "topology.kubernetes.io/zone"
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII)
# Of each dependency, the pods of all nodes are counted.
_MOST_DEPENDENCIES: Final = 32
_TOO_MANY_DEPENDENCIES: Final = (
    f"the AppGroup has more than {_MOST_DEPENDENCIES} dependencies of the workload; name fewer"
)
_SAME_ZONE: Final = 1
_MAX_COST: Final = 100
_MAX_NODE_SCORE: Final = 100

Place: TypeAlias = tuple[str, str]
"""The region and the zone of a node; "" where the node has no such label."""

Costs: TypeAlias = Mapping[tuple[str, str, str], int]
"""Costs by the label of the places, the origin and the destination."""


class NetworkOverheadArgs(ArgsModel):
    """Arguments of NetworkOverhead, with the names and defaults of the Go plugin.

    Attributes:
        namespaces: the namespaces in which AppGroups and the NetworkTopology are looked for, in
            this order.
        weights_name: the name of the costs in the NetworkTopology.
        network_topology_name: the name of the NetworkTopology.
    """

    namespaces: tuple[str, ...] = Field(default=("default",), min_length=1, max_length=100)
    weights_name: str = "UserDefined"
    network_topology_name: str = "nt-default"


class _Dependency(NamedTuple):
    """A workload that a pod depends on: the highest cost, and its pods on every node."""

    max_cost: int
    counts: Sequence[int]


class _Total(NamedTuple):
    """How many pods are near enough, how many are too far, and the sum of the costs."""

    satisfied: int = 0
    violated: int = 0
    cost: int = 0


class _MissingError(Exception):
    """An object that the pod needs is missing, cannot be understood, or names too much."""


class NetworkOverhead:
    """Rejects nodes that are too far from most of the pods that a pod depends on.

    A pod names its AppGroup and its workload in labels. The AppGroup says on which workloads the
    workload depends, and the highest cost of each dependency. The NetworkTopology has the costs
    between regions and between zones.
    """

    name = "NetworkOverhead"
    Args = NetworkOverheadArgs
    informers = (_APP_GROUPS, _TOPOLOGIES)
    needs_pods = True

    def __init__(self, args: NetworkOverheadArgs, handle: Handle) -> None:
        self._args = args
        self._handle = handle
        self._groups = handle.informer(_APP_GROUPS)
        self._topologies = handle.informer(_TOPOLOGIES)
        self._read: tuple[KubeObject, Costs] | None = None

    def filter_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[Rejection]:
        """Return the nodes that are too far from more pods than they are near enough to."""
        try:
            totals = self._totals(state, pod, nodes)
        except _MissingError as error:
            return [Rejection(nodes.everything(), Status.unresolvable(str(error)))]
        too_far = core.Mask(each.violated > each.satisfied for each in totals)
        reason = "node is too far from pods that the pod depends on"
        return [Rejection(too_far, Status.unschedulable(reason))] if too_far.any() else []

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[int]:
        """Return the sum of the costs from each node to the pods that the pod depends on."""
        try:
            return [each.cost for each in self._totals(state, pod, nodes)]
        except _MissingError:
            return [0] * len(nodes)

    def normalize_score(self, state: CycleState, pod: core.Pod, scores: Scores) -> Scores:
        """Return 100 for the lowest cost and 0 for the highest; no cost at all stays 0."""
        del state, pod
        lowest, highest = min(scores, default=0), max(scores, default=0)
        if not lowest and not highest:
            return scores
        spread = max(highest - lowest, 1)
        return [_MAX_NODE_SCORE - _MAX_NODE_SCORE * (each - lowest) // spread for each in scores]

    def _totals(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Sequence[_Total]:
        """Return the total of each node.

        Raises: _MissingError: the AppGroup or the NetworkTopology is missing or invalid, or
            kubextend watches no nodes.
        """
        every = self._handle.snapshot(state)
        group = pod.labels.get(_GROUP, "")
        if not group:
            return [_Total()] * len(nodes)
        if every is None:
            message = "kubextend watches no nodes for NetworkOverhead"
            raise _MissingError(message)
        found = self._dependencies(group, pod.labels.get(_WORKLOAD, ""), every)
        if not any(any(dependency.counts) for dependency in found):
            return [_Total()] * len(nodes)
        costs = self._costs()
        # Each read of ``names`` makes a list of all nodes.
        names, places, own = every.names, _places(every), Counter[str]()
        for dependency in found:
            own.update({names[at]: n for at, n in enumerate(dependency.counts) if n})
        pods_at = [(each.max_cost, _by_place(each.counts, places)) for each in found]
        of_place: dict[Place, _Total] = {}
        totals = []
        for node, place in zip(nodes.names, _places(nodes), strict=True):
            if place not in of_place:
                of_place[place] = _total(place, pods_at, costs)
            totals.append(_on_the_same_node(of_place[place], place, own[node]))
        return totals

    def _dependencies(self, group: str, workload: str, every: core.Nodes) -> list[_Dependency]:
        found = self._named(self._groups, group, "AppGroup")
        try:
            wanted = [
                (each["workload"]["selector"], each.get("maxNetworkCost", 0))
                for of in found["spec"]["workloads"]
                if of["workload"]["selector"] == workload
                for each in of.get("dependencies") or []
            ]
            if len(wanted) > _MOST_DEPENDENCIES:
                raise _MissingError(_TOO_MANY_DEPENDENCIES)
            return [_Dependency(int(most), _counts(every, group, name)) for name, most in wanted]
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            message = "the AppGroup of the pod is invalid"
            raise _MissingError(message) from error

    def _costs(self) -> Costs:
        found = self._named(self._topologies, self._args.network_topology_name, "NetworkTopology")
        read = self._read
        if read is None or read[0] is not found:
            try:
                read = self._read = (found, _costs(found, self._args.weights_name))
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                message = "the NetworkTopology is invalid"
                raise _MissingError(message) from error
        return read[1]

    def _named(self, informer: Informer, name: str, kind: str) -> KubeObject:
        for namespace in self._args.namespaces:
            found = informer.get(namespace, name)
            if found is not None:
                return found
        message = f"there is no {kind} {name} in the namespaces of NetworkOverhead"
        raise _MissingError(message)


def _costs(found: KubeObject, weights_name: str) -> Costs:
    """Return the costs of one name in a NetworkTopology.

    Raises: LookupError, TypeError, ValueError, AttributeError: the object has another form.
    """
    return {
        (key["topologyKey"], origin["origin"], cost["destination"]): int(cost["networkCost"])
        for weight in found["spec"]["weights"]
        if weight["name"] == weights_name
        for key in weight["topologyList"]
        for origin in key["originList"]
        for cost in origin.get("costList") or []
    }


def _counts(every: core.Nodes, group: str, workload: str) -> Sequence[int]:
    """Return how many pods of a workload each node has; no pod has an invalid value of a label."""
    if workload and not _LABEL_VALUE.fullmatch(workload):
        return [0] * len(every)
    of_workload = f"{_WORKLOAD}={workload}" if workload else f"!{_WORKLOAD}"
    return every.pods.count(every, f"{_GROUP}={group},{of_workload}")


def _places(nodes: core.Nodes) -> list[Place]:
    labels = zip(nodes.labels(_REGION), nodes.labels(_ZONE), strict=True)
    return [(region or "", zone or "") for region, zone in labels]


def _by_place(counts: Iterable[int], places: Iterable[Place]) -> Counter[Place]:
    pods: Counter[Place] = Counter()
    for count, place in zip(counts, places, strict=True):
        # Most nodes have no pod of a workload.
        if count:
            pods[place] += count
    return pods


def _total(here: Place, pods_at: Iterable[tuple[int, Counter[Place]]], costs: Costs) -> _Total:
    """Return the total of a node at a place, as if none of the pods were on the node itself."""
    satisfied = violated = sum_of_costs = 0
    for max_cost, pods in pods_at:
        for there, count in pods.items():
            cost = _cost(here, there, costs)
            sum_of_costs += count * (_MAX_COST if cost is None else cost)
            if not any(there) or (cost is not None and here != there and cost > max_cost):
                violated += count
            elif cost is not None:
                satisfied += count
    return _Total(satisfied, violated, sum_of_costs)


def _cost(here: Place, there: Place, costs: Costs) -> int | None:
    """Return the cost between two places; None: it is not known."""
    if not any(there):
        return None
    if here == there:
        return _SAME_ZONE
    if here[0] == there[0]:
        return costs.get((_ZONE, here[1], there[1])) if here[1] else None
    return costs.get((_REGION, here[0], there[0])) if here[0] else None


def _on_the_same_node(total: _Total, place: Place, own: int) -> _Total:
    """Return the total of a node with pods of its own, which are near enough and cost nothing."""
    if any(place):
        return total._replace(cost=total.cost - own * _SAME_ZONE)
    return _Total(total.satisfied + own, total.violated - own, total.cost - own * _MAX_COST)
