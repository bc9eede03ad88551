"""Measures how much memory attacks make ``kubextend serve`` take, and keep afterwards.

A limit of the configuration bounds each attack. At the worst moment the process may hold that limit
and the memory of an idle kubextend. After the attack the process may hold little more than before.
"""

import contextlib
import itertools
import json
import os
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.e2e.workbench import Program, Workbench, until
from tests.integration.cluster.cluster_world import write_kubeconfig
from tests.integration.cluster.scripted_api import ScriptedApi

from .talk import ROOT, WrongError

MB: Final = 1_000_000
# The memory of an idle kubextend, with what the allocator adds.
MOST_BESIDE_LIMITS: Final = 60 * MB
MOST_LEFT: Final = 20 * MB
# The limit of one body and of all requests together: one request of this size excludes others.
BODY_LIMIT: Final = 26 * MB
# The default of server.decisions.maxBytes: the records of what was decided about pods.
DECISION_BYTES: Final = 64 << 20
_SHIPPED: Final = ROOT / "deploy" / "second-scheduler" / "kubextend.yaml"
_SCHEDULER: Final = "kubextend-scheduler"
# A server gives memory back after twice this time without large bodies.
_QUICK_LOOK_S: Final = 0.5
_SERVE: Final = """
from functools import partialmethod
from kubextend.cli import main
from kubextend.server.freed_memory import FreedMemory
look_s = {look_s}
if look_s is not None:
    FreedMemory.watch = partialmethod(FreedMemory.watch, every_s=look_s)
main()
"""
_PLUGIN: Final = '''
from pathlib import Path


class Waits:
    """Looks at a pod that says so for as long as nobody opens a pipe."""

    name = "Waits"

    def filter_nodes(self, state, pod, nodes):
        if pod.matches("waits"):
            Path(__file__).with_name("pipe").read_bytes()
        return []
'''


