"""CapacityScheduling; tests/contract compares its verdicts with those of the Go plugin."""

import asyncio
import json
from typing import Any

import pytest
from tests.doors.stories_work import sums_of_requests

from kubextend import testing
from kubextend.plugins import CapacityScheduling

ELASTIC_QUOTAS = "scheduling.x-k8s.io/v1alpha1/elasticquotas"
OVER_MAX = "namespace would use more than the max of its ElasticQuota"
OVER_MIN = "no ElasticQuota has min left to lend"
NODES = {"memory": "64Gi", "cpu": "64", "pods": "110", "example.com/fpga": "8"}


def pod(name: str, namespace: str = "red", cpu: str = "1", **fields: Any) -> Any:
    fields["requests"] = {"cpu": cpu} | fields.pop("more", {})
    return testing.pod_manifest(name, uid=f"uid-{name}", namespace=namespace, **fields)


def quota(namespace: str = "red", name: str = "quota", **spec: Any) -> Any:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def cluster(*quotas: Any, pods: Any = ()) -> testing.Cluster:
    nodes = [testing.node_manifest("n", allocatable=NODES)]
    world = testing.Cluster(CapacityScheduling, nodes=nodes, pods=pods)
    for each in quotas:
        world.put(ELASTIC_QUOTAS, each)
    return world


def why_not(world: testing.Cluster, asked: Any) -> str:
    result = world.filter(asked)
    assert not result.error
    assert not result.unresolvable, "an eviction may help"
    return result.rejected.get("n", "")


@pytest.mark.parametrize("two", ["2", 2, 2.0])
def test_a_namespace_uses_its_max_and_no_more(two: Any) -> None:
    world = cluster(quota(min={"cpu": "9"}, max={"cpu": two}))
    assert world.schedule(pod("a")).node == "n"
    assert world.schedule(pod("b")).node == "n"
    assert why_not(world, pod("c")) == OVER_MAX
    assert why_not(world, pod("small", cpu="0")) == ""
    assert why_not(world, pod("elsewhere", "free", cpu="40")) == ""


def test_a_namespace_borrows_only_what_others_do_not_use() -> None:
    world = cluster(quota(min={"cpu": "2"}, max={"cpu": "4"}), quota("blue", min={"cpu": "2"}))
    assert all(world.schedule(pod(name)).node for name in "abc")
    assert world.schedule(pod("d", "blue")).node == "n"
    assert why_not(world, pod("e")) == OVER_MIN
    assert why_not(world, pod("f", "blue")) == OVER_MIN
    # What a namespace without an ElasticQuota uses is nobody's.
    assert world.schedule(pod("g", "free")).node == "n"


def test_what_an_elastic_quota_does_not_name() -> None:
    world = cluster(quota(min={"cpu": "9"}, max={"cpu": "9"}))
    assert why_not(world, pod("m", more={"memory": "1"})) == OVER_MAX
    assert why_not(world, pod("f", more={"example.com/fpga": "1"})) == OVER_MIN
    world.put(ELASTIC_QUOTAS, quota(min={"cpu": "9", "example.com/fpga": "2"}, max={"cpu": "9"}))
    assert why_not(world, pod("f", more={"example.com/fpga": "1"})) == ""
    world.put(ELASTIC_QUOTAS, quota(min={"cpu": "99"}))
    assert why_not(world, pod("c", cpu="50")) == ""
    world.put(ELASTIC_QUOTAS, quota(max={}))
    assert why_not(world, pod("c")) == OVER_MAX


def test_of_pods_that_passed_the_filter_together_only_those_are_bound_that_fit() -> None:
    """kube-scheduler asks about further pods before the first one is bound."""
    world = cluster(quota(min={"cpu": "9"}, max={"cpu": "2"}))
    pods = [pod(f"p{number}") for number in range(5)]
    assert [why_not(world, each) for each in pods] == [""] * 5
    results = [world.bind(each, "n") for each in pods]
    assert [result.node for result in results] == ["n", "n", None, None, None]
    assert results[2].error == OVER_MAX
    # Nothing stays reserved for the pods that were refused.
    world.put(ELASTIC_QUOTAS, quota(min={"cpu": "9"}, max={"cpu": "3"}))
    assert why_not(world, pod("last")) == ""
    assert why_not(world, pod("large", cpu="1001m")) == OVER_MAX


@pytest.mark.parametrize("least", ["2", "9"])
def test_pods_that_are_bound_at_the_same_time_never_exceed_a_limit(least: str) -> None:
    world = cluster(quota(min={"cpu": least}, max={"cpu": "2"}))
    names = [f"p{number}" for number in range(6)]
    world.add(*({"kind": "Pod", **pod(name)} for name in names))
    bodies = [
        {"PodName": name, "PodNamespace": "red", "PodUID": f"uid-{name}", "Node": "n"}
        for name in names
    ]

    async def bind_at_once() -> list[Any]:
        return await asyncio.gather(
            *(world.verbs.bind(json.dumps(body).encode()) for body in bodies)
        )

    answers = [json.loads(bytes(answer)) for answer in asyncio.run(bind_at_once())]
    assert sum(not answer["Error"] for answer in answers) == 2


