"""A plugin that hangs in a process of its own, on a server that goes on."""

from collections.abc import Iterator
from typing import Any

import pytest
from isolated_hang import HangsInC
from live_server import Connection, NeedsRdma, head, pod, read_by_now, request, serving

from kubextend.framework.registered_plugin import RegisteredPlugin
from kubextend.metrics import Metrics
from kubextend.profile import Profile, Profiles
from kubextend.profile.isolation import IsolatedPlugin
from kubextend.server import Check, Health
from kubextend.verbs import Verbs
from make_verbs import make_verbs

# A plugin is to blame if it has more than half of the time: a busy machine has a second and a half
# to begin its call.
TIMEOUT_S = 4.0
NEVER_S = 3600.0
FEW = 10
FAILED = 'Filter plugin "HangsInC" failed; kubextend\'s log says how'


@pytest.fixture
def plugin() -> Iterator[IsolatedPlugin]:
    made = IsolatedPlugin.of(RegisteredPlugin("HangsInC", HangsInC), None, ["filter"])
    yield made
    made.stop()


def verbs_of(plugin: IsolatedPlugin, timeout_s: float) -> Verbs:
    profiles = [
        Profile("default-scheduler", filter=[plugin]),
        Profile("other", filter=[NeedsRdma()]),
    ]
    return make_verbs(
        Profiles.of(profiles),
        metrics=Metrics(),
        http_timeout_s=timeout_s,
    )


def of_another_scheduler() -> bytes:
    asked: dict[str, Any] = {**pod(), "spec": {"schedulerName": "other"}}
    return request("filter", asked)


def health_of(verbs: Verbs) -> Health:
    return Health(alive=[Check("plugins", verbs.limits.breakers.why_not_alive)])


WAYS = pytest.mark.parametrize("way", ["gil", "sleep", "spin"])


@WAYS
def test_everything_else_goes_on_while_it_hangs(plugin: IsolatedPlugin, way: str) -> None:
    verbs = verbs_of(plugin, NEVER_S)
    body = request("filter", pod(then=way))
    with (
        serving(verbs, health=health_of(verbs)) as url,
        Connection(url) as stuck,
        Connection(url) as beside,
    ):
        # The process is there, so that what hangs does so at once.
        assert beside.post("/filter", request("filter")).error == ""
        stuck.send(head("POST", "/filter", **{"Content-Length": str(len(body))}), body)
        read_by_now(url)
        for _ in range(FEW):
            other = beside.post("/filter", of_another_scheduler())
            assert (other.status, other.error) == (200, "")
            assert beside.get("/livez").status == 200
        assert not stuck.is_answered()


@WAYS
def test_a_request_is_answered_though_its_plugin_hangs_on(plugin: IsolatedPlugin, way: str) -> None:
    verbs = verbs_of(plugin, TIMEOUT_S)
    with serving(verbs, health=health_of(verbs)) as url, Connection(url) as connection:
        found = connection.post("/filter", request("filter", pod(then=way)))
        assert connection.get("/livez").status == 200
        metrics = connection.get("/metrics").body.decode()
        again = connection.post("/filter", request("filter"))
    assert (found.status, found.error) == (200, FAILED)
    assert again.error == FAILED
    assert 'kubextend_plugin_breaker_open{plugin="HangsInC"} 1.0' in metrics
    assert 'kubextend_plugin_stuck_threads{plugin="HangsInC"} 0.0' in metrics
