"""What the wire door is played with: pods, nodes, requests, plugins, stand-ins for the cluster."""

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.doors.wire_plugins import stop_here

from kubextend import core
from kubextend.errors import ClusterError
from kubextend.testing import node_manifest, pod_manifest
from kubextend.testing.objects import pod_of
from kubextend.testing.stand_ins import ListedObjects

Manifest = Mapping[str, Any]

NOT_LEADER: Final = "this replica does not lead"


# Objects of the cluster.


def pod(name: str = "pod", **fields: Any) -> dict[str, Any]:
    """Return a pending pod, by default of the namespace ``ml`` and the UID ``uid-of-NAME``."""
    return pod_manifest(name, **{"namespace": "ml", "uid": f"uid-of-{name}"} | fields)


def node(name: str = "node", **fields: Any) -> dict[str, Any]:
    """Return a node with 4 cores, 16Gi of memory and 110 pods."""
    return node_manifest(name, **fields)


def nominated(of: Manifest, to: str) -> dict[str, Any]:
    """Return a pod whose preemption made room on a node."""
    return {**of, "status": {**of.get("status", {}), "nominatedNodeName": to}}


def grouped(of: Manifest, group: str = "g") -> dict[str, Any]:
    """Return a pod as a member of a pod group of Kubernetes 1.37."""
    return {**of, "spec": {**of["spec"], "schedulingGroup": {"podGroupName": group}}}


def uid_of(of: Manifest) -> str:
    uid: str = of["metadata"]["uid"]
    return uid


# Requests, with the fields that kube-scheduler sends: extender/v1 types.go.


def names_request(of: object, names: Sequence[str]) -> bytes:
    """Return the body of filter and prioritize with ``nodeCacheCapable: true``."""
    return _encoded({"Pod": of, "Nodes": None, "NodeNames": list(names)})


def whole_request(of: object, nodes: Iterable[object]) -> bytes:
    """Return the body of filter and prioritize with ``nodeCacheCapable: false``."""
    listed = {"metadata": {}, "items": list(nodes)}
    return _encoded({"Pod": of, "Nodes": listed, "NodeNames": None})


def preempt_request(of: object, victims: Mapping[str, Sequence[str]], violations: int = 1) -> bytes:
    """Return the body of preempt with ``nodeCacheCapable: true``: UIDs of victims by node."""
    meta = {
        name: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}
        for name, uids in victims.items()
    }
    fields = {"Pod": of, "NodeNameToVictims": None, "NodeNameToMetaVictims": meta}
    return _encoded(fields)


def whole_preempt_request(
    of: object, victims: Mapping[str, Sequence[Manifest]], violations: int = 1
) -> bytes:
    """Return the body of preempt with ``nodeCacheCapable: false``: whole victims by node."""
    whole = {
        name: {"Pods": list(pods), "NumPDBViolations": violations} for name, pods in victims.items()
    }
    fields = {"Pod": of, "NodeNameToVictims": whole, "NodeNameToMetaVictims": None}
    return _encoded(fields)


def bind_request(of: Manifest, to: str) -> bytes:
    metadata = of["metadata"]
    names = {"PodName": metadata["name"], "PodNamespace": metadata["namespace"]}
    return _encoded({**names, "PodUID": metadata["uid"], "Node": to})


def _encoded(fields: Mapping[str, object]) -> bytes:
    """Return a JSON object without spaces, as Go writes it."""
    return json.dumps(fields, separators=(",", ":")).encode()


# Stand-ins for the cluster.


@dataclass
class Nodes:
    """The watched nodes. Without ``synced``, the first list has not come."""

    store: core.NodeStore
    synced: bool = True
    old_s: float | None = 0.0

    def age_s(self) -> float | None:
        return self.old_s

    def show(self, manifest: Manifest, kind: str = "ADDED") -> None:
        """Apply an event of the watch, of which the verbs do not hear yet."""
        self.store.apply(json.dumps({"type": kind, "object": manifest}).encode())


