"""A cluster for tests of plugins, with a clock of its own, and no server and no Kubernetes API.

The cluster stands in for kube-scheduler and for the API. It writes requests as kube-scheduler does
for a nodeCacheCapable extender, with names of nodes only, passes the bytes to the verbs, and reads
their answers. Profiles, verbs, Permit, breakers and the waking of pods are those of a server.
"""

import asyncio
import json
import math
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

from kubextend import core
from kubextend.config import Configuration
from kubextend.framework.handle import ClusterPorts, HeldPod
from kubextend.metrics import Metrics
from kubextend.profile import PluginLimits, PluginStarts
from kubextend.profile.stops import stop_plugin
from kubextend.testing.given_plugins import PluginLike, configuration_of
from kubextend.testing.objects import (
    Manifest,
    NodesLike,
    PodLike,
    manifest_of,
    manifests_of_nodes,
    node_store,
    pod_manifest_of,
    pod_store,
)
from kubextend.testing.paused_time import Clock, PausedLimits, PausedLoop
from kubextend.testing.stand_ins import (
    Activations,
    Bindings,
    ListedNodes,
    ListedObjects,
    ListedPods,
    RecordedEvents,
    at_once,
)
from kubextend.verbs import Verbs
from kubextend.verbs.build_verbs import build_verbs

__all__ = ["Cluster", "FilterResult", "Outcome"]

