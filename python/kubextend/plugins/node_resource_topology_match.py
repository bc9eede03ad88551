"""NodeResourceTopologyMatch: a pod goes to nodes where one NUMA zone has room for it.

Source: kubernetes-sigs/scheduler-plugins v0.33.5 pkg/noderesourcetopology
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import combinations
from math import comb
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

from kubextend import core
from kubextend.errors import KubextendError
from kubextend.framework.args_model import ArgsModel
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle
from kubextend.framework.informer import KubeObject
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status
from kubextend.plugins.resource_args import Resources, ResourceSpec, pairs

__all__ = ["NodeResourceTopologyMatch", "NodeResourceTopologyMatchArgs", "NumaScoringStrategy"]

_TOPOLOGIES: Final = "topology.node.k8s.io/v1alpha2/noderesourcetopologies"
_SINGLE_NUMA_NODE: Final = "single-numa-node"
_POLICIES: Final = ("none", "best-effort", "restricted", _SINGLE_NUMA_NODE)
_SCOPES: Final = ("container", "pod")
# The deprecated field topologyPolicies names a policy and a scope in one word.
_OLD_POLICIES: Final = {
    f"{word}{level}Level": (policy, level.lower())
    for word, policy in (
        ("SingleNUMANode", _SINGLE_NUMA_NODE),
        ("BestEffort", "best-effort"),
        ("Restricted", "restricted"),
    )
    for level in ("Pod", "Container")
}
_ZONE: Final = re.compile(r"node-([0-9]{1,4})", re.ASCII)
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_MOST_ZONES: Final = 64
_DEFAULT_MAX_NUMA_NODES: Final = 8
_LARGEST_MAX_NUMA_NODES: Final = 1024
_UNKNOWN_COST: Final = 255
_NO_COST: Final = 256
_MOST_COMBINATIONS: Final = 10_000
# A call with so many comparisons takes less than a second; after 1.6 s, a call counts as hanging.
_MOST_COMPARISONS: Final = 1_000_000
_TOO_MUCH_WORK: Final = (
    f"pod needs more than {_MOST_COMPARISONS:,} comparisons with NUMA zones;"
    " give it fewer containers or resources"
)
_INIT_CONTAINER: Final = "init container"
_MAX_NODE_SCORE: Final = 100
_MILLI: Final = 1000

Amounts: TypeAlias = Mapping[str, int]
Strategy: TypeAlias = Callable[[Amounts, Amounts, Mapping[str, int]], int]
Costs: TypeAlias = tuple[tuple[int, ...], ...]

_V = TypeVar("_V")


class NumaScoringStrategy(ArgsModel):
    """How NodeResourceTopologyMatch scores nodes.

    Attributes:
        type: ``LeastAllocated`` prefers nodes whose fullest zone keeps much room, ``MostAllocated``
            nodes whose zones keep little room, ``BalancedAllocation`` nodes where the pod uses the
            same share of each resource, ``LeastNUMANodes`` nodes that need few zones for the pod.
        resources: the weights of resources; any other resource that a pod requests has weight 1.
    """

    type: Literal["LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"] = (
        "LeastAllocated"
    )
    resources: Resources = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class NodeResourceTopologyMatchArgs(ArgsModel):
    """Arguments of NodeResourceTopologyMatch, with the names of the Go plugin.

    Attributes:
        scoring_strategy: how nodes are scored.
    """

    scoring_strategy: NumaScoringStrategy = NumaScoringStrategy()


class _TooMuchWorkError(KubextendError):
    """A call has made as many comparisons as it may."""


class _Budget:
    """The comparisons of amounts that one call may still make.

    A pod may have thousands of containers, a cluster thousands of nodes. kubextend takes a call
    that lasts too long for one that hangs, and then asks the plugin about no pod at all.
    """

    def __init__(self) -> None:
        self._left = _MOST_COMPARISONS

    def spend(self, comparisons: int) -> None:
        """Take comparisons off the budget before they are made.

        Raises: _TooMuchWorkError: the budget is too small for them.
        """
        self._left -= comparisons
        if self._left < 0:
            raise _TooMuchWorkError(_TOO_MUCH_WORK)


class _Zone(NamedTuple):
    """A NUMA zone: its number, and the available amounts."""

    number: int
    available: Amounts


class _Topology(NamedTuple):
    """What the NodeResourceTopology of a node says.

    Attributes:
        digest: equal for equal topologies.
        costs: the costs of reaching each zone from each zone.
    """

    digest: bytes
    policy: str
    scope: str
    max_numa_nodes: int
    zones: Sequence[_Zone]
    costs: Costs


class _Requests(NamedTuple):
    """What a pod requests, and what kubelet aligns with NUMA zones.

    Attributes:
        containers: the kind and the request of each container, in the order of their start.
        whole: the most that the pod requests at one time.
    """

    containers: Sequence[tuple[str, Amounts]]
    whole: Amounts
    guaranteed: bool

    @classmethod
    def of(cls, pod: core.Pod) -> "_Requests":
        """Return the requests of a pod."""
        first = [
            ("sidecar container" if each.sidecar else _INIT_CONTAINER, each.requests)
            for each in pod.init_containers
        ]
        then = [("container", each.requests) for each in pod.containers]
        return cls([*first, *then], pod.requests, pod.qos_class == "Guaranteed")

    def aligned(self, scope: str) -> Sequence[tuple[str, Amounts]]:
        """Return the kinds and requests that kubelet aligns one after the other, by its scope."""
        return [("pod", self.whole)] if scope == "pod" else self.containers

    def without(self, resources: frozenset[str]) -> "_Requests":
        """Return the requests of all other resources."""
        return self._changed(
            lambda request: {each: request[each] for each in request if each not in resources}
        )

    def needed(self) -> "_Requests":
        """Return how much of the resources a zone needs to have left, in place of the requests."""
        return self._changed(
            lambda request: {
                each: wanted if self._needs_room(each) else 0
                for each, wanted in request.items()
                if wanted
            }
        )

    def _needs_room(self, resource: str) -> bool:
        """Return whether a zone needs room: for cpu, memory and huge pages if Guaranteed."""
        return self.guaranteed or not (
            resource in {"cpu", "memory"} or resource.startswith("hugepages-")
        )

    def _changed(self, changed: Callable[[Amounts], Amounts]) -> "_Requests":
        containers = [(kind, changed(request)) for kind, request in self.containers]
        return _Requests(containers, changed(self.whole), self.guaranteed)


class NodeResourceTopologyMatch:
    """Lets a pod onto a node whose kubelet can align the pod with one NUMA zone.

    The amounts that are available in each zone come from the NodeResourceTopology with the name of
    the node. A node without such an object passes, and has the score 0.
    """

    name = "NodeResourceTopologyMatch"
    Args = NodeResourceTopologyMatchArgs
    informers = (_TOPOLOGIES,)

    def __init__(self, args: NodeResourceTopologyMatchArgs, handle: Handle) -> None:
        self._logger = handle.logger
        self._strategy = _STRATEGIES.get(args.scoring_strategy.type)
        self._weights = dict(pairs(args.scoring_strategy.resources))
        self._read: dict[str, tuple[KubeObject, _Topology | None]] = {}
        self._topologies = handle.informer(_TOPOLOGIES)
        self._topologies.on_change(self._forget)

    def filter_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[Rejection]:
        """Return the nodes whose kubelet would refuse the pod by its policy single-numa-node.

        If that takes too many comparisons, all nodes are rejected.
        """
        del state
        requests = _Requests.of(pod)
        if pod.qos_class == "BestEffort" and not any(map(_is_device, requests.whole)):
            return []
        rows: dict[str, set[int]] = {}
        try:
            for row, reason in enumerate(self._each(requests.needed(), nodes, _refusal)):
                if reason:
                    rows.setdefault(reason, set()).add(row)
        except _TooMuchWorkError as error:
            detail = f"{len(requests.containers)} containers, {len(requests.whole)} resources"
            return [Rejection(nodes.everything(), Status.unresolvable(str(error), detail))]
        return [
            Rejection(
                core.Mask(row in found for row in range(len(nodes))), Status.unschedulable(reason)
            )
            for reason, found in rows.items()
        ]

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[int]:
        """Return a score 0..100 for each node; 100 for each if the pod is not Guaranteed.

        If that takes too many comparisons, each node has the score 0.
        """
        del state
        requests = _Requests.of(pod)
        if not requests.guaranteed:
            return [_MAX_NODE_SCORE] * len(nodes)
        try:
            scores = self._each(requests, nodes, self._score)
            return [score if isinstance(score, int) else 0 for score in scores]
        except _TooMuchWorkError as error:
            name = f"{pod.namespace}/{pod.name}"
            self._logger.warning("no node has points for the pod %s: %s", name, error)
            return [0] * len(nodes)

    def _each(
        self,
        requests: _Requests,
        nodes: core.Nodes,
        judged: Callable[[_Topology, _Requests, _Budget], _V],
    ) -> Iterator[_V | str | None]:
        """Yield what is judged of each node, of equal nodes once, or what ``_topology`` returns.

        kube-scheduler asks dynamic resource allocation about extended resources of which a node has
        none, so that they are left out of the requests there.
        """
        budget = _Budget()
        extended = sorted(filter(core.is_dra_extended_resource, requests.whole))
        budget.spend(len(extended) * len(nodes))
        amounts = [nodes.allocatable(each) for each in extended]
        rest: dict[frozenset[str], _Requests] = {}
        known: dict[tuple[bytes, frozenset[str]], _V] = {}
        for row, node in enumerate(nodes.names):
            found = self._topology(node)
            if not isinstance(found, _Topology):
                yield found
                continue
            there = zip(extended, amounts, strict=True)
            lacking = frozenset(each for each, of_nodes in there if not of_nodes[row])
            if lacking not in rest:
                budget.spend(sum(len(request) for _, request in requests.containers))
                rest[lacking] = requests.without(lacking)
            kind = found.digest, lacking
            if kind not in known:
                known[kind] = judged(found, rest[lacking], budget)
            yield known[kind]

    def _score(self, topology: _Topology, requests: _Requests, budget: _Budget) -> int:
        wanted = [request for _, request in requests.aligned(topology.scope)]
        if self._strategy is None:
            return _score_of_few_zones(topology, wanted, budget)
        if topology.policy != _SINGLE_NUMA_NODE:
            return 0
        total = 0
        for items, times in Counter(tuple(each.items()) for each in wanted).items():
            budget.spend((len(items) + 1) * (len(topology.zones) + 1))
            total += times * _lowest_score(self._strategy, dict(items), topology, self._weights)
        return total // max(len(wanted), 1)

    def _topology(self, node: str) -> _Topology | str | None:
        """Return what is known about a node's zones; None: nothing; a text: it cannot be used."""
        found = self._topologies.get("", node)
        if found is None:
            return None
        kept = self._read.get(node)
        if kept is None or kept[0] is not found:
            kept = self._read[node] = (found, self._parsed(node, found))
        return kept[1] or "invalid node topology data"

    def _parsed(self, node: str, found: KubeObject) -> _Topology | None:
        try:
            return _topology(found)
        except (KubextendError, LookupError, TypeError, ValueError, AttributeError) as error:
            self._logger.warning("the NodeResourceTopology %s cannot be read: %s", node, error)
            return None

    def _forget(self, before: KubeObject | None, now: KubeObject | None) -> None:
        if now is None and before is not None:
            self._read.pop(before["metadata"]["name"], None)


