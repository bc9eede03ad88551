"""Preemption that other nodes have a part in, and groups of victims on several nodes.

test_property_nominated.py compares the candidates of random clusters with the model.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.doors.wire import Wire
from tests.property.counted_pods import Cluster, Pod, random_cluster

CLUSTERS = 200
ASKS = Pod("asks")


def uids(names: Sequence[str]) -> list[str]:
    return [f"uid-of-{name}" for name in names]


def test_a_candidate_whose_victims_help_another_node_alone_is_not_offered() -> None:
    placed = [Pod("web", node="a1"), Pod("low", "none", node="a2")]
    cluster = Cluster({"a1": "a", "a2": "a", "b1": "b"}, placed, most_in_zone=1)
    victims = {"a1": uids(["web"]), "a2": uids(["low"])}
    assert cluster.run().preempt(ASKS.manifest(), victims) == {"a1": uids(["web"])}


def test_where_no_filter_sees_another_node_all_candidates_are_judged_in_one_attempt() -> None:
    placed = [Pod(f"p{number}", node=f"n{number}") for number in range(3)]
    cluster = Cluster({f"n{number}": "a" for number in range(3)}, placed, most_on_node=1)
    victims = {pod.node: uids([pod.name]) for pod in placed}
    runner = cluster.run(in_zone=False)
    assert runner.preempt(ASKS.manifest(), victims) == victims
    assert sorted(runner.plugins[0].asked_about) == ["n0", "n1", "n2"]


def random_groups(rng: random.Random) -> Cluster:
    """A cluster whose pods are in groups; the victims of a candidate are some groups on it."""
    cluster = random_cluster(rng)
    placed = [pod for pod in cluster.pods if pod.node]
    group_of = {pod.name: rng.randint(0, 9) for pod in placed}
    victims = {}
    for node in cluster.zones:
        there = {group_of[pod.name] for pod in placed if pod.node == node}
        if there and rng.random() < 0.7:
            chosen = set(rng.sample(sorted(there), rng.randint(1, len(there))))
            victims[node] = [pod.name for pod in placed if group_of[pod.name] in chosen]
    return replace(cluster, pods=placed, victims=victims, fewest_in_zone=rng.randint(0, 1))


def request_with_groups(cluster: Cluster, pod: Pod) -> bytes:
    manifests = {each.name: each.manifest() for each in cluster.pods}
    victims = {
        node: {"Pods": [manifests[name] for name in names]}
        for node, names in cluster.victims.items()
    }
    return json.dumps({"Pod": pod.manifest(), "NodeNameToVictims": victims}).encode()


@pytest.mark.slow
@pytest.mark.parametrize("in_zone", [False, True])
def test_evicting_what_is_named_lets_the_pod_in_and_names_all_victims_of_the_candidate(
    *, in_zone: bool
) -> None:
    """kube-scheduler refuses an answer that names a victim on another node."""
    named = left_out = 0
    for seed in range(CLUSTERS):
        rng = random.Random(seed)
        cluster, pod = random_groups(rng), Pod("asks", rng.choice("xy"))
        if not in_zone:
            cluster = replace(cluster, most_in_zone=1000, fewest_in_zone=0)
        server = Wire(*cluster.plugins(in_zone=in_zone), **cluster.parts())
        evicted = server.post("/preempt", request_with_groups(cluster, pod)).victims
        where = {f"uid-of-{each.name}": each.node for each in cluster.pods}
        for node, gone in evicted.items():
            assert sorted(gone) == sorted(uids(cluster.victims[node])), seed
            assert {where[uid] for uid in gone} == {node}, seed
            left = cluster.without([uid.removeprefix("uid-of-") for uid in gone])
            assert left.lets_in(pod, node), (seed, node)
        named += len(evicted)
        left_out += len(cluster.victims) - len(evicted)
    assert named > 50
    assert left_out > 50
