"""Runs plugins in tests as kubextend does for kube-scheduler, with no cluster and no server.

The runner writes requests as kube-scheduler does for a nodeCacheCapable extender, with names of
nodes only. The runner passes the requests as bytes to the verbs (filter, prioritize, preempt and
bind), and reads the answers. If a plugin fails, the runner raises the error.
"""

import asyncio
import itertools
import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from kubextend import core
from kubextend.errors import PluginError
from kubextend.framework.handle import Binder, ClusterPorts, Handle, HeldPod
from kubextend.framework.kept_parts import kept_parts
from kubextend.framework.plugin import METHODS_OF_POINT
from kubextend.framework.registered_plugin import RegisteredPlugin
from kubextend.metrics import Metrics
from kubextend.profile import PluginLimits, Profile, Profiles, WaitingPods
from kubextend.testing.objects import (
    Manifest,
    NodesLike,
    PodLike,
    manifests_of_nodes,
    node_store,
    pod_manifest_of,
    pod_store,
)
from kubextend.testing.stand_ins import (
    Activations,
    Bindings,
    ListedNodes,
    ListedObjects,
    ListedPods,
    RecordedEvents,
    make_handle,
)
from kubextend.verbs import Context, ExtenderSettings, Memory, Verbs

__all__ = [
    "BindResult",
    "FilterResult",
    "Runner",
    "made",
    "run_binding_cycle",
    "run_filter",
    "run_score",
]

# With a weight of ten the verb does not round: its answer is the score itself.
_EXACT_WEIGHT = 10
_HOUR_S = 3600.0
_POLL_S = 0.001

PluginLike: TypeAlias = Any
"""A plugin, or a plugin class, from which the runner makes a plugin with Args and a Handle."""


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The answer of the filter verb: the names of the kept nodes, and why others are rejected.

    Attributes:
        kept: names of the kept nodes, in the order of the request.
        rejected: the reason of every rejected node, by node name.
        unresolvable: names of the rejected nodes that no eviction would help.
        error: why the whole attempt to schedule the pod fails; empty if the attempt does not fail.
    """

    kept: tuple[str, ...]
    rejected: Mapping[str, str]
    unresolvable: frozenset[str]
    error: str = ""


@dataclass(frozen=True, slots=True)
class BindResult:
    """The result of the binding cycle of a pod.

    Attributes:
        node: the name of the node that was chosen for the pod.
        error: why the pod is not bound; empty if the pod is bound.
    """

    node: str
    error: str = ""

    @property
    def bound(self) -> bool:
        """Whether the pod is on its node now."""
        return not self.error


class _Everyones(Profiles):
    """Gives every pod the one profile of a test, whatever the pod's schedulerName."""

    def for_pod(self, pod: core.Pod | None) -> Profile | None:
        """Return the one profile, whatever the pod's schedulerName."""
        del pod
        return next(iter(self.by_scheduler_name.values()))


class _Clock:
    """The time of a runner: each look at it comes an hour later, until the test moves the time.

    With an hour between calls, no limit per minute takes effect in a test that has nothing to do
    with time.
    """

    def __init__(self) -> None:
        self._hours = itertools.count(1)
        self._now_s: float | None = None

    @property
    def is_moved(self) -> bool:
        """Whether the test moves the time itself."""
        return self._now_s is not None

    def of_pods(self) -> float:
        """Return the time in seconds for what is remembered of pods."""
        return next(self._hours) * _HOUR_S if self._now_s is None else self._now_s

    def of_plugins(self) -> float:
        """Return the time in seconds for the time limits and breakers of plugins."""
        return time.monotonic() if self._now_s is None else self._now_s

    def move(self, seconds: float) -> None:
        """Let time pass, and from now on only so."""
        if self._now_s is None:
            self._now_s = max(time.monotonic(), next(self._hours) * _HOUR_S)
        self._now_s += seconds