@dataclass
class Pods:
    """The watched pods, and those that ``GET`` of the Kubernetes API finds.

    Attributes:
        unwatched: pods that only the API knows yet.
        reads: how often the API was asked.
        down: the error that the API answers; None: it answers.
    """

    store: core.PodStore
    synced: bool = True
    unwatched: list[Manifest] = field(default_factory=list)
    reads: int = 0
    down: ClusterError | None = None

    def show(self, manifest: Manifest, kind: str = "ADDED") -> None:
        """Apply an event of the watch, of which the verbs do not hear yet."""
        self.store.apply(json.dumps({"type": kind, "object": manifest}).encode())

    def get(self, namespace: str, name: str) -> core.Pod | None:
        self.reads += 1
        if self.down is not None:
            raise self.down
        for each in self.unwatched:
            if (each["metadata"]["namespace"], each["metadata"]["name"]) == (namespace, name):
                return pod_of(each)
        return self.store.by_name(namespace, name)


class Objects(ListedObjects):
    """The objects of informers.

    Attributes:
        unlisted: the resources that the Kubernetes API does not serve.
    """

    def __init__(self, resources: Iterable[str]) -> None:
        super().__init__(resources)
        self.unlisted: set[str] = set()

    def why_not_synced(self, names: Iterable[str]) -> str:
        missing = sorted({*names} & self.unlisted)
        return "; ".join(f"the API serves no {name}" for name in missing)


@dataclass
class Leader:
    """An election that this replica wins and loses as the test says."""

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


@dataclass
class Binder:
    """Records Bindings, unless the Kubernetes API refuses them or does not answer.

    Attributes:
        error: what the API answers to every Binding; None: it creates them.
        gate: while it is not set, the API does not answer.
        began: how many Bindings were sent.
        bound: the node of each bound pod, by the pod's UID.
        annotations: what the Bindings annotated pods with, by the pod's UID.
        timeouts_s: the time that each call had.
        between: if set, the API refuses the first attempt of each call, this is called, and the
            call tries again.
    """

    error: BaseException | None = None
    gate: threading.Event = field(default_factory=threading.Event)
    began: int = 0
    bound: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, dict[str, str]] = field(default_factory=dict)
    timeouts_s: list[float | None] = field(default_factory=list)
    between: Callable[[], object] | None = None

    def __post_init__(self) -> None:
        self.gate.set()

    def bind(  # noqa: PLR0913  all but four by name
        self,
        namespace: str,
        name: str,
        uid: str,
        node: str,
        *,
        timeout_s: float | None = None,
        annotations: Mapping[str, str] | None = None,
        why_not: Callable[[], str] = lambda: "",
    ) -> None:
        self.began += 1
        self.timeouts_s.append(timeout_s)
        stop_here(self.gate)
        if why := why_not():
            raise ClusterError(why)
        if self.between is not None:
            self.between()
            if why := why_not():
                raise ClusterError(why)
        if self.error is not None:
            raise self.error
        self.bound[uid] = node
        self.annotations[uid] = dict(annotations or {})


@dataclass
class Activator:
    """Records the names of the pods that kube-scheduler is to try again."""

    woken: list[str] = field(default_factory=list)

    def activate(self, pods: Iterable[core.Pod]) -> None:
        self.woken += [each.name for each in pods]


# Answers.


@dataclass(frozen=True)
class Answer:
    """An HTTP answer, and what kube-scheduler reads in it; headers by their lower-case names."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def error(self) -> str:
        error: str = self.json["Error"]
        return error

    @property
    def kept(self) -> list[str]:
        """The names of the nodes that filter kept, in the order of the answer."""
        listed = (self.json["Nodes"] or {}).get("items") or []
        return [each["metadata"]["name"] for each in listed] or self.json["NodeNames"] or []

    @property
    def unresolvable(self) -> dict[str, str]:
        """The reasons of nodes that no eviction would help, by name."""
        return self.json["FailedAndUnresolvableNodes"] or {}

    @property
    def rejected(self) -> dict[str, str]:
        """The reasons of all rejected nodes, by name."""
        return (self.json["FailedNodes"] or {}) | self.unresolvable

    @property
    def scores(self) -> dict[str, int]:
        return {each["Host"]: each["Score"] for each in self.json}

    @property
    def victims(self) -> dict[str, list[str]]:
        """The UIDs of the victims by each node that may be preempted."""
        left = self.json["NodeNameToMetaVictims"]
        return {name: [each["UID"] for each in victims["Pods"]] for name, victims in left.items()}
