"""The policies of deploy/queue: who gets the gate, and what kubextend may do with a pod."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import httpx
import pytest

from .controlplane import ControlPlane
from .kubeapi import JSON_PATCH, MERGE, STRATEGIC, Api, Object
from .manifests import apply, objects
from .queue_policies import GATE, GATE_POLICY, QUEUED, SCHEDULER, gates, install_queue
from .queued_pods import brought_gates, with_gates
from .versions import needs
from .workbench import until

OTHER_GATE = "e2e.kubextend.dev/other"
OPEN, CLOSED = "admission-chosen", "admission-other"
OWN, SHARED, USER = (
    "system:serviceaccount:kubextend-system:kubextend",
    "system:serviceaccount:kubextend-system:kubextend-scheduler",
    "kubextend",
)
ACCOUNTS = [OWN, SHARED, USER]
about_gating = needs(GATE_POLICY)


@pytest.fixture(scope="module", autouse=True)
def policies(control_plane: ControlPlane) -> None:
    install_queue(control_plane)
    api = control_plane.api
    for path, manifest in objects():
        if path.name == "rbac.yaml":
            apply(api, manifest)
    api.create_namespace(OPEN, QUEUED)
    api.create_namespace(CLOSED)
    for name in ("kube-system", "kubextend-system"):
        api.call("PATCH", f"/api/v1/namespaces/{name}", {"metadata": {"labels": QUEUED}}, MERGE)


@pytest.fixture(scope="module")
def acting_as(control_plane: ControlPlane) -> Iterator[Mapping[str, Api]]:
    with ExitStack() as opened:
        yield {a: opened.enter_context(control_plane.api_of(a)) for a in ACCOUNTS}


def bare_pod(name: str = "p", labels: Mapping[str, str] | None = None, **spec: object) -> Object:
    """Make a pod that may run where pod security is restricted."""
    context = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {"name": "c", "image": "registry.invalid/none", "securityContext": context}
    return {
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"schedulerName": SCHEDULER, "containers": [container], **spec},
    }


def named(*names: str) -> list[dict[str, str]]:
    return [{"name": name} for name in names]


def made(api: Api, namespace: str, pod: Object) -> Object:
    return api.call("POST", f"/api/v1/namespaces/{namespace}/pods", pod, dryRun="All")


@about_gating
@pytest.mark.parametrize(
    ("namespace", "pod", "expected"),
    [
        pytest.param(OPEN, bare_pod(), [GATE], id="in a chosen namespace"),
        pytest.param(CLOSED, bare_pod(labels=QUEUED), [GATE], id="chosen by its own label"),
        pytest.param(OPEN, bare_pod(labels=QUEUED), [GATE], id="chosen by both"),
        pytest.param(
            OPEN,
            bare_pod(schedulingGates=named(OTHER_GATE)),
            [OTHER_GATE, GATE],
            id="with a gate of somebody else's",
        ),
    ],
)
def test_the_gate_is_put_on_a_pod(
    namespace: str, pod: Object, expected: list[str], api: Api
) -> None:
    assert gates(made(api, namespace, pod)) == expected


@about_gating
@pytest.mark.parametrize(
    ("namespace", "pod"),
    [
        pytest.param(CLOSED, bare_pod(), id="in another namespace"),
        pytest.param(
            CLOSED,
            bare_pod(labels={"kubextend.dev/queue": "disabled"}),
            id="with another value of the label",
        ),
        pytest.param(OPEN, bare_pod(nodeName="somewhere"), id="on a node"),
        pytest.param(OPEN, bare_pod(schedulerName="another"), id="of another scheduler"),
        pytest.param(
            OPEN, bare_pod(schedulerName="default-scheduler"), id="of the default scheduler"
        ),
        pytest.param("kube-system", bare_pod(labels=QUEUED), id="in kube-system"),
        pytest.param("kubextend-system", bare_pod(labels=QUEUED), id="in kubextend's namespace"),
        pytest.param(OPEN, bare_pod(schedulingGates=named(GATE)), id="that has it already"),
        pytest.param(
            OPEN, bare_pod(schedulingGates=named(GATE, OTHER_GATE)), id="that has it and another"
        ),
    ],
)
def test_a_pod_is_left_as_it_is(namespace: str, pod: Object, api: Api) -> None:
    assert gates(made(api, namespace, pod)) == gates(pod)


@about_gating
def test_a_mirror_pod_is_left_as_it_is(api: Api) -> None:
    pod = bare_pod(nodeName="somewhere")
    pod["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "0123"}
    assert gates(made(api, OPEN, pod)) == []


@about_gating
def test_kube_scheduler_is_told_that_the_pod_is_gated(api: Api) -> None:
    pod = api.call("POST", f"/api/v1/namespaces/{OPEN}/pods", bare_pod("told"))
    (condition,) = pod["status"]["conditions"]
    api.delete_pod(OPEN, "told")
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulingGated")


@pytest.fixture(scope="module")
def gated(api: Api) -> str:
    """The path of a pod with our gate and another."""
    path = f"/api/v1/namespaces/{OPEN}/pods"
    pod = bare_pod("gated", schedulingGates=named(OTHER_GATE))
    api.call("POST", path, with_gates(pod, brought_gates()))
    return f"{path}/gated"


def without(*names: str) -> Object:
    return {"spec": {"schedulingGates": [{"$patch": "delete", "name": name} for name in names]}}


def with_condition(kind: str) -> Object:
    now = {"type": kind, "status": "True", "reason": "E2E"}
    return {"status": {"conditions": [now]}}


@pytest.mark.parametrize("account", ACCOUNTS)
@pytest.mark.parametrize(
    ("patch", "content_type"),
    [
        pytest.param(without(GATE), STRATEGIC, id="by name"),
        pytest.param(
            [
                {"op": "test", "path": "/spec/schedulingGates/1/name", "value": GATE},
                {"op": "remove", "path": "/spec/schedulingGates/1"},
            ],
            JSON_PATCH,
            id="by place",
        ),
    ],
)
def test_kubextend_may_take_its_gate_off_and_others_stay(
    account: str, patch: object, content_type: str, gated: str, acting_as: Mapping[str, Api]
) -> None:
    patched = acting_as[account].call("PATCH", gated, patch, content_type, dryRun="All")
    assert gates(patched) == [OTHER_GATE]


@pytest.mark.parametrize("account", ACCOUNTS)
def test_kubextend_may_set_a_condition_of_its_own_and_others_stay(
    account: str, gated: str, acting_as: Mapping[str, Api]
) -> None:
    patch = with_condition("kubextend.dev/Queued")
    status = acting_as[account].call("PATCH", f"{gated}/status", patch, STRATEGIC, dryRun="All")
    kinds = {condition["type"] for condition in status["status"]["conditions"]}
    assert kinds == {"PodScheduled", "kubextend.dev/Queued"}


TENANT = "admission-tenant"


@pytest.fixture(scope="module")
def tenant(control_plane: ControlPlane, gated: str) -> Iterator[Api]:
    """Whoever may do anything at all in the namespace, and nothing outside of it."""
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": TENANT, "namespace": OPEN},
        "subjects": [{"apiGroup": group, "kind": "User", "name": TENANT}],
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
    }
    apply(control_plane.api, binding)
    with control_plane.api_of(TENANT) as api:
        until(lambda: is_refused(api, gated, without(GATE), STRATEGIC), "the removal is refused")
        yield api


def is_refused(api: Api, path: str, patch: object, content_type: str) -> bool:
    """Whether the policy about the gate's removal refuses the patch."""
    try:
        api.call("PATCH", path, patch, content_type, dryRun="All")
    except httpx.HTTPStatusError as refusal:
        return "kubextend-queue-removal" in str(refusal) and refusal.response.status_code == 403
    return False


