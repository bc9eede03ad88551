"""The policy of each install limits every account with the roles of the install."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
import yaml

from .controlplane import USERS, ControlPlane, NewControlPlane
from .kubeapi import STRATEGIC, Object, condition, node, placed_on
from .manifests import DEPLOY, RBAC, apply
from .stack import Scheduler
from .workbench import until

SYSTEM = "kubextend-system"
PODS = "/api/v1/namespaces/default/pods"
CONTAINER = {"name": "c", "image": "registry.invalid/none"}
# Who runs kubextend in each install.
ACCOUNTS = {
    "service": f"system:serviceaccount:{SYSTEM}:kubextend",
    "static-pod": "kubextend",
    "second-scheduler": f"system:serviceaccount:{SYSTEM}:kubextend-scheduler",
}
OF_KUBE_SCHEDULER = "second-scheduler"
OTHERS = ("somebody", "system:serviceaccount:elsewhere:another-name")


class Install(NamedTuple):
    """A control plane to which the files of one folder are applied, with a pod."""

    place: str
    plane: ControlPlane

    def refusal(self, account: str, change: Object) -> str:
        """Return why an account may not change the pod by its status; empty: it may."""
        with self.plane.api_of(account) as api:
            try:
                api.call("PATCH", f"{PODS}/p/status", change, STRATEGIC, dryRun="All")
            except httpx.HTTPStatusError as refused:
                return str(refused)
        return ""


@pytest.fixture(scope="module", params=ACCOUNTS)
def install(request: pytest.FixtureRequest, new_control_plane: NewControlPlane) -> Install:
    """Apply the resources of a folder's kustomization.yaml, and bind its roles to others, too."""
    plane, folder = new_control_plane(), DEPLOY / request.param
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    apply(plane.api, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})
    bindings = []
    for name in kustomization["resources"]:
        for manifest in yaml.safe_load_all((folder / name).read_text()):
            apply(plane.api, manifest)
            bindings += [manifest] if manifest["kind"] == "ClusterRoleBinding" else []
    for binding in bindings:
        others = [{"apiGroup": RBAC, "kind": "User", "name": name} for name in OTHERS]
        name = f"{binding['metadata']['name']}-of-others"
        apply(plane.api, binding | {"metadata": {"name": name}, "subjects": others})
    plane.api.call("POST", PODS, {"metadata": {"name": "p"}, "spec": {"containers": [CONTAINER]}})
    made = Install(request.param, plane)
    label = {"metadata": {"labels": {"a": "b"}}}
    for account in (ACCOUNTS[request.param], *OTHERS):
        until(
            lambda account=account: "kubextend-pods" in made.refusal(account, label),  # type: ignore[misc]
            f"{account} is limited",
        )
    return made


def conditions(*found: Object, **status: object) -> Object:
    return {"status": {"conditions": list(found), **status}}


def of_type(name: str, status: str = "True", reason: str = "E2E") -> Object:
    return {"type": name, "status": status, "reason": reason}


MARK = of_type("PodScheduled", "False", "Unschedulable")
LEFT = {
    "a condition of kubextend": conditions(of_type("kubextend.dev/Queued")),
    "the mark of a held pod": conditions(MARK),
    "both": conditions(of_type("kubextend.dev/Queued"), MARK),
}
OF_SCHEDULER = {
    "an error of kube-scheduler": conditions(of_type("PodScheduled", "False", "SchedulerError")),
    "a victim": conditions(of_type("DisruptionTarget")),
    "a nomination": conditions(MARK, nominatedNodeName="n"),
}
NEVER: dict[str, Object] = {
    "a label": {"metadata": {"labels": {"a": "b"}}},
    "an annotation": {"metadata": {"annotations": {"a": "b"}}},
    "a finalizer": {"metadata": {"finalizers": ["a.example/b"]}},
    "a phase": {"status": {"phase": "Failed"}},
    "an address": {"status": {"podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]}},
    "a message": {"status": {"message": "m"}},
    "a container": {
        "status": {"containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": True}]}
    },
    "readiness": conditions(of_type("Ready")),
    "a condition of somebody": conditions(of_type("kubextend.developer/Ready")),
    "a condition of kubextend, and a label": {
        **conditions(of_type("kubextend.dev/Queued")),
        "metadata": {"labels": {"a": "b"}},
    },
}