def _is_device(resource: str) -> bool:
    return "/" in resource and "kubernetes.io/" not in resource


def _topology(found: KubeObject) -> _Topology:
    """Return what a NodeResourceTopology says.

    Raises: LookupError, TypeError, ValueError, AttributeError: the object has another form.
    """
    old = "".join(list(found.get("topologyPolicies") or [])[:1])
    policy, scope = _OLD_POLICIES.get(old, ("none", "container"))
    most = _DEFAULT_MAX_NUMA_NODES
    for attribute in found.get("attributes") or []:
        name, value = attribute["name"], attribute["value"]
        if name == "topologyManagerPolicy" and value in _POLICIES:
            policy = value
        elif name == "topologyManagerScope" and value in _SCOPES:
            scope = value
        elif name == "topologyManagerMaxNUMANodes" and _WHOLE.fullmatch(value) and int(value) > 1:
            most = min(int(value), _LARGEST_MAX_NUMA_NODES)
    listed = [
        (number, _available(zone), _costs(zone))
        for zone in found.get("zones") or []
        if zone["type"] == "Node" and (number := _number(zone["name"])) is not None
    ]
    numbers = sorted(number for number, _, _ in listed)
    if len(set(numbers)) < len(numbers):
        message = "two zones have one number"
        raise ValueError(message)
    listed.sort()
    zones = [_Zone(number, available) for number, available, _ in listed]
    costs = tuple(tuple(to.get(each, _UNKNOWN_COST) for each in numbers) for _, _, to in listed)
    digest = sha256(repr((policy, scope, most, zones, costs)).encode()).digest()
    return _Topology(digest, policy, scope, most, zones, costs)


