"""The wire door: kubextend's ASGI application in memory, called as kube-scheduler calls it.

A ``Wire`` builds the application of the verbs from plugins, settings and stand-ins for the cluster,
as ``kubextend serve`` does, and sends it requests. Time stands still, and passes in ``Wire.skip``
alone: no test waits for anything but threads that work.
"""

import asyncio
import time
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from types import MethodType
from typing import Any, Final, TypeVar

from tests.doors import extender
from tests.doors.still_time import AT_MOST_S, Clock, Loop, passes, time_of
from tests.doors.wire_building import Options, build, configuration
from tests.doors.wire_parts import (
    NOT_LEADER,
    Activator,
    Answer,
    Binder,
    Leader,
    Manifest,
    Nodes,
    Objects,
    Pods,
    bind_request,
    grouped,
    names_request,
    node,
    nominated,
    pod,
    preempt_request,
    uid_of,
    whole_preempt_request,
    whole_request,
)
from tests.doors.wire_plugins import (
    WAIT,
    Hang,
    Plugin,
    Rejects,
    Steps,
    answers,
    needs,
    raises,
    rejects,
    scores,
)

from kubextend import core
from kubextend.app import App
from kubextend.framework.handle import MAX_POD_BYTES, ClusterPorts, HeldPod
from kubextend.testing.objects import list_of
from kubextend.testing.stand_ins import RecordedEvents

__all__ = [
    "NOT_LEADER",
    "TOKEN",
    "WAIT",
    "Activator",
    "Answer",
    "Binder",
    "Call",
    "Clock",
    "Hang",
    "Leader",
    "Manifest",
    "Plugin",
    "Rejects",
    "Steps",
    "Wire",
    "answers",
    "bind_request",
    "grouped",
    "names_request",
    "needs",
    "node",
    "nominated",
    "pod",
    "preempt_request",
    "raises",
    "rejects",
    "scores",
    "uid_of",
    "whole_preempt_request",
    "whole_request",
]

_T = TypeVar("_T")
Names = Sequence[str] | None
Whole = Iterable[Manifest] | None

TOKEN: Final = "a-token-of-the-tests"
"""The bearer token with which a Wire reads decisions, and decides on waiting pods."""

_SHORTEST_STEP_S: Final = 1.0
_A_MINUTE_S: Final = 60.0
_MOST_MINUTES: Final = 20
_TURN_OF_THREADS_S: Final = 0.0002
_LOOKS: Final = 4

# The times that pass by themselves, for a test that fails.
_REAL_S: Final = time.monotonic


class Call:
    """A request to a Wire; its answer may still be open."""

    def __init__(self, wire: "Wire", path: str, *body: bytes, **headers: str) -> None:
        self._wire = weakref.proxy(wire)
        method = "POST" if body else "GET"
        whole = f"{wire.config.server.path.rstrip('/')}{path}"
        self._call = extender.Call(
            wire.asgi, whole, *body, method=method, loop=wire.loop, **headers
        )

    @property
    def done(self) -> bool:
        return self._call.is_over

    def answer(self) -> Answer:
        """Wait for threads that work, while time stands still, and return the answer."""
        answer: Answer = self._wire.run(self._call.answer())
        return answer

    def send(self, rest: bytes) -> None:
        """Send the rest of a body whose ``Content-Length`` was more than came with the head."""
        self._call.send(rest)
        self._wire.settle()

    def leave(self) -> None:
        """Let the client disconnect, as kube-scheduler does after its timeout."""
        self._call.leave()
        self._wire.settle()


