from __future__ import annotations

import json
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from cluster_world import PATIENCE_S
from scripted_api import Request, ScriptedApi, lost_answer, lost_request, refusing

from kubextend.cluster import Binder
from kubextend.cluster import binder as binder_module
from kubextend.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kubextend.cluster.client import Cluster


def bind_elsewhere(request: Request) -> bool:
    """Another binder was quicker, after ours was sent."""
    request.server_api.pods["web"]["spec"]["nodeName"] = "node-2"
    return False


def replace_pod(request: Request) -> bool:
    """The pod was deleted and made anew after kube-scheduler had looked at it."""
    request.server_api.put_pod("web", "uid-2")
    return False


def refuse_plain_http(request: Request) -> bool:
    """What Go's server says in clear text on its TLS port."""
    request.send_text(400, b"Client sent an HTTP request to an HTTPS server.\n")
    return True


def refuse_with_a_page(request: Request) -> bool:
    request.send_text(400, b"<html>\n<title>400</title>\n" + b"<p>" * 200)
    return True


def delete_pod_and_answer(request: Request) -> bool:
    del request.server_api.pods["web"]
    return lost_request(request)


def test_a_binding_carries_name_uid_and_node(api: ScriptedApi, cluster: Cluster) -> None:
    api.put_pod("web", "uid-1")
    Binder(cluster).bind("default", "web", "uid-1", "node-1")
    kind, path, headers, body = api.requests[-1]
    assert (kind, path) == ("bind", "/api/v1/namespaces/default/pods/web/binding")
    assert headers["Authorization"] == "Bearer a-token"
    assert headers["User-Agent"].startswith("kubextend/")
    assert json.loads(body) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-1"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
    }
    assert api.pods["web"]["spec"]["nodeName"] == "node-1"


def test_a_binding_carries_the_annotations_of_plugins(api: ScriptedApi, cluster: Cluster) -> None:
    api.put_pod("web", "uid-1")
    api.fail("bind", lost_request)
    binder = Binder(cluster, timeout_s=PATIENCE_S, sleep=lambda _: None)
    binder.bind("default", "web", "uid-1", "node-1", annotations={"example.com/slot": "3"})
    bodies = [json.loads(body) for kind, _, _, body in api.requests if kind == "bind"]
    expected = {
        "name": "web",
        "namespace": "default",
        "uid": "uid-1",
        "annotations": {"example.com/slot": "3"},
    }
    # The repeated Binding has them too.
    assert [body["metadata"] for body in bodies] == [expected, expected]


@pytest.mark.parametrize(
    "faults",
    [
        [lost_answer],
        [lost_request],
        [lost_request, lost_answer],
        [refusing(429, "TooManyRequests", Retry_After="1")],
        [refusing(500, "InternalError")],
        [refusing(503, "ServiceUnavailable", Retry_After="1")],
        [refusing(504, "Timeout"), lost_answer],
    ],
    ids=["answer lost", "request lost", "both lost", "429", "500", "503", "504 and lost"],
)
def test_a_fault_that_passes_ends_in_one_binding(
    api: ScriptedApi, cluster: Cluster, faults: list[Callable[[Request], bool]]
) -> None:
    api.put_pod("web", "uid-1")
    api.fail("bind", *faults)
    binder = Binder(cluster, timeout_s=PATIENCE_S, sleep=lambda _: None)
    binder.bind("default", "web", "uid-1", "node-1")
    assert api.pods["web"]["spec"]["nodeName"] == "node-1"
    assert api.pods["web"]["bindings"] == 1


def test_binding_a_pod_again_to_the_same_node_succeeds(api: ScriptedApi, cluster: Cluster) -> None:
    api.put_pod("web", "uid-1")
    binder = Binder(cluster)
    binder.bind("default", "web", "uid-1", "node-1")
    binder.bind("default", "web", "uid-1", "node-1")
    assert api.pods["web"]["bindings"] == 1


@pytest.mark.parametrize(
    ("fault", "sentence", "status"),
    [
        (bind_elsewhere, "pod default/web is bound to node node-2, not to node-1", 409),
        (replace_pod, "cannot bind pod default/web: its UID is uid-2, not uid-1", 409),
        (refusing(404, "NotFound", 'pods "web" not found'), "it was deleted", 404),
        (refusing(403, "Forbidden", "cannot create"), "grant create on pods/binding", 403),
        (refusing(422, "Invalid", "target.name: Required"), "target.name: Required", 422),
        (refusing(409, "Conflict", "pod web is being deleted"), "pod web is being deleted", 409),
        (delete_pod_and_answer, "it was deleted", 404),
        (refuse_plain_http, "Client sent an HTTP request to an HTTPS server.", 400),
        (refuse_with_a_page, "node-1: Bad Request", 400),
    ],
    ids=[
        "elsewhere",
        "other uid",
        "gone",
        "forbidden",
        "invalid",
        "being deleted",
        "lost, gone",
        "plain http",
        "a proxy",
    ],
)
def test_a_binding_that_cannot_be_says_why_and_writes_nothing(
    api: ScriptedApi,
    cluster: Cluster,
    fault: Callable[[Request], bool],
    sentence: str,
    status: int,
) -> None:
    api.put_pod("web", "uid-1")
    api.fail("bind", fault)
    with pytest.raises(ClusterError) as caught:
        Binder(cluster).bind("default", "web", "uid-1", "node-1")
    assert sentence in str(caught.value)
    assert caught.value.status == status
    assert api.pods.get("web", {}).get("bindings", 0) == 0
    assert api.counts["bind"] == 1


