from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scripted_api import Request, ScriptedApi, lost_request, refusing

from kubextend.cluster import PodReader
from kubextend.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubextend.cluster.client import Cluster


@pytest.fixture
def reader(cluster: Cluster) -> PodReader:
    return PodReader(cluster)


@pytest.mark.parametrize("phase", ["Pending", "Failed"])
def test_a_pod_is_read_as_the_api_has_it(api: ScriptedApi, reader: PodReader, phase: str) -> None:
    api.put_pod("web", "uid-1", phase=phase)
    pod = reader.get("default", "web")
    assert pod is not None
    assert (pod.namespace, pod.name, pod.uid, pod.phase) == ("default", "web", "uid-1", phase)
    assert pod.scheduler_name == "default-scheduler"
    assert api.requests[-1][1] == "/api/v1/namespaces/default/pods/web"


def test_a_pod_that_is_not_there_is_none(reader: PodReader) -> None:
    assert reader.get("default", "web") is None


def html(request: Request) -> bool:
    request.send_text(200, b"<html></html>")
    return True


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        (refusing(403, "Forbidden", "no"), r"cannot read pod default/web: no; grant get on pods$"),
        (refusing(500, "InternalError", "etcd"), r"cannot read pod default/web: etcd$"),
        (lost_request, r"^GET /api/v1/namespaces/default/pods/web: "),
        (html, r"^GET /api/v1/namespaces/default/pods/web: .*byte"),
    ],
)
def test_a_failure_says_what_and_why(
    api: ScriptedApi, reader: PodReader, fault: Callable[[Request], bool], sentence: str
) -> None:
    api.put_pod("web", "uid-1")
    api.fail("get", fault)
    with pytest.raises(ClusterError, match=sentence):
        reader.get("default", "web")


@pytest.mark.parametrize(
    ("namespace", "name"), [("default", ".."), ("default", "a/b"), ("", "web"), ("a?b", "web")]
)
def test_what_is_no_name_is_not_asked_for(
    api: ScriptedApi, reader: PodReader, namespace: str, name: str
) -> None:
    with pytest.raises(ClusterError, match="is no name of a"):
        reader.get(namespace, name)
    assert api.requests == []