class Served:
    """A ``kubextend serve`` process under attack.

    Args:
        bench: runs the process in a folder.
        config: the configuration, without addresses and cluster.
        api: the Kubernetes API that kubextend watches; None: no API.
        look_s: the seconds between two checks whether to give memory back; None: the default.

    Attributes:
        port: the port of the verbs.
        health_port: the port of health and metrics.
        folder: the folder of the process's files.
        config_file: the configuration, with addresses and cluster.
    """

    def __init__(
        self,
        bench: Workbench,
        config: dict[str, Any],
        api: ScriptedApi | None = None,
        *,
        look_s: float | None = None,
    ) -> None:
        # No connection is kept alive, so that nothing stays open in the server.
        once = httpx.Limits(max_keepalive_connections=0)
        self._client = httpx.Client(timeout=60.0, trust_env=False, limits=once)
        self._code = _SERVE.format(look_s=look_s)
        self.port, self.health_port = bench.free_port(), bench.free_port()
        self.folder, self.api, self._bench = bench.folder, api, bench
        ours = {"host": "127.0.0.1", "port": self.port}
        health = {"healthHost": "127.0.0.1", "healthPort": self.health_port}
        whole = {
            "apiVersion": "kubextend.dev/v1alpha1",
            "kind": "ExtenderConfiguration",
            **config,
            "server": {**config["server"], **ours, **health},
        }
        if api is not None:
            write_kubeconfig(self.folder / "kubeconfig", api.url, "a-token")
            whole["cluster"] = {"kubeconfig": str(self.folder / "kubeconfig")}
        self.config_file = self.folder / "kubextend.json"
        self.config_file.write_text(json.dumps(whole))
        self.program = self._started()

    def restart(self) -> None:
        """End the process, and start another that is ready when this returns."""
        self._bench.end(self.program)
        self.program = self._started()

    def _started(self) -> Program:
        paths = [str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        program = self._bench.start(
            "kubextend",
            *(sys.executable, "-c", self._code, "serve", "--config", self.config_file),
            environment={"PYTHONPATH": os.pathsep.join(paths)},
        )
        until(self.is_ready, "kubextend is ready", program=program)
        return program

    def is_ready(self) -> bool:
        """Return whether ``/readyz`` answers that the process is ready."""
        with contextlib.suppress(httpx.TransportError):
            return self._health("/readyz").is_success
        return False

    def count(self, name: str, **labels: str) -> float:
        """Return the sum of the metric samples with this name and these labels."""
        return sum(
            sample.value
            for family in text_string_to_metric_families(self._health("/metrics").text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def resident_bytes(self) -> int:
        """Return the resident memory of the process in bytes."""
        return self._memory("VmRSS")

    def worst_bytes(self) -> int:
        """Return the highest resident memory in bytes since ``forget_worst``, or the start."""
        return self._memory("VmHWM")

    def forget_worst(self) -> None:
        """Let the kernel measure the highest resident memory anew from now on."""
        # Source: proc(5), /proc/pid/clear_refs
        Path(f"/proc/{self.program.pid}/clear_refs").write_text("5")

    def connect(self, port: int) -> socket.socket:
        """Open a TCP connection to a port of the process."""
        return socket.create_connection(("127.0.0.1", port), timeout=60.0)

    def filter(self, body: bytes) -> httpx.Response:
        """Send a body to filter, and return the answer."""
        url = f"http://127.0.0.1:{self.port}/filter"
        return self._client.post(url, content=body, headers={"content-type": "application/json"})

    def refused(self, status: int) -> float:
        """Return how many requests were refused with this status since the server's start."""
        return self.count("kubextend_requests_refused_total", status=str(status))

    def _health(self, path: str) -> httpx.Response:
        return self._client.get(f"http://127.0.0.1:{self.health_port}{path}")

    def _memory(self, field: str) -> int:
        status = Path(f"/proc/{self.program.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith(f"{field}:"))
        return int(line.split()[1]) * 1024


@dataclass(frozen=True)
class Attack:
    """An attack that tries to fill the memory of the server.

    Attributes:
        name: the name of the attack's row in the report.
        limit: the bytes that the configuration lets the attack take.
        kept: the bytes that the configuration lets the server keep after the attack.
        under_way: makes the attack; inside its context the server holds the most that the attack
            can make it hold.
    """

    name: str
    limit: int
    under_way: Callable[[Served], AbstractContextManager[None]]
    kept: int = 0


@dataclass(frozen=True)
class Figures:
    """The resident bytes before an attack, at its worst moment, allowed at most, and after it."""

    attack: str
    start: int
    worst: int
    allowed: int
    after: int
    allowed_after: int

    def __str__(self) -> str:
        megabytes = (
            round(each / MB) for each in (self.start, self.worst, self.allowed, self.after)
        )
        return " | ".join([self.attack, *map(str, megabytes)])

    @property
    def is_bounded(self) -> bool:
        """Whether the server took no more memory than allowed, and gave the memory back."""
        return self.worst <= self.allowed and self.after <= self.allowed_after


# Name, whether to use the health port, request line and Content-Type of requests without end.
_ENDLESS: Final = {
    "trailers to a verb": (False, b"POST /filter HTTP/1.1", b"application/json"),
    "trailers to livez": (False, b"POST /livez HTTP/1.1", b"text/plain"),
    "trailers to the health port": (True, b"POST /livez HTTP/1.1", b"text/plain"),
}


@contextlib.contextmanager
def _trailers(health: bool, line: bytes, kind: bytes, server: Served) -> Iterator[None]:
    """Send ten megabytes of trailers, or as many as the server takes before it closes.

    The status of the answer depends on what the server has read, and is not checked.
    """
    head = b"%b\r\nHost: x\r\nContent-Type: %b\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    with server.connect(server.health_port if health else server.port) as client:
        with contextlib.suppress(OSError):
            client.sendall(head % (line, kind))
            for _ in range(100):
                client.sendall(b"a:b\r\n" * 20_000)
        with contextlib.suppress(ConnectionError):
            while client.recv(1 << 16):
                pass
        yield


def _request(pod: dict[str, Any]) -> bytes:
    return json.dumps({"Pod": pod, "Nodes": {"items": [{"metadata": {"name": "n"}}]}}).encode()


@contextlib.contextmanager
def _leaving(count: int, field: str, server: Served) -> Iterator[None]:
    """Let clients disconnect while a plugin filters for their pods, which have a long field."""
    metadata = {"name": "p", "labels": {"waits": "yes"}, field: {"a": "x" * (24 * MB)}}
    body = _request({"metadata": metadata})
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    pipe = server.folder / "pipe"
    os.mkfifo(pipe)
    with contextlib.ExitStack() as stack:
        for number in range(count):
            with server.connect(server.port) as client:
                # Closed with a reset, so that the server hears of it at once.
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                with contextlib.suppress(OSError):
                    client.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
                if number == 0:
                    end = until(partial(_end_of, pipe), "the plugin looks at the first pod")
                    stack.callback(os.close, end)
        yield
        pipe.unlink()


def _end_of(pipe: Path) -> int | None:
    """Return the write end of the pipe while a process reads from the pipe."""
    with contextlib.suppress(OSError):
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    return None


def _dense(what: str, length: int) -> bytes:
    """Return a body of about this length that consists of as many elements as possible."""
    before, element, after = {
        "containers": (b'{"Pod":{"spec":{"containers":[', b"{}", b"]}}}"),
        "tolerations": (b'{"Pod":{"spec":{"tolerations":[', b"{}", b"]}}}"),
        "items": (b'{"Nodes":{"items":[', b"{}", b"]}}"),
        "names": (b'{"NodeNames":[', b'""', b"]}"),
    }[what]
    return before + b",".join([element] * (length // 3)) + after


def _expect(answer: httpx.Response, status: int, error: str) -> None:
    """Require that the answer has this status and an Error with this text."""
    said = answer.json()["Error"]
    if (answer.status_code, said) != (status, said if error and error in said else error):
        message = f"{answer.status_code} {said:.200}, not {status} {error}"
        raise WrongError(message)


@contextlib.contextmanager
def _bodies(what: str, server: Served) -> Iterator[None]:
    """Send 4 MB of tiny elements five times; the server refuses each for its many elements."""
    body = _dense(what, 4 * MB)
    for _ in range(5):
        _expect(server.filter(body), 400, "more elements than a body of this length may have")
    yield


@contextlib.contextmanager
def _unbound(count: int, server: Served) -> Iterator[None]:
    """Send filter requests for pods of 600 KB, which pass and are never bound."""
    for number in range(count):
        name = f"p-{number}"
        annotations = {"a": f"{number:06}" * 100_000}
        pod = {"metadata": {"name": name, "uid": name, "annotations": annotations}}
        _expect(server.filter(_request(pod)), 200, "")
    yield


@contextlib.contextmanager
def _announced(count: int, server: Served) -> Iterator[None]:
    """Let clients announce 24 MB each and send one byte, with a complete request in between.

    The memory that a complete body leaves behind would be lent to the next client.
    """
    body = _request({"metadata": {"name": "p", "unread": {"a": "x" * (24 * MB)}}})
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            client = stack.enter_context(server.connect(server.port))
            client.sendall(head + b"Content-Length: %d\r\n\r\n{" % len(body))
            # On a slow machine the thread of the earlier verb may still hold its body.
            until(lambda: server.filter(body).is_success, "a body finds room")
        yield


@contextlib.contextmanager
def _heads(count: int, server: Served) -> Iterator[None]:
    """Send heads of 60 KB without an end, until the server refuses one for lack of memory."""
    refused = server.refused(503)
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            client = stack.enter_context(server.connect(server.port))
            with contextlib.suppress(OSError):
                client.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 60_000)
        until(lambda: server.refused(503) > refused, "a head is refused")
        yield


def attacks_on_requests(*, short: bool = False) -> Iterator[Attack]:
    """Yield the attacks by requests, which any client can make that can connect."""
    clients, pods = (5, 100) if short else (14, 200)
    for name, said in _ENDLESS.items():
        yield Attack(name, BODY_LIMIT, partial(_trailers, *said))
    leave = f"{clients} clients leave while 24 MB are looked at"
    yield Attack(f"{leave}, unread", BODY_LIMIT, partial(_leaving, clients, "unread"))
    # Values that are read from a body are held besides the body, and are not counted.
    annotations = partial(_leaving, clients, "annotations")
    yield Attack(f"{leave}, annotations", 2 * BODY_LIMIT, annotations)
    for what in ("containers", "tolerations", "items", "names"):
        yield Attack(f"4 MB of {what}", BODY_LIMIT, partial(_bodies, what))
    announced = partial(_announced, clients)
    yield Attack(f"{clients} clients announce 24 MB", BODY_LIMIT, announced)
    # A connection takes 20 KB beside what it reads.
    yield Attack("800 heads of 60 KB", BODY_LIMIT + 10 * MB, partial(_heads, 800))
    unbound = partial(_unbound, pods)
    name = f"{pods} pods of 600 KB pass and are not bound"
    yield Attack(name, BODY_LIMIT, unbound, kept=DECISION_BYTES)


def _tolerant(number: int) -> dict[str, Any]:
    keys = (f"example.com/t{number}-{each}" for each in range(14_000))
    return {"spec": {"tolerations": [{"key": key, "operator": "Exists"} for key in keys]}}


def _annotated(length: int, number: int) -> dict[str, Any]:
    value = f"{number:08}" * (length // 8)
    return {"metadata": {"annotations": {"example.com/a": value}}}


def _put(api: ScriptedApi, number: int, parts: dict[str, Any]) -> None:
    """Create a pod that stays in the queue, because it has another gate too."""
    name = f"pod-{number:05}"
    with api.changed:
        gates = ["example.com/other", "kubextend.dev/queue"]
        api.put_gated_pod(name, gates, schedulerName=_SCHEDULER, **parts.get("spec", {}))
        api.pods[name]["metadata"] |= parts.get("metadata", {})


@contextlib.contextmanager
def _pods(count: int, make: Callable[[int], dict[str, Any]], server: Served) -> Iterator[None]:
    """Create many large pods, which wait in the queue; delete them when the block ends."""
    api = server.api
    assert api is not None
    events = server.count("kubextend_reflector_events_total", resource="pods")
    for number in range(count):
        _put(api, number, make(number))
    until(lambda: _heard(server) >= events + count, "the pods are known")
    until(lambda: _queued(server) == count, "the pods are queued")
    yield
    for name in [*api.pods]:
        api.delete_pod(name)
    until(lambda: _queued(server) == 0, "the queue is empty")
    with api.changed:
        api.history.clear()


def _heard(server: Served) -> float:
    return server.count("kubextend_reflector_events_total", resource="pods")


def _queued(server: Served) -> float:
    return server.count("kubextend_queue_pods")


def kinds_of_pods(*, short: bool) -> dict[str, tuple[int, Callable[[int], dict[str, Any]]]]:
    """Return the kinds of large pods by name: how many to create, and what makes one of them."""
    share = 5 if short else 1
    return {
        "pods of 14,000 tolerations": (200 // share, _tolerant),
        "pods of 250 KB of annotations": (1100 // share, partial(_annotated, 250_000)),
    }


def shipped_server() -> dict[str, int]:
    """Return the limits on bytes in the configuration of deploy/second-scheduler."""
    server = yaml.safe_load(_SHIPPED.read_text())["server"]
    return {name: server[name] for name in ("maxBodyBytes", "maxInFlightBytes")}


def on_requests(*, short: bool = False) -> Iterator[Figures]:
    """Make every attack by requests, each on a server of its own without a cluster."""
    config = {
        "server": {"maxBodyBytes": BODY_LIMIT, "maxInFlightBytes": BODY_LIMIT},
        "extender": {"nodeCacheCapable": False, "httpTimeout": "3s"},
        "outOfTree": ["waits:Waits"],
        "profiles": [{"plugins": {"filter": {"enabled": [{"name": "Waits"}]}}}],
    }
    for attack in attacks_on_requests(short=short):
        with _bench() as bench:
            (bench.folder / "waits.py").write_text(_PLUGIN)
            yield measured(Served(bench, config, look_s=_look_s(short=short)), attack)


def _look_s(*, short: bool) -> float | None:
    return _QUICK_LOOK_S if short else None


def on_pods(*, short: bool = False) -> Iterator[Figures]:
    """Make every attack by pods: on a server that watches them, and on one that lists them all."""
    limits = shipped_server()
    config = {
        "server": limits,
        "queue": {"lease": {"namespace": "default"}},
        "profiles": [
            {
                "schedulerName": _SCHEDULER,
                "plugins": {
                    "queueSort": {"enabled": [{"name": "PrioritySort"}]},
                    "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
                },
            }
        ],
    }
    limit = limits["maxInFlightBytes"]
    for name, (count, make) in kinds_of_pods(short=short).items():
        with _bench() as bench, _api() as api:
            server = Served(bench, config, api, look_s=_look_s(short=short))
            attack = partial(_pods, count, make)
            figures = measured(server, Attack(f"{count} {name}", limit, attack))
            yield figures
            again = Attack(f"{count} {name}, restarted", limit, attack)
            yield restarted(server, again, figures.start)


def restarted(server: Served, attack: Attack, start: int) -> Figures:
    """Make the attack on a server that starts when all its pods are there."""
    with attack.under_way(server):
        server.restart()
        worst = server.worst_bytes()
    return _figures(server, attack, start, worst)


@contextlib.contextmanager
def _bench() -> Iterator[Workbench]:
    with tempfile.TemporaryDirectory() as folder, Workbench(Path(folder)) as bench:
        yield bench


@contextlib.contextmanager
def _api() -> Iterator[ScriptedApi]:
    api = ScriptedApi()
    api.up()
    api.put_node("n1")
    yield api
    api.down()


def measured(server: Served, attack: Attack) -> Figures:
    """Make an attack on a server, and return the figures."""
    # What the first request of a kind costs for ever is no part of any attack.
    server.filter(_request({"metadata": {"name": "p"}}))
    start = server.resident_bytes()
    server.forget_worst()
    with attack.under_way(server):
        worst = server.worst_bytes()
    return _figures(server, attack, start, worst)


def _figures(server: Served, attack: Attack, start: int, worst: int) -> Figures:
    """Wait until the server has given memory back, and return the figures of the attack."""
    allowed_after = start + attack.kept + MOST_LEFT
    with contextlib.suppress(TimeoutError):
        until(lambda: server.resident_bytes() <= allowed_after, "memory is given back")
    if not server.program.is_running():
        raise WrongError(attack.name)
    allowed = attack.limit + attack.kept + MOST_BESIDE_LIMITS
    after = server.resident_bytes()
    return Figures(attack.name, start, worst, allowed, after, allowed_after)


def main() -> int:
    """Print a line for each attack. Exit code: 0 where every one of them was bounded."""
    sys.stdout.write("attack | start | worst | limit + 60 | after (MB)\n")
    wrong = 0
    for each in itertools.chain(on_requests(), on_pods()):
        wrong += not each.is_bounded
        sys.stdout.write(f"{each}{'' if each.is_bounded else ' WRONG'}\n")
        sys.stdout.flush()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
