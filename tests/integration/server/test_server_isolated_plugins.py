"""A plugin that hangs in a process of its own, on a server that goes on."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from isolated_hang import HangsInC
from live_server import Connection, NeedsRdma, pod, request, serving

from kubextend import core
from kubextend.framework.registry import RegisteredPlugin
from kubextend.metrics import Metrics
from kubextend.profile import Profile, Profiles
from kubextend.profile.isolation import IsolatedPlugin
from kubextend.server import Check, Health
from kubextend.verbs import Verbs

TIMEOUT_S = 1.5
FAILED = 'Filter plugin "HangsInC" failed; kubextend\'s log says how'


@pytest.fixture
def verbs() -> Iterator[Verbs]:
    plugin = IsolatedPlugin.of(RegisteredPlugin("HangsInC", HangsInC), None, ["filter"])
    profiles = [
        Profile("default-scheduler", filter=[plugin]),
        Profile("other", filter=[NeedsRdma()]),
    ]
    yield Verbs(
        Profiles.of(profiles),
        request_store=core.NodeStore(),
        metrics=Metrics(),
        http_timeout_s=TIMEOUT_S,
    )
    plugin.stop()


def of_another_scheduler() -> bytes:
    asked: dict[str, Any] = {**pod(), "spec": {"schedulerName": "other"}}
    return request("filter", asked)


@pytest.mark.parametrize("way", ["gil", "sleep", "spin"])
def test_everything_else_goes_on_while_it_hangs(verbs: Verbs, way: str) -> None:
    health = Health(alive=[Check("plugins", verbs.limits.breakers.why_not_alive)])
    found: dict[str, Any] = {}
    answered = threading.Event()

    def ask() -> None:
        with Connection(url) as connection:
            found["answer"] = connection.post("/filter", request("filter", pod(then=way)))
        answered.set()

    with serving(verbs, health=health) as url, Connection(url) as connection:
        asking = threading.Thread(target=ask)
        asking.start()
        beside = 0
        while not answered.is_set():
            other = connection.post("/filter", of_another_scheduler())
            assert (other.status, other.error) == (200, "")
            assert connection.get("/livez").status == 200
            beside += 1
        asking.join()
        metrics = connection.get("/metrics").body.decode()
        again = connection.post("/filter", request("filter"))
    # A server that stands still answers one of them at most before it answers what hangs.
    assert beside > 10
    assert (found["answer"].status, found["answer"].error) == (200, FAILED)
    assert again.error == FAILED
    assert 'kubextend_plugin_breaker_open{plugin="HangsInC"} 1.0' in metrics
    assert 'kubextend_plugin_stuck_threads{plugin="HangsInC"} 0.0' in metrics