class Runner:
    """Runs plugins on the nodes and pods of a test, and remembers what was bound.

    By default each call comes an hour after the last one. After the first call of ``pass_time``,
    time passes only by ``pass_time``, and each change of nodes, pods and objects makes kubextend
    look again at the pods that filters rejected, as in a cluster.

    Args:
        plugins: the plugins in their order, at every point that they extend.
        nodes: nodes in any form that ``make_nodes`` takes.
        pods: the existing pods; a bound pod has a ``node_name``.
        args: Args by plugin name, as in ``pluginConfig``, for plugins given as classes.
        weights: weights of scores by plugin name; 1 where none is given.
        kubernetes_client: the client that a plugin finds as ``handle.kubernetes_client``.
        binder: binds a pod if no Bind plugin does; by default the runner only records the binding.

    Attributes:
        handle: the Handle that plugins given as classes get.
        verbs: the verbs (filter, prioritize, preempt and bind) that the runner calls.
        bindings: the record of the node of each bound pod, by UID.
        activations: the record of the pods that were activated.
        events: the Events that plugins wrote.
    """

    def __init__(
        self,
        *plugins: PluginLike,
        nodes: NodesLike = 3,
        pods: Iterable[PodLike] = (),
        args: Mapping[str, Mapping[str, Any]] | None = None,
        weights: Mapping[str, int] | None = None,
        kubernetes_client: Any = None,
        binder: Binder | None = None,
    ) -> None:
        manifests = manifests_of_nodes(nodes)
        self.node_names = [manifest["metadata"]["name"] for manifest in manifests]
        parts = kept_parts(plugins)
        self._nodes = ListedNodes(node_store(manifests, parts))
        self._pods = ListedPods(pod_store((pod_manifest_of(pod) for pod in pods), parts))
        self._objects = ListedObjects(
            name for plugin in plugins for name in getattr(plugin, "informers", ())
        )
        self._recorded = RecordedEvents()
        self.events = self._recorded.written
        self.bindings = Bindings()
        self.activations = Activations()
        self.waiting_pods = WaitingPods()
        # As in production, pods are watched where a plugin says that it needs them.
        needed = any(getattr(plugin, "needs_pods", False) for plugin in plugins)
        cluster = ClusterPorts(
            nodes=self._nodes,
            pods=self._pods if needed else None,
            pod_reader=self._pods,
            binder=binder or self.bindings,
            activator=self.activations,
            informers=self._objects,
            events=self._recorded,
            kubernetes_client=lambda: kubernetes_client,
        )
        self.handle = Handle(self.waiting_pods, cluster)
        self.plugins = [
            made(plugin, (args or {}).get(plugin.name), self.handle) for plugin in plugins
        ]
        self._clock = _Clock()
        metrics, settings = Metrics(), ExtenderSettings()
        memory = Memory.of(
            cluster,
            metrics,
            look_again_s=settings.http_timeout_s,
            waiting_pods=self.waiting_pods,
            limits=PluginLimits(self._clock.of_plugins),
            clock=self._clock.of_pods,
        )
        profiles = _Everyones.of([_profile(self.plugins, weights or {}, self.handle)])
        self.verbs = Verbs(Context(profiles, memory, cluster, settings, metrics))

    def filter(self, pod: PodLike, nodes: Sequence[str] | None = None) -> FilterResult:
        """Run PreFilter, Filter and, if no node passes, PostFilter; return each node's result.

        Args:
            pod: the pod to place.
            nodes: names of the nodes to ask about; None: all.

        Raises: PluginError: a plugin failed.
        """
        with _failures_raised():
            answer = json.loads(bytes(self.verbs.filter(self._request(pod, nodes))))
        unresolvable = answer["FailedAndUnresolvableNodes"] or {}
        rejected = (answer["FailedNodes"] or {}) | unresolvable
        kept = tuple(answer["NodeNames"] or ())
        return FilterResult(kept, rejected, frozenset(unresolvable), answer["Error"])

    def prioritize(self, pod: PodLike, nodes: Sequence[str] | None = None) -> dict[str, int]:
        """Run PreScore, Score and NormalizeScore; return the points of each node, by node name.

        Raises: PluginError: a plugin failed.
        """
        with _failures_raised():
            answer = json.loads(bytes(self.verbs.prioritize(self._request(pod, nodes))))
        return {host["Host"]: host["Score"] for host in answer or ()}

    def preempt(self, pod: PodLike, victims: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """Run the preempt verb; return UIDs of victims by name of each node that may be preempted.

        Args:
            pod: the pod to place.
            victims: UIDs by node, as kube-scheduler proposes them.

        Raises: PluginError: a plugin failed.
        """
        proposed = {
            node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0}
            for node, uids in victims.items()
        }
        body = {
            "Pod": pod_manifest_of(pod),
            "NodeNameToVictims": None,
            "NodeNameToMetaVictims": proposed,
        }
        with _failures_raised():
            answer = json.loads(bytes(self.verbs.preempt(json.dumps(body).encode())))
        return {
            node: [victim["UID"] for victim in left["Pods"]]
            for node, left in answer["NodeNameToMetaVictims"].items()
        }

    def bind(self, pod: PodLike, node: str) -> BindResult:
        """Run the binding cycle of one pod, from Reserve to PostBind, and return its result.

        Raises: PluginError: a plugin failed; Unreserve of every plugin has run.
        """
        return asyncio.run(self.binding(pod, node))

    async def binding(self, pod: PodLike, node: str) -> BindResult:
        """Run the binding cycle of one pod, from Reserve to PostBind, as a coroutine.

        While Permit plugins hold the pod, the runner's ``waiting_pods`` contains the pod.

        Raises: PluginError: a plugin failed; Unreserve of every plugin has run.
        """
        manifest = pod_manifest_of(pod)
        self._seen("ADDED", manifest)
        metadata = manifest["metadata"]
        body = {
            "PodName": metadata["name"],
            "PodNamespace": metadata["namespace"],
            "PodUID": metadata["uid"],
            "Node": node,
        }
        with _failures_raised():
            answer = json.loads(bytes(await self.verbs.bind(json.dumps(body).encode())))
        result = BindResult(node, answer["Error"])
        if result.bound:
            spec = {**manifest.get("spec", {}), "nodeName": node}
            self._seen("MODIFIED", {**manifest, "spec": spec})
        return result

    async def held(self, pod: PodLike, timeout_s: float = 5.0) -> HeldPod:
        """Wait until Permit plugins hold the pod, and return the held pod.

        Call this while a task runs ``binding`` for the pod.

        Raises: TimeoutError: no plugin holds the pod.
        """
        uid = pod_manifest_of(pod)["metadata"]["uid"]
        async with asyncio.timeout(timeout_s):
            while (held := self.waiting_pods.get(uid)) is None:  # noqa: ASYNC110  nobody is told
                await asyncio.sleep(_POLL_S)
        return held

    def schedule(self, pod: PodLike) -> str | None:
        """Run filter, prioritize and bind for a pod; return the node it is bound to, or None.

        Of nodes with equal points the runner takes the first, where kube-scheduler would choose one
        at random.

        Raises: PluginError: a plugin failed.
        """
        kept = self.filter(pod).kept
        if not kept:
            return None
        points = self.prioritize(pod, kept) if len(kept) > 1 else {}
        best = max(kept, key=lambda name: points.get(name, 0))
        return best if self.bind(pod, best).bound else None

    def put(self, resource: str, manifest: Manifest) -> None:
        """Create or change an object, as an event of the watch would.

        The functions of ``on_change`` run before this method returns.

        Args:
            resource: the name of the resource, as in a plugin's ``informers``.
            manifest: the object, with ``metadata.name``.

        Raises:
            KeyError: no plugin of the runner has the resource in its ``informers``.
            PluginError: a plugin's function of ``on_change`` or of an index raised.
        """
        self._objects.apply("MODIFIED", resource, manifest)
        self._changed()

    def remove(self, resource: str, manifest: Manifest) -> None:
        """Delete an object of an informer, as an event of the watch would.

        Args:
            resource: the name of the resource, as in a plugin's ``informers``.
            manifest: the object; only its names matter.
        """
        self._objects.apply("DELETED", resource, manifest)
        self._changed()

    def put_nodes(self, nodes: NodesLike) -> None:
        """Add nodes, or change those of the same names, as events of the watch would.

        Args:
            nodes: nodes in any form that ``make_nodes`` takes.
        """
        for manifest in manifests_of_nodes(nodes):
            event = json.dumps({"type": "MODIFIED", "object": manifest}).encode()
            self._nodes.store.apply(event)
            name = manifest["metadata"]["name"]
            if name not in self.node_names:
                self.node_names.append(name)
        self._changed()

    def pass_time(self, seconds: float) -> None:
        """Let time pass for breakers and for pods that wait; pods that are due are activated.

        After the first call, time passes by this method alone. The seconds for which Permit holds a
        pod pass by themselves.

        Args:
            seconds: how many seconds pass; 0 only stops the time.
        """
        self._clock.move(seconds)
        self.verbs.wake_due()

    def _changed(self) -> None:
        if self._clock.is_moved:
            self.verbs.nodes_changed()

    def delete(self, pod: PodLike) -> None:
        """Delete the pod from the existing pods, as an event of the watch would."""
        manifest = pod_manifest_of(pod)
        self._seen("DELETED", manifest)
        self.verbs.forget(manifest["metadata"]["uid"])
        self._changed()

    def _request(self, pod: PodLike, nodes: Sequence[str] | None) -> bytes:
        names = self.node_names if nodes is None else list(nodes)
        body = {"Pod": pod_manifest_of(pod), "Nodes": None, "NodeNames": names}
        return json.dumps(body).encode()

    def _seen(self, event: str, manifest: Manifest) -> None:
        self._pods.store.apply(json.dumps({"type": event, "object": manifest}).encode())


