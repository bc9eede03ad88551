"""The histograms of requests say what prometheus_client's own would."""

import random

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client import Histogram as Reference
from prometheus_client.exposition import generate_latest

from kubextend.metrics import Metrics
from kubextend.server.verb_endpoint import BODY_BYTES, DURATION
from kubextend.verbs.request_metrics import NODES

BOUNDS = {
    "kubextend_verb_duration_seconds": [0.001 * 2.0**power for power in range(-5, 15)],
    "kubextend_verb_nodes": [
        1, 10, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 15_000, 50_000, 100_000
    ],
    "kubextend_request_body_bytes": [1024.0 * 4.0**power for power in range(11)],
}  # fmt: skip
FAMILIES = {family.name: family for family in (DURATION, NODES, BODY_BYTES)}


def shown(registry: CollectorRegistry, name: str) -> list[str]:
    lines = generate_latest(registry).decode().split("\n")
    own = [line for line in lines if line.startswith((name, f"# TYPE {name} ", f"# HELP {name} "))]
    return [line for line in own if "_created" not in line]


@pytest.mark.parametrize("name", BOUNDS)
def test_amounts_are_counted_and_shown_as_by_prometheus_client(name: str) -> None:
    rng = random.Random(7)
    metrics = Metrics()
    family = FAMILIES[name]
    registry = CollectorRegistry()
    reference = Reference(name, family.text, ("verb",), buckets=BOUNDS[name], registry=registry)
    amounts = [*BOUNDS[name], 0, max(BOUNDS[name]) * 2]
    amounts += [rng.uniform(0, 2) * rng.choice(BOUNDS[name]) for _ in range(200)]
    for verb in ("filter", "bind"):
        for amount in amounts:
            metrics.histogram(family, verb).observe(amount)
            reference.labels(verb).observe(amount)
    assert shown(metrics.registry, name) == shown(registry, name)
