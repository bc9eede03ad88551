import logging
import threading

import pytest
from prometheus_client import CollectorRegistry
from tests.doors.prometheus import ADDRESS, Clock, Scripted, handle_with_metrics, numbers
from tests.doors.sockets import eventually

from kubextend.prometheus import NodeLabel, PrometheusError, Query, Source, Sources

DOWN = PrometheusError("connection refused")
TIME_TO_LIVE_S = 60.0


def query(promql: str = "up", interval_s: float = 15.0) -> Query:
    return Query(ADDRESS, promql, NodeLabel("instance"), interval_s, timeout_s=5.0)


def latest(source: Source) -> object:
    found = source.latest(TIME_TO_LIVE_S)
    return found and found.by_node


class Slow(Scripted):
    """An answer that takes a while."""

    def __init__(self, clock: Clock, takes_s: float) -> None:
        super().__init__(numbers({"a": 1}))
        self._clock, self._takes_s = clock, takes_s

    def query(self, promql: str, timeout_s: float) -> bytes:
        self._clock.now += self._takes_s
        return super().query(promql, timeout_s)


def test_the_last_good_answer_stays_through_failures_until_its_time_to_live() -> None:
    prometheus, clock = Scripted(DOWN), Clock()
    source = Source(query(), prometheus, clock)
    assert (source.refresh(), latest(source), source.age_s()) == (False, None, None)
    prometheus.says = numbers({"a": 1, "b": 2})
    assert source.refresh()
    for failure in (DOWN, b"<html>", b'{"status":"error"}'):
        prometheus.says = failure
        clock.now += 20
        assert (source.refresh(), latest(source)) == (False, {"a": 1.0, "b": 2.0})
    assert source.age_s() == TIME_TO_LIVE_S
    clock.now += 0.001
    assert latest(source) is None
    prometheus.says = numbers({"b": 3})
    assert (source.refresh(), latest(source)) == (True, {"b": 3.0})


@pytest.mark.parametrize(
    ("interval_s", "failures", "pause_s"),
    [(15, 0, 15), (15, 1, 15), (15, 2, 30), (15, 1000, 30), (1, 3, 4), (1, 6, 30), (300, 5, 300)],
)
def test_failures_in_a_row_make_it_ask_less_often(
    interval_s: float, failures: int, pause_s: float
) -> None:
    prometheus = Scripted(DOWN)
    source = Source(query(interval_s=interval_s), prometheus)
    for _ in range(failures):
        source.refresh()
    assert 0.9 * pause_s <= source.pause_s() <= 1.1 * pause_s
    prometheus.says = numbers({"a": 1})
    source.refresh()
    assert 0.9 * interval_s <= source.pause_s() <= 1.1 * interval_s


@pytest.mark.parametrize(
    ("takes_s", "least_s", "most_s"), [(0, 90, 110), (50, 40, 60), (300, 0, 0)]
)
def test_interval_and_age_count_from_the_start_of_a_refresh(
    takes_s: float, least_s: float, most_s: float
) -> None:
    clock = Clock()
    source = Source(query(interval_s=100), Slow(clock, takes_s), clock)
    assert least_s <= source.turn() <= most_s
    assert source.refreshes["ok"] == 1
    assert source.age_s() == takes_s


@pytest.mark.slow
def test_what_the_endpoint_should_never_raise_does_not_end_the_thread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    prometheus = Scripted(RuntimeError("a bug"))
    source = Source(query(interval_s=0.005), prometheus)
    source.start()
    try:
        eventually(lambda: source.refreshes["failed"])
        prometheus.says = numbers({"a": 1})
        eventually(lambda: latest(source))
    finally:
        source.stop()
    assert "a bug" in caplog.text


def refreshing() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == "prometheus-refresh"}


@pytest.mark.slow
def test_one_thread_asks_for_all_users_from_the_first_start_to_the_last_stop() -> None:
    prometheus = Scripted(numbers({"a": 1}))
    source = Source(query(interval_s=0.005), prometheus)
    before = refreshing()
    for _ in range(2):
        source.start()
        (thread,) = refreshing() - before
        source.start()
        assert refreshing() - before == {thread}
        source.stop()
        asked = len(prometheus.asked)
        # The second may be of a refresh that was under way when the first user left.
        eventually(lambda asked=asked: len(prometheus.asked) > asked + 2)
        source.stop()
        assert not thread.is_alive()
        source.stop()
        assert refreshing() <= before


def test_the_log_tells_a_change_once_and_not_every_refresh(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    prometheus = Scripted()
    source = Source(query(), prometheus)
    good = numbers({"a": 1})
    said: tuple[bytes | Exception, ...] = (good, DOWN, good, numbers({"a": "NaN"}))
    for says in said:
        prometheus.says = says
        for _ in range(3):
            source.refresh()
    assert caplog.messages == [
        "no answer from Prometheus: connection refused",
        "Prometheus answers: 1 nodes have a number",
        "Prometheus answers: no node has a number; series left out: not_finite",
    ]


def test_plugins_that_ask_the_same_share_a_source_and_others_do_not() -> None:
    handle = handle_with_metrics()
    sources = Sources.of(handle)
    one = sources.source(query(), "NetworkTraffic")
    assert Sources.of(handle).source(query(), "PrometheusScore") is one
    assert sources.source(query("down"), "NetworkTraffic") is not one
    assert Sources.of(handle_with_metrics()) is not sources


def test_the_metrics_tell_age_failures_and_what_was_dropped() -> None:
    registry, clock = CollectorRegistry(), Clock()
    prometheus = Scripted(DOWN)
    sources = Sources(registry, lambda query: Source(query, prometheus, clock))
    first = sources.source(query("one"), "PrometheusScore")
    sources.source(query("two"), "PrometheusScore")

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(
            f"kubextend_prometheus_{name}", {"source": "PrometheusScore"} | labels
        )

    first.refresh()
    assert value("answer_age_seconds") is None
    prometheus.says = numbers({"a": 1, "b": "NaN", "c": 2})
    first.refresh()
    clock.now += 7
    assert value("answer_age_seconds") == 7
    assert value("nodes") == 2
    assert value("refreshes_total", result="ok") == 1
    assert value("refreshes_total", result="failed") == 1
    assert value("dropped_series_total", reason="not_finite") == 1
    assert value("dropped_series_total", reason="duplicate") == 0
    assert value("source_info", address=ADDRESS, query="one") == 1
    assert value("source_info", source="PrometheusScore-2", address=ADDRESS, query="two") == 1
