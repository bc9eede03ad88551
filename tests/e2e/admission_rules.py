"""Puts rules on pods of a real kube-apiserver, always by what ``kubextend admission`` wrote."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import yaml

from .controlplane import ControlPlane
from .kubeapi import MERGE, Api, Object
from .stack import run_kubextend
from .workbench import until

GROUP = "/apis/admissionregistration.k8s.io/v1"
RESOURCES = {
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "mutatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
LABEL = "kubextend.dev/admission=rules"
# The last rule of all. As kube-apiserver learns of policies in the order of their creation, all
# others are in force with it.
LAST = "admission-last"
PROBED = {"probe": "yes"}
PODS = "/api/v1/namespaces/default/pods"


def profile(
    scheduler: str, filters: Sequence[Object] = (), scores: Sequence[Object] = ()
) -> Object:
    """Make a profile in which LabelMatch has these rules."""
    args = {"filters": [{"reason": "No", **each} for each in filters], "scores": [*scores]}
    return {
        "schedulerName": scheduler,
        "plugins": {"multiPoint": {"enabled": [{"name": "LabelMatch"}]}},
        "pluginConfig": [{"name": "LabelMatch", "args": args}],
    }


def configuration(path: Path, profiles: Sequence[Object]) -> Path:
    """Write kubextend's configuration with these profiles to a file, and return the file."""
    tree = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "cluster": {},
        "profiles": [*profiles],
    }
    path.write_text(json.dumps(tree))
    return path


@contextlib.contextmanager
def installed(plane: ControlPlane, config: Path, last: bool = True) -> Iterator[None]:
    """Apply what the command writes for a configuration; take it away at the end of the block.

    Args:
        plane: the control plane.
        config: the file of the configuration.
        last: whether the configuration ends with the profile LAST, whose rule is waited for.
    """
    manifests = yaml.safe_load_all(run_kubextend("admission", "--config", config))
    by_kind: dict[str, list[Object]] = {kind: [] for kind in RESOURCES}
    for manifest in manifests:
        by_kind[manifest["kind"]].append(manifest)
    api = plane.api
    try:
        for kind, resource in RESOURCES.items():
            *most, end = by_kind[kind]
            api.create_all(f"{GROUP}/{resource}", most)
            api.create_all(f"{GROUP}/{resource}", [end])
        if last:
            _wait_until_in_force(api)
        yield
    finally:
        for resource in reversed(RESOURCES.values()):
            api.call("DELETE", f"{GROUP}/{resource}", labelSelector=LABEL)


LAST_PROFILE = profile(LAST, [{"podSelector": "probe", "nodeSelector": "probed"}])


def bare_pod(scheduler: str, labels: Object | None = None, **spec: object) -> Object:
    """Make a pod of a scheduler that no kube-scheduler need serve."""
    container = {"name": "c", "image": "registry.invalid/none"}
    return {
        "metadata": {"generateName": "p-", "labels": labels or {}},
        "spec": {"schedulerName": scheduler, "containers": [container], **spec},
    }


def made(api: Api, pod: Object, namespace: str = "default", **query: str) -> Object:
    """Create a pod, and return the pod as kube-apiserver shows it."""
    return api.call("POST", f"/api/v1/namespaces/{namespace}/pods", pod, **query)


def is_refused(api: Api, method: str, path: str, body: object, content_type: str = "") -> bool:
    """Return whether one of kubextend's policies refuses a request, which changes nothing."""
    try:
        api.call(method, path, body, content_type or "application/json", dryRun="All")
    except httpx.HTTPStatusError as refusal:
        status = refusal.response.status_code
        return status == httpx.codes.FORBIDDEN and "a rule of kubextend" in str(refusal)
    return False


def _wait_until_in_force(api: Api) -> None:
    probe = bare_pod(LAST, PROBED)
    until(lambda: is_put_on(api, probe), "the last rule is put on")
    # Without the label no rule concerns the pod, and with the label it lacks the rule.
    name = made(api, bare_pod(LAST))["metadata"]["name"]
    path = f"{PODS}/{name}"
    patch = {"metadata": {"labels": PROBED}}
    until(lambda: is_refused(api, "PATCH", path, patch, MERGE), "the last rule is kept")
    api.delete_pod("default", name)


def is_put_on(api: Api, probe: Object) -> bool:
    """Return whether kube-apiserver puts node affinity on a pod that has none."""
    try:
        return "affinity" in made(api, probe, dryRun="All")["spec"]
    except httpx.HTTPStatusError as refusal:
        # The policy that keeps the rule may be in force first, and then refuses the pod.
        if refusal.response.status_code != httpx.codes.FORBIDDEN:
            raise
        return False
