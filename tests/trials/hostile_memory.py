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
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml
from tests.doors.scripted_api import ScriptedApi
from tests.e2e.workbench import until

from .clients import HEAD, filter_body
from .harness import Report, trial
from .hostile import WrongError
from .served import DECISION_BYTES, MB, ROOT, Served, filtering, scripted_api, serving

# The memory of an idle kubextend, with what the allocator adds.
MOST_BESIDE_LIMITS: Final = 60 * MB
MOST_LEFT: Final = 20 * MB
# The limit of one body and of all requests together: one request of this size excludes others.
BODY_LIMIT: Final = 26 * MB
_SHIPPED: Final = ROOT / "deploy" / "second-scheduler" / "kubextend.yaml"
_SCHEDULER: Final = "kubextend-scheduler"
# A server gives memory back after twice this time without large bodies.
_QUICK_LOOK_S: Final = 0.5
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
    "server": {"maxBodyBytes": BODY_LIMIT, "maxInFlightBytes": BODY_LIMIT},
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


@dataclass(frozen=True)
class Attack:
    """An attack that tries to fill the memory of the server.

    Attributes:
        name: the name of the attack's row in the report.
        limit: the bytes that the configuration lets the attack take.
        under_way: makes the attack; inside its context the server holds the most that the attack
            can make it hold.
        kept: the bytes that the configuration lets the server keep after the attack.
    """

    name: str
    limit: int
    under_way: Callable[[Served], AbstractContextManager[None]]
    kept: int = 0


@contextlib.contextmanager
def _leaving(count: int, field: str, server: Served) -> Iterator[None]:
    """Let clients disconnect while a plugin filters for their pods, which have a long field."""
    # Of a pod without a uid nothing is recorded.
    long = {"uid": "", "labels": {"waits": "yes"}, field: {"a": "x" * (24 * MB)}}
    body = filter_body(_ONE_NODE, **long)
    pipe = server.folder / "pipe"
    os.mkfifo(pipe)
    with contextlib.ExitStack() as stack:
        for number in range(count):
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


def _expect(answer: tuple[int, Any], status: int, error: str) -> None:
    """Require that an answer has this status and an Error with this text, or none."""
    said = answer[1]["Error"]
    if answer[0] != status or bool(said) != bool(error) or error not in said:
        message = f"{answer[0]} {said:.200}, not {status} {error}"
        raise WrongError(message)


# Name, what comes before, between commas, and after, in a body of as many elements as possible.
_DENSE: Final = {
    "containers": (b'{"Pod":{"spec":{"containers":[', b"{}", b"]}}}"),
    "tolerations": (b'{"Pod":{"spec":{"tolerations":[', b"{}", b"]}}}"),
    "items": (b'{"Nodes":{"items":[', b"{}", b"]}}"),
    "names": (b'{"NodeNames":[', b'""', b"]}"),
}


