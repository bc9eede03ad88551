"""A plugin that hangs, on a server: its own request, the others beside it, and livez."""

import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from live_server import NODES, Connection, pod, request, serving

from kubextend import core
from kubextend.framework.plugin import Rejection
from kubextend.metrics import Metrics
from kubextend.plugins import HighCommPodFilter
from kubextend.profile import Profile, Profiles
from kubextend.server import Check, Health
from kubextend.verbs import Verbs

TIMEOUT_S = 1.5
FEW = 10


class Hangs:
    """A filter that hangs for the pods that say so, until the test is over."""

    name = "Hangs"

    def __init__(self) -> None:
        self.over = threading.Event()

    def filter_nodes(self, _state: object, of: core.Pod, _nodes: core.Nodes) -> Sequence[Rejection]:
        match of.labels.get("then"):
            case "sleep":
                self.over.wait(30)
            case "spin":
                while not self.over.is_set():
                    pass
        return []


class Another(Hangs):
    """What the others ask."""

    name = "Another"


@pytest.fixture
def plugin() -> Iterator[Hangs]:
    made = Hangs()
    yield made
    made.over.set()


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """What ``kubextend serve`` sets where there are plugins in Python."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before_s)


def verbs_of(plugin: Hangs) -> Verbs:
    profiles = [
        Profile("default-scheduler", filter=[plugin]),
        Profile("other", filter=[Another()]),
    ]
    return Verbs(
        Profiles.of(profiles),
        request_store=core.NodeStore(),
        metrics=Metrics(),
        http_timeout_s=TIMEOUT_S,
    )


def health_of(verbs: Verbs) -> Health:
    return Health(alive=[Check("plugins", verbs.limits.breakers.why_not_alive)])


def hanging(way: str) -> bytes:
    return request("filter", pod(then=way))


def of_another_scheduler() -> bytes:
    asked: dict[str, Any] = {**pod(), "spec": {"schedulerName": "other"}}
    return request("filter", asked)


def answered_until(connection: Connection, until: threading.Event, body: bytes) -> int:
    """How many requests, one after the other, were answered before that."""
    count = 0
    while not until.is_set():
        assert connection.post("/filter", body).status == 200
        count += 1
    return count


@pytest.mark.usefixtures("quick_switches")
@pytest.mark.parametrize("way", ["sleep", "spin"])
def test_other_requests_go_on_while_a_plugin_hangs(plugin: Hangs, way: str) -> None:
    verbs = verbs_of(plugin)
    answered = threading.Event()
    found: dict[str, Any] = {}

    def ask() -> None:
        # Also where no answer came: who asks beside it goes on until then.
        try:
            with Connection(url) as connection:
                began_s = time.monotonic()
                found["answer"] = connection.post("/filter", hanging(way))
                found["seconds"] = time.monotonic() - began_s
        finally:
            answered.set()

    with serving(verbs, health=health_of(verbs)) as url, Connection(url) as connection:
        body = of_another_scheduler()
        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(0.05)
        beside = answered_until(connection, answered, body)
        asking.join()
        assert connection.get("/livez").status == 200
        plugin.over.set()
    assert found["seconds"] < TIMEOUT_S
    assert found["answer"].status == 200
    assert found["answer"].error.startswith('Filter plugin "Hangs" failed')
    assert beside >= FEW


def test_two_stuck_threads_fail_livez_and_metrics_say_why(plugin: Hangs) -> None:
    verbs = verbs_of(plugin)
    with serving(verbs, health=health_of(verbs)) as url:
        asked = [Connection(url), Connection(url)]
        body = hanging("sleep")
        for connection in asked:
            connection.socket.sendall(
                b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
            )
        for connection in asked:
            assert connection.answer().error.startswith('Filter plugin "Hangs" failed')
            connection.close()
        with Connection(url) as connection:
            livez = connection.get("/livez")
            metrics = connection.get("/metrics").body.decode()
            again = connection.post("/filter", request("filter"))
        plugin.over.set()
    assert livez.status == 503
    assert '2 threads are stuck in plugin "Hangs"' in livez.body.decode()
    assert 'kubextend_plugin_breaker_open{plugin="Hangs"} 1.0' in metrics
    assert 'kubextend_plugin_breaker_open{plugin="Another"} 0.0' in metrics
    assert 'kubextend_plugin_stuck_threads{plugin="Hangs"} 2.0' in metrics
    assert again.error.startswith('Filter plugin "Hangs" failed')


def test_a_client_that_leaves_early_does_not_hide_a_hang(plugin: Hangs) -> None:
    verbs = verbs_of(plugin)
    with serving(verbs, health=health_of(verbs)) as url:
        body = hanging("sleep")
        with Connection(url) as connection:
            connection.socket.sendall(
                b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
            )
            time.sleep(0.1)
        time.sleep(TIMEOUT_S)
        with Connection(url) as connection:
            answer = connection.post("/filter", request("filter"))
        assert answer.error.startswith('Filter plugin "Hangs" failed')
        plugin.over.set()


def test_the_server_ends_although_a_plugin_never_does() -> None:
    plugin = Hangs()
    verbs = verbs_of(plugin)
    with serving(verbs) as url, Connection(url) as connection:
        connection.post("/filter", hanging("sleep"))
    # The end of the block waits for the server; the thread is a daemon that nobody joins.
    stuck = [thread for thread in threading.enumerate() if thread.name == "kubextend-verb"]
    assert all(thread.daemon for thread in stuck)
    plugin.over.set()


def test_a_body_that_comes_slowly_leaves_less_time_for_plugins(plugin: Hangs) -> None:
    verbs = verbs_of(plugin)
    body = hanging("sleep")
    with serving(verbs) as url, Connection(url) as connection:
        began_s = time.monotonic()
        connection.socket.sendall(
            b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body[:-1])
        )
        time.sleep(TIMEOUT_S * 0.5)
        connection.socket.sendall(body[-1:])
        answer = connection.answer()
        took_s = time.monotonic() - began_s
        plugin.over.set()
    assert answer.error
    assert took_s < TIMEOUT_S


def verb_threads() -> set[int | None]:
    """Those that are there now, of whatever verbs."""
    return {each.ident for each in threading.enumerate() if each.name == "kubextend-verb"}


def test_without_python_a_small_body_stays_on_the_event_loop() -> None:
    profile = Profile("default-scheduler", filter=[HighCommPodFilter()])
    verbs = Verbs(Profiles.of([profile]), request_store=core.NodeStore())
    with serving(verbs) as url, Connection(url) as connection:
        before = verb_threads()
        assert json.loads(connection.post("/filter", request("filter")).body)["Nodes"]
        assert verb_threads() <= before
        padded = request("filter", nodes=[*NODES, {"metadata": {"name": "x" * 1_000_001}}])
        assert connection.post("/filter", padded).status == 200
        assert len(verb_threads() - before) == 1
