"""The attributes of a pod that the core shows to Python."""

import json
from typing import Any

import pytest
from pod_world import container, pod, read

from kubextend import core

GIB = 1 << 30


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        pytest.param({"containers": []}, {}, id="nothing"),
        pytest.param(
            {"containers": [container(cpu="1.5", memory="1Gi"), container(cpu="1m")]},
            {"cpu": 1501, "memory": GIB},
            id="containers add up",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1", memory="2Gi")],
                "initContainers": [container(cpu="3", memory="1Gi")],
            },
            {"cpu": 3000, "memory": 2 * GIB},
            id="an init container may need more",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [{**container(cpu="500m"), "restartPolicy": "Always"}],
                "overhead": {"cpu": "10m"},
            },
            {"cpu": 1510},
            id="sidecars and overhead count too",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1", **{"x.y/z": "2"})],
                "resources": {"requests": {"cpu": 4}},
            },
            {"cpu": 4000, "x.y/z": 2},
            id="what the pod as a whole asks for counts in their place",
        ),
        pytest.param({"containers": [container(memory="0.5")]}, {"memory": 1}, id="rounded up"),
    ],
)
def test_a_pod_requests_what_kubernetes_counts(
    spec: dict[str, Any], requests: dict[str, int]
) -> None:
    found = read(pod("p", spec=spec))
    assert found.requests == requests
    for resource, amount in requests.items():
        assert found.request(resource) == amount
    assert found.request("not.asked/for") == 0


def test_containers_show_their_own_requests_and_limits() -> None:
    spec = {
        "containers": [
            container("a", limits={"cpu": "2", "memory": "1Gi"}, cpu="1"),
            container("b"),
        ],
        "initContainers": [{**container("s", cpu="5m"), "restartPolicy": "Always"}, container("i")],
        "overhead": {"cpu": "10m"},
    }
    found = read(pod("p", spec=spec))
    shown = [(c.name, c.requests, c.limits, c.sidecar) for c in found.containers]
    assert shown == [
        ("a", {"cpu": 1000}, {"cpu": 2000, "memory": GIB}, False),
        ("b", {}, {}, False),
    ]
    assert [(c.name, c.sidecar) for c in found.init_containers] == [("s", True), ("i", False)]
    assert found.overhead == {"cpu": 10}


def test_a_pod_shows_its_times_gates_and_status() -> None:
    found = read(
        {
            "metadata": {
                "name": "p",
                "generation": 3,
                "creationTimestamp": "2026-11-21T01:48:22Z",
                "deletionTimestamp": "2026-11-21T02:00:00Z",
            },
            "spec": {
                "schedulingGates": [{"name": "example.com/wait"}, {"name": "b"}],
                "schedulingGroup": {"podGroupName": "workers"},
            },
            "status": {
                "phase": "Running",
                "qosClass": "Guaranteed",
                "nominatedNodeName": "n9",
                "startTime": "2026-11-21T01:48:23.5+01:00",
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "Other"},
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
                ],
            },
        }
    )
    assert found.creation_timestamp == "2026-11-21T01:48:22Z"
    assert found.deletion_timestamp == "2026-11-21T02:00:00Z"
    assert found.start_time == "2026-11-21T01:48:23.5+01:00"
    assert found.scheduling_gates == ["example.com/wait", "b"]
    assert found.scheduling_group == "workers"
    assert (found.phase, found.qos_class) == ("Running", "Guaranteed")
    assert found.nominated_node_name == "n9"
    assert (found.scheduled_reason, found.generation) == ("Unschedulable", 3)


def test_a_pod_that_says_nothing_shows_nothing() -> None:
    found = read({})
    assert (found.requests, found.overhead, found.containers, found.init_containers) == (
        {},
        {},
        [],
        [],
    )
    assert (found.creation_timestamp, found.deletion_timestamp, found.start_time) == (
        "",
        None,
        None,
    )
    assert (found.phase, found.nominated_node_name) == ("", "")
    assert (found.qos_class, found.scheduled_reason, found.generation) == ("BestEffort", "", 0)
    assert (found.scheduling_gates, found.scheduling_group) == ([], "")


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        (
            {"metadata": {"creationTimestamp": "yesterday"}},
            "Pod.metadata.creationTimestamp: not a time as RFC 3339 writes it",
        ),
        (
            {"status": {"startTime": 7}},
            "Pod.status.startTime: expected a string, found a number",
        ),
        (
            {"spec": {"containers": [{"resources": {"requests": {"cpu": "much"}}}]}},
            "Pod.spec.containers[0].resources.requests: not a quantity: ",
        ),
        ({"spec": {"containers": {}}}, "Pod.spec.containers: expected a list, found an object"),
    ],
)
def test_a_pod_of_wrong_parts_is_refused_with_the_place(
    shown: dict[str, Any], message: str
) -> None:
    with pytest.raises(core.WireError) as refused:
        core.read_args(json.dumps({"Pod": shown}).encode())
    assert message in str(refused.value)