_RESOURCES: Final = {"Pod": "pods", "Node": "nodes"}


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The answer of the filter verb: the names of the kept nodes, and why others are rejected.

    Attributes:
        kept: names of the kept nodes, in the order of the request.
        rejected: the reason of every rejected node, by node name.
        unresolvable: names of the rejected nodes that no eviction would help.
        error: why the whole attempt to schedule the pod fails; empty if the attempt does not fail.
    """

    kept: tuple[str, ...] = ()
    rejected: Mapping[str, str] = field(default_factory=dict)
    unresolvable: frozenset[str] = frozenset()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What has become of an attempt to schedule a pod.

    A pod for which filters left no node has ``rejected`` alone. If ``answered`` is False and no
    plugin is in ``waiting``, an async plugin has not finished, or kubextend delays a refusal: see
    ``Cluster.advance``.

    Attributes:
        node: the name of the node that the pod is bound to; None: the pod is not bound.
        waiting: the names of the Permit plugins that hold the pod now.
        rejected: the reason of every node that filters rejected, by node name.
        unresolvable: names of the rejected nodes that no eviction would help.
        error: the Error with which filter or bind answered kube-scheduler; empty without an Error.
        answered: whether kube-scheduler has all answers about the attempt.
    """

    node: str | None = None
    waiting: tuple[str, ...] = ()
    rejected: Mapping[str, str] = field(default_factory=dict)
    unresolvable: frozenset[str] = frozenset()
    error: str = ""
    answered: bool = True


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The last attempt to schedule a pod.

    Attributes:
        filtered: the answer of filter.
        node: the node that was chosen; empty: filter left none.
        bind: returns the Error of bind, or an empty text; None: bind was not called.
    """

    filtered: FilterResult
    node: str = ""
    bind: asyncio.Task[str] | None = None


@dataclass(frozen=True, slots=True)
class _Watches:
    """What watches fill on a server: the stores of nodes and pods, and the informers of plugins."""

    nodes: core.NodeStore
    pods: core.PodStore
    objects: ListedObjects

    def apply(self, event: str, kind: str, manifest: Manifest) -> None:
        """Apply an event of a Pod or a Node to its store, and to an informer of these."""
        store = self.nodes if kind == "Node" else self.pods
        store.apply(json.dumps({"type": event, "object": manifest}).encode())
        self.tell_informer(event, kind, manifest)

    def tell_informer(self, event: str, kind: str, manifest: Manifest) -> None:
        """Apply an event of a Pod or a Node to the informer of these, if a plugin has one."""
        if (resource := _RESOURCES[kind]) in self.objects:
            whole = {"apiVersion": "v1", **manifest, "kind": kind}
            self.objects.change(event, resource, whole)

    def put(self, event: str, resource: str, manifest: Manifest) -> None:
        """Apply an event of any other object to its informer.

        Raises: KeyError, ValueError, PluginError: as ``Cluster.put`` does.
        """
        if resource in _RESOURCES.values():
            message = f"the {resource} of a Cluster come by its argument {resource} and by add"
            raise ValueError(message)
        self.objects.change(event, resource, manifest)


class Cluster:
    """Nodes, pods, other objects, a clock, and plugins that schedule pods there.

    Time passes only in ``advance``. kube-scheduler's own plugins do not run: filters are asked
    about every node. Used as a context manager, the cluster starts the plugins, and stops them at
    the end; otherwise nobody calls ``start`` and ``stop``. Use a cluster on one thread, which runs
    no event loop.

    Args:
        plugins: the plugins in their order, at every point that they extend, as classes or
            instances; or one configuration, as ``kubextend.discovery.load`` returns it.
        nodes: nodes in any form that ``make_nodes`` takes.
        pods: the existing pods; a bound pod has a ``node_name``.
        objects: the objects of informers, by the resource as in a plugin's ``informers``. An
            informer of ``pods`` or ``nodes`` has those of the cluster.
        args: Args by plugin name, as in ``pluginConfig``, for plugins given as classes.
        weights: weights of scores by plugin name; 1 where none is given.
        kubernetes_client: the client that a plugin finds as ``handle.kubernetes_client``.

    Plugins are told of the ``objects`` by ``on_change`` at once; a plugin with a method ``start``,
    when that has ended.

    Raises:
        ConfigError: the plugins, Args or weights are refused, as in a configuration file.
        KubextendError: the constructor of a plugin raised an exception.
        PluginError: a function of ``on_change`` or of an index raised. Each call of the cluster
            that runs one raises this error.
        KeyError: no plugin has a resource of ``objects`` in its ``informers``.
        ValueError: ``objects`` has pods or nodes.

    Attributes:
        verbs: the verbs (filter, prioritize, preempt and bind) that the cluster calls.
        handle: the Handle from which those of the plugins are made.
        bindings: records the node of each bound pod and the annotations of Bindings, by UID.
        activated: names of the pods that kube-scheduler is to try again, in order.
        events: the Events that plugins wrote, in order.
        failures: what plugins raised, with the cause, in order.
    """

    def __init__(
        self,
        *plugins: PluginLike | Configuration,
        nodes: NodesLike = 3,
        pods: Iterable[PodLike] = (),
        objects: Mapping[str, Iterable[Manifest]] | None = None,
        args: Mapping[str, Mapping[str, Any]] | None = None,
        weights: Mapping[str, int] | None = None,
        kubernetes_client: Any = None,
    ) -> None:
        config = configuration_of(plugins, args, weights)
        manifests = manifests_of_nodes(nodes)
        self._node_names = [manifest["metadata"]["name"] for manifest in manifests]
        self._nodes = ListedNodes(node_store(manifests, config.kept_parts))
        listed = [pod_manifest_of(pod) for pod in pods]
        self._pods = ListedPods(pod_store(listed, config.kept_parts))
        self._clock, self._starts = Clock(), list[PluginStarts]()
        # The names of the plugins with a ``start``, until ``with`` starts them.
        self._unstarted: list[str] = []
        not_started = partial(_not_started, self._starts, self._unstarted)
        self._objects = ListedObjects(config.informers, not_started)
        self._watches = _Watches(self._nodes.store, self._pods.store, self._objects)
        for node in manifests:
            self._watches.tell_informer("ADDED", "Node", node)
        for pod in listed:
            self._watches.tell_informer("ADDED", "Pod", pod)
        for resource, items in (objects or {}).items():
            for item in items:
                self._watches.put("ADDED", resource, item)
        events, activations = RecordedEvents(), Activations()
        self.events, self.activated = events.written, activations.names
        self.bindings = Bindings()
        ports = ClusterPorts(
            nodes=self._nodes,
            # As in production, pods are watched where a plugin needs them.
            pods=self._pods if config.needs_pods else None,
            pod_reader=self._pods,
            binder=self.bindings,
            activator=activations,
            informers=self._objects,
            events=events,
            kubernetes_client=lambda: kubernetes_client,
            in_thread=at_once,
        )
        limits = PausedLimits(self._clock, metrics := Metrics())
        self.failures = limits.errors
        # A test sees the reason of every rejected node.
        extender = config.extender.model_copy(update={"last_filter": False})
        self.verbs = build_verbs(
            replace(config, extender=extender),
            ports,
            metrics=metrics,
            limits=limits,
            not_started=partial(_not_started, self._starts),
        )
        self.handle = self.verbs.handle
        self._attempts: dict[str, _Attempt] = {}
        # A loop is made at its first use, because it holds file descriptors.
        self._loops: list[PausedLoop] = []
        self._finish = weakref.finalize(self, _finish, self._loops, self.verbs.limits)
        self._unstarted += [each.name for each in self.plugins if getattr(each, "start", None)]
        self._objects.call_handlers()

    def __enter__(self) -> Self:
        """Start the plugins; a start that fails is repeated in ``advance``, as in a server."""
        limits = self.verbs.limits
        starts = PluginStarts(self.plugins, limits, limits.failures.note)
        self._starts.append(starts)
        self._unstarted.clear()
        self._starting = self._loop.create_task(starts.run())
        try:
            self._settle()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End all binding cycles, with Unreserve, and stop the plugins."""
        self.verbs.waiting_pods.close("the test ends")
        self.verbs.throttle.close()
        try:
            self._settle()
        finally:
            self._end()

    def _end(self) -> None:
        """Stop the plugins, and free what the cluster holds."""
        _cancel_all(self._loop)
        for plugin in self.plugins:
            self._loop.create_task(stop_plugin(plugin, self.verbs.limits.failures))
        self._run_loop(self._clock.now_s)
        self._finish()

    @property
    def plugins(self) -> list[Any]:
        """The instances of the plugins, profile by profile."""
        return [*self.verbs.profiles.plugins]

    @property
    def called(self) -> set[tuple[str, str]]:
        """Which plugins the verbs have called at which points, such as ``("P", "Filter")``."""
        return set(self.verbs.decisions.durations())

    @property
    def now_s(self) -> float:
        """The present time of the cluster's clock, in seconds."""
        return self._clock.now_s

    def schedule(self, pod: PodLike) -> Outcome:
        """Create a pod if it is new, run filter, prioritize and bind for it, and return the result.

        Of nodes with equal points the first is taken, where kube-scheduler would choose one at
        random. An earlier pod that Permit held may be bound by this call: see ``outcome``.

        Args:
            pod: the pod to place, which is on no node.

        Raises: ValueError: the pod is on a node already.
        """
        manifest = pod_manifest_of(pod)
        self._create(manifest)
        filtered = self.filter(pod)
        self._attempts[_uid(manifest)] = _Attempt(filtered)
        if not filtered.kept:
            return self.outcome(pod)
        points = self.prioritize(pod, filtered.kept) if len(filtered.kept) > 1 else {}
        best = max(filtered.kept, key=lambda name: points.get(name, 0))
        return self._bind(manifest, best, filtered)

    def outcome(self, pod: PodLike) -> Outcome:
        """Return what has become of a pod's last attempt by now.

        Raises: KeyError: ``schedule`` and ``bind`` were not called for the pod.
        """
        uid = _uid(pod_manifest_of(pod))
        attempt = self._attempts[uid]
        filtered, bind = attempt.filtered, attempt.bind
        of_nodes = Outcome(rejected=filtered.rejected, unresolvable=filtered.unresolvable)
        if bind is None:
            return replace(of_nodes, error=filtered.error)
        if not bind.done():
            held = self.verbs.waiting_pods.get(uid)
            waiting = () if held is None else held.pending_plugins
            return replace(of_nodes, waiting=waiting, answered=False)
        error = bind.result()
        return replace(of_nodes, node=None if error else attempt.node, error=error)

    def filter(self, pod: PodLike, nodes: Sequence[str] | None = None) -> FilterResult:
        """Run PreFilter, Filter and, if no node passes, PostFilter; return each node's result.

        Args:
            pod: the pod to place.
            nodes: names of the nodes to ask about; None: all.
        """
        answer = json.loads(bytes(self.verbs.filter(self._request(pod, nodes))))
        self._settle()
        unresolvable = answer["FailedAndUnresolvableNodes"] or {}
        rejected = (answer["FailedNodes"] or {}) | unresolvable
        kept = tuple(answer["NodeNames"] or ())
        return FilterResult(kept, rejected, frozenset(unresolvable), answer["Error"])

    def prioritize(self, pod: PodLike, nodes: Sequence[str] | None = None) -> dict[str, int]:
        """Run PreScore, Score and NormalizeScore; return the points of each node, by node name.

        Args:
            pod: the pod to place.
            nodes: names of the nodes to ask about; None: all.
        """
        answer = json.loads(bytes(self.verbs.prioritize(self._request(pod, nodes))))
        self._settle()
        return {host["Host"]: host["Score"] for host in answer or ()}

    def preempt(
        self, pod: PodLike, victims: Mapping[str, Sequence[PodLike | str]]
    ) -> dict[str, list[str]]:
        """Run the preempt verb; return UIDs of victims by name of each node that may be preempted.

        The pods stay: ``delete`` the victims, and ``schedule`` the pod.

        Args:
            pod: the pod to place.
            victims: pods or UIDs by node, as kube-scheduler proposes them.
        """
        proposed = {
            node: {"Pods": [{"UID": _victim(pod)} for pod in pods], "NumPDBViolations": 0}
            for node, pods in victims.items()
        }
        body = {
            "Pod": pod_manifest_of(pod),
            "NodeNameToVictims": None,
            "NodeNameToMetaVictims": proposed,
        }
        answer = json.loads(bytes(self.verbs.preempt(json.dumps(body).encode())))
        self._settle()
        return {
            node: [victim["UID"] for victim in left["Pods"]]
            for node, left in answer["NodeNameToMetaVictims"].items()
        }

    def bind(self, pod: PodLike, node: str) -> Outcome:
        """Run the binding cycle of a pod, from Reserve to PostBind, and return the result.

        Args:
            pod: the pod, which is on no node; it is created if it is new.
            node: the name of the node that was chosen.

        Raises: ValueError: the pod is on a node already.
        """
        manifest = pod_manifest_of(pod)
        self._create(manifest)
        return self._bind(manifest, node, FilterResult((node,)))

    def held(self, pod: PodLike) -> HeldPod:
        """Return a pod that Permit plugins hold, with its methods ``allow`` and ``reject``.

        A decision has an effect in the next call of the cluster, ``outcome`` excepted.

        Raises: KeyError: no plugin holds the pod.
        """
        uid = _uid(pod_manifest_of(pod))
        held = self.verbs.waiting_pods.get(uid)
        if held is None:
            raise KeyError(uid)
        return held

    def advance(self, seconds: float = 0.0) -> None:
        """Let time pass, and let happen what is due: timeouts of Permit, breakers, waking of pods.

        Each second, pods that are due are activated, as in a server.

        Args:
            seconds: how many seconds pass; 0 lets happen what is due now.
        """
        end_s = self._clock.now_s + seconds
        while (now_s := self._clock.now_s) < end_s:
            self._settle(min(math.floor(now_s) + 1, end_s))
            if self._clock.now_s == math.floor(self._clock.now_s):
                self.verbs.wake_due()
        self._settle()

    def add(self, *things: core.Pod | core.NodeInfo | Manifest) -> None:
        """Add pods and nodes, or change those of the same names, as events of the watch would.

        Args:
            things: pods of ``make_pod``, nodes of ``make_node``, or manifests with their ``kind``.

        Raises: ValueError: a manifest is no Pod and no Node.
        """
        for thing in things:
            kind, manifest = manifest_of(thing)
            name = manifest["metadata"]["name"]
            if kind == "Node":
                is_new = name not in self._node_names
                self._watches.apply("ADDED" if is_new else "MODIFIED", kind, manifest)
                self._node_names += [name] if is_new else []
            else:
                is_new = self._pods.store.get(_uid(manifest)) is None
                self._watches.apply("ADDED" if is_new else "MODIFIED", kind, manifest)
                if manifest["spec"].get("nodeName"):
                    self.verbs.forget(_uid(manifest))
        self._changed()

    def delete(self, *things: core.Pod | core.NodeInfo | Manifest) -> None:
        """Delete pods and nodes, as events of the watch would.

        Args:
            things: pods of ``make_pod``, nodes of ``make_node``, or manifests with their ``kind``;
                only the names and the UIDs of pods matter.

        Raises: ValueError: a manifest is no Pod and no Node.
        """
        for thing in things:
            kind, manifest = manifest_of(thing)
            if kind == "Node":
                name = manifest["metadata"]["name"]
                self._watches.apply("DELETED", kind, manifest)
                self._node_names.remove(name)
                self.verbs.bind.node_deleted(name)
            else:
                self._watches.apply("DELETED", kind, manifest)
                self.verbs.pod_deleted(_uid(manifest))
        self._changed()

    def put(self, resource: str, manifest: Manifest) -> None:
        """Create or change an object, as an event of the watch would.

        The functions of ``on_change`` run before this method returns.

        Args:
            resource: the name of the resource, as in a plugin's ``informers``.
            manifest: the object, with ``metadata.name``.

        Raises:
            KeyError: no plugin has the resource in its ``informers``.
            ValueError: the resource is ``pods`` or ``nodes``, whose objects ``add`` brings.
            PluginError: a plugin's function of ``on_change`` or of an index raised.
        """
        self._watches.put("MODIFIED", resource, manifest)
        self._changed()

    def remove(self, resource: str, manifest: Manifest) -> None:
        """Delete an object of an informer, as an event of the watch would.

        Args:
            resource: the name of the resource, as in a plugin's ``informers``.
            manifest: the object; only its names matter.

        Raises: KeyError, ValueError, PluginError: as ``put`` does.
        """
        self._watches.put("DELETED", resource, manifest)
        self._changed()

    @property
    def _loop(self) -> PausedLoop:
        if _is_in_an_event_loop():
            message = "a Cluster runs an event loop of its own, and another loop is running here"
            raise RuntimeError(message)
        if not self._loops:
            self._loops.append(PausedLoop(self._clock))
        return self._loops[0]

    def _settle(self, until_s: float | None = None) -> None:
        """Let happen all that is due until a time of the clock; None: until now."""
        self._run_loop(self._clock.now_s if until_s is None else until_s)
        # Methods that have run may have called ``on_change``, and its functions may allow a pod.
        while self._objects.call_handlers():
            self._run_loop(self._clock.now_s)

    def _run_loop(self, until_s: float) -> None:
        if self._loops:
            self._loop.run_until(until_s)
        self._clock.now_s = until_s

    def _changed(self) -> None:
        self._objects.call_handlers()
        self.verbs.nodes_changed()
        self._settle()

    def _create(self, manifest: Manifest) -> None:
        """Add a pod that is new, as its owner would.

        Raises: ValueError: the pod is on a node already.
        """
        pod = self._pods.store.get(_uid(manifest))
        if pod is not None and pod.node_name:
            message = f"pod {pod.namespace}/{pod.name} is on node {pod.node_name} already"
            raise ValueError(message)
        if pod is None:
            self._watches.apply("ADDED", "Pod", manifest)
            self._objects.call_handlers()

    def _bind(self, manifest: Manifest, node: str, filtered: FilterResult) -> Outcome:
        task = self._loop.create_task(
            _bound(self.verbs, self._watches, self.bindings, manifest, node)
        )
        self._attempts[_uid(manifest)] = _Attempt(filtered, node, task)
        self._settle()
        return self.outcome(manifest)

    def _request(self, pod: PodLike, nodes: Sequence[str] | None) -> bytes:
        names = self._node_names if nodes is None else list(nodes)
        body = {"Pod": pod_manifest_of(pod), "Nodes": None, "NodeNames": names}
        return json.dumps(body).encode()


