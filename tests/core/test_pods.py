"""What a pod shows to Python, and what it shows of parts that are not kept."""

import json
from collections.abc import Callable

import pytest
from tests.doors import core_objects as world
from tests.doors.core_objects import Json, container, event, pod, read

from kubextend import core


def test_a_pod_shows_its_times_gates_and_status() -> None:
    created, deleted = "2026-11-21T01:48:22Z", "2026-11-21T02:00:00Z"
    started = "2026-11-21T01:48:23.5+01:00"
    metadata = {"generation": 3, "creationTimestamp": created, "deletionTimestamp": deleted}
    spec = {
        "schedulingGates": [{"name": "example.com/wait"}, {"name": "b"}],
        "schedulingGroup": {"podGroupName": "workers"},
    }
    status = {"phase": "Running", "qosClass": "Guaranteed", "nominatedNodeName": "n9"}
    conditions = [
        {"type": "Ready", "status": "False", "reason": "Other"},
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
    ]
    status |= {"startTime": started, "conditions": conditions}
    found = read({"metadata": metadata, "spec": spec, "status": status})
    assert found.creation_timestamp == created
    assert (found.deletion_timestamp, found.start_time) == (deleted, started)
    assert found.scheduling_gates == ["example.com/wait", "b"]
    assert found.scheduling_group == "workers"
    assert (found.phase, found.qos_class) == ("Running", "Guaranteed")
    assert found.nominated_node_name == "n9"
    assert (found.scheduled_reason, found.generation) == ("Unschedulable", 3)


def test_a_pod_that_says_nothing_shows_nothing() -> None:
    found = read({})
    assert (found.requests, found.overhead) == ({}, {})
    assert (found.containers, found.init_containers, found.scheduling_gates) == ([], [], [])
    assert (found.creation_timestamp, found.deletion_timestamp, found.start_time) == (
        "",
        None,
        None,
    )
    assert (found.phase, found.nominated_node_name, found.scheduling_group) == ("", "", "")
    assert (found.qos_class, found.scheduled_reason, found.generation) == ("BestEffort", "", 0)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            "Pod.metadata.creationTimestamp: not a time as RFC 3339 writes it",
            {"metadata": {"creationTimestamp": "yesterday"}},
        ),
        ("Pod.status.startTime: expected a string, found a number", {"status": {"startTime": 7}}),
        (
            "Pod.spec.containers[0].resources.requests: not a quantity: ",
            {"spec": {"containers": [{"resources": {"requests": {"cpu": "much"}}}]}},
        ),
        ("Pod.spec.containers: expected a list, found an object", {"spec": {"containers": {}}}),
    ],
)
def test_a_pod_of_wrong_parts_is_refused_with_the_place(message: str, shown: Json) -> None:
    with pytest.raises(core.WireError) as refused:
        core.read_args(json.dumps({"Pod": shown}).encode())
    assert message in str(refused.value)


LONG = "x" * 5000
MANY = [f"k{number}" for number in range(1000)]


def asking_for(resources: list[str]) -> Json:
    requests = dict.fromkeys(resources, "1")
    return pod("large", node="n", spec={"containers": [container(**requests)]})


def one_node() -> core.Nodes:
    return world.node_store(world.node("n")).nodes()


TOLERATING = pod("large", spec={"tolerations": [{"key": "k", "value": LONG}]})
LABELLED = pod(
    "large", metadata={"name": "large", "namespace": "ns", "labels": dict.fromkeys(MANY, "v")}
)
CONTAINERS = pod("large", spec={"containers": [container(name) for name in MANY]})
ASKING = asking_for([*MANY, "cpu", "nvidia.com/gpu"])


@pytest.mark.parametrize(
    ("shown", "part"),
    [
        (TOLERATING, lambda pod: pod.tolerations),
        (TOLERATING, lambda pod: pod.annotations),
        (TOLERATING, lambda pod: pod.node_selector),
        (TOLERATING, lambda pod: pod.required_terms),
        (TOLERATING, lambda pod: one_node().tolerated_by(pod)),
        (TOLERATING, lambda pod: one_node().affine_to(pod)),
        (TOLERATING, lambda pod: one_node().preferred_by(pod)),
        (LABELLED, lambda pod: pod.labels),
        (LABELLED, lambda pod: pod.matches("a=b")),
        (LABELLED, lambda pod: core.NativePlugin.named("RdmaAware").filter_nodes(pod, one_node())),
        (CONTAINERS, lambda pod: pod.containers),
        (CONTAINERS, lambda pod: pod.init_containers),
        (ASKING, lambda pod: pod.requests),
        (ASKING, lambda pod: pod.overhead),
        (ASKING, lambda pod: pod.request("k7")),
    ],
)
def test_a_part_that_was_too_large_to_keep_raises_and_says_of_which_pod(
    shown: Json, part: Callable[[core.Pod], object]
) -> None:
    found = core.PodStore(max_pod_bytes=4096).apply(event("ADDED", shown)).pod
    assert found.truncated
    with pytest.raises(core.TruncatedPodError, match="pod ns/large is kept without its"):
        part(found)
    part(read(shown))


def test_where_requests_are_not_known_a_node_has_no_room_for_that_resource() -> None:
    store = core.PodStore(max_pod_bytes=4096)
    store.apply(event("ADDED", ASKING))
    store.apply(event("ADDED", pod("small", node="n", spec={"containers": [container(k7="2")]})))
    nodes = world.node_store(world.node("n"), world.node("m")).nodes()
    for resource, expected in [
        ("cpu", [1000, 0]),
        ("nvidia.com/gpu", [1, 0]),
        ("pods", [2, 0]),
        ("k7", [1 << 53, 0]),
        ("nobody/names-it", [1 << 53, 0]),
    ]:
        snapshot = store.snapshot()
        assert list(snapshot.requested(nodes, resource)) == expected
        assert [info.requested(resource) for info in nodes.infos(snapshot)] == expected
    store.apply(event("DELETED", ASKING))
    assert list(store.snapshot().requested(nodes, "k7")) == [2, 0]