REMOVALS = {
    "by name": (without(GATE), STRATEGIC),
    "with all others": (without(GATE, OTHER_GATE), STRATEGIC),
    "by place": ([{"op": "remove", "path": "/spec/schedulingGates/1"}], JSON_PATCH),
    "every gate": ([{"op": "remove", "path": "/spec/schedulingGates"}], JSON_PATCH),
    "by a merge": ({"spec": {"schedulingGates": named(OTHER_GATE)}}, MERGE),
    "every gate by a merge": ({"spec": {"schedulingGates": None}}, MERGE),
}


@pytest.mark.parametrize(("patch", "content_type"), REMOVALS.values(), ids=REMOVALS)
def test_a_tenant_takes_the_gate_off_in_no_way(
    patch: object, content_type: str, gated: str, tenant: Api, api: Api
) -> None:
    assert is_refused(tenant, gated, patch, content_type)
    assert GATE not in gates(api.call("PATCH", gated, patch, content_type, dryRun="All"))


def test_a_tenant_may_change_everything_else_of_a_gated_pod(gated: str, tenant: Api) -> None:
    label = {"metadata": {"labels": {"a": "b"}}}
    patched = tenant.call("PATCH", gated, {**label, **without(OTHER_GATE)}, STRATEGIC, dryRun="All")
    assert gates(patched) == [GATE]
    tenant.call("DELETE", gated, dryRun="All")


