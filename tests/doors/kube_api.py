"""The door of the Kubernetes API: a scripted API on loopback, and kubextend at work on it.

What the API server sees is in ``ScriptedApi``: requests, their times, Bindings, Events, patches.
The time is that of ``clocks``: inside of ``skipping``, waits of minutes pass at once, with the
longest jitter. This module alone knows which of kubextend's classes does what.
"""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.doors.clocks import (
    AT_MOST_S,
    SkippingLoop,
    SkippingTime,
    now,
    run,
    skip,
    skipping,
    until,
)
from tests.doors.configurations import HEAD, write_kubeconfig
from tests.doors.scripted_api import ScriptedApi
from tests.doors.scripted_requests import (
    Request,
    answering,
    erring_event,
    garbled,
    gone_event,
    lost_answer,
    lost_answer_of_lease,
    lost_request,
    refusing,
    status_of,
)

from kubextend import app, cluster, config
from kubextend.cluster import (
    Activator,
    Binder,
    Election,
    EventRecorder,
    LeaseName,
    PodReader,
    WaitingPodMarker,
    connect,
    follow_nodes,
    follow_pending_pods,
    follow_pods,
)
from kubextend.core import NodeStore, PodStore
from kubextend.discovery import known_plugins
from kubextend.framework.events import PluginEvent, Regarding
from kubextend.framework.informer import Owner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from kubextend.core import Pod

__all__ = [
    "AT_MOST_S",
    "Binds",
    "Candidate",
    "Follower",
    "Held",
    "Outbox",
    "Request",
    "Running",
    "ScriptedApi",
    "SkippingLoop",
    "SkippingTime",
    "answering",
    "configuration",
    "connect",
    "erring_event",
    "following",
    "garbled",
    "gone_event",
    "lost_answer",
    "lost_answer_of_lease",
    "lost_request",
    "now",
    "pod",
    "read_pod",
    "refusing",
    "run",
    "running",
    "scripted",
    "skip",
    "skipping",
    "status_of",
    "until",
    "write_kubeconfig",
]


@contextmanager
def scripted() -> Iterator[ScriptedApi]:
    """Serve a Kubernetes API on loopback until the block ends."""
    api = ScriptedApi()
    api.up()
    try:
        yield api
    finally:
        api.down()


