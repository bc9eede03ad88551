import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.doors.measured_load import lines_of_target_load_packing
from tests.doors.prometheus import Watched, World, args_of, nodes_of, numbers, pod_of, scores_of

from kubextend import core
from kubextend.framework import CycleState
from kubextend.plugins import TargetLoadPacking

# The nodes of ``scores_of`` have 4 CPUs.
CAPACITY_MILLI = 4000


def container(request: str | None = None, limit: str | None = None) -> dict[str, Any]:
    amounts = {"requests": request, "limits": limit}
    return {"name": "c", "resources": {of: {"cpu": cpu} for of, cpu in amounts.items() if cpu}}


def pod(*containers: Mapping[str, Any], name: str = "pod", **spec: object) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ml", "uid": f"uid-of-{name}"}
    return {"metadata": metadata, "spec": {"containers": list(containers), **spec}}


def on_node(node: str, started: str | None, *containers: Mapping[str, Any]) -> dict[str, Any]:
    status = {"phase": "Running"} | ({} if started is None else {"startTime": started})
    name = f"{node}-{started}"
    return pod(*containers, name=name, nodeName=node) | {"status": status}


def plugin_in(world: World, **given: object) -> TargetLoadPacking:
    return TargetLoadPacking(args_of(TargetLoadPacking.Args, **given), world.handle)


@pytest.mark.parametrize(
    ("use", "score"),
    [
        # Up to the target: 60 * U / 40 + 40.
        (0, 40),
        (1, 42),  # 41.5
        (20, 70),
        (39, 99),  # 98.5
        (40, 100),
        # Beyond it: 40 * (100 - U) / 60.
        (40.1, 40),
        (70, 20),
        (99, 1),
        (100.01, 0),
        (500, 0),
    ],
)
def test_the_score_of_an_expected_use_at_a_target_of_40(use: float, score: int) -> None:
    world = World()
    plugin = plugin_in(world)
    world.says(numbers({"a": use}))
    assert scores_of(plugin, ["a"], pod_of(pod())) == {"a": score}


def predicted_milli(of: core.Pod, **given: object) -> float:
    """Return the CPU that a pod is predicted to use, by the score of an idle node of 4 CPUs."""
    world = World()
    plugin = plugin_in(world, targetUtilization=50, **given)
    world.says(numbers({"a": 0}))
    score = scores_of(plugin, ["a"], of)["a"]
    # Up to the target of 50, the score is 50 more than the use in percent; beyond it, 100 less.
    return (score - 50 if score >= 50 else 100 - score) * CAPACITY_MILLI / 100


@pytest.mark.parametrize(
    ("containers", "spec", "milli"),
    [
        ([], {}, 0),
        ([container(limit="240m")], {}, 240),
        ([container(request="100m", limit="2")], {}, 2000),
        ([container(request="100m", limit="0")], {}, 0),
        ([container(request="80m")], {}, 120),
        ([container(request="0")], {}, 0),
        ([container()], {}, 1000),
        ([container(request="1"), container(limit="1100m"), container()], {}, 3600),
        ([container(request="80m")], {"overhead": {"cpu": "40m"}}, 160),
        ([container(request="80m")], {"initContainers": [container(limit="8")]}, 120),
    ],
)
def test_what_a_pod_is_predicted_to_use(
    containers: list[dict[str, Any]], spec: dict[str, Any], milli: int
) -> None:
    assert predicted_milli(pod_of(pod(*containers, **spec))) == milli


def test_a_pod_that_is_kept_without_its_containers_is_predicted_to_use_what_it_requests() -> None:
    store = core.PodStore(max_pod_bytes=4096)
    large = pod(*[container(request="4m") for _ in range(1000)])
    event = json.dumps({"type": "ADDED", "object": large}).encode()
    kept = store.apply(event).pod
    assert kept.truncated
    assert predicted_milli(kept) == CAPACITY_MILLI


def test_multiplier_and_default_are_arguments_as_upstream_spells_them() -> None:
    given = {"defaultRequestsMultiplier": "2", "defaultRequests": {"cpu": "1"}}
    assert predicted_milli(pod_of(pod(container(request="1"), container())), **given) == 3000


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("targetUtilization", percent) for percent in (0, 101)),
        ("defaultRequestsMultiplier", 0.5),
        *(("defaultRequests", amounts) for amounts in ({"cpu": "fast"}, {"memory": "1Gi"})),
    ],
)
def test_arguments_outside_their_range_are_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        args_of(TargetLoadPacking.Args, **{field: value})


