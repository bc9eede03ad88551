"""The measured load of nodes, and the plugins that score nodes by it."""

import itertools
import json
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from prometheus_world import World, args_of, numbers, pod_of, scores_of

from kubextend import config, core
from kubextend.plugins import (
    IN_TREE,
    LoadVariationRiskBalancing,
    LowRiskOverCommitment,
    low_risk_over_commitment,
)
from kubextend.plugins.low_risk_over_commitment import _probability, incomplete_beta
from kubextend.prometheus.node_load import Load, pod_limits, pod_requests

EXAMPLE = Path(__file__).resolve().parents[3] / "deploy" / "examples" / "measured-load"


@given(
    x=st.fractions(0, 1, max_denominator=1000),
    a=st.integers(1, 40),
    b=st.integers(1, 40),
)
def test_the_incomplete_beta_function_is_the_sum_of_a_binomial_tail(
    x: Fraction, a: int, b: int
) -> None:
    tosses = a + b - 1
    tail = sum(math.comb(tosses, k) * x**k * (1 - x) ** (tosses - k) for k in range(a, tosses + 1))
    assert incomplete_beta(float(x), a, b) == pytest.approx(float(tail), abs=1e-12)


def test_the_shares_of_a_load_stay_within_the_node() -> None:
    assert Load(50, 10).shares(4000) == (0.5, 0.1)
    assert Load(50, 10).shares(4000, 1000) == (0.75, 0.1)
    assert Load(120, 150).shares(4000, 1000) == (1, 1)
    assert Load(-5, -1).shares(4000) == (0, 0)
    assert Load(50, 10).shares(0) == (0, 0)


def test_a_pod_counts_its_containers_or_its_largest_init_container_and_its_overhead() -> None:
    def container(cpu: str, limit: str) -> dict[str, object]:
        return {"name": "c", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": limit}}}

    spec = {
        "containers": [container("1", "2"), container("500m", "500m")],
        "initContainers": [container("1200m", "3")],
        "overhead": {"cpu": "100m", "memory": "1Ki"},
    }
    pod = pod_of({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec})
    assert pod_requests(pod) == (1600, 1024)
    assert pod_limits(pod) == (3100, 1024)


@pytest.mark.parametrize(
    ("before", "requests", "limits"),
    [
        # One container that requests 1 CPU with the limit 2. resource/helpers.go PodRequests
        ("", 1000, 2000),
        ("sidecar 2", 3000, 4000),
        ("init 2", 2000, 2000),
        ("sidecar 2, init 3", 5000, 5000),
        ("init 3, sidecar 2", 3000, 4000),
        ("sidecar 1, sidecar 1", 3000, 4000),
    ],
)
def test_sidecars_count_as_kube_scheduler_counts_them(
    before: str, requests: int, limits: int
) -> None:
    def container(cpu: str, limit: str, **more: str) -> dict[str, object]:
        resources = {"requests": {"cpu": cpu}, "limits": {"cpu": limit}}
        return {"name": "c", "resources": resources, **more}

    first = [each.split() for each in before.split(", ") if each]
    policies = {"sidecar": {"restartPolicy": "Always"}, "init": {}}
    spec = {
        "initContainers": [container(cpu, cpu, **policies[kind]) for kind, cpu in first],
        "containers": [container("1", "2")],
    }
    pod = pod_of({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec})
    assert pod_requests(pod)[0] == pod.request("cpu") == requests
    assert pod_limits(pod)[0] == limits


def test_averages_and_deviations_of_cpu_and_memory_are_asked_for() -> None:
    world = World()
    args = args_of(LoadVariationRiskBalancing.Args, cpuQuery="cpu", timeRange="10m")
    LoadVariationRiskBalancing(args, world.handle)
    world.says(numbers({}))
    memory = (
        "100 * (1 - max by (instance) "
        "(node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes))"
    )
    assert world.prometheus.asked == [
        "avg_over_time((cpu)[10m:1m])",
        "stddev_over_time((cpu)[10m:1m])",
        f"avg_over_time(({memory})[10m:1m])",
        f"stddev_over_time(({memory})[10m:1m])",
    ]


def test_a_node_that_is_not_measured_gets_the_fallback_score() -> None:
    world = World()
    args = args_of(LoadVariationRiskBalancing.Args, fallbackScore=7)
    plugin = LoadVariationRiskBalancing(args, world.handle)
    world.says(numbers({"a": 0}))
    # The nodes of the test have CPU and no memory, and no share of nothing is free.
    assert scores_of(plugin, ["a", "b"]) == {"a": 0, "b": 7}


def test_the_example_loads_and_its_readme_has_every_argument() -> None:
    loaded = config.load(EXAMPLE / "kubextend.yaml", known=IN_TREE)
    tables = "".join(
        line
        for folder in (EXAMPLE, EXAMPLE.parent / "network-traffic")
        for line in (folder / "README.md").read_text().splitlines()
        if line.startswith("| `")
    )
    document = yaml.safe_load((EXAMPLE / "kubextend.yaml").read_text())
    assert len(loaded.resolved) == len(document["profiles"]) == 2
    for profile in document["profiles"]:
        [entry] = profile["pluginConfig"]
        model = IN_TREE[entry["name"]].args_model
        assert model is not None
        for name, field in model.model_fields.items():
            assert f"| `{field.alias or name}" in tables


def test_a_pod_on_a_node_counts_with_its_present_limits() -> None:
    watched = WatchedPods(core.PodStore())
    world = World(pods=watched)
    # Only limits count, so that the score is what the limits leave.
    weights = {"cpu": 1, "memory": 1}
    args = args_of(LowRiskOverCommitment.Args, riskLimitWeights=weights)
    plugin = LowRiskOverCommitment(args, world.handle)
    world.says(numbers({"a": 10}))
    asked = pod_of(limited("asked", "1", 1))
    for generation, limit, score in ((1, "3", 100), (2, "7", 43)):
        watched.list(limited("there", limit, generation, nodeName="a"))
        # Of 8 CPUs that the limits allow, the pods request 1 and the node has 4: 1 - 4 / 7.
        assert scores_of(plugin, ["a"], asked) == {"a": score}


class WatchedPods(NamedTuple):
    store: core.PodStore
    synced: bool = True

    def list(self, *pods: object) -> None:
        body = {"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": pods}
        self.store.replace(json.dumps(body).encode())


def limited(name: str, limit: str, generation: int, **spec: object) -> dict[str, object]:
    resources = {"requests": {"cpu": "500m"}, "limits": {"cpu": limit}}
    metadata = {"name": name, "namespace": "n", "uid": f"uid-{name}", "generation": generation}
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": "c", "resources": resources}], **spec},
    }


