"""Helpers of the tests of the verbs: bodies as kube-scheduler sends them, plugins, stand-ins."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubextend import core
from kubextend.errors import ClusterError
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status
from kubextend.metrics import Metrics
from kubextend.profile import Profile, Profiles
from kubextend.verbs import Verbs
from kubextend.verbs.unplaced_pods import UnplacedPods
from make_verbs import make_verbs

RDMA = {"rdma": "true"}
NO_RDMA = "Node does not support RDMA"


def pod(
    name: str = "pod",
    labels: Mapping[str, str] | None = None,
    scheduler: str | None = None,
    namespace: str = "ml",
) -> dict[str, Any]:
    spec = {} if scheduler is None else {"schedulerName": scheduler}
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-of-{name}",
        "labels": labels or {},
    }
    return {"metadata": metadata, "spec": spec}


def node(name: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {}, "status": {}}


def names_request(names: Sequence[str], of: object = ...) -> bytes:
    asked = pod() if of is ... else of
    return json.dumps({"Pod": asked, "Nodes": None, "NodeNames": list(names)}).encode()


def full_request(nodes: Iterable[object], of: object = ...) -> bytes:
    asked = pod() if of is ... else of
    listed = {"metadata": {}, "items": list(nodes)}
    return json.dumps({"Pod": asked, "Nodes": listed, "NodeNames": None}).encode()


def preempt_request(victims: Mapping[str, Sequence[str]], of: object = ...) -> bytes:
    """Return a names-mode preempt request: victims by UID, one PDB violation for each node."""
    meta = {
        name: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 1}
        for name, uids in victims.items()
    }
    asked = pod() if of is ... else of
    return json.dumps(
        {"Pod": asked, "NodeNameToVictims": None, "NodeNameToMetaVictims": meta}
    ).encode()


def full_preempt_request(victims: Mapping[str, Sequence[str]]) -> bytes:
    """Return a full-mode preempt request: victims as whole pods, one PDB violation a node."""
    whole = {
        name: {"Pods": [{"metadata": {"name": uid, "uid": uid}} for uid in uids]}
        | {"NumPDBViolations": 1}
        for name, uids in victims.items()
    }
    return json.dumps(
        {"Pod": pod(), "NodeNameToVictims": whole, "NodeNameToMetaVictims": None}
    ).encode()


def group_preempt_request(victims: Mapping[str, Mapping[str, str]], of: object = ...) -> bytes:
    """Return a full-mode preempt request: by candidate, the node of each victim by its UID."""
    whole = {
        name: {
            "Pods": [
                {"metadata": {"name": uid, "uid": uid}, "spec": {"nodeName": where}}
                for uid, where in on.items()
            ],
            "NumPDBViolations": 1,
        }
        for name, on in victims.items()
    }
    asked = pod() if of is ... else of
    return json.dumps(
        {"Pod": asked, "NodeNameToVictims": whole, "NodeNameToMetaVictims": None}
    ).encode()


def node_list(nodes: Iterable[object]) -> bytes:
    return json.dumps(
        {
            "kind": "NodeList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": "1"},
            "items": list(nodes),
        }
    ).encode()


def watch_event(kind: str, of: object) -> bytes:
    return json.dumps({"type": kind, "object": of}).encode()


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


NOT_LEADER = "this replica does not lead"


@dataclass
class Pods:
    """A pod source that is fed by hand."""

    synced: bool = True
    store: core.PodStore = field(default_factory=core.PodStore)

    def showing(self, *pods: object) -> "Pods":
        """Have the watch show new pods; return this source."""
        for each in pods:
            self.store.apply(watch_event("ADDED", each))
        return self

    def assumed(self) -> list[str]:
        return [each.name for each, _ in self.store.assumed()]


@dataclass
class Leader:
    """A replica that leads when the test says so."""

    leads: bool = True
    term: int = 1
    fresh: bool = True
    lasts_s: float = 8.0

    def why_not(self) -> str:
        return "" if self.leads and self.fresh else NOT_LEADER

    def why_over(self, term: int) -> str:
        return "" if self.leads and term == self.term else NOT_LEADER

    def left_s(self) -> float:
        return self.lasts_s

    def loses(self) -> None:
        self.leads = False

    def wins(self) -> None:
        self.leads = True
        self.term += 1


@dataclass
class Watched:
    """A source of watched nodes whose nodes a test gives."""

    synced: bool = True
    store: core.NodeStore = field(default_factory=core.NodeStore)

    def age_s(self) -> float | None:
        return 0.0

    def listing(self, *nodes: object) -> "Watched":
        self.store.replace(node_list(nodes))
        return self


@dataclass
class Binder:
    error: BaseException | None = None
    bound: list[tuple[str, str, str, str]] = field(default_factory=list)
    timeouts_s: list[float | None] = field(default_factory=list)

    def bind(  # noqa: PLR0913  all but four by name
        self,
        namespace: str,
        name: str,
        uid: str,
        node: str,
        *,
        timeout_s: float | None = None,
        annotations: object = None,
        why_not: Callable[[], str] = lambda: "",
    ) -> None:
        self.timeouts_s.append(timeout_s)
        if why := why_not():
            raise ClusterError(why)
        if self.error is not None:
            raise self.error
        self.bound.append((namespace, name, uid, node))


@dataclass
class Activator:
    woken: list[str] = field(default_factory=list)

    def activate(self, pods: Iterable[core.Pod]) -> None:
        self.woken += [pod.name for pod in pods]


@dataclass
class Needs:
    """Rejects nodes that do not match a selector."""

    selector: str = "rdma=true"
    status: Status = field(default_factory=lambda: Status.unresolvable(NO_RDMA))
    name: str = "Needs"

    def filter_nodes(
        self, _state: CycleState, _pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        return [Rejection(~nodes.matches(self.selector), self.status)]


@dataclass
class RejectsNamed:
    """Rejects the nodes with these names, known or unknown, and no other nodes."""

    names: Sequence[str]
    name: str = "RejectsNamed"

    def filter_nodes(
        self, _state: CycleState, _pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        named = core.Mask([each in self.names for each in nodes.names])
        return [Rejection(named, Status.unschedulable("its name"))]


@dataclass
class Breaks:
    """Raises ``error`` in filter and score."""

    error: BaseException = field(default_factory=lambda: RuntimeError("0x7f3a is broken"))
    name: str = "Breaks"

    def filter_nodes(
        self, _state: CycleState, _pod: core.Pod, _nodes: core.Nodes
    ) -> Sequence[Rejection]:
        raise self.error

    def score_nodes(self, _state: CycleState, _pod: core.Pod, _nodes: core.Nodes) -> Sequence[int]:
        raise self.error


@dataclass
class Scores:
    """Scores nodes that match a selector."""

    score: int
    selector: str = "rdma=true"
    name: str = "Scores"

    def score_nodes(self, _state: CycleState, _pod: core.Pod, nodes: core.Nodes) -> Sequence[int]:
        return [self.score if fits else 0 for fits in nodes.matches(self.selector)]


def verbs_of(
    filters: Sequence[Any] = (),
    scores: Sequence[tuple[Any, int]] = (),
    **joined: Any,
) -> Verbs:
    """Make the verbs of one profile, whose schedulerName is ``default-scheduler``."""
    profile = Profile("default-scheduler", filter=filters, score=scores)
    joined.setdefault("request_store", core.RequestStore())
    joined.setdefault("metrics", Metrics())
    return make_verbs(Profiles.of([profile], pass_through=["passed-through"]), **joined)


def unplaced_pods(activator: Activator | None = None, **parts: Any) -> UnplacedPods:
    """Make an empty UnplacedPods; ``room_for``: how many small pods it can hold, about."""
    if (room_for := parts.pop("room_for", None)) is not None:
        # 4 KiB of a record, and about a quarter of that for the pod.
        parts["most_bytes"] = room_for * 5500
    return UnplacedPods(activator, metrics=Metrics(), **parts)


async def in_time(verbs: Verbs, name: str, body: bytes, arrived_s: float) -> bytes:
    """Return the answer of a verb as the server gets it, without a plugin that hangs."""
    answer = await getattr(verbs, name).answer(body, arrived_s, lambda _: None)
    return bytes(answer.body)


def counted(verbs: Verbs, name: str, **labels: str) -> float:
    """Return the value of a metric; 0 where nothing was ever counted."""
    return verbs.metrics.registry.get_sample_value(name, labels) or 0.0
