"""A stand-in for a kube-scheduler that places pod groups, and for the cluster around it."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from verb_world import (
    Activator,
    Binder,
    Clock,
    Pods,
    Watched,
    names_request,
    node,
    pod,
    watch_event,
)

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.status import Status
from kubextend.metrics import Metrics
from kubextend.profile import PluginLimits, Profile, Profiles
from make_verbs import make_verbs

FULL = "the node is full"


@dataclass
class Room:
    """A filter that lets so many pods onto each node."""

    places: dict[str, int] = field(default_factory=dict)
    name: str = "Room"
    needs_pods: bool = True

    def filter(self, _state: CycleState, _pod: core.Pod, node: core.NodeInfo) -> Status | None:
        full = len(node.pods) >= self.places.get(node.name, 1)
        return Status.unschedulable(FULL) if full else None


def member(name: str, group: str = "g", **status: str) -> dict[str, Any]:
    """Return the manifest of a member of a group; without a group, that of a lone pod."""
    manifest = pod(name)
    if group:
        manifest["spec"]["schedulingGroup"] = {"podGroupName": group}
    return manifest | {"status": status}


@dataclass
class Cluster:
    """Nodes, pods, and what kube-scheduler does with them, a call at a time.

    Attributes:
        dispensable: filters that come first, with the failurePolicy Ignore.
        calls: how often filter was called.
    """

    nodes: Sequence[str] = ("n0", "n1", "n2", "n3", "n4")
    room: Any = field(default_factory=Room)
    dispensable: Sequence[Any] = ()
    score: Sequence[tuple[Any, int]] = ()
    counts_pods: bool = True
    pods: Pods = field(default_factory=Pods)
    clock: Clock = field(default_factory=Clock)
    activator: Activator = field(default_factory=Activator)
    binder: Binder = field(default_factory=Binder)
    calls: int = 0
    http_timeout_s: float = 600.0

    def __post_init__(self) -> None:
        profile = Profile(
            "default-scheduler",
            filter=[*self.dispensable, self.room],
            ignored=frozenset(each.name for each in self.dispensable),
            score=self.score,
            counts_pods=self.counts_pods,
            pods=self.pods.store.snapshot,
        )
        metrics = Metrics()
        self.verbs = make_verbs(
            Profiles.of([profile]),
            watched=Watched().listing(*map(node, self.nodes)),
            pods=self.pods,
            binder=self.binder,
            activator=self.activator,
            limits=PluginLimits(self.clock, metrics),
            metrics=metrics,
            clock=self.clock,
            http_timeout_s=self.http_timeout_s,
        )
        self.manifests: dict[str, dict[str, Any]] = {}

    def create(self, names: Iterable[str], group: str = "g") -> list[str]:
        made = list(names)
        for name in made:
            self.manifests[name] = member(name, group)
            self.pods.store.apply(watch_event("ADDED", self.manifests[name]))
        return made

    def delete(self, name: str) -> None:
        manifest = self.manifests.pop(name)
        self.pods.store.apply(watch_event("DELETED", manifest))
        self.verbs.forget(manifest["metadata"]["uid"])

    def seen_bound(self, name: str, to: str) -> None:
        """Have the watch show a pod bound."""
        manifest = self.manifests[name]
        manifest["spec"]["nodeName"] = to
        self.pods.store.apply(watch_event("MODIFIED", manifest))
        self.verbs.forget(manifest["metadata"]["uid"])

    def filter(self, name: str, nodes: Sequence[str] | None = None) -> list[str]:
        """Call filter for a pod; return the kept nodes."""
        self.calls += 1
        asked = self.nodes if nodes is None else nodes
        answer = json.loads(self.verbs.filter(names_request(asked, of=self.manifests[name])))
        assert not answer["Error"]
        return list(answer["NodeNames"])

    def filter_passes(self, names: Iterable[str]) -> dict[str, str]:
        """Call filter for members in turn, until one finds no node; return the nodes."""
        found: dict[str, str] = {}
        for name in names:
            kept = self.filter(name)
            if not kept:
                break
            found[name] = kept[0]
        return found

    def bind(self, name: str, to: str) -> str:
        """Call bind for a pod; return the Error."""
        return asyncio.run(self.binding(name, to))

    async def binding(self, name: str, to: str) -> str:
        fields = {"PodName": name, "PodNamespace": "ml", "PodUID": f"uid-of-{name}", "Node": to}
        answer = await self.verbs.bind.answer(json.dumps(fields).encode(), self.clock())
        error: str = json.loads(answer.body)["Error"]
        return error

    def place(self, names: Sequence[str], min_count: int) -> dict[str, str]:
        """Try a group once as kube-scheduler does: all filter calls, and then the binds.

        Returns: the nodes of the members that were bound.
        """
        found = self.filter_passes(names)
        if len(found) < min_count:
            return {}
        return {name: to for name, to in found.items() if not self.bind(name, to)}
