"""The overview: each pod is where its calls have brought it, and no list grows without end."""

from typing import Any

import pytest

from kubextend import core
from kubextend.decisions import DecisionReader, ServerFacts, decision_reader
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status
from kubextend.plugins.coscheduling import Coscheduling
from kubextend.plugins.label_match import LabelMatch
from kubextend.testing import Cluster, make_node, make_pod
from kubextend.verbs.decision_records import AskedNodes, Verdicts
from kubextend.verbs.filter_outside_request import filter_anew

RULES = {"filters": [{"podSelector": "disk", "nodeSelector": "disk=ssd", "reason": "no ssd"}]}
# The nodes of three entries, of which some have two.
ENTRIES = ({0}, {0, 1}, {1, 2})
PICKY = {"disk": "any"}


class AtPermit:
    name = "AtPermit"

    def permit(self, _state: object, pod: Any, _node: str) -> Status:
        return Status.unschedulable("over budget") if pod.labels else Status.success()


class Raises:
    name = "Raises"

    def filter(self, *_: object) -> None:
        message = "broken"
        raise ValueError(message)


def reader_of(cluster: Cluster, **facts: Any) -> DecisionReader:
    verbs = cluster.verbs
    told = ServerFacts(verbs.profiles, ["filter"], dict, verbs.limits.breakers.health, **facts)
    return DecisionReader(verbs.decisions, verbs.waiting_pods, told, filter_anew, lambda ask: ask())


def overview(cluster: Cluster, **facts: Any) -> Any:
    return reader_of(cluster, **facts).overview()


def only_pod(cluster: Cluster) -> Any:
    (pod,) = overview(cluster)["pods"]["items"]
    return pod


def test_a_pod_that_fits_is_passed_with_the_number_of_its_nodes() -> None:
    nodes = [make_node("a", labels={"disk": "ssd"}), make_node("b"), make_node("c")]
    cluster = Cluster(LabelMatch, nodes=nodes, args={"LabelMatch": RULES})
    cluster.filter(make_pod("p", namespace="shop", labels=PICKY))
    pod = only_pod(cluster)
    assert (pod["namespace"], pod["name"], pod["verb"]) == ("shop", "p", "filter")
    assert (pod["state"], pod["passed"], pod["nodes"]) == ("Passed", 1, 3)


def test_a_pod_that_fits_nowhere_is_rejected_and_stays_so_after_ten_minutes() -> None:
    cluster = Cluster(LabelMatch, nodes=3, args={"LabelMatch": RULES})
    cluster.filter(make_pod("p", labels=PICKY))
    assert (only_pod(cluster)["state"], only_pod(cluster)["passed"]) == ("Rejected", 0)
    decisions = cluster.verbs.decisions
    decisions._now = lambda: float("inf")
    decisions.settle_old()
    assert (only_pod(cluster)["state"], only_pod(cluster)["passed"]) == ("Rejected", 0)
    assert only_pod(cluster)["nodes"] == 3


def test_a_node_with_two_entries_counts_once() -> None:
    first, second, third = (core.Mask([place in rows for place in range(4)]) for rows in ENTRIES)
    status = Status.unschedulable("no")
    rejections = [Rejection(second, status, "A"), Rejection(third, status, "B")]
    verdicts = Verdicts(AskedNodes(4, packed=b'["a","b","c","d"]'), first, rejections)
    assert verdicts.passed == verdicts.summary()["passed"] == 1
    assert Verdicts(AskedNodes(4, packed=b'["a","b","c","d"]')).passed == 4


def test_a_pod_for_which_a_plugin_fails_has_failed() -> None:
    cluster = Cluster(Raises(), nodes=2)
    assert cluster.filter(make_pod("p")).error
    pod = only_pod(cluster)
    assert (pod["state"], pod["passed"]) == ("Failed", None)
    assert "Raises" in pod["said"]


def test_a_pod_that_is_scored_though_its_filter_failed_has_failed() -> None:
    # kube-scheduler goes on without the filters of an extender that is ignorable.
    class Scores(Raises):
        def score_nodes(self, _state: object, _pod: core.Pod, nodes: core.Nodes) -> list[int]:
            return [0] * len(nodes)

    cluster = Cluster(Scores(), nodes=2)
    pod = make_pod("p")
    assert cluster.filter(pod).error
    cluster.prioritize(pod)
    assert (only_pod(cluster)["verb"], only_pod(cluster)["state"]) == ("prioritize", "Failed")


def test_a_pod_is_bound_or_not_and_filter_repeats_what_permit_said() -> None:
    cluster = Cluster(AtPermit(), nodes=1)
    cluster.bind(make_pod("good"), "node-0")
    assert (only_pod(cluster)["state"], only_pod(cluster)["node"]) == ("Bound", "node-0")
    bad = make_pod("bad", labels=PICKY)
    cluster.bind(bad, "node-0")
    first = overview(cluster)["pods"]["items"][0]
    assert (first["name"], first["state"], first["said"]) == ("bad", "NotBound", "over budget")


def test_a_held_pod_waits_and_is_in_both_lists() -> None:
    labels = {
        "scheduling.x-k8s.io/pod-group": "g",
        "pod-group.scheduling.sigs.k8s.io/min-available": "2",
    }
    first, second = make_pod("a", labels=labels), make_pod("b", labels=labels)
    cluster = Cluster(Coscheduling, nodes=2, pods=[first, second])
    assert cluster.bind(first, "node-0").waiting == ("Coscheduling",)
    found = overview(cluster)
    (waiting,), (pod,) = found["waiting"]["items"], found["pods"]["items"]
    assert (waiting["name"], waiting["node"]) == ("a", "node-0")
    assert [*waiting["pendingPlugins"]] == ["Coscheduling"]
    assert (pod["name"], pod["state"], pod["said"]) == ("a", "Waiting", "")


def test_a_list_has_the_latest_pods_and_says_how_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decision_reader, "MOST_PODS", 2)
    cluster = Cluster(LabelMatch, nodes=1, args={"LabelMatch": RULES})
    for name in ("a", "b", "c", "a"):
        cluster.filter(make_pod(name, uid=f"u-{name}"))
    pods = overview(cluster)["pods"]
    assert [pod["name"] for pod in pods["items"]] == ["a", "c"]
    assert pods["total"] == 3


def test_the_queue_and_the_configuration_are_told() -> None:
    cluster = Cluster(AtPermit(), nodes=1)
    assert overview(cluster)["queue"] is None
    found = overview(cluster, queue=lambda: (True, {"ready": 7}), configuration_sha256="ab")
    assert found["queue"] == {"leads": True, "pods": {"ready": 7}}
    assert found["kubextend"]["configurationSha256"] == "ab"


def test_what_the_queue_says_of_a_pod_is_told_before_the_pod_has_a_record() -> None:
    cluster = Cluster(LabelMatch, nodes=1, args={"LabelMatch": RULES})
    reader = reader_of(cluster, why_queued={"u": "waits for a/b"}.__getitem__)
    told = reader.pod("u")
    assert (told["pod"], told["queued"]) == (None, "waits for a/b")
