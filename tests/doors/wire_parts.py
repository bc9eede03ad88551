"""What the wire door is played with: pods, nodes, requests, plugins, stand-ins for the cluster."""

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from tests.doors.still_time import AT_MOST_S

from kubextend import core
from kubextend.config import ExtenderConfiguration, parse
from kubextend.errors import ClusterError
from kubextend.framework import Rejection, Status
from kubextend.framework.handle import Handle
from kubextend.framework.known_plugins import KnownPlugins
from kubextend.framework.registered_plugin import RegisteredPlugin
from kubextend.testing import node_manifest, pod_manifest

Manifest = Mapping[str, Any]

NOT_LEADER: Final = "this replica does not lead"
TOKENS: Final = Path(__file__).with_name("tokens.txt")


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
    return json.dumps({"Pod": of, "Nodes": None, "NodeNames": list(names)}).encode()


def whole_request(of: object, nodes: Iterable[object]) -> bytes:
    """Return the body of filter and prioritize with ``nodeCacheCapable: false``."""
    listed = {"metadata": {}, "items": list(nodes)}
    return json.dumps({"Pod": of, "Nodes": listed, "NodeNames": None}).encode()


def preempt_request(of: object, victims: Mapping[str, Sequence[str]], violations: int = 1) -> bytes:
    """Return the body of preempt with ``nodeCacheCapable: true``: UIDs of victims by node."""
    meta = {
        name: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}
        for name, uids in victims.items()
    }
    fields = {"Pod": of, "NodeNameToVictims": None, "NodeNameToMetaVictims": meta}
    return json.dumps(fields).encode()


def whole_preempt_request(
    of: object, victims: Mapping[str, Sequence[Manifest]], violations: int = 1
) -> bytes:
    """Return the body of preempt with ``nodeCacheCapable: false``: whole victims by node."""
    whole = {
        name: {"Pods": list(pods), "NumPDBViolations": violations} for name, pods in victims.items()
    }
    fields = {"Pod": of, "NodeNameToVictims": whole, "NodeNameToMetaVictims": None}
    return json.dumps(fields).encode()


def bind_request(of: Manifest, to: str) -> bytes:
    metadata = of["metadata"]
    names = {"PodName": metadata["name"], "PodNamespace": metadata["namespace"]}
    return json.dumps({**names, "PodUID": metadata["uid"], "Node": to}).encode()


# Plugins.


class Plugin:
    """A plugin with the methods of the framework that a test gives it, such as ``filter``."""

    def __init__(
        self, name: str = "P", *, needs_pods: bool = False, **methods: Callable[..., Any]
    ) -> None:
        self.name = name
        self.needs_pods = needs_pods
        for method, does in methods.items():
            setattr(self, method, does)


def raises(error: BaseException) -> Callable[..., Any]:
    """Return a method that raises an error."""

    def call(*_: object) -> Any:
        raise error

    return call


def answers(answer: Any) -> Callable[..., Any]:
    """Return a method that returns the same answer at each call."""
    return lambda *_: answer


class Rejects(Plugin):
    """A filter that rejects the nodes of some names, which a test may change.

    Attributes:
        names: the names.
        told: the names of the pods of which PostFilter was told that they fit nowhere.
        asked: how often the filter was called, for one node each.
    """

    def __init__(self, names: Iterable[str], status: Status, name: str) -> None:
        self.names = set(names)
        self.told: list[str] = []
        self.asked = 0
        self._status = status
        super().__init__(name, filter=self._filter, post_filter=self._post_filter)

    def _filter(self, _state: object, _pod: core.Pod, at: core.NodeInfo) -> Status | None:
        self.asked += 1
        return self._status if at.name in self.names else None

    def _post_filter(self, _state: object, of: core.Pod, _rejections: object) -> None:
        self.told.append(of.name)


def rejects(
    *names: str, reason: str = "its name", unresolvable: bool = False, name: str = "Rejects"
) -> Rejects:
    """Return a filter that rejects the nodes of these names."""
    return Rejects(
        names, Status.unresolvable(reason) if unresolvable else Status.unschedulable(reason), name
    )


