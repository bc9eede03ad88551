from typing import Any

import pytest
from pydantic import ValidationError
from tests.doors.prometheus import World, args_of

from kubextend.plugins import (
    LoadVariationRiskBalancing,
    NetworkTraffic,
    PrometheusScore,
    TargetLoadPacking,
)
from kubextend.prometheus import NodeMetric, PrometheusArgs, rounded, seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [("15s", 15), ("1h30m", 5400), ("250ms", 0.25), ("1m5s500ms", 65.5), ("1y2w1d", 32_832_000)],
)
def test_a_duration_is_as_long_as_promql_has_it(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "0s", "0", "15", "5 m", "-5m", "1.5m", "5s5m", "5m5m", "m", "5M", "\u0665m", "9" * 99],
)
def test_what_promql_would_refuse_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|no time"):
        seconds(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.49999999999999994, 0), (0.5, 1), (2.5, 3), (-0.5, -1), (-2.4, -2), (1e300, int(1e300))],
)
def test_halves_are_rounded_away_from_zero_as_in_go(value: float, expected: int) -> None:
    assert rounded(value) == expected


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"prometheusAddress": "prometheus:9090"}, "must be a URL"),
        ({"prometheusAddress": "ftp://prometheus"}, "must be a URL"),
        ({"prometheusAddress": "http://"}, "must be a URL"),
        ({"prometheusAddress": "http://prometheus:99999"}, "[Pp]ort"),
        ({"prometheusAddress": "http://user:secret@prometheus"}, "bearerTokenFile"),
        ({"prometheusAddress": "http://prometheus/?a=b"}, "nothing behind"),
        ({"prometheusAddress": "http://prometheus/ x"}, "nothing behind|must be a URL"),
        ({"bearerTokenFile": "/token"}, "needs an https address"),
        ({"nodeLabel": "kubernetes.io/hostname"}, "nodeLabel"),
        ({"nodePattern": "("}, "no regular expression"),
        ({"nodePattern": "worker-.*"}, "exactly one group"),
        ({"refreshInterval": "soon"}, "no duration"),
        ({"timeToLive": "19s"}, "would expire before new ones"),
        ({"fallbackScore": 101}, "fallbackScore"),
        ({"interval": "15s"}, "interval"),
    ],
)
def test_arguments_that_cannot_work_are_refused(given: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        args_of(PrometheusArgs, **given)


def test_the_address_keeps_its_path_and_loses_its_last_slash() -> None:
    args = args_of(PrometheusArgs, prometheusAddress="https://host/prometheus/")
    assert args.prometheus_address == "https://host/prometheus"


@pytest.mark.parametrize("plugin", [NetworkTraffic, PrometheusScore])
def test_what_has_no_good_default_has_to_be_given(plugin: type) -> None:
    with pytest.raises(ValidationError, match="Field required"):
        args_of(plugin.Args)


RECEIVED, SENT = (f"node_network_{way}_bytes_total" for way in ("receive", "transmit"))
DEVICE = r'{device=~"eth0|\""}[2m]'
IDLE = 'rate(node_cpu_seconds_total{mode="idle"}[10m])'
FREE = "node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes"
MEMORY = f"100 * (1 - max by (instance) ({FREE}))"


@pytest.mark.parametrize(
    ("plugin", "given", "asked"),
    [
        (
            NetworkTraffic,
            {"networkInterface": 'eth0|"', "timeRange": "2m", "nodeLabel": "node"},
            [f"sum by (node) (rate({RECEIVED}{DEVICE}) + rate({SENT}{DEVICE}))"],
        ),
        (
            TargetLoadPacking,
            {"timeRange": "10m"},
            [f"clamp_min(100 * (1 - avg by (instance) ({IDLE})), 0)"],
        ),
        (TargetLoadPacking, {"query": "cpu"}, ["cpu"]),
        (
            LoadVariationRiskBalancing,
            {"cpuQuery": "c", "timeRange": "10m"},
            [
                f"{how}_over_time(({of})[10m:1m])"
                for of in ("c", MEMORY)
                for how in ("avg", "stddev")
            ],
        ),
    ],
)
def test_a_plugin_asks_one_query_for_all_nodes(
    plugin: Any, given: dict[str, object], asked: list[str]
) -> None:
    world = World()
    plugin(args_of(plugin.Args, **given), world.handle)
    world.says(b"")
    assert world.prometheus.asked == asked


def test_prometheus_is_asked_as_often_and_waited_for_as_long_as_the_arguments_say() -> None:
    world = World()
    args = args_of(PrometheusArgs, refreshInterval="1m", timeout="2s")
    NodeMetric(args, "up", world.handle, "PrometheusScore")
    (source,) = world.sources
    assert (source.query.promql, source.query.interval_s, source.query.timeout_s) == ("up", 60, 2)