def _number(zone: str) -> int | None:
    named = _ZONE.fullmatch(zone)
    number = int(named[1]) if named else _MOST_ZONES
    return number if number < _MOST_ZONES else None


def _available(zone: KubeObject) -> Amounts:
    return {
        each["name"]: max(core.amount(each["name"], str(each["available"])), 0)
        for each in zone.get("resources") or []
    }


def _costs(zone: KubeObject) -> Mapping[int, int]:
    listed = ((_number(each["name"]), each["value"]) for each in zone.get("costs") or [])
    return {number: int(value) for number, value in listed if number is not None}


def _refusal(topology: _Topology, needed: _Requests, budget: _Budget) -> str:
    """Return why kubelet would refuse a pod on a node; "" if kubelet would not."""
    if topology.policy != _SINGLE_NUMA_NODE:
        return ""
    room = _Room(topology, budget)
    for kind, need in needed.aligned(topology.scope):
        number = room.zone_for(need)
        if number is None:
            return f"cannot align {kind}"
        # An init container ends before the next container starts, a sidecar does not.
        if kind != _INIT_CONTAINER:
            room.take(number, need)
    return ""


class _Room:
    """What the zones of a node have left, while the containers of a pod take from it.

    Args:
        topology: the zones of the node.
        budget: the comparisons that may still be made.
    """

    def __init__(self, topology: _Topology, budget: _Budget) -> None:
        self._zones = {zone.number: dict(zone.available) for zone in topology.zones}
        self._offered = {resource for zone in self._zones.values() for resource in zone}
        self._budget = budget

    def zone_for(self, need: Amounts) -> int | None:
        """Return the lowest number of a zone with room for a need; None if no zone has room."""
        self._budget.spend(len(need) + 1)
        of_zones = []
        for resource, least in need.items():
            if resource in self._offered:
                of_zones.append((resource, least))
            elif resource not in {"ephemeral-storage", "storage"} and not _is_device(resource):
                return None
        if not of_zones:
            return 0
        return next((number for number in self._zones if self._has(number, of_zones)), None)

    def take(self, number: int, need: Amounts) -> None:
        """Take from a zone what a container needs."""
        zone = self._zones.get(number, {})
        for resource, taken in need.items():
            if resource in zone:
                zone[resource] -= taken

    def _has(self, number: int, need: Sequence[tuple[str, int]]) -> bool:
        self._budget.spend(len(need) + 1)
        zone = self._zones[number]
        for resource, least in need:
            free = zone.get(resource)
            if free is None or free < least:
                return False
        return True