@contextlib.contextmanager
def _bodies(what: str, server: Served) -> Iterator[None]:
    """Send 4 MB of tiny elements five times; the server refuses each for its many elements."""
    before, element, after = _DENSE[what]
    body = before + b",".join([element] * (4 * MB // 3)) + after
    for _ in range(5):
        _expect(server.filter(body), 400, "more elements than a body of this length may have")
    yield


@contextlib.contextmanager
def _unbound(count: int, server: Served) -> Iterator[None]:
    """Send filter requests for pods of 600 KB, which pass and are never bound."""
    for number in range(count):
        annotations = {"a": f"{number:06}" * 100_000}
        of_pod = {"name": f"p-{number}", "uid": f"p-{number}", "annotations": annotations}
        _expect(server.filter(filter_body(_ONE_NODE, **of_pod)), 200, "")
    yield


@contextlib.contextmanager
def _announced(count: int, server: Served) -> Iterator[None]:
    """Let clients announce 24 MB each and send one byte, with a complete request in between.

    The memory that a complete body leaves behind would be lent to the next client.
    """
    body = filter_body(_ONE_NODE, uid="", unread={"a": "x" * (24 * MB)})
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            client = stack.enter_context(server.connect())
            client.sendall(HEAD + b"Content-Length: %d\r\n\r\n{" % len(body))
            # On a slow machine the thread of the earlier verb may still hold its body.
            until(lambda: server.filter(body)[0] == 200, "a body finds room")
        yield


@contextlib.contextmanager
def _heads(count: int, server: Served) -> Iterator[None]:
    """Send heads of 60 KB without an end, until the server refuses one for lack of memory."""
    refusals = partial(server.count, "kubextend_requests_refused_total", status="503")
    before = refusals()
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            client = stack.enter_context(server.connect())
            with contextlib.suppress(OSError):
                client.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 60_000)
        until(lambda: refusals() > before, "a head is refused")
        yield


def _attacks_on_requests(*, short: bool) -> Iterator[Attack]:
    """Yield the attacks by requests, which any client can make that can connect."""
    clients, pods = (5, 100) if short else (14, 200)
    leave = f"{clients} clients leave while 24 MB are looked at"
    yield Attack(f"{leave}, unread", BODY_LIMIT, partial(_leaving, clients, "unread"))
    # Values that are read from a body are held besides the body, and are not counted.
    annotations = partial(_leaving, clients, "annotations")
    yield Attack(f"{leave}, annotations", 2 * BODY_LIMIT, annotations)
    for what in _DENSE:
        yield Attack(f"4 MB of {what}", BODY_LIMIT, partial(_bodies, what))
    announced = partial(_announced, clients)
    yield Attack(f"{clients} clients announce 24 MB", BODY_LIMIT, announced)
    # A connection takes 20 KB more than what it reads.
    yield Attack("800 heads of 60 KB", BODY_LIMIT + 10 * MB, partial(_heads, 800))
    name = f"{pods} pods of 600 KB pass and are not bound"
    yield Attack(name, BODY_LIMIT, partial(_unbound, pods), kept=DECISION_BYTES)


def _tolerant(number: int) -> dict[str, Any]:
    keys = (f"example.com/t{number}-{each}" for each in range(14_000))
    return {"spec": {"tolerations": [{"key": key, "operator": "Exists"} for key in keys]}}


def _annotated(number: int) -> dict[str, Any]:
    value = f"{number:08}" * (250_000 // 8)
    return {"metadata": {"annotations": {"example.com/a": value}}}


def _put(api: ScriptedApi, number: int, parts: dict[str, Any]) -> None:
    """Create a pod that stays in the queue, because it has another gate too."""
    name = f"pod-{number:05}"
    with api.changed:
        gates = ["example.com/other", "kubextend.dev/queue"]
        api.put_gated_pod(name, gates, schedulerName=_SCHEDULER, **parts.get("spec", {}))
        api.pods[name]["metadata"] |= parts.get("metadata", {})


@contextlib.contextmanager
def _pods(
    api: ScriptedApi, count: int, make: Callable[[int], dict[str, Any]], server: Served
) -> Iterator[None]:
    """Create many large pods, which wait in the queue; delete them when the block ends."""
    heard = partial(server.count, "kubextend_reflector_events_total", resource="pods")
    queued = partial(server.count, "kubextend_queue_pods")
    events = heard()
    for number in range(count):
        _put(api, number, make(number))
    until(lambda: heard() >= events + count, "the pods are known")
    until(lambda: queued() == count, "the pods are queued")
    yield
    for name in [*api.pods]:
        api.delete_pod(name)
    until(lambda: queued() == 0, "the queue is empty")
    with api.changed:
        api.history.clear()


def _on_requests(report: Report, *, short: bool) -> None:
    """Make every attack by requests, each on a server of its own without a cluster."""
    for attack in _attacks_on_requests(short=short):
        with serving(_ON_REQUESTS, plugins={"waits": _PLUGIN}, look_s=_look_s(short)) as server:
            _measure(report, server, attack)


def _on_pods(report: Report, *, short: bool) -> None:
    """Make every attack by pods: on a server that watches them, and on one that lists them all."""
    shipped = yaml.safe_load(_SHIPPED.read_text())["server"]
    limits = {name: shipped[name] for name in ("maxBodyBytes", "maxInFlightBytes")}
    share = 5 if short else 1
    kinds = {
        "pods of 14,000 tolerations": (200 // share, _tolerant),
        "pods of 250 KB of annotations": (1100 // share, _annotated),
    }
    for name, (count, make) in kinds.items():
        with (
            scripted_api(["n1"]) as api,
            serving(_ON_PODS | {"server": limits}, api, look_s=_look_s(short)) as server,
        ):
            under_way = partial(_pods, api, count, make)
            attack = Attack(f"{count} {name}", limits["maxInFlightBytes"], under_way)
            start = _measure(report, server, attack)
            with under_way(server):
                server.restart()
                worst = server.worst_bytes()
            _judge(report, server, attack, start, worst, ", restarted")


def _look_s(short: bool) -> float | None:
    return _QUICK_LOOK_S if short else None


def _measure(report: Report, server: Served, attack: Attack) -> int:
    """Make an attack, and judge it; return the resident bytes before the attack."""
    # What the first request of a kind costs for ever is no part of any attack.
    server.filter(filter_body(_ONE_NODE, uid=""))
    start = server.resident_bytes()
    server.forget_worst()
    with attack.under_way(server):
        worst = server.worst_bytes()
    _judge(report, server, attack, start, worst)
    return start


def _judge(
    report: Report, server: Served, attack: Attack, start: int, worst: int, how: str = ""
) -> None:
    """Wait until the server has given memory back, and compare the bytes with those allowed.

    ``start`` and ``worst`` are the resident bytes before the attack and at its worst moment.
    """
    allowed_after = start + attack.kept + MOST_LEFT
    with contextlib.suppress(TimeoutError):
        until(lambda: server.resident_bytes() <= allowed_after, "memory is given back")
    if not server.program.is_running():
        raise WrongError(attack.name)
    allowed = attack.limit + attack.kept + MOST_BESIDE_LIMITS
    after = server.resident_bytes()
    shown = (f"{each / MB:.0f}" for each in (start, worst, allowed, after))
    said = " | ".join([f"{attack.name}{how}", *shown])
    report.tell(attacks=report.figures["attacks"] + 1)
    report.judge(worst <= allowed and after <= allowed_after, said)


@trial()
def hostile_memory(options: Namespace, report: Report) -> None:
    """Bodies and pods that are made to fill the memory of kubextend."""
    report.say("attack | start | worst | limit + 60 | after (MB)")
    report.tell(attacks=0)
    _on_requests(report, short=options.short)
    _on_pods(report, short=options.short)
