"""The policy of every install limits all accounts that have the roles of kubextend."""

from collections.abc import Iterator

import pytest
import yaml

from .controlplane import USERS, ControlPlane
from .kubeapi import PREFERRED, STRATEGIC, Object, condition, gated, node, placed_on, pod
from .manifests import DEPLOY, apply, grant
from .queue_policies import GATE, gates
from .stack import Scheduler, default_configuration
from .workbench import until

SYSTEM = "kubextend-system"
PODS = f"/api/v1/namespaces/{SYSTEM}/pods"
ACCOUNT = "system:serviceaccount:kubextend-system:"
# Who runs kubextend behind a Service, in a pod with a kube-scheduler, and in a static pod; and
# somebody else to whom the roles are bound.
OWN, SHARED, USER = f"{ACCOUNT}kubextend", f"{ACCOUNT}kubextend-scheduler", "kubextend"
ELSEWHERE = "system:serviceaccount:elsewhere:another-name"
ACCOUNTS = (OWN, SHARED, USER, ELSEWHERE)
LABEL = "kubextend.dev/leader"
OTHER_GATE = "e2e.kubextend.dev/other"
LIMITED = "of a pod kubextend may change nothing but this"


@pytest.fixture(scope="module")
def plane(own_plane: ControlPlane) -> ControlPlane:
    """A control plane with the rights and the policy of every install, and with pods."""
    plane, api = own_plane, own_plane.api
    apply(api, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})
    folders = ("static-pod", "second-scheduler", "service/leader", "queue", "service")
    for file in (*(f"{folder}/rbac.yaml" for folder in folders), "service/limits.yaml"):
        for manifest in yaml.safe_load_all((DEPLOY / file).read_text()):
            apply(api, manifest)
    for role in ("kubextend", "kubextend-queue"):
        grant(api, f"{role}-elsewhere", ELSEWHERE, role=role)
    pods = [pod(name, "none", labels={"is": "kubextend"}) for name in ("own", "other")]
    api.create_pods(SYSTEM, [*pods, gated(pod("p", "none"), OTHER_GATE, GATE)])
    for account in ACCOUNTS:
        until(lambda a=account: "denied" in refusal(plane, a, labelled("b", "a")), account)
    return plane


def refusal(
    plane: ControlPlane, account: str, change: Object, path: str = "p", pods: str = PODS
) -> str:
    """Return why an account may not change a pod, or its status; empty: it may."""
    with plane.api_of(account) as api:
        return api.refusal("PATCH", f"{pods}/{path}", change, STRATEGIC)


def labelled(value: str | None, label: str = LABEL) -> Object:
    return {"metadata": {"labels": {label: value}}}


def status(*conditions: Object, **fields: object) -> Object:
    return {"status": {"conditions": [*conditions], **fields}}


def of_type(name: str, **fields: str) -> Object:
    return {"type": name, "status": "True", "reason": "E2E", **fields}