def nominated(name: str, namespace: str, priority: int, cpu: str = "1") -> Any:
    shown = pod(name, namespace, cpu=cpu, priority=priority)
    return {**shown, "status": {"nominatedNodeName": "n"}}


@pytest.mark.parametrize(
    ("priority", "said"), [(10, OVER_MAX), (11, OVER_MAX), (9, "")], ids=["equal", "more", "less"]
)
def test_nominated_pods_of_the_namespace_count_if_as_important(priority: int, said: str) -> None:
    there = [nominated("there", "red", priority)]
    world = cluster(quota(min={"cpu": "9"}, max={"cpu": "1"}), pods=there)
    assert why_not(world, pod("asked", priority=10)) == said
    assert why_not(world, nominated("there", "red", priority)) == ""


@pytest.mark.parametrize(("used", "said"), [("1", OVER_MIN), ("2", "")])
def test_nominated_pods_of_others_count_while_within_their_min(used: str, said: str) -> None:
    there = [nominated("there", "blue", 0, cpu="3"), pod("runs", "blue", cpu=used, node_name="n")]
    world = cluster(quota(min={"cpu": "3"}), quota("blue", min={"cpu": "1"}), pods=there)
    assert why_not(world, pod("asked", cpu="1")) == said


def test_nominated_pods_too_large_to_be_kept_count_as_the_min_of_their_namespace() -> None:
    large = {f"example.com/{'x' * 50}{number}": "1" for number in range(2000)}
    there = [pod(name, "blue", more=large) for name in ("there", "too")]
    for each in there:
        each["status"] = {"nominatedNodeName": "n"}
    runs = pod("runs", "blue", cpu="1", node_name="n")
    world = cluster(quota(min={"cpu": "3"}), quota("blue", min={"cpu": "4"}), pods=[*there, runs])
    assert why_not(world, pod("asked", cpu="3")) == ""
    assert why_not(world, pod("asked", cpu="3001m")) == OVER_MIN
    # In their own namespace, nobody knows what is left.
    assert world.filter(pod("asked", "blue")).error


def test_preempt_offers_a_node_if_its_victims_make_room_in_the_quota() -> None:
    there = [pod(name, space, node_name="n") for name, space in (("r", "red"), ("b", "blue"))]
    world = cluster(
        quota(min={"cpu": "9"}, max={"cpu": "1"}), quota("blue", min={"cpu": "9"}), pods=there
    )
    assert world.preempt(pod("asked"), {"n": ["uid-b"]}) == {}
    assert world.preempt(pod("asked"), {"n": ["uid-r"]}) == {"n": ["uid-r"]}


def test_two_elastic_quotas_of_a_namespace_are_an_error_there_and_nowhere_else() -> None:
    world = cluster(quota(min={"cpu": "9"}), quota(name="second"), quota("blue", min={"cpu": "9"}))
    assert world.filter(pod("asked")).error
    [failure] = world.failures
    assert "namespace has more than one ElasticQuota" in str(failure)
    assert why_not(world, pod("asked", "blue")) == ""


LARGE = quota("blue", min={"cpu": "9"})
LARGE["metadata"]["annotations"] = {"of": "x" * (64 << 10)}


@pytest.mark.parametrize(
    "broken",
    [quota("blue", min={"cpu": "1e1.5"}), quota("blue", max={"cpu": "many"}), LARGE],
    ids=["min", "max", "too large"],
)
def test_an_elastic_quota_that_cannot_be_read_is_an_error_in_its_namespace_alone(
    broken: Any,
) -> None:
    world = cluster(quota(min={"cpu": "2"}), broken, pods=[pod("b", "blue", node_name="n")])
    assert world.filter(pod("asked", "blue")).error
    [failure] = world.failures
    assert "ElasticQuota cannot be read: blue/quota" in str(failure)
    assert world.bind(pod("asked", "blue"), "n").error
    # Neither its min nor what its pods use counts.
    assert why_not(world, pod("asked", cpu="2")) == ""
    assert why_not(world, pod("asked", cpu="2001m")) == OVER_MIN
    assert why_not(world, pod("asked", "free")) == ""
    world.remove(ELASTIC_QUOTAS, broken)
    assert why_not(world, pod("asked", "blue")) == ""


def test_elastic_quotas_that_cannot_be_read_in_three_namespaces_stop_nobody_else() -> None:
    spaces = ["blue", "green", "white"]
    broken = [quota(each, min={"cpu": "many"}) for each in spaces]
    world = cluster(quota(min={"cpu": "9"}), *broken)
    assert all(world.filter(pod(f"p{at}", each)).error for at in range(5) for each in spaces)
    assert world.filter(pod("asked")).kept == ("n",)


