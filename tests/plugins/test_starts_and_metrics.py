"""Starts of plugins, and what ``/metrics`` says of their calls."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.doors.stories import Plugin, page_of_metrics
from tests.doors.wire import Wire, pod

from kubextend import testing
from kubextend.framework import Status

PASSES = {"filter": lambda *_: None}


async def hangs() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("start", "why"),
    [
        (hangs, "has not answered in time"),
        # The caller of a plain method awaits nothing.
        (lambda: hangs(), "answered a coroutine where None is expected; only start, stop,"),  # noqa: PLW0108
    ],
)
def test_a_start_that_never_ends_well_says_why(start: Callable[[], Any], why: str) -> None:
    cluster = testing.Cluster(Plugin(start=start, **PASSES))
    with cluster:
        cluster.advance(100)
        assert "P" in cluster.filter(testing.make_pod()).error
    failure = cluster.failures[0]
    assert (failure.plugin, failure.extension_point) == ("P", "Start")
    assert why in str(failure)


def test_the_calls_of_a_plugin_at_a_point_are_one_observation_of_a_request() -> None:
    def takes(seconds: float, said: Any = None) -> Callable[..., Any]:
        def method(*_: Any) -> Any:
            server.clock.now_s += seconds
            if isinstance(said, BaseException):
                raise said
            return said

        return method

    server = Wire(
        Plugin("A", filter=takes(0.25), score=takes(0.5, 7)),
        Plugin("B", pre_filter=takes(0.125), filter=takes(0.5)),
        Plugin("C", filter=takes(1.0, ValueError("x"))),
        nodes=["m", "n"],
    )
    assert server.filter(pod()).error
    server.prioritize(pod())

    def of(what: str, name: str, point: str, status: str = "Success") -> float:
        labels = {"extension_point": point, "status": status}
        if what == "plugin_execution":
            return server.metric(f"kubextend_{what}_duration_seconds_sum", plugin=name, **labels)
        whole = "framework_extension_point"
        return server.metric(f"kubextend_{whole}_duration_seconds_sum", profile=name, **labels)

    assert of("plugin_execution", "A", "Filter") == 0.5
    assert of("plugin_execution", "B", "Filter") == 1.0
    # prioritize prepares the attempt again that filter failed in.
    assert of("plugin_execution", "B", "PreFilter") == 0.25
    assert of("plugin_execution", "C", "Filter", "Error") == 1.0
    assert of("plugin_execution", "A", "Score") == 1.0
    assert of("point", "default-scheduler", "Filter", "Error") == 2.5
    counts = "kubextend_plugin_execution_duration_seconds_count"
    labels = {"plugin": "A", "extension_point": "Filter", "status": "Success"}
    assert server.metric(counts, **labels) == 1


def test_the_reasons_of_a_plugin_have_a_limit_and_count_once_for_a_request() -> None:
    def rejects(_state: Any, of: Any, _node: Any) -> Status:
        return Status.unschedulable(f"pod {of.name} does not fit" if of.name != "x" else "x" * 1000)

    server = Wire(Plugin("A", filter=rejects), nodes=["m", "n"])
    for number in range(100):
        server.filter(pod(f"p-{number:03}"))
    server.filter(pod("x"))
    page = page_of_metrics(server).splitlines()
    lines = [line for line in page if line.startswith("kubextend_plugin_rejections_total{")]
    values = sorted(float(line.rsplit(" ", 1)[1]) for line in lines)
    assert values == [*[1.0] * 20, 81.0], "twenty reasons by name, and all others together"
    assert [line for line in lines if 'reason="other"' in line and line.endswith(" 81.0")]
