"""What people met: pods outside of kube-scheduler's queue, and what stays on woken pods."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from . import pod_groups
from .controlplane import ControlPlane, NewControlPlane
from .door import Door
from .kubeapi import MERGE, RDMA_LABEL, Api, NodePool, Object, condition, pod
from .stack import HIGH_COMM, Mode, Stack, run_kubextend
from .versions import needs
from .workbench import until
from .workload import NewWorkload

NAMESPACE = "met-details"
CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
TEMPLATES = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaimtemplates"
has_claims = needs("ResourceClaim")


def claim(name: str, device_class: str = "", **metadata: Any) -> Object:
    """Return a ResourceClaim: of no device, or of one of a class."""
    exactly = {"name": "r", "exactly": {"deviceClassName": device_class}}
    devices = {"requests": [exactly] if device_class else []}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, **metadata},
        "spec": {"devices": devices},
    }


def why(plane: ControlPlane, stack: Stack, namespace: str, name: str, user: str = "admin") -> Any:
    """Return the answer of `kubextend why` as a JSON object."""
    return json.loads(
        run_kubextend(
            "why", name, "-n", namespace, "--config", stack.config,
            "--kubeconfig", plane.kubeconfig(user), "--output", "json",
        )
    )  # fmt: skip


@pytest.fixture(scope="module")
def stack(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    token = tmp_path_factory.mktemp("met-details") / "token"
    token.write_text("reads-and-decides-nothing\n")
    control_plane.api.create_namespace(NAMESPACE)
    pool = NodePool(control_plane.api, NAMESPACE, 1)
    running = Stack(control_plane, NAMESPACE, Mode(names=True), readers=token)
    yield running
    control_plane.api.delete_pods(NAMESPACE)
    running.close()
    pool.delete()


@pytest.fixture
def create(api: Api, stack: Stack) -> Callable[..., None]:
    """Return a function that creates a pod with further fields of its spec."""

    def create(name: str, **spec: Any) -> None:
        made = pod(name, stack.scheduler_name, NAMESPACE)
        made["spec"] |= spec
        api.create_pods(NAMESPACE, [made])

    return create


def of_claim(**named: str) -> list[Object]:
    return [{"name": "device", **named}]


def until_later_pods_are_bound(api: Api, create: Callable[..., None], name: str) -> None:
    """Wait until kube-scheduler has placed a pod that came later: it does not wait for its turn."""
    create(name)
    until(lambda: api.pod(NAMESPACE, name)["spec"].get("nodeName"), f"{name} is bound")


@has_claims
def test_a_pod_waits_for_a_claim_that_does_not_exist_and_why_names_it(
    control_plane: ControlPlane, api: Api, stack: Stack, create: Callable[..., None]
) -> None:
    create("no-claim", resourceClaims=of_claim(resourceClaimName="absent"))
    until_later_pods_are_bound(api, create, "after-no-claim")
    # kube-scheduler has nothing to say of the pod.
    assert condition(api.pod(NAMESPACE, "no-claim"), "PodScheduled") == {}
    said = why(control_plane, stack, NAMESPACE, "no-claim")
    assert said["cause"] == "ObjectMissing"
    assert said["sentence"].endswith(": the ResourceClaim absent does not exist")
    api.call("POST", CLAIMS, claim("absent"))
    until(lambda: api.pod(NAMESPACE, "no-claim")["spec"].get("nodeName"), "the pod is bound")
    assert why(control_plane, stack, NAMESPACE, "no-claim")["cause"] == "Bound"


@has_claims
def test_without_the_right_to_read_claims_why_says_what_it_could_not_look_at(
    control_plane: ControlPlane, api: Api, stack: Stack, create: Callable[..., None]
) -> None:
    create("unread", resourceClaims=of_claim(resourceClaimName="gone"))
    said = why(control_plane, stack, NAMESPACE, "unread", user="kubextend")
    assert said["cause"] == "NotTried"
    assert "it may wait for the ResourceClaim gone, which could not be read" in said["sentence"]
    assert 'cannot get resource "resourceclaims"' in said["sentence"]


@has_claims
def test_a_pod_waits_for_the_claim_of_a_template_and_why_names_the_template(
    control_plane: ControlPlane, api: Api, stack: Stack, create: Callable[..., None]
) -> None:
    # No kube-controller-manager runs here, so nobody makes claims of templates.
    create("templated", resourceClaims=of_claim(resourceClaimTemplateName="gpus"))
    until_later_pods_are_bound(api, create, "after-templated")
    assert condition(api.pod(NAMESPACE, "templated"), "PodScheduled") == {}
    said = why(control_plane, stack, NAMESPACE, "templated")
    assert said["cause"] == "ObjectMissing"
    assert "the ResourceClaimTemplate gpus does not exist" in said["sentence"]
    template = claim("gpus") | {"kind": "ResourceClaimTemplate"}
    template["spec"] = {"spec": template["spec"]}
    api.call("POST", TEMPLATES, template)
    said = why(control_plane, stack, NAMESPACE, "templated")
    assert said["cause"] == "ObjectMissing"
    assert "no ResourceClaim was made yet of the ResourceClaimTemplate gpus" in said["sentence"]


@has_claims
def test_a_pod_waits_while_its_claim_is_being_deleted_and_why_says_so(
    control_plane: ControlPlane, api: Api, stack: Stack, create: Callable[..., None]
) -> None:
    api.call("POST", CLAIMS, claim("leaving", finalizers=["example.com/keep"]))
    api.call("DELETE", f"{CLAIMS}/leaving")
    create("late", resourceClaims=of_claim(resourceClaimName="leaving"))
    until_later_pods_are_bound(api, create, "after-late")
    assert condition(api.pod(NAMESPACE, "late"), "PodScheduled") == {}
    said = why(control_plane, stack, NAMESPACE, "late")
    assert "the ResourceClaim leaving is being deleted" in said["sentence"]
    api.call("PATCH", f"{CLAIMS}/leaving", {"metadata": {"finalizers": None}}, MERGE)


@has_claims
@pytest.mark.parametrize(
    ("name", "spec", "says"),
    [
        (
            "classless",
            {"resourceClaims": of_claim(resourceClaimName="classless")},
            "device class absent-class does not exist",
        ),
        (
            "ephemeral",
            {
                "volumes": [
                    {
                        "name": "v",
                        "ephemeral": {
                            "volumeClaimTemplate": {
                                "spec": {
                                    "accessModes": ["ReadWriteOnce"],
                                    "resources": {"requests": {"storage": "1Gi"}},
                                }
                            }
                        },
                    }
                ]
            },
            'persistentvolumeclaim "ephemeral-v"',
        ),
    ],
)
def test_what_kube_scheduler_says_in_the_condition_is_told_as_its_own(  # noqa: PLR0913, PLR0917
    name: str,
    spec: Object,
    says: str,
    control_plane: ControlPlane,
    api: Api,
    stack: Stack,
    create: Callable[..., None],
) -> None:
    if name == "classless":
        api.call("POST", CLAIMS, claim(name, "absent-class"))
    create(name, **spec)
    found = lambda: condition(api.pod(NAMESPACE, name), "PodScheduled").get("message", "")  # noqa: E731
    until(found, "kube-scheduler has tried the pod")
    said = why(control_plane, stack, NAMESPACE, name)
    assert said["cause"] == "RejectedByKubeScheduler"
    assert says in said["sentence"]


@needs("PodGroup")
def test_a_member_waits_for_its_pod_group_and_why_names_the_group(
    new_control_plane: NewControlPlane, tmp_path: Path
) -> None:
    plane = new_control_plane(pod_groups.GATES, pod_groups.APIS)
    api = plane.api
    token = tmp_path / "token"
    token.write_text("reads-and-decides-nothing\n")
    api.create_namespace(NAMESPACE)
    pool = NodePool(api, NAMESPACE, 1)
    stack = Stack(plane, NAMESPACE, Mode(names=True), readers=token)
    member = pod("member", stack.scheduler_name, NAMESPACE)
    member["spec"]["schedulingGroup"] = {"podGroupName": "trains"}
    api.create_pods(NAMESPACE, [member, pod("lone", stack.scheduler_name, NAMESPACE)])
    until(lambda: api.pod(NAMESPACE, "lone")["spec"].get("nodeName"), "a lone pod is bound")
    assert condition(api.pod(NAMESPACE, "member"), "PodScheduled") == {}
    said = why(plane, stack, NAMESPACE, "member")
    assert said["cause"] == "ObjectMissing"
    assert "the PodGroup trains does not exist" in said["sentence"]
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "trains"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"single": {}}},
    }
    path = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{NAMESPACE}/podgroups"
    api.call("POST", path, group)
    said = why(plane, stack, NAMESPACE, "member")
    assert said["cause"] == "NotTried"
    assert "it may wait for the 2 pods without scheduling gates" in said["sentence"]
    second = pod("second", stack.scheduler_name, NAMESPACE)
    second["spec"]["schedulingGroup"] = {"podGroupName": "trains"}
    api.create_pods(NAMESPACE, [second])
    until(lambda: api.pod(NAMESPACE, "member")["spec"].get("nodeName"), "the gang is bound")
    api.delete_pods(NAMESPACE)
    stack.close()
    pool.delete()


def test_a_woken_pod_that_still_does_not_fit_has_no_condition_that_says_otherwise(
    api: Api, names_stack: Stack, door: Door, new_workload: NewWorkload
) -> None:
    pool = NodePool(api, "woken", 2)
    try:
        until(lambda: names_stack.kept(pool.names) == pool.names, "the nodes are known")
        door.shut()
        workload = new_workload(names_stack, pool)
        # kube-scheduler itself looks for the label, too: it asks kubextend once it has seen it.
        (name,) = workload.create("sleeper", 1, HIGH_COMM, node_labels={RDMA_LABEL: "true"})
        workload.until_pending(name)
        calls = names_stack.calls("filter")
        pool.enable_rdma(pool.names[1])
        until(lambda: names_stack.calls("filter") > calls, "kubextend is asked before it knows")
        cordon = f"/api/v1/nodes/{pool.names[1]}"
        api.call("PATCH", cordon, {"spec": {"unschedulable": True}}, MERGE)
        # kube-scheduler sees the change without trying the pod again.
        (scout,) = workload.create("scout", 1, node_labels={RDMA_LABEL: "true"})
        assert "unschedulable" in workload.until_pending(scout)
        door.open()
        woken = lambda: condition(workload.pods()[name], "kubextend.dev/Activated")  # noqa: E731
        until(woken, "kubextend has woken the pod")
        pending = condition(workload.pods()[name], "PodScheduled")
        assert (pending["status"], pending["reason"]) == ("False", "Unschedulable")
        assert woken()["reason"] == "AskedToTryAgain"
        assert woken()["message"].startswith("kubextend asked kube-scheduler at 20")
        assert woken()["message"].endswith(" to try this pod again")
        api.call("PATCH", cordon, {"spec": {"unschedulable": None}}, MERGE)
        assert workload.until_placed([name, scout])[name] == pool.names[1]
        # What the condition says is true of a bound pod, too.
        assert woken()["message"].endswith(" to try this pod again")
    finally:
        door.open()
        pool.delete()