@pytest.mark.parametrize("change", LEFT)
def test_every_account_with_the_roles_of_an_install_may_write_what_kubextend_writes(
    change: str, install: Install
) -> None:
    for account in (ACCOUNTS[install.place], *OTHERS):
        assert install.refusal(account, LEFT[change]) == ""


@pytest.mark.parametrize("change", NEVER)
def test_every_account_with_the_roles_of_an_install_may_change_nothing_else_of_a_pod(
    change: str, install: Install
) -> None:
    for account in (ACCOUNTS[install.place], *OTHERS):
        refused = install.refusal(account, NEVER[change])
        assert "of a pod kubextend may change nothing but this" in refused
    admin = install.plane.api
    admin.call("PATCH", f"{PODS}/p/status", NEVER[change], STRATEGIC, dryRun="All")


@pytest.mark.parametrize("change", OF_SCHEDULER)
def test_only_an_account_shared_with_a_kube_scheduler_writes_what_that_one_writes(
    change: str, install: Install
) -> None:
    for account in (ACCOUNTS[install.place], *OTHERS):
        refused = install.refusal(account, OF_SCHEDULER[change])
        assert (refused == "") is (install.place == OF_KUBE_SCHEDULER)


def test_others_who_may_write_the_status_of_pods_are_not_limited(install: Install) -> None:
    """Not even if they may only patch it, or are called kubextend."""
    for account in ("operator", "system:serviceaccount:tenant:kubextend"):
        metadata = {"name": account.replace(":", "-")}
        rule = {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]}
        version = f"{RBAC}/v1"
        role = {"apiVersion": version, "kind": "ClusterRole", "metadata": metadata, "rules": [rule]}
        apply(install.plane.api, role)
        binding = {
            "apiVersion": version,
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": account}],
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": metadata["name"]},
        }
        apply(install.plane.api, binding)
        for change in NEVER.values():
            until(lambda a=account, c=change: not install.refusal(a, c), "it may")  # type: ignore[misc]


@pytest.fixture
def scheduler(install: Install, tmp_path: Path) -> Iterator[Scheduler]:
    """A kube-scheduler with the account that kubextend shares with it."""
    plane = install.plane
    kubeconfig = plane.kubeconfig_with(USERS["admin"][0], tmp_path / "kubeconfig")
    as_shared = json.loads(kubeconfig.read_text())
    as_shared["users"][0]["user"]["as"] = ACCOUNTS[OF_KUBE_SCHEDULER]
    kubeconfig.write_text(json.dumps(as_shared))
    file = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": "limited"}],
    }
    path = tmp_path / "kube-scheduler.json"
    path.write_text(json.dumps(file))
    running = Scheduler(plane, "limited", path)
    yield running
    running.close()


@pytest.mark.parametrize("install", [OF_KUBE_SCHEDULER], indirect=True)
def test_a_kube_scheduler_places_rejects_and_preempts_under_the_policy(
    install: Install, scheduler: Scheduler
) -> None:
    api = install.plane.api
    api.create_nodes([node("n", cpu="1")])

    def create(name: str, cpu: str, priority: str) -> None:
        container = {**CONTAINER, "resources": {"requests": {"cpu": cpu}}}
        spec = {"schedulerName": "limited", "priorityClassName": f"e2e-{priority}"}
        pod = {"metadata": {"name": name}, "spec": {**spec, "containers": [container]}}
        api.call("POST", PODS, pod)

    def found(name: str) -> Object:
        return api.call("GET", f"{PODS}/{name}")

    create("victim", "1", "low")
    until(lambda: placed_on([found("victim")]), "the pod is placed")
    create("huge", "9", "low")
    until(
        lambda: condition(found("huge"), "PodScheduled").get("reason") == "Unschedulable",
        "the pod that fits nowhere is told so",
    )
    create("urgent", "1", "high")
    until(lambda: found("urgent")["status"].get("nominatedNodeName") == "n", "it is nominated")
    assert condition(found("victim"), "DisruptionTarget")["reason"] == "PreemptionByScheduler"
    assert "denied request" not in scheduler.log()
