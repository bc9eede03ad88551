"""What make_pod, make_node and make_nodes make is what the core reads from the API's own JSON."""

from typing import Any

import pytest

from kubextend import core, testing


def test_a_pod_has_what_its_keywords_say() -> None:
    pod = testing.make_pod(
        "train",
        namespace="ml",
        labels={"app": "web"},
        annotations={"note": "x"},
        requests={"cpu": "250m", "memory": "1Gi", "nvidia.com/gpu": 2},
        scheduler_name="mine",
        priority=7,
        overhead={"cpu": "50m"},
        schedulingGates=[{"name": "wait"}],
    )
    assert (pod.name, pod.namespace, pod.scheduler_name) == ("train", "ml", "mine")
    assert (pod.labels, pod.annotations, pod.priority) == ({"app": "web"}, {"note": "x"}, 7)
    assert pod.requests == {"cpu": 300, "memory": 1 << 30, "nvidia.com/gpu": 2}
    assert pod.scheduling_gates == ["wait"]
    assert (pod.node_name, pod.phase) == ("", "Pending")


def test_two_pods_are_never_the_same_by_accident() -> None:
    assert testing.make_pod().uid != testing.make_pod().uid
    assert testing.make_pod(uid="7").uid == "7"


def test_a_node_has_what_its_keywords_say_and_the_pods_that_are_put_on_it() -> None:
    node = testing.make_node(
        "gpu",
        labels={"zone": "a"},
        allocatable={"cpu": "8", "nvidia.com/gpu": 4},
        taints=["dedicated=team:NoSchedule", ("spot", "", "NoExecute")],
        unschedulable=True,
        pods=[testing.make_pod(requests={"cpu": "1"}), testing.pod_manifest("other")],
    )
    assert node.labels == {"kubernetes.io/hostname": "gpu", "zone": "a"}
    assert (node.allocatable("cpu"), node.allocatable("nvidia.com/gpu")) == (8000, 4)
    assert (node.allocatable("memory"), node.allocatable("pods")) == (16 << 30, 110)
    assert node.taints == [("dedicated", "team", "NoSchedule"), ("spot", "", "NoExecute")]
    assert node.unschedulable
    assert (node.requested("cpu"), node.requested("pods")) == (1000, 2)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (0, []),
        (2, ["node-0", "node-1"]),
        ({"b": {}, "a": {"zone": "x"}}, ["b", "a"]),
        (["b", "a"], ["b", "a"]),
        ([testing.node_manifest("c"), testing.make_node("a"), "b"], ["c", "a", "b"]),
    ],
)
def test_nodes_are_made_from_a_number_labels_names_or_nodes(given: Any, names: list[str]) -> None:
    nodes = testing.make_nodes(given)
    assert nodes.names == names
    assert nodes.known.all()
    assert testing.make_nodes(nodes) is nodes


def test_what_all_nodes_have_in_common_is_said_once_and_what_one_node_has_goes_before() -> None:
    given = {"a": {"disk": "ssd", "zone": "y"}, "b": {}}
    nodes = testing.make_nodes(given, labels={"zone": "x"}, allocatable={"cpu": "2"})
    assert nodes.labels("zone") == ["y", "x"]
    assert nodes.matches("disk=ssd").indices() == [0]
    assert list(nodes.allocatable("cpu")) == [2000, 2000]


def test_an_object_that_was_made_elsewhere_cannot_be_sent_and_says_so() -> None:
    body = b'{"Pod":{"metadata":{"name":"x","uid":"1"}},"NodeNames":[]}'
    for made in [testing.make_pod() for _ in range(100)]:
        del made
    # They may be where those were.
    for other in [core.read_args(body, watched=core.NodeStore()).pod for _ in range(100)]:
        assert other is not None
        with pytest.raises(ValueError, match="was not made by make_pod"):
            testing.Cluster(nodes=1).filter(other)


def test_a_pod_on_a_node_lacks_what_a_cluster_does_not_keep_either() -> None:
    labels = {f"k{number}": "v" for number in range(2000)}
    large = testing.pod_manifest("large", labels=labels)
    assert testing.make_pod("asking", labels=labels).labels == labels
    (found,) = testing.make_node("n", pods=[large]).pods
    with pytest.raises(core.TruncatedPodError, match="default/large is kept without its labels"):
        found.labels  # noqa: B018


@pytest.mark.parametrize(
    ("make", "keyword", "field"),
    [
        (testing.make_pod, {"node_selector": {"disk": "ssd"}}, "nodeSelector"),
        (testing.make_node, {"node_info": {}}, "nodeInfo"),
    ],
)
def test_a_keyword_that_is_no_name_of_a_field_is_refused(
    make: Any, keyword: Any, field: str
) -> None:
    with pytest.raises(TypeError, match=f"say {field}"):
        make(**keyword)
    make(**{field: next(iter(keyword.values()))})
