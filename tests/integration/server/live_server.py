"""Runs a server of kubextend on a free loopback port, and connections that send raw bytes."""

import contextlib
import json
import queue
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from starlette.routing import Route

from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.plugin import Rejection, in_core
from kubextend.framework.status import Status
from kubextend.metrics import Metrics
from kubextend.profile import Profile, Profiles
from kubextend.profile.time_limited_calls import PluginLimits
from kubextend.server import Health, Limits, Listener, Service, application
from kubextend.verbs import Verbs
from make_verbs import make_verbs

DATA = Path(__file__).parents[2] / "data"
VERBS = ("filter", "prioritize", "preempt", "bind")
NO_RDMA = "Node does not support RDMA"
# The seconds to wait for what has to happen, however busy the machine is.
PATIENT_S = 60.0


class NeedsRdma:
    """Rejects nodes without ``rdma=true``; fails as the pod's label ``then`` says."""

    name = "NeedsRdma"

    def filter_nodes(
        self, _state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        fail_on_demand(pod)
        return [Rejection(~nodes.matches("rdma=true"), Status.unresolvable(NO_RDMA))]


class LikesRdma:
    """Gives 100 to nodes with ``rdma=true``; fails as the pod's label ``then`` says."""

    name = "LikesRdma"

    def score_nodes(self, _state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Sequence[int]:
        fail_on_demand(pod)
        return [100 if fits else 0 for fits in nodes.matches("rdma=true")]


class NeedsRdmaInCore(NeedsRdma):
    """``NeedsRdma`` marked as a plugin of the core, so that filter runs on the event loop."""

    @in_core
    def filter_nodes(
        self, state: CycleState, pod: core.Pod, nodes: core.Nodes
    ) -> Sequence[Rejection]:
        return super().filter_nodes(state, pod, nodes)


class LikesRdmaInCore(LikesRdma):
    """``LikesRdma`` marked as a plugin of the core, so that prioritize runs on the event loop."""

    @in_core
    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> Sequence[int]:
        return super().score_nodes(state, pod, nodes)


class DiesError(BaseException):
    """A BaseException, as Python sees a panic of the Rust core."""


class Bindings:
    """A binder that records its calls in ``made``; raises for a pod named ``dies``."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str, str, str]] = []

    def bind(  # noqa: PLR0913  all but four by name
        self,
        namespace: str,
        name: str,
        uid: str,
        node: str,
        *,
        timeout_s: float | None = None,
        annotations: object = None,
        why_not: object = None,
    ) -> None:
        if name == "dies":
            raise DiesError
        self.made.append((namespace, name, uid, node))


def fail_on_demand(pod: core.Pod) -> None:
    match pod.labels.get("then"):
        case "raise":
            message = "at 0x7f3a"
            raise RuntimeError(message)
        case "die":
            raise DiesError
        case "exit":
            raise SystemExit(3)


def some_verbs(
    watched: Any = None,
    *,
    ignorable: bool = False,
    brief: bool = False,
    limits: PluginLimits | None = None,
    **parts: Any,
) -> Verbs:
    """Make verbs with a filter, a score plugin and a binder, for the default scheduler.

    Args:
        watched: the source of watched nodes; None: no watch.
        ignorable: whether kube-scheduler ignores Errors.
        brief: whether small requests are answered on the event loop, without a thread.
        limits: threads and breakers of the plugins; None: new ones.
        parts: the parts that ``make_verbs`` takes.
    """
    profile = Profile(
        "default-scheduler",
        filter=[NeedsRdmaInCore() if brief else NeedsRdma()],
        score=[(LikesRdmaInCore() if brief else LikesRdma(), 1)],
    )
    return make_verbs(
        Profiles.of([profile]),
        watched=watched,
        binder=Bindings(),
        ignorable=ignorable,
        metrics=Metrics(),
        limits=limits,
        **({"pool": core.BodyPool()} | parts),
    )


@contextlib.contextmanager
def serving(
    verbs: Verbs,
    *,
    health: Health | None = None,
    limits: Limits | None = None,
    path: str = "/",
    more_routes: Iterable[Route] = (),
    **listening: Any,
) -> Iterator[str]:
    """Run a server on a thread until the block ends, and yield its URL."""
    with running(
        verbs, health=health, limits=limits, path=path, more_routes=more_routes, **listening
    ) as (url, _):
        yield url


@contextlib.contextmanager
def running(
    verbs: Verbs,
    *,
    health: Health | None = None,
    limits: Limits | None = None,
    path: str = "/",
    more_routes: Iterable[Route] = (),
    service_options: Mapping[str, Any] | None = None,
    **listening: Any,
) -> Iterator[tuple[str, Service]]:
    """Run a server on a thread until the block ends at the latest; yield its URL and Service."""
    health = health or Health()
    app = application(verbs, health, path=path, limits=limits or Limits(), more_routes=more_routes)
    announced: queue.Queue[str] = queue.Queue()
    service = Service(
        Listener(app, "127.0.0.1", 0, **listening),
        health,
        announce=lambda urls: announced.put(urls[0]),
        metrics=verbs.metrics,
        **(service_options or {}),
    )
    thread = threading.Thread(target=service.run)
    thread.start()
    try:
        yield announced.get(timeout=PATIENT_S), service
    finally:
        service.stop()
        service.stop()
        thread.join(timeout=PATIENT_S)
        assert not thread.is_alive()


def port_of(url: str) -> int:
    return int(url.rstrip("/").rpartition(":")[2])


@dataclass(frozen=True)
class Answer:
    """An HTTP/1.1 answer: status, headers by lower-case name, and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def error(self) -> str:
        text: str = json.loads(self.body)["Error"]
        return text


class Connection:
    """One TCP or TLS connection to a server, on which a test sends raw bytes."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port_of(url)), timeout=PATIENT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = _wrapped(self.socket, tls)
        self._read = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._read.close()
        self.socket.close()

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.socket.sendall(piece)

    def send_until_hung_up(self, request: bytes) -> None:
        """Send a request over and over without reading, until the server closes the connection."""
        deadline = time.monotonic() + PATIENT_S
        self.socket.settimeout(PATIENT_S)
        sent = 0
        with contextlib.suppress(ConnectionError):
            while True:
                assert time.monotonic() < deadline
                sent += self.socket.send(request[sent % len(request) :])

    def post(self, path: str, body: bytes, **headers: str) -> Answer:
        self.send(head("POST", path, **{"Content-Length": str(len(body))} | headers), body)
        return self.answer()

    def get(self, path: str, **headers: str) -> Answer:
        self.send(head("GET", path, **headers))
        return self.answer()

    def answer_head(self) -> bytes:
        """Read the lines up to the next empty line, such as an interim answer."""
        lines = []
        while (line := self._read.readline()) not in {b"\r\n", b""}:
            lines.append(line)
        return b"".join(lines)

    def answer(self) -> Answer:
        """Read the next answer, by its Content-Length alone."""
        status_line = self._read.readline()
        if not status_line:
            raise EOFError
        headers: dict[str, str] = {}
        while (line := self._read.readline()) not in {b"\r\n", b""}:
            name, _, value = line.decode().partition(":")
            assert name.lower() not in headers
            headers[name.lower()] = value.strip()
        body = self._read.read(int(headers["content-length"]))
        return Answer(int(status_line.split()[1]), headers, body)

    def is_answered(self) -> bool:
        """Return whether bytes can be read now, or the server has closed the connection."""
        readable, _, _ = select.select([self.socket], [], [], 0)
        return bool(readable)

    def is_closed(self) -> bool:
        """Wait for the next byte; return whether the server closed the connection instead."""
        try:
            return self._read.read(1) == b""
        except ConnectionResetError:
            return True


def eventually(holds: Callable[[], object]) -> None:
    """Wait until ``holds`` returns true; fail after 60 s."""
    deadline = time.monotonic() + PATIENT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def read_by_now(url: str, tls: ssl.SSLContext | None = None) -> None:
    """Wait until the server has read what was sent before, by serving a later connection."""
    with Connection(url, tls) as later:
        later.get("/livez")


def is_listening(url: str) -> bool:
    """Return whether the server accepts new connections."""
    try:
        Connection(url).close()
    except ConnectionError:
        return False
    return True


def _wrapped(plain: socket.socket, tls: ssl.SSLContext) -> socket.socket:
    try:
        return tls.wrap_socket(plain, server_hostname="127.0.0.1")
    except BaseException:
        plain.close()
        raise


def head(method: str, path: str, **headers: str) -> bytes:
    fields = {"Host": "x", "Content-Type": "application/json"} | headers
    lines = [f"{method} {path} HTTP/1.1", *(f"{key}: {value}" for key, value in fields.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def pod(**labels: str) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "ml", "uid": "u", "labels": labels}
    return {"metadata": metadata, "spec": {}}


def node(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {}}


NODES = [node("good", rdma="true"), node("plain")]
BINDING = {"PodName": "p", "PodNamespace": "ml", "PodUID": "u", "Node": "good"}


def request(verb: str, of: object = ..., nodes: Sequence[object] = NODES) -> bytes:
    """Return the body of a full-mode request of a verb, as kube-scheduler sends it."""
    asked = pod() if of is ... else of
    if verb == "bind":
        return json.dumps(BINDING).encode()
    if verb == "preempt":
        victims = {"Pods": [{"metadata": {"uid": "v"}}], "NumPDBViolations": 0}
        candidates = {"good": victims, "plain": victims}
        return json.dumps({"Pod": asked, "NodeNameToVictims": candidates}).encode()
    return json.dumps({"Pod": asked, "Nodes": {"items": list(nodes)}, "NodeNames": None}).encode()
