"""A Kubernetes API of nodes and pods on loopback, with faults that a test asks for.

The server follows the API's published conventions (list, continue, watch, bookmarks, Status), not
the code under test.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from bisect import bisect_right
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

    Fault = Callable[["Request"], bool]

Object = dict[str, Any]
COMPLETED = "status.phase=Succeeded"


def status_of(code: int, reason: str, message: str) -> Object:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


@dataclass
class ScriptedApi:
    """A Kubernetes API that keeps nodes with their history, pods, a lease, counters and faults.

    ``faults[kind]`` holds the faults for the next requests of a kind (list, watch, bind, get,
    patch, event, lease), one for each request. A fault answers and returns True, or returns False
    to let the request pass.
    """

    nodes: dict[str, Object] = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)
    lease: Object | None = None
    faults: dict[str, deque[Fault]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    times: list[tuple[str, float]] = field(default_factory=list)
    watch_s: float | None = None
    latency_s: float = 0.0
    token: str | None = None
    version: int = 100
    oldest: int = 100
    history: list[tuple[int, str, Object]] = field(default_factory=list)
    silent: bool = False
    events: list[Object] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        self.changed = threading.Condition()
        self._server: ThreadingHTTPServer | None = None
        self._sockets: set[socket.socket] = set()
        self._epoch = 0
        if not self.port:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def up(self) -> None:
        api = self

        class Handler(Request):
            server_api = api

        self._server = _Server(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self) -> None:
        """Stop the API as if its process were gone: refuse and reset connections."""
        server, self._server = self._server, None
        with self.changed:
            self._epoch += 1
            self.changed.notify_all()
        if server is None:
            return
        server.shutdown()
        for connection in list(self._sockets):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        server.server_close()

    def fail(self, kind: str, *faults: Fault) -> None:
        self.faults.setdefault(kind, deque()).extend(faults)

    def put_node(self, name: str, **labels: str) -> None:
        with self.changed:
            self.version += 1
            event = "MODIFIED" if name in self.nodes else "ADDED"
            node = _node(name, self.version, labels)
            self.nodes[name] = node
            self.history.append((self.version, event, node))
            self.changed.notify_all()

    def delete_node(self, name: str) -> None:
        with self.changed:
            self.version += 1
            node = self.nodes.pop(name)
            node = _node(name, self.version, node["metadata"]["labels"])
            self.history.append((self.version, "DELETED", node))
            self.changed.notify_all()

    def bookmark(self) -> None:
        """Send every watch of nodes a bookmark, as when only other objects have changed."""
        with self.changed:
            self.version += 1
            mark = {
                "kind": "Node",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": str(self.version)},
            }
            self.history.append((self.version, "BOOKMARK", mark))
            self.changed.notify_all()

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
            self.history.append((self.version, event, pod))
            self.changed.notify_all()

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
        copied = json.loads(json.dumps(pod))
        self.history.append((self.version, "MODIFIED", copied))
        self.changed.notify_all()

    def delete_pod(self, name: str) -> None:
        with self.changed:
            self.version += 1
            pod = self.pods.pop(name)
            metadata = pod["metadata"] | {"resourceVersion": str(self.version)}
            self.history.append((self.version, "DELETED", pod | {"metadata": metadata}))
            self.changed.notify_all()

    def listed(self, collection: str, selector: str = "") -> list[Object]:
        if collection == "nodes":
            return [self.nodes[name] for name in sorted(self.nodes)]
        pods = [self.pods[name] for name in sorted(self.pods)]
        if selector == COMPLETED:
            return [pod for pod in pods if pod["status"]["phase"] == "Succeeded"]
        if "spec.nodeName=," in selector:
            pods = [pod for pod in pods if not pod["spec"].get("nodeName")]
        return [pod for pod in pods if pod["status"]["phase"] not in {"Succeeded", "Failed"}]


def _node(name: str, version: int, labels: dict[str, str]) -> Object:
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "labels": labels,
        },
        "spec": {},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 512
    allow_reuse_address = True

    def handle_error(self, *_: object) -> None:
        """Ignore clients that go away, as the tests have such clients."""


class Request(BaseHTTPRequestHandler):
    """One connection to the ``ScriptedApi``; faults may use the public names."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_api: ScriptedApi
    body: bytes

    def setup(self) -> None:
        super().setup()
        self.server_api._sockets.add(self.connection)

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()
        self.server_api._sockets.discard(self.connection)

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_PATCH(self) -> None:
        self._serve("PATCH")

    def do_PUT(self) -> None:
        self._serve("PUT")

    def _serve(self, method: str) -> None:
        api = self.server_api
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        split = urlsplit(self.path)
        self.query = {key: values[-1] for key, values in parse_qs(split.query).items()}
        self.parts = split.path.strip("/").split("/")
        kind = self._kind(method)
        with api.changed:
            api.counts[kind] += 1
            api.requests.append((kind, self.path, dict(self.headers.items()), self.body))
            api.times.append((kind, time.monotonic()))
            self.epoch = api._epoch
            waiting = api.faults.get(kind)
            fault = waiting.popleft() if waiting else None
        if api.latency_s:
            time.sleep(api.latency_s)
        if api.token is not None and self.headers.get("Authorization") != f"Bearer {api.token}":
            self.refuse(401, "Unauthorized", "Unauthorized")
            return
        if fault is not None and fault(self):
            return
        getattr(self, f"answer_{kind}")()

    def _kind(self, method: str) -> str:
        if self.parts in (["api", "v1", "nodes"], ["api", "v1", "pods"]):
            return "watch" if self.query.get("watch") else "list"
        if "leases" in self.parts:
            return "lease"
        if self.parts[-1] == "events":
            return "event"
        return {"POST": "bind", "GET": "get", "PATCH": "patch"}[method]

    def send(self, code: int, document: Object, **headers: str) -> None:
        body = json.dumps(document).encode()
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_text(self, code: int, text: bytes) -> None:
        """Send plain text, as a proxy in front of the API does."""
        self.send_response(code)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def refuse(self, code: int, reason: str, message: str, **headers: str) -> None:
        self.send(code, status_of(code, reason, message), **headers)

    def cut(self) -> None:
        """Cut the connection without an answer."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def answer_list(self) -> None:
        api = self.server_api
        with api.changed:
            listed = api.listed(self.parts[-1], self.query.get("fieldSelector", ""))
            version = api.version
            start = int(self.query.get("continue", "0"))
            limit = int(self.query.get("limit", "0")) or len(listed)
            items = listed[start : start + limit]
        more = start + limit < len(listed)
        metadata = {"resourceVersion": str(version)}
        if more:
            metadata |= {
                "continue": str(start + limit),
                "remainingItemCount": str(len(listed) - start - limit),
            }
        kind = f"{self._singular}List"
        self.send(200, {"kind": kind, "apiVersion": "v1", "metadata": metadata, "items": items})

    @property
    def _singular(self) -> str:
        return {"nodes": "Node", "pods": "Pod"}[self.parts[-1]]

    def answer_watch(self) -> None:
        api = self.server_api
        seen = int(self.query["resourceVersion"])
        if seen < api.oldest:
            self.refuse(410, "Expired", f"too old resource version: {seen} ({api.oldest})")
            return
        self.open_watch()
        asked_s = float(self.query.get("timeoutSeconds", "1800"))
        ends = time.monotonic() + (asked_s if api.watch_s is None else api.watch_s)
        while True:
            with api.changed:
                due = api.history[bisect_right(api.history, seen, key=itemgetter(0)) :]
                left_s = ends - time.monotonic()
                if left_s <= 0 or api._epoch != self.epoch:
                    break
                if not due or api.silent:
                    api.changed.wait(left_s)
                    continue
            for version, kind, thing in due:
                if thing["kind"] == self._singular:
                    self.selected_event(kind, thing)
                seen = version
        self.end_watch()

    def open_watch(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def selected_event(self, kind: str, document: Object) -> None:
        """Send an event, if the watch selects its object; completed pods have a watch of theirs."""
        if self.query.get("fieldSelector") != COMPLETED:
            self.event(kind, document)
        elif document["status"]["phase"] == "Succeeded":
            self.event(
                "ADDED" if document["metadata"]["name"] in self.server_api.pods else kind, document
            )

    def event(self, kind: str, document: Object) -> None:
        self.chunk(json.dumps({"type": kind, "object": document}).encode() + b"\n")

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def end_watch(self) -> None:
        with suppress(OSError):
            self.wfile.write(b"0\r\n\r\n")

    def answer_get(self) -> None:
        pod = self.server_api.pods.get(self.parts[5])
        if pod is None:
            self.refuse(404, "NotFound", f'pods "{self.parts[5]}" not found')
            return
        self.send(200, pod)

    def answer_bind(self) -> None:
        name = self.parts[5]
        binding = json.loads(self.body)
        with self.server_api.changed:
            failure = self._bind(name, binding)
        if failure is None:
            self.send(201, {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201})
        else:
            self.refuse(*failure)

    def _bind(self, name: str, binding: Object) -> tuple[int, str, str] | None:
        pod = self.server_api.pods.get(name)
        if pod is None:
            return 404, "NotFound", f'pods "{name}" not found'
        conflict = f'Operation cannot be fulfilled on pods/binding "{name}": '
        uid = pod["metadata"]["uid"]
        if binding["metadata"].get("uid") not in {None, "", uid}:
            return 409, "Conflict", f"{conflict}Precondition failed: UID in precondition"
        if pod["spec"].get("nodeName"):
            return 409, "Conflict", f"{conflict}pod {name} is already assigned to node"
        pod["spec"]["nodeName"] = binding["target"]["name"]
        pod["bindings"] = pod.get("bindings", 0) + 1
        return None

    def answer_event(self) -> None:
        events = self.server_api.events
        if self.command == "POST":
            events.append(json.loads(self.body))
            self.send(201, events[-1])
            return
        reason = self.query["fieldSelector"].removeprefix("reason=")
        self.send(200, {"items": [event for event in events if event["reason"] == reason]})

    def answer_patch(self) -> None:
        pod = self.server_api.pods.get(self.parts[5])
        if pod is None:
            self.refuse(404, "NotFound", f'pods "{self.parts[5]}" not found')
            return
        with self.server_api.changed:
            self.take_gates_off(pod)
            self.label(pod)
        self.send(200, pod)

    def label(self, pod: Object) -> None:
        asked = json.loads(self.body).get("metadata", {}).get("labels", {})
        labels = pod["metadata"].get("labels", {})
        changed = {key: value for key, value in (labels | asked).items() if value is not None}
        if changed != labels:
            pod["metadata"]["labels"] = changed
            self.server_api._changed_pod(pod)

    def take_gates_off(self, pod: Object) -> None:
        asked = json.loads(self.body).get("spec", {}).get("schedulingGates", [])
        names = {gate["name"] for gate in asked if gate.get("$patch") == "delete"}
        gates = pod["spec"].get("schedulingGates", [])
        kept = [gate for gate in gates if gate["name"] not in names]
        if kept != gates:
            pod["spec"]["schedulingGates"] = kept
            pod["metadata"]["generation"] = pod["metadata"].get("generation", 1) + 1
            self.server_api._changed_pod(pod)

    def answer_lease(self) -> None:
        api = self.server_api
        with api.changed:
            if self.command == "GET" and api.lease is None:
                failure = (404, "NotFound", "the lease is not found")
            elif self.command == "POST" and api.lease is not None:
                failure = (409, "AlreadyExists", "the lease already exists")
            elif self.command == "PUT" and not self._is_of_this_version():
                failure = (409, "Conflict", "the object has been modified")
            else:
                failure = None
                self._write_lease()
            lease = api.lease or {}
        if failure is None:
            self.send(200, lease)
        else:
            self.refuse(*failure)

    def _is_of_this_version(self) -> bool:
        given = json.loads(self.body)["metadata"].get("resourceVersion")
        lease = self.server_api.lease or {"metadata": {}}
        return bool(given == lease["metadata"].get("resourceVersion"))

    def _write_lease(self) -> None:
        if self.command != "GET":
            api = self.server_api
            api.version += 1
            api.lease = json.loads(self.body)
            api.lease["metadata"]["resourceVersion"] = str(api.version)


def refusing(code: int, reason: str, message: str = "", **headers: str) -> Fault:
    """Return a fault that answers one request with this status."""

    def fault(request: Request) -> bool:
        request.refuse(code, reason, message or reason, **headers)
        return True

    return fault


def gone_event(request: Request) -> bool:
    """Fault: open the watch, and send an ERROR event that says that the version is gone."""
    request.open_watch()
    request.event("ERROR", status_of(410, "Expired", "too old resource version"))
    request.end_watch()
    return True


def lost_answer(request: Request) -> bool:
    """Fault: let the bind request take effect, but cut the connection before the answer."""
    binding = json.loads(request.body)
    with request.server_api.changed:
        request._bind(request.parts[5], binding)
    request.cut()
    return True


def lost_request(request: Request) -> bool:
    """Fault: cut the connection before the request takes effect."""
    request.cut()
    return True
