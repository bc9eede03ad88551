"""The policy that limits what kubextend may change of the pods in its own namespace."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import httpx
import pytest

from kubextend.cluster.pod_conditions import patch
from kubextend.cluster.waiting_pod_marker import mark

from .controlplane import ControlPlane
from .kubeapi import STRATEGIC, Api, Object
from .manifests import DEPLOY, apply, objects
from .workbench import until

NAMESPACE = "kubextend-system"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:kubextend"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
LABEL = "kubextend.dev/leader"
CONTAINER = {"name": "c", "image": "registry.invalid/none"}
CONDITION = {"type": "kubextend.dev/Changed", "status": "True"}


def labelled(value: str | None, label: str = LABEL) -> Object:
    return {"metadata": {"labels": {label: value}}}


def refusal(api: Api, pod: str, patch: Object, pods: str = PODS) -> str:
    """Return why the patch of a pod is refused; empty: it is not."""
    try:
        api.call("PATCH", f"{pods}/{pod}", patch, STRATEGIC, dryRun="All")
    except httpx.HTTPStatusError as refused:
        return str(refused)
    return ""


@pytest.fixture(scope="module")
def plane(new_control_plane: Callable[[], ControlPlane]) -> ControlPlane:
    """A control plane with the right to patch pods, and with the policy."""
    plane = new_control_plane()
    service = DEPLOY / "service"
    metadata = {"name": NAMESPACE}
    apply(plane.api, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    wanted = (service / "limits.yaml", service / "rbac.yaml", service / "leader" / "rbac.yaml")
    for path, manifest in objects():
        if path in wanted:
            apply(plane.api, manifest)
    for name in ("own", "other"):
        pod = {"metadata": {"name": name, "labels": {"is": "kubextend"}}}
        plane.api.call("POST", PODS, pod | {"spec": {"containers": [CONTAINER]}})
    with plane.api_of(ACCOUNT, "own") as api:
        until(lambda: refusal(api, "other", labelled("true")), "the policy is in force")
    return plane


@pytest.fixture
def own(plane: ControlPlane) -> Iterator[Api]:
    """kubextend in the pod "own"."""
    with plane.api_of(ACCOUNT, "own") as api:
        yield api


def test_kubextend_may_set_and_remove_the_label_of_the_leader_on_its_own_pod(own: Api) -> None:
    assert refusal(own, "own", labelled("true")) == ""
    own.call("PATCH", f"{PODS}/own", labelled("true"), STRATEGIC)
    assert refusal(own, "own", labelled(None)) == ""
    own.call("PATCH", f"{PODS}/own", labelled(None), STRATEGIC)


@pytest.mark.parametrize(
    ("pod", "patch"),
    [
        pytest.param("other", labelled("true"), id="the label of another pod"),
        pytest.param("own", labelled("true", "app"), id="another label"),
        pytest.param("own", labelled(None, "is"), id="another label away"),
        pytest.param("own", {"metadata": {"annotations": {"a": "b"}}}, id="an annotation"),
        pytest.param(
            "own", {"spec": {"containers": [{"name": "c", "image": "x"}]}}, id="the image"
        ),
    ],
)
def test_kubextend_may_change_nothing_else_of_the_pods_there(
    own: Api, pod: str, patch: Object
) -> None:
    assert "kubextend.dev/leader" in refusal(own, pod, patch)


def test_the_status_of_a_pod_is_no_way_to_its_metadata(own: Api) -> None:
    for pod in ("own/status", "other/status"):
        for change in (labelled("stolen", "app"), {"metadata": {"finalizers": ["a.example/b"]}}):
            assert "kubextend may change nothing but this" in refusal(own, pod, change)
        assert refusal(own, pod, {"status": {"phase": "Failed"}}) != ""
        assert refusal(own, pod, {"status": {"conditions": [CONDITION]}}) == ""


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def scheduled(**fields: str | None) -> Object:
    """Make a patch that marks a held pod, with other fields of the condition in place of some."""
    return {"status": {"conditions": [{**UNSCHEDULABLE, **fields}]}}


@pytest.fixture(params=[None, "SchedulerError"], ids=["never tried", "tried before"])
def pod(request: pytest.FixtureRequest, plane: ControlPlane) -> Iterator[str]:
    """A pod without the condition PodScheduled, or with one that kube-scheduler wrote."""
    new = {"metadata": {"generateName": "held-"}, "spec": {"containers": [CONTAINER]}}
    name = plane.api.call("POST", PODS, new)["metadata"]["name"]
    if request.param is not None:
        written = scheduled(reason=request.param, message="no node")
        plane.api.call("PATCH", f"{PODS}/{name}/status", written, STRATEGIC)
    yield name
    plane.api.delete_pod(NAMESPACE, name)


def test_kubextend_may_mark_a_held_pod_for_autoscalers(
    own: Api, plane: ControlPlane, pod: str
) -> None:
    uid = plane.api.call("GET", f"{PODS}/{pod}")["metadata"]["uid"]
    for node in ("n1", "n2"):
        sent = patch(uid, mark(node, ["Coscheduling"]), datetime.now(UTC))
        marked = own.call("PATCH", f"{PODS}/{pod}/status", sent, STRATEGIC)
        (condition,) = marked["status"]["conditions"]
        assert {key: condition[key] for key in UNSCHEDULABLE} == UNSCHEDULABLE
        assert node in condition["message"]


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param(scheduled(status="True"), id="scheduled"),
        pytest.param(scheduled(status="True", reason=None), id="scheduled, without a reason"),
        pytest.param(scheduled(status="Unknown"), id="unknown"),
        pytest.param(scheduled(reason="SchedulingGated"), id="another reason"),
        pytest.param(scheduled(reason=None, message="m"), id="no reason"),
        pytest.param(
            {"status": {**scheduled()["status"], "nominatedNodeName": "n"}}, id="and a nomination"
        ),
        pytest.param({"status": {**scheduled()["status"], "phase": "Failed"}}, id="and a phase"),
        pytest.param({**scheduled(), **labelled("stolen", "app")}, id="and a label"),
        pytest.param(
            {"status": {"conditions": [UNSCHEDULABLE, {"type": "Ready", "status": "True"}]}},
            id="and another condition",
        ),
    ],
)
def test_kubextend_may_write_nothing_but_the_mark_into_that_condition(
    own: Api, plane: ControlPlane, pod: str, patch: Object
) -> None:
    assert refusal(plane.api, f"{pod}/status", patch) == "", "the patch itself is good"
    assert "the reason Unschedulable" in refusal(own, f"{pod}/status", patch)


def test_kubextend_may_not_take_that_condition_away(own: Api, plane: ControlPlane) -> None:
    plane.api.call("PATCH", f"{PODS}/other/status", scheduled(), STRATEGIC)
    away = {"status": {"conditions": [{"$patch": "delete", "type": "PodScheduled"}]}}
    assert refusal(plane.api, "other/status", away) == "", "the patch itself is good"
    assert "the reason Unschedulable" in refusal(own, "other/status", away)


def account_in(api: Api, namespace: str, kind: str, role: str) -> str:
    """Make a namespace, bind a role to its service account named kubextend; return the account."""
    group = "rbac.authorization.k8s.io"
    apply(api, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    binding: Object = {
        "apiVersion": f"{group}/v1",
        "kind": kind,
        "metadata": {"name": namespace, "namespace": namespace},
        "subjects": [{"kind": "ServiceAccount", "name": "kubextend", "namespace": namespace}],
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
    }
    if kind == "ClusterRoleBinding":
        del binding["metadata"]["namespace"]
    apply(api, binding)
    return f"system:serviceaccount:{namespace}:kubextend"


def test_a_tenants_own_account_named_kubextend_is_not_limited(plane: ControlPlane) -> None:
    account = account_in(plane.api, "tenant", "RoleBinding", "cluster-admin")
    pods = "/api/v1/namespaces/tenant/pods"
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [CONTAINER]}}
    plane.api.call("POST", pods, pod)
    with plane.api_of(account) as api:
        changes = labelled("mine", "app")
        until(lambda: not refusal(api, "p", changes, pods), "the tenant may change its own pod")


def test_kubextend_is_limited_in_another_namespace_too(plane: ControlPlane) -> None:
    """A kustomization may move kubextend; the rights without which it cannot work go with it."""
    account = account_in(plane.api, "elsewhere", "ClusterRoleBinding", "kubextend")
    with plane.api_of(account) as api:
        changes = labelled("stolen", "app")
        until(lambda: "denied request" in refusal(api, "own/status", changes), "it is limited")


def test_a_token_of_no_pod_may_change_no_label(plane: ControlPlane) -> None:
    with plane.api_of(ACCOUNT) as api:
        assert "denied request" in refusal(api, "own", labelled("true"))
