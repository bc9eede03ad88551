"""The metric plugins keep the framework's rules with numbers, too, and with broken ones."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.doors.prometheus import World, args_of, numbers

from kubextend import testing
from kubextend.plugins import (
    LoadVariationRiskBalancing,
    LowRiskOverCommitment,
    NetworkTraffic,
    PrometheusScore,
    TargetLoadPacking,
)

GIVEN: Mapping[Any, Mapping[str, object]] = {
    LoadVariationRiskBalancing: {},
    LowRiskOverCommitment: {},
    NetworkTraffic: {"networkInterface": "eth0"},
    PrometheusScore: {"query": "node_load1"},
    TargetLoadPacking: {},
}
SAID: Mapping[str, Mapping[str, object]] = {
    "of every node": {f"node-{number}": number * 0.37 for number in range(12)},
    "of some, and no numbers": {"node-1": 3, "node-2": "NaN", "node-3": "+Inf", "node-4": -1},
    "enormous": {"node-0": 1e300, "node-1": 1e308, "node-2": 1},
}


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(SAID["of every node"], marks=pytest.mark.slow, id="of every node"),
        pytest.param(SAID["of some, and no numbers"], id="of some, and no numbers"),
        pytest.param(SAID["enormous"], marks=pytest.mark.slow, id="enormous"),
    ],
)
@pytest.mark.parametrize("plugin_class", GIVEN)
def test_a_metric_plugin_conforms_with_what_prometheus_says(
    plugin_class: Any, said: Mapping[str, object]
) -> None:
    world = World()
    plugin = plugin_class(args_of(plugin_class.Args, **GIVEN[plugin_class]), world.handle)
    world.says(numbers(said))
    testing.conformance(plugin)
