"""A plugin that hangs, on a server: its own request, the requests of others, and livez."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.doors.extender import IN_PYTHON, Extender, NeedsRdma, pod, profile, request
from tests.doors.sockets import Connection, eventually, posted, serve

pytestmark = pytest.mark.slow

# kubextend answers at four fifths of it.
TIMEOUT = {"httpTimeout": "4s"}
# Where an answer is never to come, an hour is never waited for.
NEVER = {"httpTimeout": "1h"}
FAILED = 'Filter plugin "NeedsRdma" failed'


class Another(NeedsRdma):
    """The filter of another scheduler."""

    name = "Another"


def made(timeout: dict[str, str]) -> Extender:
    other = profile(name="other", filter=["Another"])
    return Extender(Another, profiles=[IN_PYTHON, other], extender=timeout)


@pytest.fixture
def extender() -> Iterator[Extender]:
    extender = made(TIMEOUT)
    yield extender
    extender.plugin("NeedsRdma").let_go.set()


@pytest.fixture
def _quick_switches() -> Iterator[None]:
    """Let threads take turns as ``kubextend serve`` does where there are plugins in Python."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before_s)


def hanging(way: str = "hang") -> bytes:
    return posted("/filter", request("filter", pod(then=way)))


def of_another_scheduler() -> bytes:
    asked: dict[str, Any] = {**pod(), "spec": {"schedulerName": "other"}}
    return request("filter", asked)


@pytest.mark.usefixtures("_quick_switches")
@pytest.mark.parametrize("way", ["hang", "spin"])
def test_other_requests_go_on_while_a_plugin_hangs(way: str) -> None:
    extender = made(NEVER)
    plugin = extender.plugin("NeedsRdma")
    with (
        serve(extender) as served,
        Connection(served.url) as stuck,
        Connection(served.url) as other,
    ):
        stuck.send(hanging(way))
        eventually(lambda: plugin.asked)
        try:
            for _ in range(10):
                assert other.post("/filter", of_another_scheduler()).status == 200
                assert other.get("/livez").status == 200
            assert not stuck.is_answered()
        finally:
            plugin.let_go.set()
        assert stuck.answer().error == ""


@pytest.mark.usefixtures("_quick_switches")
@pytest.mark.parametrize("way", ["hang", "spin"])
def test_a_request_is_answered_though_its_plugin_hangs_on(extender: Extender, way: str) -> None:
    """The server ends although its plugin never does."""
    with serve(extender) as served, Connection(served.url) as connection:
        connection.send(hanging(way))
        answer = connection.answer()
        assert connection.get("/livez").status == 200
    assert (answer.status, answer.error[: len(FAILED)]) == (200, FAILED)
    assert not extender.plugin("NeedsRdma").let_go.is_set()


def test_two_stuck_threads_fail_livez_and_metrics_say_why(extender: Extender) -> None:
    with (
        serve(extender) as served,
        Connection(served.url) as first,
        Connection(served.url) as second,
    ):
        for stuck in (first, second):
            stuck.send(hanging())
        for stuck in (first, second):
            assert stuck.answer().error.startswith(FAILED)
        livez, metrics = first.get("/livez"), first.get("/metrics").text
        again = first.post("/filter", request("filter"))
    assert livez.status == 503
    assert '2 threads are stuck in plugin "NeedsRdma"' in livez.text
    assert 'kubextend_plugin_breaker_open{plugin="NeedsRdma"} 1.0' in metrics
    assert 'kubextend_plugin_breaker_open{plugin="Another"} 0.0' in metrics
    assert 'kubextend_plugin_stuck_threads{plugin="NeedsRdma"} 2.0' in metrics
    assert again.error.startswith(FAILED)


def test_a_client_that_leaves_early_does_not_hide_a_hang(extender: Extender) -> None:
    with serve(extender) as served, Connection(served.url) as connection:
        with Connection(served.url) as leaving:
            leaving.send(hanging())
            eventually(lambda: extender.plugin("NeedsRdma").asked)
        # A healthy pod is answered until the hang is noticed, and the plugin called no more.
        eventually(
            lambda: connection.post("/filter", request("filter")).error.startswith(FAILED),
        )