def test_an_api_that_is_down_is_said_at_the_deadline(api: ScriptedApi, cluster: Cluster) -> None:
    api.down()
    with pytest.raises(ClusterError, match="refused") as caught:
        Binder(cluster, timeout_s=0.5).bind("default", "web", "uid-1", "node-1")
    assert caught.value.status is None


def test_an_api_that_takes_a_binding_and_says_nothing_is_asked_for_the_pod(
    api: ScriptedApi, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def silent(request: Request) -> bool:
        request._bind("web", json.loads(request.body))
        assert over.wait(PATIENCE_S)
        return lost_request(request)

    monkeypatch.setattr(binder_module, "CALL_S", 0.3)
    api.put_pod("web", "uid-1")
    api.fail("bind", silent)
    Binder(cluster, timeout_s=PATIENCE_S).bind("default", "web", "uid-1", "node-1")
    over.set()
    assert api.pods["web"]["bindings"] == 1


def test_binds_run_side_by_side(
    api: ScriptedApi, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binder_module, "CALL_S", PATIENCE_S)
    together = threading.Barrier(64)

    def meet(_: Request) -> bool:
        together.wait(PATIENCE_S)
        return False

    api.fail("bind", *[meet] * 64)
    for number in range(200):
        api.put_pod(f"pod-{number}", f"uid-{number}")
    binder = Binder(cluster, timeout_s=PATIENCE_S)
    with ThreadPoolExecutor(64) as pool:
        futures = [
            pool.submit(binder.bind, "default", f"pod-{number}", f"uid-{number}", "node-1")
            for number in range(200)
        ]
        for future in futures:
            future.result()
    assert all(pod["bindings"] == 1 for pod in api.pods.values())


def test_with_one_fault_in_twenty_every_pod_is_bound_once(
    api: ScriptedApi, cluster: Cluster
) -> None:
    count = 400
    dice = random.Random(7)
    faults = [lost_answer, lost_request, refusing(500, "InternalError")]

    def maybe(request: Request) -> bool:
        if dice.random() >= 0.05:
            return False
        return dice.choice(faults)(request)

    api.fail("bind", *[maybe] * (2 * count))
    for number in range(count):
        api.put_pod(f"pod-{number}", f"uid-{number}")
    binder = Binder(cluster, timeout_s=PATIENCE_S)
    with ThreadPoolExecutor(16) as pool:
        binds = [
            pool.submit(binder.bind, "default", f"pod-{number}", f"uid-{number}", "node-1")
            for number in range(count)
        ]
        for bind in binds:
            bind.result()
    assert [pod["bindings"] for pod in api.pods.values()] == [1] * count


def test_after_a_401_a_binding_is_sent_with_the_new_token(
    api: ScriptedApi, cluster: Cluster, kubeconfig: Path
) -> None:
    api.put_pod("web", "uid-1")
    api.token = "the-next-token"
    kubeconfig.write_text(kubeconfig.read_text().replace("a-token", "the-next-token"))
    Binder(cluster).bind("default", "web", "uid-1", "node-1")
    assert api.pods["web"]["bindings"] == 1


def test_of_many_bindings_that_get_a_401_at_once_each_is_sent_again(
    api: ScriptedApi, cluster: Cluster
) -> None:
    count = 4
    together = threading.Barrier(count)

    def expired(request: Request) -> bool:
        together.wait(PATIENCE_S)
        return refusing(401, "Unauthorized")(request)

    api.fail("bind", *[expired] * count)
    for number in range(count):
        api.put_pod(f"pod-{number}", f"uid-{number}")
    binder = Binder(cluster, timeout_s=PATIENCE_S)
    with ThreadPoolExecutor(count) as pool:
        binds = [
            pool.submit(binder.bind, "default", f"pod-{number}", f"uid-{number}", "node-1")
            for number in range(count)
        ]
        for bind in binds:
            bind.result()
    assert [pod["bindings"] for pod in api.pods.values()] == [1] * count
