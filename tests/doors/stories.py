"""The door of plugin stories: plugins in a cluster of ``kubextend.testing``, and pods of gangs.

``Gang`` is a cluster with a plugin that holds gangs. ``Process`` runs binding cycles on an event
loop that a test takes one pass further, for schedules that a cluster cannot make.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pytest
from tests.doors.clocks import run, skip
from tests.doors.wire import Wire
from tests.doors.wire_plugins import WAIT, Plugin, stop_here

from kubextend import config, core, discovery, testing
from kubextend.framework import CycleState, Handle, Status
from kubextend.framework.handle import ClusterPorts, HeldPod
from kubextend.framework.imports import PluginUnavailableError, class_at
from kubextend.framework.known_plugins import Announcement, KnownPlugins
from kubextend.plugins import Coscheduling
from kubextend.profile import BindingCycle, BindingPlugins, PluginLimits, WaitingPods
from kubextend.testing import paused_time
from kubextend.testing.objects import list_of, pod_of

__all__ = [
    "ABC",
    "DENIED",
    "GIVEN_UP",
    "GONE",
    "GROUP",
    "HELD",
    "MINIMUM",
    "NO_NUMBER",
    "TOO_FEW",
    "WAIT",
    "Gang",
    "Manifest",
    "Other",
    "Plugin",
    "Process",
    "Said",
    "assume",
    "configuration",
    "known_plugins",
    "list_pods",
    "longest_call",
    "member",
    "page_of_metrics",
    "parked",
    "plugin_at",
    "pod_of",
    "run",
    "skip",
    "stop_here",
    "unlabelled",
]

Manifest = Mapping[str, Any]

GROUP: Final = "scheduling.x-k8s.io/pod-group"
MINIMUM: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
GONE: Final = "2026-01-01T00:00:00Z"

TOO_FEW: Final = "pod group has fewer pods than its minimum"
DENIED: Final = "pod group was rejected a moment ago"
NO_NUMBER: Final = "pod of a pod group does not say how many pods are the minimum"
GIVEN_UP: Final = "pod group was rejected because of another of its pods"
HELD: Final = "held by Coscheduling"


def configuration(tree: Mapping[str, Any], *plugins: type) -> config.Configuration:
    """Return the configuration that a file with these fields has, for these plugins."""
    whole = {"apiVersion": "kubextend.dev/v1alpha1", "kind": "ExtenderConfiguration"}
    known = discovery.known_plugins({each.name: each for each in plugins})  # type: ignore[attr-defined]
    return config.parse(
        {key: of for key, of in {**whole, "cluster": {}, **tree}.items() if of is not None},
        known=known,
    )


@contextmanager
def longest_call(seconds: float) -> Iterator[None]:
    """Let a ``testing.Cluster`` wait no longer than these real seconds for a plugin's method."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(paused_time, "_LONGEST_CALL_S", seconds)
        yield


# Pods of gangs.