def test_whoever_is_granted_it_takes_the_gate_off(control_plane: ControlPlane, gated: str) -> None:
    group, name = "rbac.authorization.k8s.io", "admission-operator"
    manifests = [manifest for _, manifest in objects() if manifest["kind"] == "ClusterRole"]
    (role,) = (m for m in manifests if m["metadata"]["name"] == "kubextend-queue")
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}
    rules = [pods, *(rule for rule in role["rules"] if rule["apiGroups"] == ["kubextend.dev"])]
    named_so = {"apiVersion": f"{group}/v1", "metadata": {"name": name}}
    binding = {
        "kind": "ClusterRoleBinding",
        "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
    }
    apply(control_plane.api, {"kind": "ClusterRole", "rules": rules, **named_so})
    apply(control_plane.api, {**binding, **named_so})
    with control_plane.api_of(name) as operator:
        until(lambda: takes_it_off(operator, gated), "the right is granted")


def takes_it_off(api: Api, path: str) -> bool:
    try:
        patched = api.call("PATCH", path, without(GATE), STRATEGIC, dryRun="All")
    except httpx.HTTPStatusError:
        return False
    return gates(patched) == [OTHER_GATE]


METADATA = [
    {"labels": {"a": "b"}},
    {"annotations": {"a": "b"}},
    {"finalizers": ["e2e.kubextend.dev/held"]},
]
SPEC = [
    without(OTHER_GATE)["spec"],
    without(GATE, OTHER_GATE)["spec"],
    {"containers": [{"name": "c", "image": "registry.invalid/evil"}]},
    {"activeDeadlineSeconds": 1},
    {"nodeSelector": {"a": "b"}},
    {"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]},
    {
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 1,
                        "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                    }
                ]
            }
        }
    },
]
STATUS = [
    with_condition("PodScheduled")["status"],
    with_condition("Ready")["status"],
    with_condition("kubextend.developer/Ready")["status"],
    {"conditions": [{"$patch": "delete", "type": "PodScheduled"}]},
    {"phase": "Succeeded"},
    {"message": "m"},
    {"reason": "r"},
    {"nominatedNodeName": "n"},
    {"podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]},
    {"containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": True}]},
]
REFUSED = [
    *(("", {"metadata": change}) for change in METADATA),
    *(("", {"spec": change}) for change in SPEC),
    ("", {"metadata": METADATA[0], **without(GATE)}),
]
REFUSED_STATUS = [
    *(("/status", {"metadata": change}) for change in METADATA),
    *(("/status", {"status": change}) for change in STATUS),
]


def what(case: object) -> str:
    return str(case).translate({ord(c): None for c in "{}[]'/"}) if case else "pod"


@pytest.mark.parametrize(
    ("account", "change"),
    [
        *((account, change) for account in ACCOUNTS for change in REFUSED),
        *((account, change) for account in (OWN, USER) for change in REFUSED_STATUS),
    ],
    ids=what,
)
def test_kubextend_may_change_nothing_else_of_a_pod_and_everybody_else_may(
    account: str, change: tuple[str, Object], gated: str, acting_as: Mapping[str, Api], api: Api
) -> None:
    subresource, patch = change
    path = f"{gated}{subresource}"
    assert api.call("PATCH", path, patch, STRATEGIC, dryRun="All"), "the patch itself is good"
    with pytest.raises(httpx.HTTPStatusError, match=r"kubextend-pods.*denied request") as refusal:
        acting_as[account].call("PATCH", path, patch, STRATEGIC, dryRun="All")
    assert refusal.value.response.status_code == 403


def test_the_account_shared_with_a_kube_scheduler_writes_the_status_that_one_writes(
    gated: str, acting_as: Mapping[str, Api]
) -> None:
    patch = {"status": {**with_condition("PodScheduled")["status"], "nominatedNodeName": "n"}}
    pod = acting_as[SHARED].call("PATCH", f"{gated}/status", patch, STRATEGIC, dryRun="All")
    assert pod["status"]["nominatedNodeName"] == "n"


def test_kubextend_may_write_pods_leases_and_bindings_alone(acting_as: Mapping[str, Api]) -> None:
    """What ClusterRoles add up to, as the real authorizer says."""
    review = {"spec": {"namespace": "kubextend-system"}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    rules = acting_as[USER].call("POST", path, review)["status"]["resourceRules"]
    reading = {"get", "list", "watch"}
    granted = {
        (verb, resource, *rule.get("resourceNames", []))
        for rule in rules
        for verb in set(rule["verbs"]) - reading
        for resource in rule["resources"]
        if not rule["apiGroups"][0].endswith(("authorization.k8s.io", "authentication.k8s.io"))
    }
    assert granted == {
        ("patch", "pods"),
        ("patch", "pods/status"),
        ("obey", "podlimits"),
        ("remove", "schedulinggates", GATE),
        ("create", "pods/binding"),
        ("create", "events"),
        ("create", "leases"),
        ("update", "leases", "kubextend-queue"),
    }
