"""A plugin that hangs, on a server: its own request, the others beside it, and livez."""

import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from live_server import (
    NODES,
    PATIENT_S,
    Connection,
    eventually,
    head,
    pod,
    read_by_now,
    request,
    serving,
)

from kubextend import core
from kubextend.framework.plugin import Rejection
from kubextend.metrics import Metrics
from kubextend.plugins import HighCommPodFilter
from kubextend.profile import Profile, Profiles
from kubextend.server import Health, HealthCheck
from kubextend.verbs import Verbs
from make_verbs import make_verbs

# Answers come at four fifths of it. A plugin is to blame if it has more than half of that time: a
# busy machine has a second and a half to begin its call.
TIMEOUT_S = 4.0
# Where an answer is never to come, an hour is never waited for.
NEVER_S = 3600.0
FEW = 10


class Hangs:
    """A filter that hangs for the pods that say so, until the test is over.

    Attributes:
        hanging: calls that have begun to hang.
    """

    name = "Hangs"

    def __init__(self) -> None:
        self.over = threading.Event()
        self.hanging = 0

    def filter_nodes(self, _state: object, of: core.Pod, _nodes: core.Nodes) -> Sequence[Rejection]:
        way = of.labels.get("then")
        self.hanging += way is not None
        if way == "sleep":
            self.over.wait(2 * PATIENT_S)
        while way == "spin" and not self.over.is_set():
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


def verbs_of(plugin: Hangs, timeout_s: float = TIMEOUT_S) -> Verbs:
    profiles = [
        Profile("default-scheduler", filter=[plugin]),
        Profile("other", filter=[Another()]),
    ]
    return make_verbs(
        Profiles.of(profiles),
        metrics=Metrics(),
        http_timeout_s=timeout_s,
    )


def health_of(verbs: Verbs) -> Health:
    return Health(alive=[HealthCheck("plugins", verbs.limits.breakers.why_not_alive)])


def filtering(body: bytes) -> bytes:
    return head("POST", "/filter", **{"Content-Length": str(len(body))}) + body


def hanging(way: str = "sleep") -> bytes:
    return filtering(request("filter", pod(then=way)))


def of_another_scheduler() -> bytes:
    asked: dict[str, Any] = {**pod(), "spec": {"schedulerName": "other"}}
    return request("filter", asked)


FAILED = 'Filter plugin "Hangs" failed'


@pytest.mark.usefixtures("quick_switches")
@pytest.mark.parametrize("way", ["sleep", "spin"])
def test_other_requests_go_on_while_a_plugin_hangs(plugin: Hangs, way: str) -> None:
    verbs = verbs_of(plugin, NEVER_S)
    with (
        serving(verbs, health=health_of(verbs)) as url,
        Connection(url) as stuck,
        Connection(url) as beside,
    ):
        stuck.send(hanging(way))
        eventually(lambda: plugin.hanging)
        for _ in range(FEW):
            assert beside.post("/filter", of_another_scheduler()).status == 200
            assert beside.get("/livez").status == 200
        assert not stuck.is_answered()
        plugin.over.set()
        assert stuck.answer().error == ""


@pytest.mark.usefixtures("quick_switches")
@pytest.mark.parametrize("way", ["sleep", "spin"])
def test_a_request_is_answered_though_its_plugin_hangs_on(plugin: Hangs, way: str) -> None:
    verbs = verbs_of(plugin)
    with serving(verbs, health=health_of(verbs)) as url, Connection(url) as connection:
        connection.send(hanging(way))
        answer = connection.answer()
        assert connection.get("/livez").status == 200
        assert not plugin.over.is_set()
        plugin.over.set()
    assert answer.status == 200
    assert answer.error.startswith(FAILED)


def test_two_stuck_threads_fail_livez_and_metrics_say_why(plugin: Hangs) -> None:
    verbs = verbs_of(plugin)
    with (
        serving(verbs, health=health_of(verbs)) as url,
        Connection(url) as first,
        Connection(url) as second,
        Connection(url) as connection,
    ):
        for stuck in (first, second):
            stuck.send(hanging())
        for stuck in (first, second):
            assert stuck.answer().error.startswith(FAILED)
        livez = connection.get("/livez")
        metrics = connection.get("/metrics").body.decode()
        again = connection.post("/filter", request("filter"))
        plugin.over.set()
    assert livez.status == 503
    assert '2 threads are stuck in plugin "Hangs"' in livez.body.decode()
    assert 'kubextend_plugin_breaker_open{plugin="Hangs"} 1.0' in metrics
    assert 'kubextend_plugin_breaker_open{plugin="Another"} 0.0' in metrics
    assert 'kubextend_plugin_stuck_threads{plugin="Hangs"} 2.0' in metrics
    assert again.error.startswith(FAILED)


def test_a_client_that_leaves_early_does_not_hide_a_hang(plugin: Hangs) -> None:
    with serving(verbs_of(plugin)) as url, Connection(url) as connection:
        with Connection(url) as leaving:
            leaving.send(hanging())
            eventually(lambda: plugin.hanging)
        # A healthy pod is answered until the hang is noticed, and the plugin called no more.
        eventually(
            lambda: connection.post("/filter", request("filter")).error.startswith(FAILED),
        )
        plugin.over.set()


def test_the_server_ends_although_a_plugin_never_does(plugin: Hangs) -> None:
    before = verb_threads()
    with serving(verbs_of(plugin)) as url, Connection(url) as connection:
        connection.send(hanging())
        assert connection.answer().error.startswith(FAILED)
    # The end of the block waits for the server; the thread is a daemon that nobody joins.
    assert not plugin.over.is_set()
    stuck = verb_threads() - before
    assert stuck
    assert all(thread.daemon for thread in stuck)


def test_the_time_of_a_verb_begins_before_its_body_is_there(
    plugin: Hangs, monkeypatch: pytest.MonkeyPatch
) -> None:
    verbs = verbs_of(plugin)
    arrived_s: list[float] = []
    answer = verbs.filter.answer

    def noted(body: Any, arrived: float, *more: Any) -> Any:
        arrived_s.append(arrived)
        return answer(body, arrived, *more)

    monkeypatch.setattr(verbs.filter, "answer", noted)
    sent = filtering(request("filter"))
    with serving(verbs) as url, Connection(url) as connection:
        connection.send(sent[:-1])
        read_by_now(url)
        nearly_whole_s = time.monotonic()
        connection.send(sent[-1:])
        assert connection.answer().error == ""
    assert len(arrived_s) == 1
    assert arrived_s[0] < nearly_whole_s


def verb_threads() -> set[threading.Thread]:
    """Those that are there now, of whatever verbs."""
    return {each for each in threading.enumerate() if each.name == "kubextend-verb"}


def test_without_python_a_small_body_stays_on_the_event_loop() -> None:
    profile = Profile("default-scheduler", filter=[HighCommPodFilter()])
    verbs = make_verbs(Profiles.of([profile]))
    with serving(verbs) as url, Connection(url) as connection:
        before = verb_threads()
        assert json.loads(connection.post("/filter", request("filter")).body)["Nodes"]
        assert verb_threads() <= before
        padded = request("filter", nodes=[*NODES, {"metadata": {"name": "x" * 1_000_001}}])
        assert connection.post("/filter", padded).status == 200
        assert len(verb_threads() - before) == 1