class Wire:
    """The application of some plugins, for one kube-scheduler, in a cluster of stand-ins.

    Args:
        plugins: plugins in their order, at every point that they extend: instances or classes.
        nodes: the watched nodes, as manifests or names.
        pods: the pods, as manifests; watched where the plugins need pods, as on a server.
        profiles: plugins by schedulerName, in place of ``plugins``.
        weights, args: weights of scores, and Args, by plugin name.
        ignored: names of the plugins with ``failurePolicy: Ignore``.
        settings: values of the configuration by path, such as ``{"extender.httpTimeout": "5s"}``.
        leader: the election of a leader; None: none is elected.
        clock: the time; two replicas may share one.
        objects: the objects of informers by resource.
        started: whether plugins with a ``start`` are started; see ``start``.
        cluster: whether the server has access to the Kubernetes API.

    Attributes:
        activator: records which pods kube-scheduler is to try again.
        events: the Events that plugins wrote.
        nodes, pods, objects: what the watches show.
        verbs, metrics, loop, asgi: for this module alone.
    """

    def __init__(  # noqa: PLR0913  all but the plugins by name
        self,
        *plugins: Any,
        nodes: Iterable[Manifest | str] = (),
        pods: Iterable[Manifest] = (),
        profiles: Mapping[str, Sequence[Any]] | None = None,
        weights: Mapping[str, int] | None = None,
        args: Mapping[str, Mapping[str, Any]] | None = None,
        ignored: Iterable[str] = (),
        settings: Mapping[str, Any] | None = None,
        leader: Leader | None = None,
        binder: Binder | None = None,
        clock: Clock | None = None,
        objects: Mapping[str, Iterable[Manifest]] | None = None,
        started: bool = True,
        cluster: bool = True,
    ) -> None:
        by_scheduler = profiles or {"default-scheduler": plugins}
        options = Options(weights or {}, args or {}, frozenset(ignored))
        self.config = configuration(by_scheduler, options, settings or {}, cluster=cluster)
        self.clock = clock or Clock()
        self.leader, self.binder, self.activator = leader, binder or Binder(), Activator()
        listed = [node(each) if isinstance(each, str) else each for each in nodes]
        self.nodes = Nodes(core.NodeStore(**self.config.kept_parts))
        self.nodes.store.replace(list_of("Node", listed))
        self._names = [each["metadata"]["name"] for each in listed]
        store = core.PodStore(max_pod_bytes=MAX_POD_BYTES, **self.config.kept_parts)
        self.pods = Pods(store)
        store.replace(list_of("Pod", pods))
        sink = RecordedEvents()
        self.events = sink.written
        self.objects = Objects(self.config.informers)
        self.loop = Loop(self.clock)
        ports = ClusterPorts(
            nodes=self.nodes,
            pods=self.pods if self.config.needs_pods else None,
            pod_reader=self.pods,
            binder=self.binder,
            activator=self.activator,
            leader=leader,
            informers=self.objects,
            events=sink,
        )
        self._app, self.metrics = build(self.config, ports if cluster else None, self.clock)
        self.verbs, self.asgi = self._app.verbs, self._app.asgi
        weakref.finalize(self, _end, self.clock, self.loop, self._app, self.metrics.pools)
        for resource, items in (objects or {}).items():
            for item in items:
                self.objects.apply("ADDED", resource, item)
        if started:
            self.start()

    # What kube-scheduler does.

    def filter(self, of: Manifest, names: Names = None, *, whole: Whole = None) -> Answer:
        """Call filter about nodes by name, all watched ones by default, or about whole nodes."""
        return self.post("/filter", self._nodes_request(of, names, whole))

    def prioritize(self, of: Manifest, names: Names = None, *, whole: Whole = None) -> Answer:
        """Call prioritize about nodes by name, all watched ones by default, or whole nodes."""
        return self.post("/prioritize", self._nodes_request(of, names, whole))

    def preempt(self, of: Manifest, victims: Mapping[str, Sequence[str]]) -> Answer:
        """Call preempt about UIDs of victims by node."""
        return self.post("/preempt", preempt_request(of, victims))

    def bind(self, of: Manifest, to: str) -> Answer:
        """Call bind, and wait for the answer while time stands still."""
        return self.post("/bind", bind_request(of, to))

    def post(self, path: str, body: bytes, **headers: str) -> Answer:
        """Send a request and return its answer; ``content_type`` replaces the usual header."""
        return Call(self, path, body, **headers).answer()

    def get(self, path: str, *, token: str = TOKEN) -> Answer:
        """Read what people may read, such as ``/decisions?pod=ml/p``."""
        return Call(self, path, authorization=f"Bearer {token}").answer()

    def begin(self, path: str, body: bytes, **headers: str) -> Call:
        """Send a request, and let happen what can happen at this moment; see ``settle``."""
        call = Call(self, path, body, **headers)
        self.settle()
        return call

    def begin_bind(self, of: Manifest, to: str) -> Call:
        """Call bind, and return the call, whose answer may be open: Permit may hold the pod."""
        return self.begin("/bind", bind_request(of, to))

    # What happens in the cluster.

    def show_node(self, *manifests: Manifest) -> None:
        """Have the watch show new or changed nodes."""
        for manifest in manifests:
            name = manifest["metadata"]["name"]
            is_new = name not in self._names
            self._names += [name] if is_new else []
            self.nodes.show(manifest, "ADDED" if is_new else "MODIFIED")
        self.changed()

    def change_in_the_watch(self, manifest: Manifest) -> None:
        """Have the watch show a node, in the middle of a plugin's method."""
        self.nodes.show(manifest, "MODIFIED")
        self.verbs.nodes_changed()

    def gone_node(self, name: str) -> None:
        """Have the watch show that a node is deleted."""
        self.delete_node_in_the_watch(name)
        self.changed()

    def delete_node_in_the_watch(self, name: str) -> None:
        """Have the watch show that a node is deleted, in the middle of a plugin's method."""
        self._names.remove(name)
        self.nodes.show(node(name), "DELETED")
        self.verbs.bind.node_deleted(name)

    def list_nodes(self, *manifests: Manifest) -> None:
        """Have the watch break off, and a list show these nodes."""
        self._names = [each["metadata"]["name"] for each in manifests]
        self.nodes.store.replace(list_of("Node", manifests))
        self._call(self.verbs.bind.nodes_listed)
        self.changed()

    def show_pod(self, *manifests: Manifest) -> None:
        """Have the watch show new or changed pods."""
        for manifest in manifests:
            is_new = self.pods.store.get(uid_of(manifest)) is None
            self.pods.show(manifest, "ADDED" if is_new else "MODIFIED")
            if manifest["spec"].get("nodeName"):
                self._call(self.verbs.forget, uid_of(manifest))
        self.changed()

    def show_bound(self, of: Manifest, to: str) -> None:
        """Have the watch show a pod on a node."""
        self.show_pod({**of, "spec": {**of["spec"], "nodeName": to}})

    def gone_pod(self, of: Manifest) -> None:
        """Have the watch show that a pod is deleted."""
        self.delete_in_the_watch(of)
        self.changed()

    def delete_in_the_watch(self, of: Manifest) -> None:
        """Have the watch show that a pod is deleted, in the middle of a plugin's method."""
        self.pods.show(of, "DELETED")
        self.verbs.pod_deleted(uid_of(of))

    def changed(self) -> None:
        """Let the verbs hear that watched objects have changed."""
        self.objects.call_handlers()
        self._call(self.verbs.nodes_changed)

    def lose(self) -> None:
        """Let this replica lose its lead."""
        assert self.leader is not None
        self.leader.leads = False
        self._call(self.verbs.cease_to_lead, NOT_LEADER)

    def win(self) -> None:
        """Let this replica win a further term."""
        assert self.leader is not None
        self.leader.leads = True
        self.leader.term += 1

    def shut_down(self) -> None:
        """Let the server begin to end, as after SIGTERM."""
        self._call(self._app.health.shut_down)

    # Time, threads and what operators see.

    def start(self) -> None:
        """Begin to start the plugins; starts that fail are repeated as time passes."""
        self.loop.create_task(self._app.start())
        self.settle()

    def skip(self, seconds: float) -> None:
        """Let time pass in at most 30 steps, with timers and the waking of pods that are due."""
        end_s = self.clock.now_s + seconds
        step_s = max(_SHORTEST_STEP_S, seconds / 30)
        while self.clock.now_s < end_s:
            self.clock.now_s = min(self.clock.now_s + step_s, end_s)
            self.settle()
            self.wake_due()

    def wake_due(self) -> None:
        """Do what the server does each second: make kube-scheduler try pods again that are due."""
        self._call(self.verbs.wake_due)

    def settle(self) -> None:
        """Let happen what can happen at this moment, but for threads that the test stops."""
        with time_of(self.clock):
            self.run(passes())
            looks = 0
            while asyncio.all_tasks(self.loop) and looks < _LOOKS:
                looks = looks + 1 if self.metrics.is_idle() else 0
                time.sleep(_TURN_OF_THREADS_S)
                self.run(passes())

    def until(self, fulfilled: Callable[[], object]) -> None:
        """Wait until threads have made something true, while time stands still."""
        late_s = _REAL_S() + AT_MOST_S
        with time_of(self.clock):
            while not fulfilled():
                assert _REAL_S() < late_s, f"not true after {AT_MOST_S:g} s"
                time.sleep(_TURN_OF_THREADS_S)
                self.run(passes())

    def run(self, work: Coroutine[Any, Any, _T] | asyncio.Task[_T]) -> _T:
        """Run a coroutine on the loop of the application, while time stands still."""
        with time_of(self.clock):
            return self.loop.run_until_complete(work)

    def metric(self, name: str, **labels: str) -> float:
        """Return the value of a metric of ``/metrics``; 0 where nothing was counted.

        Raises: KeyError: no metric has this name.
        """
        return self.metrics.value(name, **labels)

    def held(self, of: Manifest) -> HeldPod | None:
        """Return a pod that Permit holds, with ``allow`` and ``reject``; None: no plugin does."""
        return self.verbs.waiting_pods.get(uid_of(of))

    def wait_until_held(self, *pods: Manifest) -> None:
        """Wait until Permit holds pods whose binds have begun."""
        self.until(lambda: all(map(self.held, pods)))

    def assumed(self) -> dict[str, str]:
        """Return the nodes of the pods whose binding the watch has still to show, by pod name."""
        return {each.name: at for each, at in self.pods.store.assumed()}

    def decision(self, of: Manifest) -> Any:
        """Return what ``kubextend why`` reads about a pod."""
        return self.get(f"/decisions?pod={uid_of(of)}").json

    def _call(self, work: Callable[..., object], *args: object) -> None:
        """Call what watches call from their threads, and let happen what follows."""
        with time_of(self.clock):
            work(*args)
        self.settle()

    def _nodes_request(self, of: Manifest, names: Names, whole: Whole) -> bytes:
        if whole is not None:
            return whole_request(of, whole)
        return names_request(of, self._names if names is None else names)


def _end(clock: Clock, loop: Loop, of: App, pools: list[MethodType]) -> None:
    """Cancel what a Wire left open, let all its deadlines pass, and end its idle threads."""
    # Python may collect a Wire while this thread runs another loop.
    with suppress(RuntimeError):
        for _ in range(_MOST_MINUTES):
            if not (tasks := asyncio.all_tasks(loop)):
                break
            for task in tasks:
                task.cancel()
            clock.now_s += _A_MINUTE_S
            with closing(passes()) as work:
                loop.run_until_complete(work)
    loop.close()
    of.verbs.limits.stop()
    for use in pools:
        use.__self__.stop()