def run_filter(
    plugin: PluginLike,
    pod: PodLike,
    nodes: NodesLike = 3,
    *,
    pods: Iterable[PodLike] = (),
    args: Mapping[str, Any] | None = None,
) -> FilterResult:
    """Run the filter verb with one plugin alone, and return the answer.

    Args:
        plugin: a plugin or its class.
        pod: the pod to place.
        nodes: nodes in any form that ``make_nodes`` takes.
        pods: the existing pods; a bound pod has a ``node_name``.
        args: the plugin's Args, if it is given as a class.

    Raises: PluginError: the plugin failed.
    """
    return _alone(plugin, nodes, pods, args).filter(pod)


def run_score(
    plugin: PluginLike,
    pod: PodLike,
    nodes: NodesLike = 3,
    *,
    pods: Iterable[PodLike] = (),
    args: Mapping[str, Any] | None = None,
) -> dict[str, int]:
    """Return the normalised score, 0..100, that a plugin alone gives each node, by node name.

    Args:
        plugin: a plugin or its class.
        pod: the pod to place.
        nodes: nodes in any form that ``make_nodes`` takes.
        pods: the existing pods; a bound pod has a ``node_name``.
        args: the plugin's Args, if it is given as a class.

    Raises: PluginError: the plugin failed.
    """
    return _alone(plugin, nodes, pods, args).prioritize(pod)