class Held:
    """A fault of ``ScriptedApi``: requests get no answer before the test sets ``go_on``."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def __call__(self, request: Request) -> bool:
        del request
        self.go_on.wait()
        return False


def configuration(kubeconfig: Path, *profiles: Any, **sections: Any) -> dict[str, Any]:
    """Return the tree of an ExtenderConfiguration for the cluster of a kubeconfig."""
    return {**HEAD, "cluster": {"kubeconfig": str(kubeconfig)}, "profiles": [*profiles], **sections}


class Follower:
    """The nodes or pods of the API as kubextend keeps them.

    Attributes:
        told: what the rest of kubextend is told, such as ``"deleted uid-1"``, in order.
        awaited: the UIDs of the pods that Permit holds.
        fails: whether those who are told raise an error.
    """

    def __init__(self, kubeconfig: Path, what: str, max_pod_bytes: int = 1 << 20) -> None:
        self.told: list[str] = []
        self.changes: list[list[str]] = []
        self.awaited: set[str] = set()
        self.fails = False
        api = connect(str(kubeconfig))
        self._reflector: Any
        if what == "nodes":
            self._reflector = follow_nodes(
                api,
                NodeStore(),
                self._changed,
                on_deleted=lambda name: self._tell(f"deleted {name}"),
                on_listed=lambda: self._tell(f"listed {' '.join(self.names())}"),
            )
        elif what == "pods":
            self._reflector = follow_pods(
                api,
                PodStore(max_pod_bytes=max_pod_bytes),
                self._changed,
                awaited=lambda: self.awaited,
                on_deleted=lambda uid: self._tell(f"deleted {uid}"),
                on_bound=lambda uid: self._tell(f"bound {uid}"),
            )
        else:
            self._reflector = follow_pending_pods(
                api,
                on_list=lambda pods: self._tell(f"listed {' '.join(pod.name for pod in pods)}"),
                on_pod=lambda pod: self._tell(f"seen {pod.name}"),
                on_gone=lambda uid: self._tell(f"gone {uid}"),
            )

    def start(self) -> None:
        self._reflector.start()

    def stop(self) -> None:
        self._reflector.stop()

    @property
    def synced(self) -> bool:
        return bool(self._reflector.synced)

    @property
    def error(self) -> str:
        """The error of the last list or watch that failed; empty once a watch has succeeded."""
        return self._reflector.last_error or ""

    @property
    def age_s(self) -> float | None:
        """Seconds since the API has sent anything; None: it has not."""
        age_s: float | None = self._reflector.age_s()
        return age_s

    def count(self, what: str) -> int:
        """Return the number of events or failures that is on ``/metrics``."""
        return int(getattr(self._reflector, what))

    def names(self) -> list[str]:
        store = self._reflector.store
        if isinstance(store, NodeStore):
            return sorted(store.nodes().names)
        return sorted(pod.name for pod in store.pods())

    def labels(self, key: str) -> dict[str, str | None]:
        """Return the value of a label of each node."""
        nodes = self._reflector.store.nodes()
        return dict(zip(nodes.names, nodes.labels(key), strict=True))

    def assume(self, uid: str, node: str) -> None:
        """Count a pod on a node, as after a decision; the watch need not have shown the pod."""
        named = f'{{"name":"{uid}","namespace":"default","uid":"{uid}"}}'
        event = f'{{"type":"ADDED","object":{{"metadata":{named}}}}}'.encode()
        pod = self._reflector.store.get(uid) or PodStore().apply(event).pod
        self._reflector.store.assume(pod, node)

    def assumed(self) -> list[str]:
        return [pod.uid for pod, _ in self._reflector.store.assumed()]

    def _changed(self) -> None:
        self.changes.append(self.names())
        if self.fails:
            raise RuntimeError

    def _tell(self, what: str) -> None:
        self.told.append(what)
        if self.fails:
            raise RuntimeError


@contextmanager
def following(kubeconfig: Path, what: str = "nodes", **more: int) -> Iterator[Follower]:
    """Follow ``nodes``, ``pods``, or the pods ``without a node`` until the block ends."""
    made = Follower(kubeconfig, what, **more)
    try:
        yield made
    finally:
        made.stop()


class Binds:
    """Binds pods of the namespace ``default`` as a bind request does."""

    def __init__(self, kubeconfig: Path) -> None:
        self._binder = Binder(connect(str(kubeconfig)))

    def bind(
        self, name: str, uid: str, node: str, *, namespace: str = "default", **more: Any
    ) -> None:
        """Bind a pod; ``more``: ``timeout_s``, ``annotations``, ``why_not`` before each attempt.

        Raises: ClusterError: the pod is not bound, or nobody knows.
        """
        self._binder.bind(namespace, name, uid, node, **more)


def pod(name: str, namespace: str = "default", **metadata: Any) -> Pod:
    """Return a pod as kubextend keeps it; of a pod of more than 4 KiB, it keeps the names only."""
    named = {"name": name, "namespace": namespace, "uid": f"uid-{name}"} | metadata
    event = json.dumps({"type": "ADDED", "object": {"metadata": named}}).encode()
    made = PodStore(max_pod_bytes=4096).apply(event).pod
    assert made is not None
    return made


def read_pod(kubeconfig: Path, namespace: str, name: str) -> Pod | None:
    """Read a pod from the API; return None if there is none. Raises: ClusterError: see there."""
    return PodReader(connect(str(kubeconfig))).get(namespace, name)


class Outbox:
    """What kubextend writes about pods without waiting: wake-ups, marks, Events."""

    def __init__(self, kubeconfig: Path) -> None:
        self._outbox = cluster.Outbox(connect(str(kubeconfig)))
        self._activator = Activator(self._outbox)
        self._marker = WaitingPodMarker(self._outbox)
        self._events = EventRecorder(self._outbox)

    def stop(self) -> None:
        self._outbox.stop()

    def wake(self, *pods: Pod) -> None:
        """Ask kube-scheduler to try pods again."""
        self._activator.activate(pods)

    def hold(self, held: Pod, node: str, *plugins: str) -> None:
        """Mark a pod that Permit plugins hold, for an autoscaler of nodes."""
        self._marker.hold(held, node, plugins)

    def let_go(self, held: Pod) -> None:
        """Say that Permit holds a pod no longer."""
        self._marker.release(held.uid)

    def tell_held(self, held: Pod, node: str, *plugins: str) -> None:
        """Write the Event of a pod that Permit plugins hold."""
        self._events.waiting(held, node, plugins)

    def tell_set_aside(self, gated: Pod, why: str) -> None:
        """Write the Event of a pod whose gate cannot be removed."""
        self._events.set_aside(gated, why)

    def tell(self, about: Any, **said: str) -> None:
        """Write the Event of a plugin ``P``; ``said`` may name another one, or other words."""
        words = {"type": "Warning", "reason": "NoQuota", "action": "Scheduling", "note": "no"}
        words |= said
        owner = Owner(words.pop("plugin", "P"), words.pop("profile", ""))
        kind: Any = words.pop("type")
        self._events.record(PluginEvent(owner, Regarding.of(about), kind, **words))

    def count(self, what: str, result: str) -> int:
        """Return how many ``wakes``, ``marks`` or ``events`` were ``sent``, ``failed`` or so."""
        queues = {"wakes": self._activator, "marks": self._marker, "events": self._events}
        return int(getattr(queues[what].stats, result))


class Candidate:
    """A replica that takes part in the election of a leader, and does nothing else.

    Its token is its name, so that ``ScriptedApi.cut_off`` can name it.

    Attributes:
        told: whether the replica led, each time when it was told that this changed.
    """

    def __init__(self, api: ScriptedApi, folder: Path, name: str) -> None:
        file = folder / f"{name}.kubeconfig"
        write_kubeconfig(file, api.url, name)
        self.name = name
        self.told: list[bool] = []
        self._election = Election(
            connect(str(file)),
            LeaseName("kubextend-system", "kubextend"),
            identity=name,
        )
        self._election.tell(lambda: self.told.append(self.leads))

    def start(self) -> None:
        self._election.start()

    def stop(self) -> None:
        self._election.stop()

    @property
    def leads(self) -> bool:
        return self._election.leads

    @property
    def left_s(self) -> float:
        """Return the seconds for which the replica leads if it can no longer renew the Lease."""
        return self._election.left_s()


class Running:
    """A kubextend on a Kubernetes API, without its HTTP server.

    The environment names its pod where it takes part in an election.
    """

    def __init__(self, tree: Mapping[str, Any], plugins: Mapping[str, type] | None = None) -> None:
        self.app = app.build(config.parse(dict(tree), known=known_plugins(plugins or {})))

    def start(self) -> None:
        self.app.follow()
        asyncio.run(self.app.start())

    def stop(self) -> None:
        self.app.health.shut_down()
        self.app.stop()

    def metric(self, name: str, **labels: str) -> float | None:
        """Return the present value of a metric on ``/metrics``; None: there is none."""
        self.app.metrics.render()
        return self.app.metrics.registry.get_sample_value(f"kubextend_{name}", labels)

    def metrics(self) -> str:
        return self.app.metrics.render()[0].decode()

    def filter(self, pod: Mapping[str, Any], *nodes: str) -> dict[str, Any]:
        """Return the answer to a filter request with the names of nodes."""
        asked = {"Pod": pod, "Nodes": None, "NodeNames": [*nodes]}
        answer: dict[str, Any] = json.loads(
            bytes(self.app.verbs.filter(json.dumps(asked).encode()))
        )
        return answer

    def bind(self, pod: Mapping[str, Any], node: str) -> str:
        """Return the error of the answer to a bind request; empty: the pod is bound."""
        named = pod["metadata"]
        asked = {"PodName": named["name"], "PodNamespace": named["namespace"]}
        asked |= {"PodUID": named["uid"], "Node": node}
        answer = asyncio.run(self.app.verbs.bind(json.dumps(asked).encode()))
        error: str = json.loads(answer)["Error"]
        return error

    def bind_beside(self, pod: Mapping[str, Any], node: str) -> list[str]:
        """Bind a pod on another thread; return a list that gets the error of the answer."""
        errors: list[str] = []
        threading.Thread(target=lambda: errors.append(self.bind(pod, node)), name="bind").start()
        return errors

    def sends_away(self) -> bool:
        """Return whether the server ends its connections, as this replica does not lead."""
        return self.app.sends_away()

    def resign(self) -> None:
        """Begin to end, as upon SIGTERM: no new decisions, and not ready."""
        self.app.health.shut_down()

    def ready(self) -> tuple[int, str]:
        """Return the status and the text of ``/readyz?verbose``."""
        return self.app.health.readyz(verbose=True)


@contextmanager
def running(
    tree: Mapping[str, Any], plugins: Mapping[str, type] | None = None
) -> Iterator[Running]:
    """Run a kubextend on a Kubernetes API until the block ends."""
    made = Running(tree, plugins)
    made.start()
    try:
        yield made
    finally:
        made.stop()