def _not_started(starts: Iterable[PluginStarts], unstarted: Iterable[str] = ()) -> list[str]:
    return [*unstarted, *(name for each in starts for name in each.names())]


def _is_in_an_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _bound(
    verbs: Verbs, watches: _Watches, bindings: Bindings, manifest: Manifest, node: str
) -> str:
    """Bind a pod, and return the Error of bind; empty if the pod is bound, as watches then show.

    The coroutine must not refer to the cluster, which nobody could forget while a pod waits.
    """
    metadata = manifest["metadata"]
    body = {
        "PodName": metadata["name"],
        "PodNamespace": metadata["namespace"],
        "PodUID": metadata["uid"],
        "Node": node,
    }
    error: str = json.loads(bytes(await verbs.bind(json.dumps(body).encode())))["Error"]
    if not error:
        added = bindings.annotations.get(metadata["uid"], {})
        annotations = {**(metadata.get("annotations") or {}), **added}
        spec = {**manifest.get("spec", {}), "nodeName": node}
        metadata = {**metadata, "annotations": annotations}
        watches.apply("MODIFIED", "Pod", {**manifest, "metadata": metadata, "spec": spec})
        verbs.forget(metadata["uid"])
        verbs.nodes_changed()
    return error


def _finish(loops: Iterable[PausedLoop], limits: PluginLimits) -> None:
    """End what a cluster left: pods that wait give up what they reserved, and threads end."""
    for loop in loops:
        _cancel_all(loop)
        # Python may collect a cluster while this thread runs another loop.
        with suppress(RuntimeError):
            loop.run_until(loop.time())
        loop.close()
    limits.stop()


def _cancel_all(loop: PausedLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()


def _uid(manifest: Manifest) -> str:
    uid: str = manifest["metadata"]["uid"]
    return uid


def _victim(pod: PodLike | str) -> str:
    return pod if isinstance(pod, str) else _uid(pod_manifest_of(pod))
