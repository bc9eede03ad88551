"""The measured load of nodes, and the plugins that score nodes by it."""

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.doors.measured_load import incomplete_beta, lines_of_probability, probability
from tests.doors.prometheus import Watched, World, args_of, numbers, pod_of, scores_of

from kubextend.plugins import LoadVariationRiskBalancing, LowRiskOverCommitment


@given(x=st.fractions(0, 1, max_denominator=1000), a=st.integers(1, 40), b=st.integers(1, 40))
def test_the_incomplete_beta_function_is_the_sum_of_a_binomial_tail(
    x: Fraction, a: int, b: int
) -> None:
    tosses = a + b - 1
    tail = sum(math.comb(tosses, k) * x**k * (1 - x) ** (tosses - k) for k in range(a, tosses + 1))
    assert incomplete_beta(float(x), a, b) == pytest.approx(float(tail), abs=1e-12)


def test_a_node_that_is_not_measured_gets_the_fallback_score() -> None:
    world = World()
    args = args_of(LoadVariationRiskBalancing.Args, fallbackScore=7)
    plugin = LoadVariationRiskBalancing(args, world.handle)
    world.says(numbers({"a": 0}))
    # The nodes of the test have CPU and no memory, and no share of nothing is free.
    assert scores_of(plugin, ["a", "b"]) == {"a": 0, "b": 7}


def test_a_pod_on_a_node_counts_with_its_present_limits() -> None:
    watched = Watched()
    world = World(pods=watched)
    # Only limits count, so that the score is what the limits leave.
    args = args_of(LowRiskOverCommitment.Args, riskLimitWeights={"cpu": 1, "memory": 1})
    plugin = LowRiskOverCommitment(args, world.handle)
    world.says(numbers({"a": 10}))
    asked = pod_of(limited("asked", "1", 1))
    for generation, limit, score in ((1, "3", 100), (2, "7", 43)):
        watched.list(limited("there", limit, generation, nodeName="a"))
        # Of 8 CPUs that the limits allow, the pods request 1 and the node has 4: 1 - 4 / 7.
        assert scores_of(plugin, ["a"], asked) == {"a": score}


def limited(name: str, limit: str, generation: int, **spec: object) -> dict[str, object]:
    resources = {"requests": {"cpu": "500m"}, "limits": {"cpu": limit}}
    metadata = {"name": name, "namespace": "n", "uid": f"uid-{name}", "generation": generation}
    containers = [{"name": "c", "resources": resources}]
    return {"metadata": metadata, "spec": {"containers": containers, **spec}}


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
def test_a_load_that_hardly_varies_around_the_requests_gives_aprobability(
    requests: float, average: float, deviation: float
) -> None:
    """An exception for one node would end the scores of all nodes."""
    threshold = requests / (64 << 30) if requests > 1 else requests
    assert 0 <= probability(average / 100, deviation / 100, threshold) <= 1


def test_the_probability_takes_few_steps_however_little_a_load_varies() -> None:
    """A tenant may request what its pods use, and a load may be steady on all nodes."""
    means, digits = (0.5, 0.983, 0.1, 1e-3, 1e-6, 1e-9), range(1, 12)
    for mean, places, sigmas in itertools.product(means, digits, (-1, -0.001, 0.001, 1)):
        deviation = mean * 10.0**-places
        threshold = mean + sigmas * deviation
        assert 0 <= probability(mean, deviation, threshold) <= 1
        # About ten lines a step, and at most 700 steps.
        assert lines_of_probability(mean, deviation, threshold) <= 7_500


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
        assert probability(mean, deviation, threshold) == pytest.approx(exact, abs=apart)


def test_a_load_that_hardly_varies_is_below_its_average_half_of_the_time() -> None:
    mean, deviation = 0.000346203424639752, 8.065005833380339e-12
    for sigmas, share in ((0.0, 0.5), (1.0, 0.8413), (-1.0, 0.1587), (9.0, 1.0), (-9.0, 0.0)):
        found = probability(mean, deviation, mean + sigmas * deviation)
        assert found == pytest.approx(share, abs=1e-4)