def member(
    name: str,
    *,
    group: str | None = "g",
    minimum: str | None = "3",
    node: str | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    """Return a pod of the gang ``g`` in the namespace ``ml``, of which three have to run."""
    labels = {} if group is None else {GROUP: group}
    labels |= {} if minimum is None else {MINIMUM: minimum}
    named = {"name": name, "namespace": "ml", "uid": name, "labels": labels}
    return {
        "kind": "Pod",
        "metadata": {**named, "creationTimestamp": "2099-01-01T00:00:00Z", **metadata},
        "spec": {} if node is None else {"nodeName": node},
        "status": {"phase": "Pending"},
    }


ABC: Final = tuple(member(name) for name in "abc")


def parked(name: str, **more: Any) -> dict[str, Any]:
    """Return a pod that kube-scheduler called unschedulable."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return member(name, **more) | {"status": {"phase": "Pending", "conditions": [condition]}}


def unlabelled(name: str = "large", **more: Any) -> dict[str, Any]:
    """Return a pod with more labels than kubextend keeps."""
    return member(name, labels={f"k{number}": "v" for number in range(5000)}, **more)


class Other:
    """A plugin beside those of a gang, whose answers a test gives by method and pod.

    Attributes:
        says: answers, such as ``{"permit a": Status.success()}``; else None.
        calls: the methods and pods of its calls, in order.
    """

    name = "Other"

    def __init__(self, says: Mapping[str, Any] | None = None) -> None:
        self.says = dict(says or {})
        self.calls: list[str] = []
        self._doors: dict[str, asyncio.Event] = {}

    def close(self, *calls: str) -> None:
        """Let calls such as ``permit a`` wait until ``open``."""
        self._doors |= {each: asyncio.Event() for each in calls}

    def open(self, *calls: str) -> None:
        for each in calls:
            self._doors.pop(each).set()

    async def reserve(self, _state: CycleState, pod: core.Pod, _node: str) -> Any:
        return await self._called(f"reserve {pod.name}")

    async def unreserve(self, _state: CycleState, pod: core.Pod, _node: str) -> None:
        await self._called(f"unreserve {pod.name}")

    async def permit(self, _state: CycleState, pod: core.Pod, _node: str) -> Any:
        return await self._called(f"permit {pod.name}")

    async def pre_bind(self, _state: CycleState, pod: core.Pod, _node: str) -> Any:
        return await self._called(f"pre_bind {pod.name}")

    async def _called(self, call: str) -> Any:
        self.calls.append(call)
        if door := self._doors.get(call):
            await door.wait()
        return self.says.get(call)


class Said(Plugin):
    """A plugin that records its calls in ``diary``, and returns or raises what a test says."""

    def __init__(self, name: str, diary: list[str], **says: Any) -> None:
        def method(called: str, answer: Any) -> Any:
            def call(*_: Any) -> Any:
                diary.append(f"{name}.{called}")
                if isinstance(answer, BaseException):
                    raise answer
                return answer

            return call

        super().__init__(name, **{called: method(called, says[called]) for called in says})


class _Watched:
    """The Handle of a plugin, which records what the plugin asks for."""

    def __init__(self, handle: Handle, of: "Gang") -> None:
        self._handle, self._of = handle, of

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)

    @property
    def configuration(self) -> Any:
        return self._of.configuration

    def activate(self, pods: Iterable[core.Pod]) -> None:
        self._of.woken += sorted(pod.name for pod in pods)

    def labelled_pods(self, *arguments: Any) -> Any:
        self._of.lists += 1
        return self._handle.labelled_pods(*arguments)


class Gang:
    """A cluster with a node ``n``, Coscheduling, another plugin after it, and the watched pods.

    Attributes:
        other: the other plugin.
        woken: the names of the pods that Coscheduling activated.
        lists: how often Coscheduling listed pods by label.
        cluster: the cluster.
        plugin: the instance of Coscheduling.
    """

    def __init__(
        self, *pods: Manifest, says: Mapping[str, Any] | None = None, queue: Any = None, **args: Any
    ) -> None:
        self.woken: list[str] = []
        self.lists = 0
        self.other, self.configuration = Other(says), queue
        gang = self

        class OnTheClock(Coscheduling):
            def __init__(self, args: Coscheduling.Args, handle: Handle) -> None:
                watched: Any = _Watched(handle, gang)
                super().__init__(args, watched, clock=lambda: gang.cluster.now_s)

        self.cluster = testing.Cluster(
            OnTheClock,
            self.other,
            nodes=[testing.node_manifest("n", allocatable={"pods": "9999"})],
            pods=pods,
            args={"Coscheduling": args},
        )
        self.plugin: Any = self.cluster.plugins[0]
        self._watched = {each["metadata"]["uid"]: each for each in pods}

    def watch(self, *pods: Manifest) -> None:
        """Have the watch show these pods, and that all others are deleted."""
        now = {each["metadata"]["uid"]: each for each in pods}
        gone = [each for uid, each in self._watched.items() if uid not in now]
        self.cluster.delete(*gone)
        self.cluster.add(*pods)
        self._watched = now

    def pre_filter(self, of: Manifest) -> str:
        """Return why PreFilter rejects a pod; empty if it does not."""
        said = self.plugin.pre_filter(CycleState(), pod_of(of), core.NodeStore().nodes())
        return "" if said is None else str(said.reason)

    def pre_enqueue(self, of: Manifest) -> str:
        """Return why the queue holds a pod back; empty if it does not."""
        said = self.plugin.pre_enqueue(pod_of(of))
        return "" if said is None else str(said.reason)

    def fits_nowhere(self, of: Manifest) -> str:
        """Call PostFilter, and return what it says."""
        said = self.plugin.post_filter(CycleState(), pod_of(of), [])
        self.cluster.advance()
        return str(said.reason)

    def bind(self, *pods: Manifest) -> list[str]:
        """Let kube-scheduler bind pods, one after the other, and return their states after that."""
        for each in pods:
            self._watched.setdefault(each["metadata"]["uid"], each)
            self.cluster.bind(each, "n")
        return self.states(*pods)

    def states(self, *pods: Manifest) -> list[str]:
        """Return for each pod ``bound``, ``held by PLUGINS``, ``busy``, or why it is not bound."""
        self.cluster.advance()
        return [self._state(each) for each in pods]

    def reject(self, of: Manifest, by: str = "test") -> None:
        """Reject a pod that Permit holds."""
        assert self.cluster.held(of).reject(by, "no")
        self.cluster.advance()

    def allow(self, of: Manifest, by: str = "Other") -> None:
        """Allow a pod that Permit holds, for one plugin."""
        assert self.cluster.held(of).allow(by)
        self.cluster.advance()

    def open(self, *calls: str) -> None:
        """Let calls of the other plugin go on."""
        self.other.open(*calls)
        self.cluster.advance()

    def advance(self, seconds: float) -> None:
        self.cluster.advance(seconds)

    @property
    def bound(self) -> list[str]:
        return sorted(self.cluster.bindings.nodes)

    def _state(self, of: Manifest) -> str:
        outcome = self.cluster.outcome(of)
        if outcome.node is not None:
            return "bound"
        if outcome.waiting:
            return f"held by {', '.join(outcome.waiting)}"
        return outcome.error if outcome.answered else "busy"


class Process:
    """One process with Coscheduling and its watched pods, which runs binding cycles of a test.

    Args:
        now: the time of the plugin in seconds.
        activate: is given the pods that the plugin activates.
        args: Args of Coscheduling.

    Attributes:
        plugin: the plugin.
        store: the watched pods.
    """

    synced = True

    def __init__(
        self,
        now: Callable[[], float],
        activate: Callable[[Iterable[core.Pod]], None] = lambda _: None,
        **args: Any,
    ) -> None:
        self.store = core.PodStore()
        self._waiting, self._limits = WaitingPods(), PluginLimits()
        self.activate = activate
        handle = Handle(self._waiting, ClusterPorts(pods=self, activator=self))
        self.plugin = Coscheduling(Coscheduling.Args.model_validate(args), handle, clock=now)
        self._cycles: dict[str, BindingCycle] = {}

    def list(self, pods: Iterable[Manifest]) -> None:
        """Have a list of the API show these pods and no others."""
        body = {"metadata": {"resourceVersion": "1"}, "items": [*pods]}
        self.store.replace(json.dumps(body).encode())

    def show(self, event: str, of: Manifest) -> None:
        self.store.apply(json.dumps({"type": event, "object": of}).encode())

    def pre_filter(self, of: Manifest) -> str:
        """Return why PreFilter rejects a pod; empty if it does not."""
        said = self.plugin.pre_filter(CycleState(), pod_of(of), core.NodeStore().nodes())
        return "" if said is None else said.reason

    def held(self, uid: str) -> HeldPod | None:
        return self._waiting.get(uid)

    def is_sent_back(self, uid: str) -> bool:
        """Return whether the pod is rejected, though its binding cycle may not have gone on."""
        held = self._waiting.get(uid)
        return held is not None and held.rejected

    def reject(self, uid: str, by: str = "test") -> bool:
        return self._waiting.reject(uid, by, "no")

    def lose_node(self, uid: str) -> None:
        """Tell the binding cycle of a pod that its node is deleted."""
        self._cycles[uid].lose_node("the node is deleted")

    async def bind(  # noqa: PLR0913  all but two by name
        self,
        of: Manifest,
        bind: Callable[[], Awaitable[None]],
        *,
        reserve: Sequence[Any] = (),
        permit: Sequence[Any] = (),
        pre_bind: Sequence[Any] = (),
        post_bind: bool = True,
        why_not_there: Callable[[], str] = lambda: "",
    ) -> Status:
        """Run the binding cycle of a pod to the node ``n``, with further plugins.

        Args:
            permit: all plugins of Permit; Coscheduling alone by default.
            post_bind: whether Coscheduling has its PostBind.

        Raises: ClusterError: ``bind`` raised it.
        """
        pod = pod_of(of)
        plugins = BindingPlugins(
            reserve=[self.plugin, *reserve],
            permit=permit or [self.plugin],
            pre_bind=[self.plugin, *pre_bind],
            post_bind=[self.plugin] if post_bind else [],
        )
        self.store.assume(pod, "n")
        bound = False

        async def default_bind() -> None:
            nonlocal bound
            await bind()
            bound = True

        cycle = self._cycles[pod.uid] = BindingCycle(
            *(plugins, CycleState(), pod, "n", self._waiting, default_bind, self._limits),
            why_not_there=why_not_there,
        )
        try:
            return await cycle.run()
        finally:
            if not bound:
                self.store.forget(pod.uid)


def page_of_metrics(server: Wire) -> str:
    """Return what ``/metrics`` of a server says."""
    return server.metrics.render()[0].decode()


def plugin_at(reference: str) -> tuple[str, str]:
    """Return why ``package.module:Class`` leads to no plugin, and the remedy; both may be empty."""
    try:
        class_at(reference)
    except PluginUnavailableError as error:
        return error.message, error.hint
    return "", ""


def known_plugins(
    *announced: tuple[str, str, str], bundled: Mapping[str, Any] | None = None
) -> KnownPlugins:
    """Return the plugins that packages announce by name, reference and source, and bundled ones."""
    known = KnownPlugins.of(bundled or {}, "kubextend")
    return known.with_announced([Announcement(*each) for each in announced])


def list_pods(server: Wire, pods: Iterable[Manifest]) -> None:
    """Have a list of the API show these pods and no others."""
    server.pods.store.replace(list_of("Pod", pods))


def assume(server: Wire, of: Manifest, node: str) -> None:
    """Count a pod on a node to which it was bound, though the watch has yet to show that."""
    server.pods.store.assume(pod_of(of), node)
