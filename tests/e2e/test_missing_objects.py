"""`kubextend why` names the object that a pod outside of kube-scheduler's queue waits for."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .controlplane import ControlPlane
from .kubeapi import MERGE, Api, NodePool, Object, condition, pod
from .stack import NewStack, Stack, run_kubextend
from .versions import needs
from .workbench import until

pytestmark = needs("ResourceClaim")
NAMESPACE = "missing-objects"
ROOT = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}"
CLAIMS, TEMPLATES = f"{ROOT}/resourceclaims", f"{ROOT}/resourceclaimtemplates"
NewPod = Callable[..., None]
Why = Callable[..., Any]


def claim(name: str, device_class: str = "", **metadata: Any) -> Object:
    """Return a ResourceClaim: of no device, or of one of a class."""
    exactly = {"name": "r", "exactly": {"deviceClassName": device_class}}
    devices = {"requests": [exactly] if device_class else []}
    return {"metadata": {"name": name, **metadata}, "spec": {"devices": devices}}


@pytest.fixture(scope="module")
def stack(
    control_plane: ControlPlane, new_stack: NewStack, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text("reads-and-decides-nothing\n")
    control_plane.api.create_namespace(NAMESPACE)
    pool = NodePool(control_plane.api, NAMESPACE, 1)
    yield new_stack(NAMESPACE, readers=token)
    control_plane.api.delete_pods(NAMESPACE)
    pool.delete()


@pytest.fixture
def create(api: Api, stack: Stack) -> NewPod:
    """Return a function that creates a pod with a claim, or other fields of its spec."""

    def create(name: str, *, of: Object | None = None, **spec: Any) -> None:
        claims = {"resourceClaims": [{"name": "device", **of}]} if of else {}
        api.create_pods(NAMESPACE, [pod(name, stack.scheduler_name, NAMESPACE, **claims, **spec)])

    return create


@pytest.fixture
def why(control_plane: ControlPlane, stack: Stack) -> Why:
    """Return a function that returns the answer of `kubextend why` as a JSON object."""

    def why(name: str, user: str = "admin") -> Any:
        kubeconfig = control_plane.kubeconfig(user)
        about = ("-n", NAMESPACE, "--config", stack.config, "--kubeconfig", kubeconfig)
        return json.loads(run_kubextend("why", name, *about, "--output", "json"))

    return why


def until_bound(api: Api, name: str) -> None:
    until(lambda: api.pod(NAMESPACE, name)["spec"].get("nodeName"), f"{name} is bound")


def test_kube_scheduler_has_nothing_to_say_of_a_pod_whose_claim_is_missing_and_why_names_it(
    api: Api, create: NewPod, why: Why
) -> None:
    api.call("POST", CLAIMS, claim("leaving", finalizers=["example.com/keep"]))
    api.call("DELETE", f"{CLAIMS}/leaving")
    create("no-claim", of={"resourceClaimName": "absent"})
    create("late", of={"resourceClaimName": "leaving"})
    # No kube-controller-manager runs here, so nobody makes claims of templates.
    create("templated", of={"resourceClaimTemplateName": "gpus"})
    create("later")
    # kube-scheduler has placed a pod that came later: it does not wait for its turn.
    until_bound(api, "later")
    says = {
        "no-claim": "the ResourceClaim absent does not exist",
        "late": "the ResourceClaim leaving is being deleted",
        "templated": "the ResourceClaimTemplate gpus does not exist",
    }
    for name, sentence in says.items():
        assert condition(api.pod(NAMESPACE, name), "PodScheduled") == {}
        said = why(name)
        assert said["cause"] == "ObjectMissing"
        assert sentence in said["sentence"]
    unread = why("no-claim", "kubextend")
    assert unread["cause"] == "NotTried"
    assert "it may wait for the ResourceClaim absent, which could not" in unread["sentence"]
    assert 'cannot get resource "resourceclaims"' in unread["sentence"]
    api.call("POST", CLAIMS, claim("absent"))
    until_bound(api, "no-claim")
    assert why("no-claim")["cause"] == "Bound"
    api.call("POST", TEMPLATES, claim("gpus") | {"spec": {"spec": claim("gpus")["spec"]}})
    said = "no ResourceClaim was made yet of the ResourceClaimTemplate gpus"
    assert said in why("templated")["sentence"]
    api.call("PATCH", f"{CLAIMS}/leaving", {"metadata": {"finalizers": None}}, MERGE)


def test_what_kube_scheduler_says_in_the_condition_is_told_as_its_own(
    api: Api, create: NewPod, why: Why
) -> None:
    api.call("POST", CLAIMS, claim("classless", "absent-class"))
    create("classless", of={"resourceClaimName": "classless"})
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": storage}}}
    create("ephemeral", volumes=[volume])
    says = {
        "classless": "device class absent-class does not exist",
        "ephemeral": 'persistentvolumeclaim "ephemeral-v"',
    }
    for name, words in says.items():

        def is_tried(name: str = name) -> str:
            return str(condition(api.pod(NAMESPACE, name), "PodScheduled").get("message", ""))

        until(is_tried, "kube-scheduler has tried the pod")
        said = why(name)
        assert said["cause"] == "RejectedByKubeScheduler"
        assert words in said["sentence"]


@needs("PodGroup")
def test_a_member_waits_for_its_pod_group_and_why_names_the_group(
    group_plane: ControlPlane, new_stack: NewStack, tmp_path: Path
) -> None:
    api = group_plane.api
    api.create_namespace(NAMESPACE)
    pool = NodePool(api, NAMESPACE, 1)
    token = tmp_path / "token"
    token.write_text("reads-and-decides-nothing\n")
    stack = new_stack(NAMESPACE, plane=group_plane, readers=token)

    def create(name: str, **spec: Any) -> None:
        api.create_pods(NAMESPACE, [pod(name, stack.scheduler_name, NAMESPACE, **spec)])

    def why() -> Any:
        about = ("-n", NAMESPACE, "--config", stack.config)
        kubeconfig = ("--kubeconfig", group_plane.kubeconfig("admin"))
        return json.loads(run_kubextend("why", "member", *about, *kubeconfig, "--output", "json"))

    of_group = {"schedulingGroup": {"podGroupName": "trains"}}
    create("member", **of_group)
    create("lone")
    until_bound(api, "lone")
    assert condition(api.pod(NAMESPACE, "member"), "PodScheduled") == {}
    said = why()
    assert said["cause"] == "ObjectMissing"
    assert "the PodGroup trains does not exist" in said["sentence"]
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"single": {}}}
    path = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{NAMESPACE}/podgroups"
    api.call("POST", path, {"metadata": {"name": "trains"}, "spec": policy})
    said = why()
    assert said["cause"] == "NotTried"
    assert "it may wait for the 2 pods without scheduling gates" in said["sentence"]
    create("second", **of_group)
    until_bound(api, "member")
    api.delete_pods(NAMESPACE)
    pool.delete()