def _lowest_score(
    strategy: Strategy, request: Amounts, topology: _Topology, weights: Mapping[str, int]
) -> int:
    """Return the lowest score above 0 of a node's zones; 0 if there is none."""
    scores = (strategy(request, zone.available, weights) for zone in topology.zones)
    return min(filter(None, scores), default=0)


def _weighted(least: bool) -> Strategy:
    def score(request: Amounts, available: Amounts, weights: Mapping[str, int]) -> int:
        total = points = 0
        for resource, wanted in request.items():
            weight = weights.get(resource, 1)
            total += weight
            room = available.get(resource, 0)
            if room and wanted <= room:
                used, whole = _units(resource, wanted), _units(resource, room)
                points += weight * ((whole - used if least else used) * _MAX_NODE_SCORE // whole)
        return points // total if total else 0

    return score


def _units(resource: str, counted: int) -> int:
    return -(-counted // _MILLI) if resource == "cpu" else counted


def _balanced(request: Amounts, available: Amounts, weights: Mapping[str, int]) -> int:
    """Return 100 less the variance of the shares of a zone that a request takes, in percent."""
    del weights
    shares = []
    for resource, wanted in request.items():
        whole = _units(resource, available.get(resource, 0))
        shares.append(_units(resource, wanted) / whole if whole else 1.0)
    if any(share > 1 for share in shares):
        return 0
    return int((1 - _variance(shares)) * _MAX_NODE_SCORE)


def _variance(values: Sequence[float]) -> float:
    """Return the variance of a sample, corrected for rounding of the mean; 0 of one value."""
    count = len(values)
    if count < 2:  # noqa: PLR2004  one value does not vary
        return 0.0
    mean = sum(values) / count
    apart = [value - mean for value in values]
    return (sum(each * each for each in apart) - sum(apart) ** 2 / count) / (count - 1)


_STRATEGIES: Final[Mapping[str, Strategy]] = {
    "LeastAllocated": _weighted(least=True),
    "MostAllocated": _weighted(least=False),
    "BalancedAllocation": _balanced,
}


def _score_of_few_zones(topology: _Topology, wanted: Sequence[Amounts], budget: _Budget) -> int:
    """Return a score that is the higher the fewer zones the requests need, one after the other."""
    zones = [dict(zone.available) for zone in topology.zones]
    in_zones = {resource for zone in zones for resource in zone}
    most, nearest = 0, True
    for request in wanted:
        budget.spend(len(request) + 1)
        if not request.keys() & in_zones:
            continue
        chosen = _fewest_zones(zones, topology.costs, request, budget)
        if chosen is None:
            return 0
        most = max(most, len(chosen.zones))
        nearest = nearest and chosen.nearest
        _take(request, [zones[index] for index in chosen.zones])
    part = _MAX_NODE_SCORE // topology.max_numa_nodes
    score = _MAX_NODE_SCORE - most * part + (part // 2 if nearest else 0)
    return max(score, 0) if most else _MAX_NODE_SCORE


class _Chosen(NamedTuple):
    """The zones of a request, and whether no set of as many zones is nearer to each other."""

    zones: Sequence[int]
    nearest: bool


def _fewest_zones(
    zones: Sequence[Amounts], costs: Costs, request: Amounts, budget: _Budget
) -> _Chosen | None:
    """Return the fewest zones with room for a request, and of these the nearest to each other."""
    for size in range(1, len(zones) + 1):
        if comb(len(zones), size) > _MOST_COMBINATIONS:
            return None
        lowest, all_sets = _sets(costs, size)
        best: tuple[int, Sequence[int]] | None = None
        for distance, chosen in all_sets:
            budget.spend((len(request) + 2) * (size + 2))
            if _have_room([zones[index] for index in chosen], request):
                if distance == lowest:
                    return _Chosen(chosen, nearest=True)
                if best is None or distance < best[0]:
                    best = distance, chosen
        if best is not None and best[0] < _NO_COST * size * size:
            return _Chosen(best[1], nearest=False)
    return None


@lru_cache(maxsize=16)
def _sets(costs: Costs, size: int) -> tuple[int, list[tuple[int, tuple[int, ...]]]]:
    """Return every set of zones of a size with the sum of its costs, and the lowest sum."""
    all_sets = [
        (sum(costs[one][other] for one in chosen for other in chosen), chosen)
        for chosen in combinations(range(len(costs)), size)
    ]
    return min(_UNKNOWN_COST * size * size, *(distance for distance, _ in all_sets)), all_sets


def _have_room(zones: Sequence[Amounts], request: Amounts) -> bool:
    return all(
        all(resource in zone for zone in zones) and sum(zone[resource] for zone in zones) >= wanted
        for resource, wanted in request.items()
    )


def _take(request: Amounts, zones: Sequence[dict[str, int]]) -> None:
    """Take what a request wants from the zones, from the first zone first."""
    for resource, wanted in request.items():
        missing = wanted
        for zone in zones:
            taken = min(missing, zone.get(resource, 0))
            if taken:
                zone[resource] -= taken
            missing -= taken