def test_a_quota_that_cannot_be_read_any_more_still_wakes_the_pods_of_others() -> None:
    world = cluster(quota(min={"cpu": "1"}), quota("blue", min={"cpu": "1"}), pods=[parked("a")])
    assert why_not(world, pod("asked", cpu="2")) == ""
    for least in ("many", "2"):
        world.put(ELASTIC_QUOTAS, quota("blue", min={"cpu": least}))
    assert world.activated == ["a", "a"]
    assert world.failures == []


def parked(name: str, namespace: str = "red", **fields: Any) -> Any:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return pod(name, namespace, **fields) | {"status": {"conditions": [condition]}}


def test_unschedulable_pods_are_tried_again_after_a_quota_has_changed() -> None:
    stranger = parked("other-scheduler")
    stranger["spec"]["schedulerName"] = "other"
    waiting = [parked("a"), parked("b", "blue"), parked("free", "free"), stranger]
    small = quota(min={"cpu": "9"}, max={"cpu": "0"})
    world = cluster(small, quota("blue"), pods=waiting)
    assert why_not(world, pod("free-too", "free")) == ""
    world.put(ELASTIC_QUOTAS, small | {"status": {"used": {"cpu": "1"}}})
    assert world.activated == []
    world.put(ELASTIC_QUOTAS, quota(min={"cpu": "9"}, max={"cpu": "9"}))
    assert sorted(world.activated) == ["a", "b"]
    world.remove(ELASTIC_QUOTAS, quota())
    assert sorted(world.activated) == ["a", "a", "b", "b"]


@pytest.mark.parametrize("before", [[], [LARGE]], ids=["new", "too large before"])
def test_a_quota_wakes_pods_that_may_borrow_its_min(before: list[Any]) -> None:
    borrower = parked("a", cpu="2")
    world = cluster(quota(min={"cpu": "1"}, max={"cpu": "9"}), *before, pods=[borrower])
    assert why_not(world, borrower) == OVER_MIN
    # Until then the verbs remember the rejection, and look themselves whether it still holds.
    world.advance(20)
    world.activated.clear()
    world.put(ELASTIC_QUOTAS, quota("blue", min={"cpu": "1"}, max={"cpu": "1"}))
    assert world.activated == ["a"]
    assert why_not(world, borrower) == ""


def test_why_says_what_would_let_a_pod_in() -> None:
    twice = [quota("twice"), quota("twice", "second")]
    odd = quota("odd", min={"cpu": "many"})
    world = cluster(quota(min={"cpu": "2"}, max={"cpu": "1"}), quota("blue", min={}), *twice, odd)
    [plugin] = world.plugins

    def lacks(namespace: str, cpu: str) -> str:
        asked = testing.make_pod("asked", namespace=namespace, requests={"cpu": cpu})
        assert plugin.unblock(asked, testing.make_node("n")) == ""
        return str(plugin.unblock(asked, None))

    assert lacks("red", "1") == lacks("free", "9") == ""
    of_red = "pods of the namespace that end, or a larger max: cpu would be 1200 of 1000"
    assert lacks("red", "1200m") == of_red
    of_all = "pods of any namespace with an ElasticQuota that end, or a larger min: cpu would be"
    assert lacks("blue", "3") == f"{of_all} 3000 of 2000"
    assert lacks("twice", "1") == "one ElasticQuota less in the namespace: keep one in twice"
    assert lacks("odd", "1").startswith('an ElasticQuota that can be read: odd/quota: "many": ')


def test_a_pod_that_is_too_large_to_be_kept_stops_only_its_own_namespace() -> None:
    requests = {f"example.com/{'x' * 50}{number}": "1" for number in range(2000)}
    there = [pod("huge", "blue", more=requests, node_name="n")]
    quotas = [quota(namespace, min={"cpu": "2"}) for namespace in ("red", "blue")]
    world = cluster(*quotas, pods=there)
    assert world.filter(pod("asked", "blue")).error
    assert "blue/huge is kept without its requests" in str(world.failures[0])
    assert why_not(world, pod("asked", cpu="2")) == ""
    assert why_not(world, pod("large", cpu="2001m")) == OVER_MIN


def test_thousands_of_resources_that_no_quota_names_make_no_more_work_than_one() -> None:
    """Tenants choose the resources in their pods; to sum all of them takes seconds."""
    named = [{f"x.y/{number}-{at}": "1" for at in range(50)} for number in range(20)]
    runs = [pod(f"r{at}", "blue", node_name="n", more=more) for at, more in enumerate(named)]
    waits = [nominated(f"n{number}", "blue", 0) for number in range(20)]
    quotas = quota(min={"cpu": "99"}), quota("blue", min={"cpu": "99", "z.z/z": "1"})
    world = cluster(*quotas, pods=[*runs, *waits])
    with sums_of_requests() as sums:
        # As in Go, a resource that no min names may not be used at all.
        assert why_not(world, pod("asked")) == OVER_MIN
    assert sum(sums) <= 6, "cpu and one other resource, in three calls"
    assert len(sums) == 3, "both namespaces, and once for all nominated pods"
