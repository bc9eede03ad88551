"""A pod is bound once, or the error says why not, in the time that the caller gives."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.doors.kube_api import AT_MOST_S, Binds, Held, ScriptedApi, SkippingTime
from tests.doors.scripted_requests import Fault, Request, lost_answer, lost_request, refusing

from kubextend.errors import ClusterError


@pytest.fixture
def binds(api: ScriptedApi, kubeconfig: Path) -> Binds:
    """Bind pods; the pod ``web`` is there."""
    api.put_pod("web", "uid-1")
    return Binds(kubeconfig)


def bound(api: ScriptedApi) -> set[int]:
    """Return how often pods were bound."""
    return {pod.get("bindings", 0) for pod in api.pods.values()}


def test_a_binding_names_the_pod_its_uid_the_node_and_the_annotations_of_plugins(
    api: ScriptedApi, binds: Binds
) -> None:
    api.fail("bind", lost_request)
    binds.bind("web", "uid-1", "node-1", annotations={"example.com/slot": "3"})
    _, path, headers, _ = api.requests[-1]
    assert path == "/api/v1/namespaces/default/pods/web/binding"
    assert headers["Authorization"] == "Bearer a-token"
    assert headers["User-Agent"].startswith("kubextend/")
    named = {"name": "web", "namespace": "default", "uid": "uid-1"}
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": named | {"annotations": {"example.com/slot": "3"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
    }
    # The repeated Binding is the same.
    assert api.bodies("bind") == [binding, binding]


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([lost_answer], id="answer lost"),
        pytest.param([lost_request, lost_answer], id="both lost"),
        pytest.param([refusing(429, "TooManyRequests", Retry_After="1")], id="429"),
        pytest.param([refusing(500, "InternalError")], id="500"),
        pytest.param([refusing(503, "ServiceUnavailable", Retry_After="1")], id="503"),
        pytest.param([refusing(504, "Timeout"), lost_answer], id="504 and lost"),
    ],
)
def test_a_fault_that_passes_ends_in_one_binding(
    api: ScriptedApi, binds: Binds, faults: list[Fault]
) -> None:
    api.fail("bind", *faults)
    for _ in "once", "again, which is a success":
        binds.bind("web", "uid-1", "node-1")
        assert api.pods["web"]["spec"]["nodeName"] == "node-1"
        assert bound(api) == {1}


def bind_elsewhere(request: Request) -> bool:
    """Another scheduler was quicker, after our Binding was sent."""
    request.server_api.pods["web"]["spec"]["nodeName"] = "node-2"
    return False


def replace_pod(request: Request) -> bool:
    """The pod was deleted and created again after kube-scheduler had looked at it."""
    request.server_api.put_pod("web", "uid-2")
    return False


def replace_pod_on_the_node(request: Request) -> bool:
    """The pod was deleted, and the new pod of its name is on the node already."""
    request.server_api.put_pod("web", "uid-2", node="node-1")
    return False


def delete_pod(request: Request) -> bool:
    del request.server_api.pods["web"]
    return lost_request(request)


# What Go's server says in clear text on its TLS port.
PLAIN_HTTP = b"Client sent an HTTP request to an HTTPS server.\n"


def refusing_with(text: bytes) -> Fault:
    def refuse(request: Request) -> bool:
        request.send_text(400, text)
        return True

    return refuse


@pytest.mark.parametrize(
    ("fault", "sentence", "status"),
    [
        (bind_elsewhere, "pod default/web is bound to node node-2, not to node-1", 409),
        (replace_pod, "cannot bind pod default/web: its UID is uid-2, not uid-1", 409),
        (replace_pod_on_the_node, "its UID is uid-2, not uid-1", 409),
        (refusing(404, "NotFound", 'pods "web" not found'), "it was deleted", 404),
        (refusing(403, "Forbidden", "cannot create"), "grant create on pods/binding", 403),
        (refusing(422, "Invalid", "target.name: Required"), "target.name: Required", 422),
        (refusing(409, "Conflict", "pod web is being deleted"), "pod web is being deleted", 409),
        (delete_pod, "it was deleted", 404),
        (refusing_with(PLAIN_HTTP), "Client sent an HTTP request to an HTTPS server.", 400),
        (refusing_with(b"<html>\n<title>400</title>\n" + b"<p>" * 200), "node-1: Bad Request", 400),
    ],
)
def test_a_binding_that_cannot_be_says_why_and_is_sent_once(
    api: ScriptedApi, binds: Binds, fault: Fault, sentence: str, status: int
) -> None:
    api.fail("bind", fault)
    with pytest.raises(ClusterError) as caught:
        binds.bind("web", "uid-1", "node-1")
    assert sentence in str(caught.value)
    assert caught.value.status == status
    assert bound(api) <= {0}
    assert api.counts["bind"] == 1


def test_what_is_no_name_is_never_sent(api: ScriptedApi, binds: Binds) -> None:
    no_names = ("", "..", "../../nodes/n", "a?dryRun=All", "a\r\nX: y", "a\n", "A", "x" * 254)
    for namespace, name, uid, node, sentence in [
        ("default", "web", "", "node-1", "the request names no UID"),
        ("", "web", "u", "node-1", "no name of a namespace"),
        ("..", "web", "u", "node-1", "no name of a namespace"),
        ("default", "web", "u", "", "no name of a node"),
        *(("default", name, "u", "node-1", "no name of a pod") for name in no_names),
    ]:
        with pytest.raises(ClusterError, match=sentence):
            binds.bind(name, uid, node, namespace=namespace)
    assert api.requests == []


@pytest.mark.parametrize("timeout_s", [0.6, 3.0, 20.0])
def test_an_api_that_says_nothing_is_asked_for_the_pod_and_given_up_in_time(
    api: ScriptedApi, binds: Binds, clock: SkippingTime, timeout_s: float
) -> None:
    held = Held()
    api.fail("bind", *[held] * 9)
    api.fail("get", *[held] * 9)
    began_s = clock.now_s
    with pytest.raises(ClusterError, match="timed out"):
        binds.bind("web", "uid-1", "node-1", timeout_s=timeout_s)
    assert [kind for kind, *_ in api.requests[:2]] == ["bind", "get"]
    assert clock.now_s <= began_s + timeout_s + 1e-6


def test_an_api_that_is_down_is_said_at_the_deadline(
    api: ScriptedApi, binds: Binds, clock: SkippingTime
) -> None:
    api.down()
    began_s = clock.now_s
    with pytest.raises(ClusterError, match="refused") as caught:
        binds.bind("web", "uid-1", "node-1")
    assert caught.value.status is None
    assert 15 < clock.now_s - began_s <= 20


@pytest.mark.parametrize("asked", [(429, "60"), (429, ""), (500, ""), (503, "2")])
@pytest.mark.parametrize(("timeout_s", "ends_s"), [(0.05, 0.05), (3.0, 3.0), (600.0, 20.0)])
def test_an_api_that_refuses_for_now_is_given_up_in_time(
    api: ScriptedApi, binds: Binds, clock: SkippingTime, asked: Any, timeout_s: float, ends_s: float
) -> None:
    status, retry_after = asked
    api.fail("bind", *[refusing(status, "no", "not now", Retry_After=retry_after)] * 99)
    began_s = clock.now_s
    with pytest.raises(ClusterError, match="not now") as caught:
        binds.bind("web", "uid-1", "node-1", timeout_s=timeout_s)
    assert caught.value.status == status
    assert clock.now_s < began_s + ends_s


@pytest.mark.parametrize(
    ("fault", "pauses", "says"),
    [
        (refusing(429, "TooManyRequests", Retry_After="1"), [1] * 9, "TooManyRequests"),
        (refusing(500, "InternalError"), [0.1, 0.2, 0.4, 0.8, 1.6, 2, 2, 2], "InternalError"),
        (
            lost_request,
            [0.1, 0.2, 0.4, 0.8, 1.6, 2, 2, 2],
            "the API took no binding for pod default/web in time",
        ),
    ],
    ids=["Retry-After", "server errors", "request lost"],
)
def test_a_binding_is_repeated_ever_more_rarely_or_as_the_api_asks(
    api: ScriptedApi, binds: Binds, fault: Fault, pauses: list[float], says: str
) -> None:
    api.fail("bind", *[fault] * 99)
    with pytest.raises(ClusterError, match=says):
        binds.bind("web", "uid-1", "node-1", timeout_s=10.0)
    assert api.pauses("bind") == pauses


def test_a_process_that_was_paused_past_the_deadline_binds_no_more(
    api: ScriptedApi, binds: Binds, clock: SkippingTime
) -> None:
    def paused(request: Request) -> bool:
        refusing(429, "TooManyRequests")(request)
        clock.now_s += 20.0
        return True

    api.fail("bind", paused)
    with pytest.raises(ClusterError):
        binds.bind("web", "uid-1", "node-1", timeout_s=8.0)
    assert api.counts["bind"] == 1


def test_each_attempt_asks_why_the_pod_must_not_be_bound(api: ScriptedApi, binds: Binds) -> None:
    with pytest.raises(ClusterError, match=r"^no room on node-1$"):
        binds.bind("web", "uid-1", "node-1", why_not=lambda: "no room on node-1")
    assert api.requests == []
    api.fail("bind", *[refusing(503, "ServiceUnavailable", Retry_After="1")] * 9)
    answers = iter(["", "", "the node is full"])
    with pytest.raises(ClusterError, match=r"^the node is full$"):
        binds.bind("web", "uid-1", "node-1", why_not=lambda: next(answers))
    assert api.counts["bind"] == 2


def bind_many(api: ScriptedApi, binds: Binds, count: int, at_once: int) -> None:
    """Bind pods on several threads, and expect that each is bound once."""
    api.pods.clear()
    names = [f"pod-{number}" for number in range(count)]
    for name in names:
        api.put_pod(name, f"uid-{name}")
    with ThreadPoolExecutor(at_once) as pool:
        waiting = [pool.submit(binds.bind, name, f"uid-{name}", "node-1") for name in names]
        for each in waiting:
            each.result()
    assert bound(api) == {1}


def meeting(count: int, then: Fault = lambda _: False) -> list[Fault]:
    """Return faults that wait until as many requests are there."""
    together = threading.Barrier(count, timeout=AT_MOST_S)

    def meet(request: Request) -> bool:
        together.wait()
        return then(request)

    return [meet] * count


def test_binds_run_side_by_side(api: ScriptedApi, binds: Binds) -> None:
    api.fail("bind", *meeting(64))
    bind_many(api, binds, 200, 64)


def test_of_many_bindings_that_get_a_401_at_once_each_is_sent_again_with_the_new_token(
    api: ScriptedApi, binds: Binds, kubeconfig: Path
) -> None:
    api.token = "the-next-token"
    kubeconfig.write_text(kubeconfig.read_text().replace("a-token", "the-next-token"))
    api.fail("bind", *meeting(4, refusing(401, "Unauthorized")))
    bind_many(api, binds, 4, 4)