@pytest.mark.parametrize(
    ("percent", "score"),
    [
        # The pod asks 400m of 4000m: 10 points more.
        (0, 55),
        (45, 30),
        (91, 0),
        ("NaN", 0),
        (-1, 0),
        (None, 0),
    ],
)
def test_measured_use_and_the_pod_make_the_score(percent: object, score: int) -> None:
    world = World()
    plugin = plugin_in(world)
    world.says(numbers({} if percent is None else {"a": percent}))
    asks = pod_of(pod(container(limit="400m")))
    assert scores_of(plugin, ["a"], asks) == {"a": score}


@pytest.mark.parametrize(
    ("started", "counts"),
    [
        # The measurement is of 08:00:00.
        ("2027-01-15T07:59:00Z", False),
        ("2027-01-15T07:59:01Z", True),
        ("2027-01-15T08:05:00Z", True),
        (None, True),
    ],
)
def test_pods_that_came_too_late_to_be_measured_are_predicted(
    started: str | None, counts: bool
) -> None:
    early = on_node("b", "2027-01-15T07:00:00Z", container(limit="4"))
    world = World(watched := Watched())
    watched.list(on_node("a", started, container(limit="400m")), early)
    plugin = plugin_in(world)
    world.says(numbers({"a": 0, "b": 0}))
    asks = pod_of(pod(container(limit="400m")))
    assert scores_of(plugin, ["a", "b"], asks) == {"a": 70 if counts else 55, "b": 55}


def test_a_pod_that_is_only_assumed_counts_at_once() -> None:
    world = World(watched := Watched())
    plugin = plugin_in(world)
    world.says(numbers({"a": 0, "b": 0}))
    watched.store.assume(pod_of(pod(container(limit="800m"), name="just before")), "a")
    asks = pod_of(pod(container(limit="400m")))
    assert scores_of(plugin, ["a", "b"], asks) == {"a": 85, "b": 55}


def test_a_late_pod_counts_as_its_present_spec_says_until_it_is_gone() -> None:
    world = World(watched := Watched())
    plugin = plugin_in(world)
    world.says(numbers({"a": 0, "b": 0}))
    asks = pod_of(pod(container(limit="400m"), name="asks"))
    for generation, limit, score in ((1, "400m", 70), (1, "400m", 70), (2, "800m", 85)):
        late = on_node("a", None, container(limit=limit))
        late["metadata"]["generation"] = generation
        watched.list(late)
        assert scores_of(plugin, ["a", "b"], asks) == {"a": score, "b": 55}
    watched.list()
    assert scores_of(plugin, ["a", "b"], asks) == {"a": 55, "b": 55}


def test_the_containers_of_a_late_pod_are_read_once() -> None:
    """Tenants may make hundreds of pods with thousands of containers that never start."""
    world = World(watched := Watched())
    plugin = plugin_in(world)
    world.says(numbers({"a": 0, "b": 0}))
    asks = pod_of(pod(container(limit="400m"), name="asks"))

    def lines(limit: str, generation: int) -> int:
        late = on_node("a", None, *[container(limit=limit) for _ in range(1000)])
        late["metadata"]["generation"] = generation
        watched.list(late)
        return lines_of_target_load_packing(lambda: scores_of(plugin, ["a", "b"], asks))

    first, second, changed = lines("1m", 1), lines("1m", 1), lines("2m", 2)
    assert min(first, changed) > 1000
    assert second < 200


def test_a_node_with_no_cpu_or_an_old_measurement_gets_the_fallback_score() -> None:
    world = World()
    plugin = plugin_in(world, fallbackScore=7)
    world.says(numbers({"a": 10, "b": 90}))
    state, asks = CycleState(), pod_of(pod(container(limit="1")))
    assert plugin.score_nodes(state, asks, nodes_of(["a"], cpu="0")) == [7]
    world.clock.now += 121
    assert scores_of(plugin, ["a", "b"]) == {"a": 7, "b": 7}


def exact(percent: int, added: int, target: int) -> Fraction:
    use = Fraction(percent) + Fraction(100 * added, CAPACITY_MILLI)
    if use > 100:
        return Fraction(0)
    if use > target:
        return target * (100 - use) / (100 - target)
    return (100 - target) * use / target + target


@given(st.integers(0, 120), st.integers(0, 5000), st.integers(1, 100))
def test_the_formula_agrees_with_fractions(percent: int, added: int, target: int) -> None:
    world = World()
    plugin = plugin_in(world, targetUtilization=target)
    world.says(numbers({"a": percent}))
    score = scores_of(plugin, ["a"], pod_of(pod(container(limit=f"{added}m"))))["a"]
    assert type(score) is int
    assert abs(score - exact(percent, added, target)) <= Fraction(1, 2) + Fraction(1, 10**9)
