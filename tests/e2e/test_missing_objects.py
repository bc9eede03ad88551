"""`kubextend why` names the object that a pod outside of kube-scheduler's queue waits for."""

import json
from pathlib import Path
from typing import Any

from .controlplane import ControlPlane
from .kubeapi import MERGE, NodePool, Object, condition, pod
from .pod_groups import PodGroups
from .stack import NewStack, Stack, run_kubextend
from .versions import needs
from .workload import Workload

NAMESPACE = "missing-objects"
ROOT = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}"
CLAIMS, TEMPLATES = f"{ROOT}/resourceclaims", f"{ROOT}/resourceclaimtemplates"


class Place:
    """A namespace of a control plane, in which pods are created and asked about."""

    def __init__(self, plane: ControlPlane, new_stack: NewStack, folder: Path) -> None:
        token = folder / "token"
        token.write_text("reads-and-decides-nothing\n")
        self._plane, self.api = plane, plane.api
        self.pool = NodePool(plane.api, NAMESPACE, 1)
        self.stack: Stack = new_stack(NAMESPACE, plane=plane, readers=token)
        self.workload = Workload(self.api, NAMESPACE, NAMESPACE, self.pool)

    def create(self, name: str, **spec: Any) -> None:
        self.api.create_pods(NAMESPACE, [pod(name, NAMESPACE, NAMESPACE, **spec)])

    def claim(self, name: str, **of: str) -> None:
        """Create a pod with a claim of a device."""
        self.create(name, resourceClaims=[{"name": "device", **of}])

    def why(self, name: str, user: str = "admin") -> Any:
        kubeconfig = self._plane.kubeconfig(user)
        about = ("-n", NAMESPACE, "--config", self.stack.config, "--kubeconfig", kubeconfig)
        return json.loads(run_kubextend("why", name, *about, "--output", "json"))

    def scheduled(self, name: str) -> Object:
        """Return what kube-scheduler says of a pod; empty: nothing."""
        return condition(self.api.pod(NAMESPACE, name), "PodScheduled")

    def until_bound(self, name: str) -> None:
        self.workload.until_placed([name])

    def close(self) -> None:
        self.workload.close()
        self.pool.delete()


def claim(name: str, **metadata: Any) -> Object:
    return {"metadata": {"name": name, **metadata}, "spec": {"devices": {"requests": []}}}


def test_kube_scheduler_has_nothing_to_say_of_a_pod_whose_claim_is_missing_and_why_names_it(
    control_plane: ControlPlane, new_stack: NewStack, tmp_path: Path
) -> None:
    place = Place(control_plane, new_stack, tmp_path)
    api = place.api
    api.call("POST", CLAIMS, claim("leaving", finalizers=["example.com/keep"]))
    api.call("DELETE", f"{CLAIMS}/leaving")
    place.claim("no-claim", resourceClaimName="absent")
    place.claim("late", resourceClaimName="leaving")
    # No kube-controller-manager runs here, so nobody makes claims of templates.
    place.claim("templated", resourceClaimTemplateName="gpus")
    place.create("later")
    # kube-scheduler has placed a pod that came later: it does not wait for its turn.
    place.until_bound("later")
    says = {
        "no-claim": "the ResourceClaim absent does not exist",
        "late": "the ResourceClaim leaving is being deleted",
        "templated": "the ResourceClaimTemplate gpus does not exist",
    }
    for name, sentence in says.items():
        assert place.scheduled(name) == {}
        said = place.why(name)
        assert said["cause"] == "ObjectMissing"
        assert sentence in said["sentence"]
    unread = place.why("no-claim", "kubextend")
    assert unread["cause"] == "NotTried"
    assert "it may wait for the ResourceClaim absent, which could not" in unread["sentence"]
    assert 'cannot get resource "resourceclaims"' in unread["sentence"]
    api.call("POST", CLAIMS, claim("absent"))
    place.until_bound("no-claim")
    assert place.why("no-claim")["cause"] == "Bound"
    api.call("POST", TEMPLATES, claim("gpus") | {"spec": {"spec": claim("gpus")["spec"]}})
    unmade = "no ResourceClaim was made yet of the ResourceClaimTemplate gpus"
    assert unmade in place.why("templated")["sentence"]
    api.call("PATCH", f"{CLAIMS}/leaving", {"metadata": {"finalizers": None}}, MERGE)
    place.close()


@needs("PodGroup")
def test_a_member_waits_for_its_pod_group_and_why_names_the_group(
    group_plane: ControlPlane, new_stack: NewStack, tmp_path: Path
) -> None:
    place = Place(group_plane, new_stack, tmp_path)
    groups = PodGroups(place.api, place.workload, place.pool)
    groups.join("trains", 1)
    place.create("lone")
    place.until_bound("lone")
    member = "trains-000"
    assert place.scheduled(member) == {}
    said = place.why(member)
    assert said["cause"] == "ObjectMissing"
    assert "the PodGroup trains does not exist" in said["sentence"]
    groups.declare("trains", 2)
    said = place.why(member)
    assert said["cause"] == "NotTried"
    assert "it may wait for the 2 pods without scheduling gates" in said["sentence"]
    groups.join("trains", 1, first=1)
    place.until_bound(member)
    place.close()