def needs(
    label: str = "rdma", reason: str = "no rdma", *, unresolvable: bool = True, name: str = "Needs"
) -> Plugin:
    """Return a filter of all nodes at once that rejects nodes without a label."""
    status = Status.unresolvable(reason) if unresolvable else Status.unschedulable(reason)
    return Plugin(
        name, filter_nodes=lambda _state, _pod, nodes: [Rejection(~nodes.matches(label), status)]
    )


def scores(name: str = "Scores", **points: int) -> Plugin:
    """Return a plugin that scores nodes by name; other nodes have the score 0."""
    return Plugin(name, score=lambda _state, _pod, at: points.get(at.name, 0))


class Hang:
    """A method of a plugin that hangs until the test ends; see the fixture ``hang``.

    Attributes:
        calls: how many calls have begun.
        over: once set, every call returns.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.over = threading.Event()

    def __call__(self, *_: object) -> None:
        self.calls += 1
        assert self.over.wait(AT_MOST_S), "the test did not let its plugin go"


# Stand-ins for the cluster.


@dataclass
class Nodes:
    """The watched nodes. Without ``synced``, the first list has not come."""

    store: core.NodeStore
    synced: bool = True
    old_s: float | None = 0.0

    def age_s(self) -> float | None:
        return self.old_s


@dataclass
class Pods:
    """The watched pods, and those that ``GET`` of the Kubernetes API finds.

    Attributes:
        unwatched: pods that only the API knows yet, by namespace and name.
        reads: how often the API was asked.
        down: the error that the API answers; None: it answers.
    """

    store: core.PodStore
    synced: bool = True
    unwatched: dict[tuple[str, str], core.Pod] = field(default_factory=dict)
    reads: int = 0
    down: ClusterError | None = None

    def get(self, namespace: str, name: str) -> core.Pod | None:
        self.reads += 1
        if self.down is not None:
            raise self.down
        return self.unwatched.get((namespace, name)) or self.store.by_name(namespace, name)


@dataclass
class Leader:
    """An election that this replica wins and loses as the test says."""

    leads: bool = True
    term: int = 1
    fresh: bool = True
    lasts_s: float = 8.0
    leads_since_s: float = 0.0

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
    """

    error: BaseException | None = None
    gate: threading.Event = field(default_factory=threading.Event)
    began: int = 0
    bound: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, dict[str, str]] = field(default_factory=dict)
    timeouts_s: list[float | None] = field(default_factory=list)

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
        assert self.gate.wait(AT_MOST_S), "the test did not let the Kubernetes API answer"
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
    """What kube-scheduler gets: the status, the body, and what kube-scheduler reads in it."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

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


# The configuration.


@dataclass(frozen=True)
class Options:
    weights: Mapping[str, int]
    args: Mapping[str, Mapping[str, Any]]
    ignored: frozenset[str]

    def profile(self, scheduler_name: str, plugins: Sequence[Any]) -> dict[str, Any]:
        names = [each.name for each in plugins]
        enabled = [{"name": name, "weight": self.weights.get(name, 1)} for name in names]
        configs = [
            {"name": name, "args": dict(self.args.get(name, {}))}
            | ({"failurePolicy": "Ignore"} if name in self.ignored else {})
            for name in names
        ]
        return {
            "schedulerName": scheduler_name,
            "plugins": {"multiPoint": {"enabled": enabled}},
            "pluginConfig": configs,
        }


class _Given(RegisteredPlugin):
    """A plugin that the test has made: ``plugin_class`` is the instance."""

    @property
    def args_model(self) -> None:
        return None

    def make(self, args: BaseModel | None, handle: Handle) -> Any:
        return self.plugin_class


def configuration(
    profiles: Mapping[str, Sequence[Any]],
    options: Options,
    settings: Mapping[str, Any],
    *,
    cluster: bool,
) -> ExtenderConfiguration:
    all_of_them = [plugin for plugins in profiles.values() for plugin in plugins]
    known = {
        each.name: (RegisteredPlugin if isinstance(each, type) else _Given)(each.name, each)
        for each in all_of_them
    }
    tree = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        **({"cluster": {}} if cluster else {}),
        "server": {key: {"tokenFile": str(TOKENS)} for key in ("waitingPods", "decisions")},
        "profiles": [options.profile(name, plugins) for name, plugins in profiles.items()],
    }
    return parse(tree, known=KnownPlugins.of(known, "the test"), overrides=settings)