def scheduled(**fields: str | None) -> Object:
    """The mark of a held pod, with other fields of the condition in place of some."""
    return {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", **fields}


QUEUED = of_type("kubextend.dev/Queued")
ALLOWED = {
    "a condition of kubextend": status(QUEUED),
    "the mark of a held pod": status(scheduled(message="held")),
    "both": status(QUEUED, scheduled()),
}
OF_SCHEDULER = {
    "an error of kube-scheduler": status(scheduled(reason="SchedulerError")),
    "a pod that is scheduled": status(scheduled(status="True", reason=None)),
    "an unknown state": status(scheduled(status="Unknown")),
    "no reason": status(scheduled(reason=None, message="m")),
    "a victim": status(of_type("DisruptionTarget")),
    "a nomination": status(scheduled(), nominatedNodeName="n"),
    "no condition": {"status": {"conditions": [{"$patch": "delete", "type": "PodScheduled"}]}},
}
METADATA: dict[str, Object] = {
    "a label": labelled("b", "a"),
    "an annotation": {"metadata": {"annotations": {"a": "b"}}},
    "a finalizer": {"metadata": {"finalizers": ["a.example/b"]}},
}
_CONTAINER = {"name": "c", "image": "i", "imageID": "", "ready": True}
_TERM = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
_AFFINITY = {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": _TERM}]}}
SPECS: dict[str, Object] = {
    "a foreign gate": {"schedulingGates": [{"$patch": "delete", "name": OTHER_GATE}]},
    "an image": {"containers": [{"name": "c", "image": "registry.invalid/evil"}]},
    "a deadline": {"activeDeadlineSeconds": 1},
    "a selector": {"nodeSelector": {"a": "b"}},
    "a toleration": {"tolerations": [{"key": "a", "operator": "Exists"}]},
    "an affinity": {"affinity": _AFFINITY},
}
NEVER_SPEC = METADATA | {"the label of the leader": labelled("true")}
NEVER_SPEC |= {name: {"spec": spec} for name, spec in SPECS.items()}
NEVER_STATUS: dict[str, Object] = {
    **METADATA,
    "a phase": {"status": {"phase": "Failed"}},
    "an address": {"status": {"podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}},
    "a message": {"status": {"message": "m"}},
    "a reason": {"status": {"reason": "r"}},
    "a container": {"status": {"containerStatuses": [_CONTAINER]}},
    "readiness": status(of_type("Ready")),
    "the mark and readiness": status(scheduled(), of_type("Ready")),
    "the mark and a phase": status(scheduled(), phase="Failed"),
    "a condition of somebody": status(of_type("kubextend.developer/Ready")),
    "a condition of kubextend, and a label": {**status(QUEUED), **labelled("b", "a")},
}
NEVER = [
    *(pytest.param("p", change, id=name) for name, change in NEVER_SPEC.items()),
    *(pytest.param("p/status", change, id=f"{n} by status") for n, change in NEVER_STATUS.items()),
]


@pytest.mark.parametrize("before", [None, "SchedulerError"], ids=["never tried", "tried before"])
@pytest.mark.parametrize("change", ALLOWED)
def test_every_account_with_the_roles_writes_what_kubextend_writes(
    change: str, before: str | None, plane: ControlPlane
) -> None:
    path = f"{PODS}/other/status"
    if before:
        tried = status(scheduled(reason=before, message="no node"))
        plane.api.call("PATCH", path, tried, STRATEGIC)
    for account in ACCOUNTS:
        assert refusal(plane, account, ALLOWED[change], "other/status") == ""


def test_every_account_with_the_roles_takes_off_the_gate_of_the_queue_and_no_other(
    plane: ControlPlane,
) -> None:
    off = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}
    for account in ACCOUNTS:
        with plane.api_of(account) as api:
            patched = api.call("PATCH", f"{PODS}/p", off, STRATEGIC, dryRun="All")
        assert gates(patched) == [OTHER_GATE]
        assert LIMITED in refusal(plane, account, {**off, **labelled("b", "a")})


@pytest.mark.parametrize(("path", "change"), NEVER)
def test_every_account_with_the_roles_changes_nothing_else_of_a_pod_and_everybody_else_may(
    path: str, change: Object, plane: ControlPlane
) -> None:
    for account in ACCOUNTS:
        assert LIMITED in refusal(plane, account, change, path)
    assert plane.api.refusal("PATCH", f"{PODS}/{path}", change, STRATEGIC) == ""


@pytest.mark.parametrize("change", OF_SCHEDULER)
def test_only_an_account_shared_with_a_kube_scheduler_writes_what_that_one_writes(
    change: str, plane: ControlPlane
) -> None:
    path = f"{PODS}/own/status"
    plane.api.call("PATCH", path, status(scheduled(message="m")), STRATEGIC)
    for account in ACCOUNTS:
        refused = refusal(plane, account, OF_SCHEDULER[change], "own/status")
        assert (LIMITED in refused) is (account != SHARED)
    assert plane.api.refusal("PATCH", path, OF_SCHEDULER[change], STRATEGIC) == ""


def test_kubextend_sets_and_removes_the_label_of_the_leader_on_its_own_pod_alone(
    plane: ControlPlane,
) -> None:
    with plane.api_of(OWN, "own") as own:
        for value in ("true", None):
            own.call("PATCH", f"{PODS}/own", labelled(value), STRATEGIC)
        wrong = [
            ("other", labelled("true")),
            ("own", labelled("true", "app")),
            ("own", labelled(None, "is")),
            ("own/status", labelled("stolen", "app")),
        ]
        for path, change in wrong:
            assert LABEL in own.refusal("PATCH", f"{PODS}/{path}", change, STRATEGIC)
    # A token of no pod.
    assert "denied request" in refusal(plane, OWN, labelled("true"), "own")


def test_others_who_may_change_pods_are_not_limited_whatever_they_are_called(
    plane: ControlPlane,
) -> None:
    tenant, operator = "system:serviceaccount:tenant:kubextend", "operator"
    plane.api.create_namespace("tenant")
    plane.api.create_pods("tenant", [pod("p", "none")])
    grant(plane.api, "tenant", tenant, role="cluster-admin", namespace="tenant")
    rule = {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]}
    grant(plane.api, operator, operator, [rule])
    tenants, mine = "/api/v1/namespaces/tenant/pods", labelled("mine", "app")
    until(lambda: not refusal(plane, tenant, mine, pods=tenants), "the tenant may")
    for change in NEVER_STATUS.values():
        until(lambda c=change: not refusal(plane, operator, c, "p/status"), "it may")


@pytest.fixture
def scheduler(plane: ControlPlane) -> Iterator[Scheduler]:
    """A kube-scheduler with the account that kubextend shares with it."""
    user = {"token": USERS["admin"][0], "as": SHARED}
    file = plane.kubeconfig_of(user, plane.bench.folder / "shared.kubeconfig")
    own: Object = {"clientConnection": {"kubeconfig": str(file)}}
    own |= {"profiles": [{"schedulerName": "limited"}], "leaderElection": {"leaderElect": False}}
    config = default_configuration(plane, **own)
    with Scheduler(plane, "limited", config) as running:
        yield running


def test_a_kube_scheduler_places_rejects_and_preempts_under_the_policy(
    plane: ControlPlane, scheduler: Scheduler
) -> None:
    api = plane.api
    api.create_nodes([node("n", cpu="1")])

    def create(name: str, cpu: str, priority: str) -> None:
        # A victim that is deleted at once would show no condition.
        made = pod(name, "limited", cpu=cpu, priority_class=f"e2e-{priority}")
        made["spec"]["terminationGracePeriodSeconds"] = 30
        api.create_pods("default", [made])

    def found(name: str) -> Object:
        return api.pod("default", name)

    create("victim", "1", "low")
    until(lambda: placed_on([found("victim")]), "the pod is placed")
    create("huge", "9", "low")
    told = lambda: condition(found("huge"), "PodScheduled").get("reason")  # noqa: E731
    until(lambda: told() == "Unschedulable", "the pod that fits nowhere is told so")
    create("urgent", "1", "high")
    until(lambda: found("urgent")["status"].get("nominatedNodeName") == "n", "it is nominated")
    assert condition(found("victim"), "DisruptionTarget")["reason"] == "PreemptionByScheduler"
    assert "denied request" not in scheduler.log()
