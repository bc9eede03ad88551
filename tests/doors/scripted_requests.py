"""The requests to a ``ScriptedApi``: the usual answers, and the faults that a test asks for."""

from __future__ import annotations

import json
import socket
import time
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from tests.doors.scripted_api import ScriptedApi

Object = dict[str, Any]
COMPLETED = "status.phase=Succeeded"
_SINGULAR = {"nodes": "Node", "pods": "Pod", "podgroups": "PodGroup"}
BOOKMARKED_S = 10.0
"""The least seconds of a watch that ends with a bookmark."""


def status_of(code: int, reason: str, message: str) -> Object:
    said = {"status": "Failure", "message": message, "reason": reason, "code": code}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, **said}


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
            fault = waiting.popleft() if waiting else api.always
        if api.latency_s:
            time.sleep(api.latency_s)
        if self.client in api.cut_off:
            self.cut()
            return
        if api.token is not None and self.client != api.token:
            self.refuse(401, "Unauthorized", "Unauthorized")
            return
        if fault is not None and fault(self):
            return
        if self.parts[-1] == "podgroups" and api.groups is None:
            self.refuse(404, "NotFound", "the server could not find the requested resource")
            return
        getattr(self, f"answer_{kind}")()

    @property
    def client(self) -> str:
        """The token of the client."""
        return str(self.headers.get("Authorization", "")).removeprefix("Bearer ")

    def _kind(self, method: str) -> str:
        if self.parts[-1] in _SINGULAR:
            is_list = "sendInitialEvents" in self.query or not self.query.get("watch")
            return "list" if is_list else "watch"
        if "leases" in self.parts:
            return "lease"
        if self.parts[-1] == "events":
            return "event"
        return {"POST": "bind", "GET": "get", "PATCH": "patch"}[method]

    def send(self, code: int, document: Object, **headers: str) -> None:
        self._send(code, json.dumps(document).encode(), "application/json", headers)

    def send_text(self, code: int, text: bytes) -> None:
        """Send plain text, as a proxy in front of the API does."""
        self._send(code, text, "text/plain", {})

    def _send(self, code: int, body: bytes, kind: str, headers: dict[str, str]) -> None:
        self.send_response(code)
        sent = headers | {"Content_Type": kind, "Content_Length": str(len(body))}
        for name, value in sent.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, code: int, reason: str, message: str, **headers: str) -> None:
        self.send(code, status_of(code, reason, message), **headers)

    def cut(self) -> None:
        """Cut the connection without an answer."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def answer_list(self) -> None:
        """Send all objects: as a list, or as the initial events of a watch."""
        api = self.server_api
        with api.changed:
            items = api.listed(self.parts[-1], self.query.get("fieldSelector", ""))
            version = api.version
        if "watch" in self.query:
            self._send_initial_events(items, version)
            return
        metadata = {"resourceVersion": str(version)}
        kind = f"{self._singular}List"
        self.send(200, {"kind": kind, "apiVersion": "v1", "metadata": metadata, "items": items})

    def _send_initial_events(self, items: list[Object], version: int) -> None:
        """Send objects as kube-apiserver does, and wait until the client ends the watch."""
        asked = self.query.get("resourceVersionMatch"), self.query.get("allowWatchBookmarks")
        if asked != ("NotOlderThan", "true") or "resourceVersion" in self.query:
            self.refuse(422, "Invalid", "sendInitialEvents needs resourceVersionMatch")
            return
        self.open_watch()
        for each in items:
            self.event("ADDED", each)
        self.mark(version, is_end_of_list=True)
        with suppress(OSError):
            self.rfile.read(1)
        self.close_connection = True

    @property
    def _singular(self) -> str:
        return _SINGULAR[self.parts[-1]]

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
                    is_over, version = left_s <= 0 and not api.silent, api.version
                    break
                if not due or api.silent:
                    api.changed.wait(left_s)
                    continue
            for version, kind, thing in due:
                if thing["kind"] == self._singular:
                    self.selected_event(kind, thing)
                seen = version
        if is_over and asked_s >= BOOKMARKED_S:
            self.mark(version)
        self.end_watch()

    def mark(self, version: int, *, is_end_of_list: bool = False) -> None:
        """Send a bookmark, as kube-apiserver does before the end of a watch."""
        metadata: Object = {"resourceVersion": str(version)}
        if is_end_of_list:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        self.event("BOOKMARK", {"kind": self._singular, "apiVersion": "v1", "metadata": metadata})

    def open_watch(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def selected_event(self, kind: str, document: Object) -> None:
        """Send an event as the watch's field selector asks for it."""
        selector = self.query.get("fieldSelector", "")
        if selector == COMPLETED:
            if document["status"]["phase"] != "Succeeded":
                return
            is_there = document["metadata"]["name"] in self.server_api.pods
            kind = "ADDED" if is_there else kind
        elif "spec.nodeName=," in selector and document["spec"].get("nodeName"):
            kind = "DELETED"
        self.event(kind, document)

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


Fault = Callable[[Request], bool]


def refusing(code: int, reason: str, message: str = "", **headers: str) -> Fault:
    """Return a fault that answers one request with this status."""

    def fault(request: Request) -> bool:
        request.refuse(code, reason, message or reason, **headers)
        return True

    return fault


def erring_event(code: int, *before: Object) -> Fault:
    """Return a fault that opens the watch, and sends these nodes and an ERROR event with a code."""

    def fault(request: Request) -> bool:
        request.open_watch()
        for node in before:
            request.event("ADDED", node)
        request.event("ERROR", status_of(code, "Expired", "no"))
        request.end_watch()
        return True

    return fault


def answering(document: Any) -> Fault:
    """Return a fault that answers one request with success and this JSON."""

    def fault(request: Request) -> bool:
        request.send(200, document)
        return True

    return fault


def gone_event(request: Request) -> bool:
    """Fault: open the watch, and send an ERROR event that says that the version is gone."""
    return erring_event(410)(request)


def garbled(*lines: bytes) -> Fault:
    """Return a fault that answers a watch with these lines, or a list with the first one."""

    def fault(request: Request) -> bool:
        if not request.query.get("watch"):
            request.send_text(200, lines[0])
            return True
        request.open_watch()
        for line in lines:
            request.chunk(line)
        request.end_watch()
        return True

    return fault


def lost_answer(request: Request) -> bool:
    """Fault: let the bind request take effect, but cut the connection before the answer."""
    binding = json.loads(request.body)
    with request.server_api.changed:
        request._bind(request.parts[5], binding)
    request.cut()
    return True


def lost_answer_of_lease(request: Request) -> bool:
    """Fault: let a write of the Lease take effect, but cut the connection before the answer."""
    if request.command == "GET":
        return False
    with request.server_api.changed:
        if request.command == "PUT" and not request._is_of_this_version():
            return False
        request._write_lease()
    request.cut()
    return True


def lost_request(request: Request) -> bool:
    """Fault: cut the connection before the request takes effect."""
    request.cut()
    return True
