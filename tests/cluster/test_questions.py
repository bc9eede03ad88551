"""One-off questions to the Kubernetes API: a pod, its Events, the pods of a Service, a port."""

import socket
from pathlib import Path
from typing import Any

import pytest
from tests.doors.kube_api import ScriptedApi, SkippingTime, read_pod, write_kubeconfig
from tests.doors.scripted_requests import Fault, answering, garbled, lost_request, refusing

from kubextend import cluster
from kubextend.errors import ClusterError


def test_a_pod_is_read_as_the_api_has_it(api: ScriptedApi, kubeconfig: Path) -> None:
    assert read_pod(kubeconfig, "default", "web") is None
    for phase in ("Pending", "Failed"):
        api.put_pod("web", "uid-1", phase=phase)
        pod = read_pod(kubeconfig, "default", "web")
        assert pod is not None
        assert (pod.namespace, pod.name, pod.uid, pod.phase) == ("default", "web", "uid-1", phase)
        assert pod.scheduler_name == "default-scheduler"


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (refusing(403, "Forbidden", "no"), r"cannot read pod default/web: no; grant get on pods$"),
        (refusing(500, "InternalError", "etcd"), r"cannot read pod default/web: etcd$"),
        (lost_request, r"^GET /api/v1/namespaces/default/pods/web: "),
        (garbled(b"<html></html>"), r"^GET /api/v1/namespaces/default/pods/web: .*byte"),
    ],
)
def test_a_pod_that_cannot_be_read_says_why(
    api: ScriptedApi, kubeconfig: Path, fault: Fault, sentence: str
) -> None:
    api.put_pod("web", "uid-1")
    api.fail("get", fault)
    with pytest.raises(ClusterError, match=sentence):
        read_pod(kubeconfig, "default", "web")


def test_what_is_no_name_is_not_asked_for(api: ScriptedApi, kubeconfig: Path) -> None:
    for namespace, name in (("default", ".."), ("default", "a/b"), ("", "web"), ("a?b", "web")):
        with pytest.raises(ClusterError, match="is no name of a"):
            read_pod(kubeconfig, namespace, name)
    with pytest.raises(ClusterError, match="is no name of a Service"):
        cluster.ready_pods(cluster.connect(str(kubeconfig)), "a", "b/../c")
    assert api.requests == []


def told(api: ScriptedApi, kubeconfig: Path, *events: dict[str, Any]) -> list[dict[str, Any]]:
    api.fail("event", answering({"items": [*events]}))
    return cluster.pod_events(cluster.connect(str(kubeconfig)), "ns", "some-uid")


def test_the_time_and_the_writer_of_an_event_are_found_wherever_its_writer_put_them(
    api: ScriptedApi, kubeconfig: Path
) -> None:
    by_kubelet = {
        "reason": "FailedMount",
        "source": {"component": "kubelet", "host": "n1"},
        "reportingComponent": "",
        "firstTimestamp": "2026-01-01T00:00:01Z",
        "lastTimestamp": "2026-01-01T00:00:04Z",
        "eventTime": None,
    }
    by_kube_scheduler = {
        "reason": "FailedScheduling",
        "reportingComponent": "default-scheduler",
        "lastTimestamp": None,
        "eventTime": "2026-01-01T00:00:02.000000Z",
    }
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:03.000000Z"}}
    found = told(api, kubeconfig, by_kubelet, by_kube_scheduler, by_kube_scheduler | series, {})
    assert [(each["at"], each["from"], each["reason"]) for each in found] == [
        ("", "", ""),
        ("2026-01-01T00:00:02.000000Z", "default-scheduler", "FailedScheduling"),
        ("2026-01-01T00:00:03.000000Z", "default-scheduler", "FailedScheduling"),
        ("2026-01-01T00:00:04Z", "kubelet", "FailedMount"),
    ]
    assert "fieldSelector=involvedObject.uid%3Dsome-uid" in api.paths("event")[0]


def test_only_the_last_events_of_a_pod_are_told_and_no_long_text(
    api: ScriptedApi, kubeconfig: Path
) -> None:
    events = [
        {"lastTimestamp": f"2026-01-01T00:{at // 60:02}:{at % 60:02}Z", "message": "x" * 5000}
        for at in range(70)
    ]
    found = told(api, kubeconfig, *events)
    assert [each["at"] for each in found] == [each["lastTimestamp"] for each in events[-50:]]
    assert {len(each["note"]) for each in found} == {1024}


UNREACHABLE = "pod a/b cannot be reached through the Kubernetes API"
ANONYMOUS = 'pods is forbidden: User "system:anonymous" cannot get'


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (refusing(403, "Forbidden"), r"resources: \[pods/portforward\]\n  verbs: \[get, create\]"),
        (refusing(404, "NotFound"), f"{UNREACHABLE}: status 404 Not Found"),
        # No role helps who is nobody.
        (refusing(403, "Forbidden", ANONYMOUS), f"{UNREACHABLE}: status 403 Forbidden$"),
    ],
)
def test_a_port_that_the_api_refuses_names_the_right_that_is_missing(
    api: ScriptedApi, kubeconfig: Path, fault: Fault, said: str
) -> None:
    api.fail("get", fault)
    with pytest.raises(ClusterError, match=said):
        cluster.port_of_pod(cluster.connect(str(kubeconfig)), "a", "b", 8888)


def endpoint(name: str, kind: str = "Pod", **conditions: bool) -> dict[str, Any]:
    return {"targetRef": {"kind": kind, "name": name}, "conditions": conditions}


def test_the_pods_of_a_service_are_those_that_are_ready_or_of_which_nothing_is_known(
    api: ScriptedApi, kubeconfig: Path
) -> None:
    """The API's reference: "ready: a nil value should be interpreted as true"."""
    endpoints = [
        endpoint("unknown"),
        endpoint("not-ready", ready=False),
        endpoint("node", "Node", ready=True),
        endpoint("b", ready=True),
        endpoint("a", ready=True),
        {"conditions": {"ready": True}},
    ]
    api.fail("get", answering({"items": [{"endpoints": endpoints}]}))
    found = cluster.ready_pods(cluster.connect(str(kubeconfig)), "ns", "kubextend")
    assert found == ["a", "b", "unknown"]


def test_the_connection_of_a_call_that_was_given_up_is_reset_so_that_nothing_is_sent_again(
    clock: SkippingTime, kubeconfig: Path
) -> None:
    """A Binding that the network holds back must not arrive once another replica leads."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        write_kubeconfig(kubeconfig, f"http://127.0.0.1:{server.getsockname()[1]}", "a-token")
        with pytest.raises(ClusterError):
            read_pod(kubeconfig, "default", "web")
        clock.settle()
        connection, _ = server.accept()
        # An ordinary close would end what is received without an error.
        with connection, connection.makefile("rb") as received, pytest.raises(ConnectionResetError):
            received.read()
