"""Pods that are nominated to a node keep its room from pods that come after them."""

import random
from typing import Any

import pytest
from tests.doors.wire import Wire
from tests.doors.wire_plugins import Plugin, raises
from tests.property.counted_pods import FULL, Cluster, OnNode, Pod, random_cluster

from kubextend import core
from kubextend.framework import CycleState, Handle, PreFilterResult, Status

HUNDREDS = 2


def asking(rng: random.Random, cluster: Cluster) -> Pod:
    """A pod that asks: one that is nominated itself, or another."""
    waiting = [pod for pod in cluster.pods if not pod.node]
    fresh = Pod("asks", rng.choice("xy"), rng.randint(1, 3), rng.choice([None, -2, 0, 5, 10]))
    return rng.choice([fresh, *waiting])


@pytest.mark.parametrize("by_label", [False, True])
@pytest.mark.parametrize("hundred", range(HUNDREDS))
def test_a_pod_goes_where_it_fits_beside_those_that_are_nominated_and_without_them(
    hundred: int, by_label: bool
) -> None:
    differs = 0
    for seed in range(hundred * 100, hundred * 100 + 100):
        rng = random.Random(seed)
        cluster = random_cluster(rng)
        pod = asking(rng, cluster)
        expected = [node for node in cluster.zones if cluster.lets_in(pod, node)]
        differs += expected != [node for node in cluster.zones if cluster.fits(pod, node)]
        for in_zone in (True, False) if cluster.most_in_zone > len(cluster.pods) else (True,):
            runner = cluster.run(in_zone=in_zone, by_label=by_label)
            answer = runner.filter(pod.manifest())
            assert list(answer.kept) == expected, (seed, in_zone)
            assert set(answer.rejected) == cluster.zones.keys() - set(expected), seed
    assert differs > 5


@pytest.mark.parametrize("by_label", [False, True])
@pytest.mark.parametrize("hundred", range(HUNDREDS))
def test_a_candidate_is_offered_where_the_pod_fits_beside_nominated_ones_without_the_victims(
    hundred: int, by_label: bool
) -> None:
    offered = differs = 0
    for seed in range(hundred * 100, hundred * 100 + 100):
        rng = random.Random(seed)
        cluster = random_cluster(rng)
        pod = asking(rng, cluster)
        victims = {
            node: [f"uid-of-{name}" for name in names] for node, names in cluster.victims.items()
        }
        answer = cluster.run(by_label=by_label).preempt(pod.manifest(), victims)
        for node, names in cluster.victims.items():
            left = cluster.without(names)
            helps = left.lets_in(pod, node)
            assert (node in answer) is helps, (seed, node)
            offered += helps
            differs += helps is not left.fits(pod, node)
        assert all(answer[node] == victims[node] for node in answer), seed
    assert offered > 20
    assert differs > 2


@pytest.mark.parametrize("priority", [-1, 0, 7, 8, None])
def test_what_a_preemption_freed_does_not_go_to_the_next_pod(priority: int | None) -> None:
    preemptor = Pod("preemptor", priority=7, nominated="n0")
    cluster = Cluster({"n0": "a"}, [preemptor], most_on_node=1)
    pod = Pod("next", priority=priority)
    goes_on = (priority or 0) > 7
    outcome = cluster.run(in_zone=False).schedule(pod.manifest())
    assert outcome.node == ("n0" if goes_on else None)
    assert cluster.run(in_zone=False).schedule(preemptor.manifest()).node == "n0"


def test_only_the_nodes_that_pods_are_nominated_to_are_judged_again() -> None:
    others = [Pod("first", priority=1, nominated="n1"), Pod("there", node="n3")]
    others.append(Pod("second", priority=1, nominated="n3"))
    cluster = Cluster({f"n{number}": "a" for number in range(4)}, others, most_on_node=1)
    runner = cluster.run(in_zone=False)
    assert runner.filter(Pod("asks").manifest()).kept == ("n0", "n2")
    # The node n3 is full already.
    assert runner.plugins[0].asked_about == ["n0", "n1", "n2", "n3", "n1"]


@pytest.mark.parametrize("says", [FULL, Status.unresolvable("never"), PreFilterResult({"n1"})])
def test_a_pre_filter_that_rejects_with_nominated_pods_takes_their_nodes_alone(
    says: Status | PreFilterResult,
) -> None:
    cluster = Cluster({f"n{n}": "a" for n in range(3)}, [Pod("first", nominated="n0")])

    class OnceItIsThere:
        name = "OnceItIsThere"
        needs_pods = True

        def __init__(self, handle: Handle) -> None:
            self._handle = handle

        def pre_filter(self, state: CycleState, _pod: core.Pod, _nodes: core.Nodes) -> Any:
            pods = self._handle.pods(state)
            return says if pods.pods_on("n0") else None

    answer = cluster.run(OnceItIsThere, in_zone=False).filter(Pod("asks").manifest())
    assert answer.kept == ("n1", "n2")
    assert answer.rejected.keys() == {"n0"}


def test_a_plugin_that_may_be_left_out_is_left_out_where_pods_are_nominated_too() -> None:
    cluster = Cluster({"n0": "a", "n1": "a"}, [Pod("first", nominated="n0")], most_on_node=1)
    plugins = Plugin("Down", filter=raises(OSError("no API"))), OnNode(cluster)
    asks = Pod("asks").manifest()
    assert Wire(*plugins, ignored=["Down"], **cluster.parts()).filter(asks).kept == ["n1"]
    assert Wire(*plugins, **cluster.parts()).filter(asks).error


def test_a_pod_that_is_assumed_or_bound_is_counted_where_it_is_and_not_where_it_was_nominated() -> (
    None
):
    held = Pod("held", nominated="n0")
    cluster = Cluster({"n0": "a", "n1": "a"}, [held], most_on_node=1)
    runner = cluster.run(in_zone=False)
    asks = Pod("asks").manifest()
    assert runner.filter(asks).kept == ("n1",)
    assert runner.bind(held.manifest(), "n1").node == "n1"
    assert runner.filter(asks).kept == ("n0",)
    runner.delete({**held.manifest(), "kind": "Pod"})
    assert runner.filter(asks).kept == ("n0", "n1")


def test_where_room_is_kept_on_many_nodes_a_pod_goes_wherever_kube_scheduler_lets_it() -> None:
    zones = {f"n{number:02}": f"z{number}" for number in range(60)}
    waiting = [Pod(f"w{number}", nominated=f"n{number:02}") for number in range(59)]
    there = [Pod(f"b{number}", node=f"n{number:02}") for number in range(0, 59, 2)]
    cluster = Cluster(zones, [*waiting, *there], most_in_zone=2)
    pod = Pod("asks")
    fits = [node for node in zones if cluster.lets_in(pod, node)]
    assert len(zones) - len(fits) == 30
    answer = cluster.run().filter(pod.manifest())
    assert list(answer.kept) == fits
    assert set(answer.rejected.values()) == {"full"}
    assert not answer.unresolvable


def test_pods_of_one_zone_that_are_nominated_to_more_than_16_nodes_leave_16_to_a_plugin() -> None:
    zones = {f"n{number:02}": "a" for number in range(40)}
    waiting = [Pod(f"w{number}", nominated=f"n{number:02}") for number in range(40)]
    cluster = Cluster(zones, waiting, most_in_zone=2)
    pod = Pod("asks")
    assert all(cluster.lets_in(pod, node) for node in zones)
    answer = cluster.run().filter(pod.manifest())
    assert list(answer.kept) == list(zones)[:16]
    assert set(answer.rejected.values()) == {"full"}
