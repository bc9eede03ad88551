"""Measures how much memory attacks make ``kubextend serve`` take, and keep afterwards.

A limit of the configuration bounds each attack. At the worst moment the process may hold that limit
and the memory of an idle kubextend. After the attack the process may hold little more than before.
"""

import contextlib
import os
import socket
import struct
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml
from tests.doors.scripted_api import ScriptedApi
from tests.e2e.workbench import until

from .clients import HEAD, filter_body
from .harness import Report, trial
from .served import MB, ROOT, Served, filtering, scripted_api, serving

# The memory of an idle kubextend, with what the allocator adds.
_MOST_BESIDE_LIMITS: Final = 60 * MB
_MOST_LEFT: Final = 20 * MB
# The limit of one body and of all requests together: one request of this size excludes others.
_BODY_LIMIT: Final = 26 * MB
_CLIENTS: Final = 14
_SHIPPED: Final = ROOT / "deploy" / "second-scheduler" / "kubextend.yaml"
_SCHEDULER: Final = "kubextend-scheduler"
_ONE_NODE: Final = [{"metadata": {"name": "n"}}]
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
_ON_REQUESTS: Final[dict[str, Any]] = {
    "server": {"maxBodyBytes": _BODY_LIMIT, "maxInFlightBytes": _BODY_LIMIT},
    "extender": {"nodeCacheCapable": False, "httpTimeout": "3s"},
    "outOfTree": ["waits:Waits"],
    "profiles": [filtering("Waits")],
}
_ON_PODS: Final[dict[str, Any]] = {
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
# What comes before, between commas, and after, in a body of as many elements as possible.
_DENSE: Final = {
    "containers": (b'{"Pod":{"spec":{"containers":[', b"{}", b"]}}}"),
    "tolerations": (b'{"Pod":{"spec":{"tolerations":[', b"{}", b"]}}}"),
    "items": (b'{"Nodes":{"items":[', b"{}", b"]}}"),
    "names": (b'{"NodeNames":[', b'""', b"]}"),
}
# An attack, inside whose context the server holds the most that the attack can make it hold.
Attack = Callable[[Served], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def _leaving(field: str, server: Served) -> Iterator[None]:
    """Let clients disconnect while a plugin filters for their pods, which have a long field."""
    # Of a pod without a uid nothing is recorded.
    long = {"uid": "", "labels": {"waits": "yes"}, field: {"a": "x" * (24 * MB)}}
    body = filter_body(_ONE_NODE, **long)
    pipe = server.folder / "pipe"
    os.mkfifo(pipe)
    with contextlib.ExitStack() as stack:
        for number in range(_CLIENTS):
            with server.connect() as client:
                # Closed with a reset, so that the server hears of it at once.
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                with contextlib.suppress(OSError):
                    client.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
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


@contextlib.contextmanager
def _bodies(what: str, server: Served) -> Iterator[None]:
    """Send 4 MB of tiny elements five times; the server refuses each for its many elements."""
    before, element, after = _DENSE[what]
    for _ in range(5):
        status, said = server.filter(before + b",".join([element] * (4 * MB // 3)) + after)
        assert status == 400
        assert "more elements than a body of this length may have" in said["Error"]
    yield


def _tolerant(number: int) -> dict[str, Any]:
    keys = (f"example.com/t{number}-{each}" for each in range(14_000))
    return {"spec": {"tolerations": [{"key": key, "operator": "Exists"} for key in keys]}}


def _annotated(number: int) -> dict[str, Any]:
    value = f"{number:08}" * (250_000 // 8)
    return {"metadata": {"annotations": {"example.com/a": value}}}


@contextlib.contextmanager
def _pods(
    api: ScriptedApi, count: int, make: Callable[[int], dict[str, Any]], server: Served
) -> Iterator[None]:
    """Create many large pods, which wait in the queue; delete them when the block ends."""
    heard = partial(server.count, "kubextend_reflector_events_total", resource="pods")
    queued = partial(server.count, "kubextend_queue_pods")
    events = heard()
    for number in range(count):
        name, parts = f"pod-{number:05}", make(number)
        with api.changed:
            # The other gate keeps the pod in the queue.
            gates = ["example.com/other", "kubextend.dev/queue"]
            api.put_gated_pod(name, gates, schedulerName=_SCHEDULER, **parts.get("spec", {}))
            api.pods[name]["metadata"] |= parts.get("metadata", {})
    until(lambda: heard() >= events + count, "the pods are known")
    until(lambda: queued() == count, "the pods are queued")
    yield
    for name in [*api.pods]:
        api.delete_pod(name)
    until(lambda: queued() == 0, "the queue is empty")
    with api.changed:
        api.history.clear()


class Measurement:
    """Measures the memory of one server in attacks; the limit is that of the configuration."""

    def __init__(self, report: Report, server: Served, limit: int) -> None:
        self._report = report
        self._server = server
        self._allowed = limit + _MOST_BESIDE_LIMITS
        # What the first request of a kind costs for ever is no part of any attack.
        server.filter(filter_body(_ONE_NODE, uid=""))
        self._start = server.resident_bytes()

    def attack(self, name: str, under_way: Attack, *, restart: bool = False) -> None:
        """Make an attack, with a restart in its middle where one is wanted, and judge it."""
        server, allowed_after = self._server, self._start + _MOST_LEFT
        server.forget_worst()
        with under_way(server):
            if restart:
                server.restart()
            worst = server.worst_bytes()
        with contextlib.suppress(TimeoutError):
            until(lambda: server.resident_bytes() <= allowed_after, "memory is given back")
        after = server.resident_bytes()
        shown = [f"{each / MB:.0f}" for each in (self._start, worst, self._allowed, after)]
        right = worst <= self._allowed and after <= allowed_after and server.program.is_running()
        self._report.judge(right, " | ".join([name, *shown]))


@trial()
def hostile_memory(_: Namespace, report: Report) -> None:
    """Bodies and pods that are made to fill the memory of kubextend."""
    report.say("attack | start | worst | limit + 60 | after (MB)")
    # Values that are read from a body are held besides the body, and are not counted.
    on_requests: dict[str, tuple[int, Attack]] = {
        "clients leave, unread": (_BODY_LIMIT, partial(_leaving, "unread")),
        "clients leave, annotations": (2 * _BODY_LIMIT, partial(_leaving, "annotations")),
        **{f"4 MB of {what}": (_BODY_LIMIT, partial(_bodies, what)) for what in _DENSE},
    }
    for name, (limit, attack) in on_requests.items():
        with serving(_ON_REQUESTS, waits=_PLUGIN) as server:
            Measurement(report, server, limit).attack(name, attack)
    shipped = yaml.safe_load(_SHIPPED.read_text())["server"]
    limits = {name: shipped[name] for name in ("maxBodyBytes", "maxInFlightBytes")}
    for count, make in ((200, _tolerant), (1100, _annotated)):
        with scripted_api(["n1"]) as api, serving(_ON_PODS | {"server": limits}, api) as server:
            measured = Measurement(report, server, limits["maxInFlightBytes"])
            name = f"{count} pods, {make.__name__.strip('_')}"
            measured.attack(name, partial(_pods, api, count, make))
            measured.attack(f"{name}, restarted", partial(_pods, api, count, make), restart=True)
