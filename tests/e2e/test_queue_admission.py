"""The policies of deploy/queue: who gets the gate, and who may take it off.

What else kubextend may change of a pod is in test_pod_limits.py.
"""

from collections.abc import Iterator, Mapping

import pytest

from .controlplane import ControlPlane
from .kubeapi import JSON_PATCH, MERGE, STRATEGIC, Api, Object, container, gated, pod
from .manifests import grant, objects
from .queue_policies import GATE, GATE_POLICY, QUEUED, SCHEDULER, gates, install_queue
from .queued_pods import brought_gates
from .versions import needs
from .workbench import until

OTHER_GATE = "e2e.kubextend.dev/other"
OPEN, CLOSED = "admission-chosen", "admission-other"
TENANT, OPERATOR = "admission-tenant", "admission-operator"
DISABLED = {"kubextend.dev/queue": "disabled"}
about_gating = needs(GATE_POLICY)


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Api:
    install_queue(control_plane)
    api = control_plane.api
    api.create_namespace(OPEN, QUEUED)
    api.create_namespace(CLOSED)
    for name in ("kube-system", "kubextend-system"):
        api.call("PATCH", f"/api/v1/namespaces/{name}", {"metadata": {"labels": QUEUED}}, MERGE)
    return api


def restricted(labels: Mapping[str, str] | None = None, *own: str, **spec: object) -> Object:
    """Make a pod that may run where pod security is restricted; ``own`` are its gates."""
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    context |= {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    made = pod("p", SCHEDULER, "", labels, containers=[{**container(), "securityContext": context}])
    made["spec"] |= spec
    return gated(made, *own) if own else made


GATED = {
    "in a chosen namespace": (OPEN, restricted()),
    "chosen by its own label": (CLOSED, restricted(QUEUED)),
    "chosen by both": (OPEN, restricted(QUEUED)),
    "with a gate of somebody else's": (OPEN, restricted(None, OTHER_GATE)),
}
LEFT = {
    "in another namespace": (CLOSED, restricted()),
    "with another value of the label": (CLOSED, restricted(DISABLED)),
    "on a node": (OPEN, restricted(nodeName="somewhere")),
    "of another scheduler": (OPEN, restricted(schedulerName="another")),
    "of the default scheduler": (OPEN, restricted(schedulerName="default-scheduler")),
    "in kube-system": ("kube-system", restricted(QUEUED)),
    "in kubextend's namespace": ("kubextend-system", restricted(QUEUED)),
    "that has it already": (OPEN, restricted(None, GATE)),
    "that has it and another": (OPEN, restricted(None, GATE, OTHER_GATE)),
}


@about_gating
@pytest.mark.parametrize("case", [*GATED, *LEFT])
def test_the_gate_is_put_behind_the_others_of_a_pod_that_is_queued_and_of_no_other(
    case: str, api: Api
) -> None:
    namespace, wanted = {**GATED, **LEFT}[case]
    made = api.call("POST", f"/api/v1/namespaces/{namespace}/pods", wanted, dryRun="All")
    assert gates(made) == [*gates(wanted), *([GATE] if case in GATED else [])]


@about_gating
def test_a_mirror_pod_gets_no_gate_and_kube_scheduler_is_told_of_a_gated_pod(api: Api) -> None:
    path = f"/api/v1/namespaces/{OPEN}/pods"
    mirror = restricted(nodeName="somewhere")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "0123"}
    assert gates(api.call("POST", path, mirror, dryRun="All")) == []
    told = api.call("POST", path, restricted())
    (condition,) = told["status"]["conditions"]
    api.delete_pod(OPEN, "p")
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulingGated")


@pytest.fixture(scope="module")
def path(api: Api) -> str:
    """The path of a pod with our gate and another."""
    made = gated(pod("gated", SCHEDULER, ""), OTHER_GATE, *brought_gates())
    api.create_pods(OPEN, [made])
    return f"/api/v1/namespaces/{OPEN}/pods/gated"


def without(*names: str) -> Object:
    return {"spec": {"schedulingGates": [{"$patch": "delete", "name": name} for name in names]}}


IN_PLACE = {"op": "remove", "path": "/spec/schedulingGates/1"}
REMOVALS: dict[str, tuple[object, str]] = {
    "by name": (without(GATE), STRATEGIC),
    "with all others": (without(GATE, OTHER_GATE), STRATEGIC),
    "by place": ([IN_PLACE], JSON_PATCH),
    "every gate": ([{"op": "remove", "path": "/spec/schedulingGates"}], JSON_PATCH),
    "by a merge": ({"spec": {"schedulingGates": [{"name": OTHER_GATE}]}}, MERGE),
    "every gate by a merge": ({"spec": {"schedulingGates": None}}, MERGE),
}


@pytest.fixture(scope="module")
def tenant(control_plane: ControlPlane, path: str) -> Iterator[Api]:
    """Whoever may do anything at all in the namespace, and nothing outside of it."""
    grant(control_plane.api, TENANT, TENANT, role="cluster-admin", namespace=OPEN)
    with control_plane.api_of(TENANT) as api:
        until(lambda: "kubextend-queue-removal" in refusal(api, path), "the removal is refused")
        yield api


def refusal(api: Api, path: str, how: str = "by name") -> str:
    patch, content_type = REMOVALS[how]
    return api.refusal("PATCH", path, patch, content_type)


@pytest.mark.parametrize("how", REMOVALS)
def test_a_tenant_takes_the_gate_off_in_no_way(how: str, path: str, tenant: Api, api: Api) -> None:
    assert "kubextend-queue-removal" in refusal(tenant, path, how)
    patch, content_type = REMOVALS[how]
    assert GATE not in gates(api.call("PATCH", path, patch, content_type, dryRun="All"))


def test_a_tenant_may_change_everything_else_of_a_gated_pod(path: str, tenant: Api) -> None:
    label = {"metadata": {"labels": {"a": "b"}}}
    patched = tenant.call("PATCH", path, {**label, **without(OTHER_GATE)}, STRATEGIC, dryRun="All")
    assert gates(patched) == [GATE]
    tenant.call("DELETE", path, dryRun="All")


def test_kubextend_and_whoever_is_granted_it_take_the_gate_off(
    control_plane: ControlPlane, path: str
) -> None:
    roles = [manifest for _, manifest in objects() if manifest["kind"] == "ClusterRole"]
    (role,) = (each for each in roles if each["metadata"]["name"] == "kubextend-queue")
    ours = [rule for rule in role["rules"] if rule["apiGroups"] == ["kubextend.dev"]]
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}
    grant(control_plane.api, OPERATOR, OPERATOR, [pods, *ours])
    for account in ("kubextend", OPERATOR):
        with control_plane.api_of(account) as api:
            for how in ("by name", "by place"):
                until(lambda: not refusal(api, path, how), "the right is granted")  # noqa: B023


def test_kubextend_may_write_pods_leases_and_bindings_alone(
    control_plane: ControlPlane, api: Api
) -> None:
    """What ClusterRoles add up to, as the real authorizer says."""
    assert api
    review = {"spec": {"namespace": "kubextend-system"}}
    with control_plane.api_of("kubextend") as kubextend:
        about = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
        rules = kubextend.call("POST", about, review)["status"]["resourceRules"]
    granted = {
        (verb, resource, *rule.get("resourceNames", []))
        for rule in rules
        for verb in set(rule["verbs"]) - {"get", "list", "watch"}
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