def run_binding_cycle(
    plugin: PluginLike,
    pod: PodLike,
    node: str = "node-0",
    nodes: NodesLike = 3,
    *,
    pods: Iterable[PodLike] = (),
    args: Mapping[str, Any] | None = None,
) -> BindResult:
    """Run Reserve to PostBind with one plugin alone, after filtering the node chosen for the pod.

    Args:
        plugin: a plugin or its class.
        pod: the pod to bind.
        node: the name of the chosen node.
        nodes: nodes in any form that ``make_nodes`` takes.
        pods: the existing pods; a bound pod has a ``node_name``.
        args: the plugin's Args, if it is given as a class.

    Raises: PluginError: the plugin failed.
    """
    runner = _alone(plugin, nodes, pods, args)
    runner.filter(pod, [node])
    return runner.bind(pod, node)


def made(
    plugin: PluginLike, args: Mapping[str, Any] | None = None, handle: Handle | None = None
) -> Any:
    """Return a plugin instance unchanged, or make one from a class and its Args.

    The Args are checked as in a configuration file, by the class's pydantic model.

    Raises: ValueError: the Args are not valid, or an instance is given together with Args.
    """
    if not isinstance(plugin, type):
        if args is not None:
            message = f"{plugin.name} is made already: give its class, or no args"
            raise ValueError(message)
        return plugin
    registered = RegisteredPlugin(plugin.name, plugin)  # type: ignore[attr-defined]
    model = registered.args_model
    if args is not None and model is None:
        message = f"{registered.name} takes no arguments"
        raise ValueError(message)
    values = None if model is None else model.model_validate_json(json.dumps(args or {}))
    return registered.make(values, make_handle() if handle is None else handle)


def _alone(
    plugin: PluginLike, nodes: NodesLike, pods: Iterable[PodLike], args: Mapping[str, Any] | None
) -> Runner:
    name = plugin.name
    given = {} if args is None else {name: args}
    return Runner(plugin, nodes=nodes, pods=pods, args=given, weights={name: _EXACT_WEIGHT})


def _profile(plugins: Sequence[Any], weights: Mapping[str, int], handle: Handle) -> Profile:
    def at(point: str) -> list[Any]:
        methods = METHODS_OF_POINT[point]
        return [plugin for plugin in plugins if any(hasattr(plugin, name) for name in methods)]

    return replace(
        Profile.of("default-scheduler", at, weights),
        pods=handle.pods,
        counts_pods=any(getattr(plugin, "needs_pods", False) for plugin in plugins),
    )


class _Failures(logging.Handler):
    """Keeps the plugin errors that verbs log, because the answers of verbs only name the plugin."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[PluginError] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, PluginError):
            self.errors.append(error)


@contextmanager
def _failures_raised() -> Iterator[None]:
    logger = logging.getLogger("kubextend")
    failures = _Failures()
    logger.addHandler(failures)
    try:
        yield
    finally:
        logger.removeHandler(failures)
    if failures.errors:
        raise failures.errors[0]
