"""A Kubernetes API of nodes and pods on loopback, with faults that a test asks for.

The server follows the API's published conventions (list, continue, watch, bookmarks, Status), not
the code under test.
"""

from __future__ import annotations

import json
import socket
import threading
import weakref
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tests.doors.clocks import wait_until_readable
from tests.doors.scripted_requests import COMPLETED, Fault, Object, Request

if TYPE_CHECKING:
    import ssl


@dataclass
class ScriptedApi:
    """A Kubernetes API that keeps nodes with their history, pods, a lease, counters and faults.

    ``faults[kind]`` holds the faults for the next requests of a kind (list, watch, bind, get,
    patch, event, lease), one for each request. A fault answers and returns True, or returns False
    to let the request pass. ``always`` is a fault for each request that has no other. The requests
    of a client whose token is in ``cut_off`` are lost. With ``tls``, the API is served over TLS.
    """

    nodes: dict[str, Object] = field(default_factory=dict)
    groups: dict[str, Object] | None = None
    pods: dict[str, Object] = field(default_factory=dict)
    lease: Object | None = None
    faults: dict[str, deque[Fault]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    times: list[tuple[str, float]] = field(default_factory=list)
    watch_s: float | None = None
    latency_s: float = 0.0
    cut_off: set[str] = field(default_factory=set)
    token: str | None = None
    version: int = 100
    oldest: int = 100
    history: list[tuple[int, str, Object]] = field(default_factory=list)
    silent: bool = False
    events: list[Object] = field(default_factory=list)
    port: int = 0
    always: Fault | None = None
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        self.changed = threading.Condition()
        self._server: _Server | None = None
        self._sockets: set[socket.socket] = set()
        self._epoch = 0
        if not self.port:
            # Held without listening, so that nobody else gets the port while the API is down.
            held = socket.socket()
            weakref.finalize(self, held.close)
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", 0))
            self.port = held.getsockname()[1]

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def up(self) -> None:
        api = self

        class Handler(Request):
            server_api = api

        self._server = _Server(("127.0.0.1", self.port), Handler)
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)
        self._server.thread.start()

    def down(self) -> None:
        """Stop the API as if its process were gone: refuse and reset connections."""
        server, self._server = self._server, None
        with self.changed:
            self._epoch += 1
            self.changed.notify_all()
        if server is None:
            return
        server.shutdown()
        server.thread.join()
        for connection in list(self._sockets):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        server.server_close()

    def fail(self, kind: str, *faults: Fault) -> None:
        self.faults.setdefault(kind, deque()).extend(faults)

    def paths(self, kind: str) -> list[str]:
        """Return the path with the query of each request of a kind, in order."""
        return [path for called, path, _, _ in self.requests if called == kind]

    def bodies(self, kind: str) -> list[Any]:
        """Return the JSON of each request of a kind, in order."""
        return [json.loads(body) for called, _, _, body in self.requests if called == kind]

    def seconds(self, *kinds: str) -> list[float]:
        """Return when each request of these kinds came; the first came at 0."""
        times = [at_s for called, at_s in self.times if called in kinds]
        return [round(at_s - times[0], 3) for at_s in times]

    def pauses(self, *kinds: str) -> list[float]:
        """Return the seconds between each request of these kinds and the next one."""
        return [round(after - before, 3) for before, after in pairwise(self.seconds(*kinds))]

    def put_node(self, name: str, **labels: str) -> None:
        with self.changed:
            self.version += 1
            event = "MODIFIED" if name in self.nodes else "ADDED"
            self.nodes[name] = _node(name, self.version, labels)
            self._show(event, self.nodes[name])

    def delete_node(self, name: str) -> None:
        self._delete(self.nodes, name)

    def _delete(self, objects: dict[str, Object], name: str) -> None:
        with self.changed:
            self.version += 1
            gone = objects.pop(name)
            metadata = gone["metadata"] | {"resourceVersion": str(self.version)}
            self._show("DELETED", gone | {"metadata": metadata})

    def _show(self, event: str, shown: Object) -> None:
        """Send an event of the present version to the watches."""
        self.history.append((self.version, event, shown))
        self.changed.notify_all()

    def bookmark(self) -> None:
        """Send every watch of nodes a bookmark, as when only other objects have changed."""
        with self.changed:
            self.version += 1
            metadata = {"resourceVersion": str(self.version)}
            self._show("BOOKMARK", {"kind": "Node", "apiVersion": "v1", "metadata": metadata})

    def compact(self) -> None:
        """Forget versions before now: a new watch from an old one gets 410; open watches go on."""
        with self.changed:
            self.version += 1
            self.oldest = self.version

    def end_watches(self) -> None:
        with self.changed:
            self._epoch += 1
            self.changed.notify_all()

    def put_pod(
        self, name: str, uid: str, node: str | None = None, phase: str = "Pending", **metadata: Any
    ) -> None:
        with self.changed:
            self.version += 1
            event = "MODIFIED" if name in self.pods else "ADDED"
            if phase in {"Succeeded", "Failed"}:
                # For a watch that does not select such a pod; one that does gets ADDED instead.
                event = "DELETED"
            named = {"name": name, "namespace": "default", "uid": uid}
            pod = {
                "kind": "Pod",
                "apiVersion": "v1",
                "metadata": named | {"resourceVersion": str(self.version)} | metadata,
                "spec": {"nodeName": node} if node else {},
                "status": {"phase": phase},
            }
            self.pods[name] = pod
            self._show(event, pod)

    def put_gated_pod(self, name: str, gates: list[str], **spec: Any) -> None:
        """Create a pod with scheduling gates, created one second after the pod before."""
        created = f"2030-01-01T00:00:{len(self.pods) % 60:02}Z"
        with self.changed:
            self.put_pod(name, f"uid-{name}", generation=1, creationTimestamp=created)
            pod = self.pods[name]
            pod["spec"] |= spec | {"schedulingGates": [{"name": gate} for gate in gates]}
            self._set_reason(pod, "SchedulingGated")

    def bind_pod(self, name: str, node: str = "n1") -> None:
        with self.changed:
            self.pods[name]["spec"]["nodeName"] = node
            self._changed_pod(self.pods[name])

    def park_pod(self, name: str) -> None:
        """Mark a pod Unschedulable, as kube-scheduler does when it finds no node."""
        with self.changed:
            self._set_reason(self.pods[name], "Unschedulable")
            self._changed_pod(self.pods[name])

    def released_pods(self) -> list[str]:
        """Return the names of the pods that have no gate and no node."""
        with self.changed:
            specs = {name: pod["spec"] for name, pod in self.pods.items()}
        return [
            name
            for name, spec in specs.items()
            if not spec.get("schedulingGates") and not spec.get("nodeName")
        ]

    def _set_reason(self, pod: Object, reason: str) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": reason}
        pod["status"]["conditions"] = [condition]

    def _changed_pod(self, pod: Object) -> None:
        """Give a changed pod a new version, and send the change to the watches."""
        self.version += 1
        pod["metadata"]["resourceVersion"] = str(self.version)
        self._show("MODIFIED", json.loads(json.dumps(pod)))

    def change_lease(self, **spec: Any) -> None:
        """Change fields of the Lease's spec, as a person may with kubectl; None removes a field."""
        with self.changed:
            assert self.lease is not None
            self.version += 1
            kept = (self.lease["spec"] | spec).items()
            self.lease["spec"] = {key: value for key, value in kept if value is not None}
            self.lease["metadata"]["resourceVersion"] = str(self.version)

    def delete_pod(self, name: str) -> None:
        self._delete(self.pods, name)

    def put_group(self, name: str, **spec: Any) -> None:
        """Create or change a pod group, which the API serves unless ``groups`` is None."""
        with self.changed:
            assert self.groups is not None
            self.version += 1
            event = "MODIFIED" if name in self.groups else "ADDED"
            version = str(self.version)
            named = {"name": name, "namespace": "ml", "uid": name, "resourceVersion": version}
            group = {"kind": "PodGroup", "apiVersion": "v1", "metadata": named, "spec": spec}
            self.groups[name] = group
            self._show(event, group)

    def delete_group(self, name: str) -> None:
        assert self.groups is not None
        self._delete(self.groups, name)

    def listed(self, collection: str, selector: str = "") -> list[Object]:
        if collection in {"nodes", "podgroups"}:
            found = self.nodes if collection == "nodes" else self.groups or {}
            return [found[name] for name in sorted(found)]
        pods = [self.pods[name] for name in sorted(self.pods)]
        if selector == COMPLETED:
            return [pod for pod in pods if pod["status"]["phase"] == "Succeeded"]
        if "spec.nodeName=," in selector:
            pods = [pod for pod in pods if not pod["spec"].get("nodeName")]
        return [pod for pod in pods if pod["status"]["phase"] not in {"Succeeded", "Failed"}]


def _node(name: str, version: int, labels: dict[str, str]) -> Object:
    named = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version), "labels": labels}
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    node = {"kind": "Node", "apiVersion": "v1", "metadata": named, "spec": {}}
    return node | {"status": {"allocatable": allocatable}}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512
    allow_reuse_address = True
    is_ending = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self.thread = threading.Thread(target=self.serve_forever, name="scripted-api", daemon=True)

    def serve_forever(self, poll_interval: float = 0.0) -> None:
        """Answer connections; waits in a way that a skipping time can see."""
        del poll_interval
        while not self.is_ending:
            wait_until_readable(self.socket)
            self._handle_request_noblock()  # type: ignore[attr-defined]

    def shutdown(self) -> None:
        self.is_ending = True
        self.socket.shutdown(socket.SHUT_RDWR)

    def handle_error(self, *_: object) -> None:
        """Ignore clients that go away, as the tests have such clients."""
