"""What the metrics say of plugins' calls: time by plugin and point, rejections, stacks of hangs."""

import asyncio
import logging
import threading

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kubextend import core
from kubextend.metrics import Metrics
from kubextend.profile.breaker import Breakers
from kubextend.profile.plugin_call_metrics import PluginCallMetrics
from kubextend.profile.run_in_progress import Run
from kubextend.profile.time_limited_calls import PluginLimits

PLUGIN = "kubextend_plugin_execution_duration_seconds"
POINT = "kubextend_framework_extension_point_duration_seconds"
REJECTIONS = "kubextend_plugin_rejections_total"
Labels = tuple[tuple[str, str], ...]

POD = core.read_args(
    b'{"Pod": {"metadata": {"name": "p", "namespace": "n", "uid": "u"},'
    b' "spec": {"schedulerName": "quick"}}, "NodeNames": []}'
).pod


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def samples(metrics: Metrics, name: str) -> dict[Labels, float]:
    """Return the samples with this name, by their labels."""
    return {
        tuple(sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(generate_latest(metrics.registry).decode())
        for sample in family.samples
        if sample.name == name
    }


def of_plugin(plugin: str, point: str, status: str = "Success") -> Labels:
    return (("extension_point", point), ("plugin", plugin), ("status", status))


def of_point(point: str, status: str = "Success") -> Labels:
    return (("extension_point", point), ("profile", "quick"), ("status", status))


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def run(metrics: Metrics, clock: Clock) -> Run:
    run = Run(Breakers(clock), clock, PluginCallMetrics(metrics))
    run.pod = POD
    return run


def called(run: Run, clock: Clock, plugin: str, point: str, seconds: float) -> None:
    run.begin_call(plugin, point)
    clock.now_s += seconds
    run.end_call()


def test_the_calls_of_a_plugin_at_a_point_are_one_observation_of_a_request(
    run: Run, clock: Clock, metrics: Metrics
) -> None:
    with run:
        called(run, clock, "A", "Filter", 0.25)
        called(run, clock, "B", "Filter", 0.5)
        called(run, clock, "A", "Filter", 0.125)
        called(run, clock, "A", "Score", 2.0)
    assert samples(metrics, f"{PLUGIN}_sum") == {
        of_plugin("A", "Filter"): 0.375,
        of_plugin("B", "Filter"): 0.5,
        of_plugin("A", "Score"): 2.0,
    }
    assert set(samples(metrics, f"{PLUGIN}_count").values()) == {1.0}
    assert samples(metrics, f"{POINT}_sum") == {of_point("Filter"): 0.875, of_point("Score"): 2.0}


def test_a_failed_plugin_makes_its_extension_point_an_error(
    run: Run, clock: Clock, metrics: Metrics
) -> None:
    with run:
        called(run, clock, "A", "Filter", 0.25)
        run.begin_call("B", "Filter")
        run.failed("B", "Filter")
        clock.now_s += 0.5
        run.end_call()
        called(run, clock, "C", "Filter", 0.25)
    assert samples(metrics, f"{PLUGIN}_sum") == {
        of_plugin("A", "Filter"): 0.25,
        of_plugin("B", "Filter", "Error"): 0.5,
        of_plugin("C", "Filter"): 0.25,
    }
    assert samples(metrics, f"{POINT}_sum") == {of_point("Filter", "Error"): 1.0}


def test_a_call_that_is_given_up_counts_once_with_its_time_until_then(
    run: Run, clock: Clock, metrics: Metrics
) -> None:
    with run:
        run.begin_call("A", "Filter")
        clock.now_s += 4.0
        run.abandon()
        clock.now_s += 100.0
    assert samples(metrics, f"{PLUGIN}_sum") == {of_plugin("A", "Filter", "Error"): 4.0}
    assert samples(metrics, f"{PLUGIN}_count") == {of_plugin("A", "Filter", "Error"): 1.0}


def test_a_reason_counts_once_for_a_request_however_many_nodes_it_rejects(
    run: Run, clock: Clock, metrics: Metrics
) -> None:
    with run:
        called(run, clock, "A", "Filter", 0.25)
        for reason in ("no room", "no room", "no GPU"):
            run.rejected("A", "Filter", reason)
    counted = samples(metrics, REJECTIONS)
    by_reason = {dict(labels)["reason"]: number for labels, number in counted.items()}
    assert by_reason == {"no room": 1.0, "no GPU": 1.0}


def test_the_reasons_of_a_plugin_have_a_limit(metrics: Metrics) -> None:
    calls = PluginCallMetrics(metrics)
    for number in range(100):
        calls.rejected("A", "Filter", f"pod p-{number:03} does not fit")
    calls.rejected("A", "Filter", "pod p-000 does not fit")
    calls.rejected("B", "Filter", "x" * 1000)
    counted = samples(metrics, REJECTIONS)
    by_reason = {dict(labels)["reason"]: number for labels, number in counted.items()}
    kept = {f"pod p-{number:03} does not fit": 1.0 for number in range(1, 20)}
    kept |= {"pod p-000 does not fit": 2.0, "other": 80.0, "x" * 100: 1.0}
    assert by_reason == kept


@pytest.mark.parametrize("depth", [0, 200])
def test_the_stack_of_a_plugin_that_hangs_is_logged_once_and_has_a_limit(
    depth: int, caplog: pytest.LogCaptureFixture
) -> None:
    limits, ends = PluginLimits(), threading.Event()
    begun = threading.Event()

    def hang_in_this_function() -> None:
        begun.set()
        ends.wait()

    # Two functions in turn: a stack tells one function that calls itself in one line.
    def one(depth: int) -> None:
        if depth:
            another(depth - 1)
        else:
            hang_in_this_function()

    def another(depth: int) -> None:
        one(depth)

    async def give_up() -> None:
        def work(run: Run) -> None:
            with run:
                run.begin_call("A", "Filter")
                one(depth)

        call = limits.start(work)
        await asyncio.to_thread(begun.wait)
        call.given_up()
        ends.set()

    with caplog.at_level(logging.ERROR):
        asyncio.run(give_up())
    stacks = [record.stack_info for record in caplog.records if record.stack_info]
    assert len(stacks) == 1
    assert "hang_in_this_function" in stacks[0]
    assert len(stacks[0]) <= 4000
    assert stacks[0].count("File ") <= 20


def test_the_pools_say_how_many_threads_work_and_how_many_calls_wait() -> None:
    metrics, ends = Metrics(), threading.Event()
    limits = PluginLimits(metrics=metrics)

    def use() -> tuple[float, ...]:
        names = (f"kubextend_threads_{what}" for what in ("busy", "limit", "waiting_calls"))
        return tuple(samples(metrics, name)[(("pool", "verb"),)] for name in names)

    assert use() == (0, 8, 0)
    calls = [limits.start(lambda _run: ends.wait()) for _ in range(10)]
    assert use() == (8, 8, 2)
    ends.set()
    for call in calls:
        call.job.future.result()