@pytest.mark.parametrize(
    ("requests", "average", "deviation"),
    [
        # math.exp overflows.
        (23790920, 0.03462034493648575, 8e-10),
        (163934, 2.385506927459e-4, 6.2351042957721e-11),
        # Both the threshold and 1 - threshold are above the bounds of the continued fraction.
        (7.220345938492374e-06, 7.2203459384578e-04, 4.788300142751944e-10),
        (2.0305056977792454e-06, 2.0305056977790777e-04, 8.2658609320411e-12),
    ],
)
def test_a_load_that_hardly_varies_around_the_requests_gives_a_probability(
    requests: float, average: float, deviation: float
) -> None:
    """An exception for one node would end the scores of all nodes."""
    threshold = requests / (64 << 30) if requests > 1 else requests
    assert 0 <= _probability(average / 100, deviation / 100, threshold) <= 1


def test_the_probability_takes_few_steps_however_little_a_load_varies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tenant may request what its pods use, and a load may be steady on all nodes."""
    taken = 0

    def counted(*bounds: int) -> Iterator[int]:
        nonlocal taken
        for step in range(*bounds):
            taken += 1
            yield step

    monkeypatch.setattr(low_risk_over_commitment, "range", counted, raising=False)
    means, digits = (0.5, 0.983, 0.1, 1e-3, 1e-6, 1e-9), range(1, 12)
    for mean, places, sigmas in itertools.product(means, digits, (-1, -0.001, 0.001, 1)):
        deviation = mean * 10.0**-places
        taken = 0
        assert 0 <= _probability.__wrapped__(mean, deviation, mean + sigmas * deviation) <= 1
        assert taken <= 700


@pytest.mark.parametrize(("least", "apart"), [(0.9e5, 1e-6), (1.1e5, 5e-4)])
@pytest.mark.parametrize("mean", [0.5, 0.983, 0.1, 1e-3])
def test_only_a_steady_load_has_the_probabilities_of_a_normal_distribution(
    mean: float, least: float, apart: float
) -> None:
    total = least / min(mean, 1 - mean)
    deviation = math.sqrt(mean * (1 - mean) / (total + 1))
    for sigmas in range(-3, 4):
        threshold = mean + sigmas * deviation
        exact = incomplete_beta(threshold, mean * total, (1 - mean) * total)
        assert _probability(mean, deviation, threshold) == pytest.approx(exact, abs=apart)


def test_a_load_that_hardly_varies_is_below_its_average_half_of_the_time() -> None:
    mean, deviation = 0.000346203424639752, 8.065005833380339e-12
    for sigmas, share in ((0.0, 0.5), (1.0, 0.8413), (-1.0, 0.1587), (9.0, 1.0), (-9.0, 0.0)):
        found = _probability(mean, deviation, mean + sigmas * deviation)
        assert found == pytest.approx(share, abs=1e-4)
