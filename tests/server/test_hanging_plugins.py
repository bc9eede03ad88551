"""A plugin that hangs, on a server: its own request, the requests of others, and livez."""

import sys
from collections.abc import Iterator

import pytest
from tests.doors.extender import IN_PYTHON, Extender, NeedsRdma, pod, profile, request
from tests.doors.sockets import Connection, eventually, posted, serve

pytestmark = pytest.mark.slow


class Another(NeedsRdma):
    """The filter of another scheduler."""

    name = "Another"


@pytest.fixture
def _quick_switches() -> Iterator[None]:
    """Let threads take turns as ``kubextend serve`` does where there are plugins in Python."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before_s)


@pytest.mark.usefixtures("_quick_switches")
@pytest.mark.parametrize("way", ["hang", "spin"])
def test_other_requests_go_on_while_a_plugin_hangs(way: str) -> None:
    other_scheduler = profile(name="other", filter=["Another"])
    profiles = [IN_PYTHON, other_scheduler]
    extender = Extender(Another, profiles=profiles, extender={"httpTimeout": "1h"})
    plugin = extender.plugin("NeedsRdma")
    of_another = request("filter", pod() | {"spec": {"schedulerName": "other"}})
    with (
        serve(extender) as served,
        Connection(served.url) as stuck,
        Connection(served.url) as other,
    ):
        stuck.send(posted("/filter", request("filter", pod(then=way))))
        eventually(lambda: plugin.asked)
        try:
            for _ in range(10):
                assert other.post("/filter", of_another).status == 200
                assert other.get("/livez").status == 200
            assert not stuck.is_answered()
        finally:
            plugin.let_go.set()
        assert stuck.answer().error == ""


@pytest.mark.usefixtures("_quick_switches")
@pytest.mark.parametrize("way", ["hang", "spin"])
def test_a_request_is_answered_though_its_plugin_hangs_on(way: str) -> None:
    """kubextend answers at four fifths of the timeout, and ends although its plugin never does."""
    extender = Extender(extender={"httpTimeout": "4s"})
    try:
        with serve(extender) as served, Connection(served.url) as connection:
            answer = connection.post("/filter", request("filter", pod(then=way)))
            assert connection.get("/livez").status == 200
    finally:
        extender.plugin("NeedsRdma").let_go.set()
    assert answer.error.startswith('Filter plugin "NeedsRdma" failed')
