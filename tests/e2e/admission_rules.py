"""Puts rules on pods of a real kube-apiserver, always by what ``kubextend admission`` wrote."""

import contextlib
import json
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import yaml

from . import stack
from .controlplane import ControlPlane
from .kubeapi import MERGE, Api, Object, pod
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
PROBED = {"probe": "yes"}
OURS = "a rule of kubextend"
PODS = "/api/v1/namespaces/default/pods"


def profile(
    scheduler: str, filters: Sequence[Object] = (), scores: Sequence[Object] = ()
) -> Object:
    """Make a profile in which LabelMatch has these rules."""
    args = {"filters": [{"reason": "No", **each} for each in filters], "scores": [*scores]}
    return stack.profile(scheduler, LabelMatch=args)


@contextlib.contextmanager
def installed(plane: ControlPlane, config: Path, in_force: bool = True) -> Iterator[None]:
    """Apply what the command writes for a configuration; take it away at the end of the block.

    To be ``in_force``, one more rule is installed after all others, and waited for.
    """
    # A rule of an earlier block stays in force for about a second after it is deleted, so no two
    # blocks have the same last rule. And no kube-scheduler may place its pods.
    last = f"admission-last-{uuid.uuid4().hex}"
    whole = _with_last(config, last) if in_force else config
    text = run_kubextend("admission", "--config", whole)
    by_kind: dict[str, list[Object]] = {kind: [] for kind in RESOURCES}
    # The loader in C: with a thousand policies, the other one takes longer than all else.
    for manifest in yaml.load_all(text, Loader=yaml.CSafeLoader):
        by_kind[manifest["kind"]].append(manifest)
    api = plane.api
    try:
        for kind, resource in RESOURCES.items():
            *most, end = by_kind[kind]
            api.create_all(f"{GROUP}/{resource}", most)
            api.create_all(f"{GROUP}/{resource}", [end])
        if in_force:
            # As kube-apiserver learns of policies in the order of their creation, all are in force
            # with the last one.
            _wait_until_in_force(api, last)
        yield
    finally:
        for resource in reversed(RESOURCES.values()):
            api.call("DELETE", f"{GROUP}/{resource}", labelSelector=LABEL)


def _with_last(config: Path, last: str) -> Path:
    """Write the configuration with one more profile at its end to a file, and return the file."""
    tree = yaml.safe_load(config.read_text())
    tree["profiles"].append(profile(last, [{"podSelector": "probe", "nodeSelector": "probed"}]))
    whole = config.with_name(f"{last}.yaml")
    whole.write_text(json.dumps(tree))
    return whole


def bare_pod(scheduler: str, labels: Object | None = None, **spec: object) -> Object:
    """Make a pod of a scheduler that no kube-scheduler need serve."""
    return pod("p-", scheduler, "", labels, **spec)


def made(api: Api, pod: Object, namespace: str = "default", **query: str) -> Object:
    """Create a pod, and return the pod as kube-apiserver shows it."""
    return api.call("POST", f"/api/v1/namespaces/{namespace}/pods", pod, **query)


def is_refused(api: Api, method: str, path: str, body: object, content_type: str = "") -> bool:
    """Return whether one of kubextend's policies refuses a request, which changes nothing."""
    return OURS in api.refusal(method, path, body, content_type or "application/json")


def affinity_or_refusal(api: Api, pod: Object) -> Object | None:
    """Return the affinity that a pod would be created with; None: kubextend's policies refuse it.

    Raises: HTTPStatusError: kube-apiserver refuses the pod for another reason.
    """
    try:
        return dict(made(api, pod, dryRun="All")["spec"].get("affinity", {}))
    except httpx.HTTPStatusError as refusal:
        if OURS not in str(refusal):
            raise
        return None


def _wait_until_in_force(api: Api, last: str) -> None:
    probe = bare_pod(last, PROBED)
    until(lambda: is_put_on(api, probe), "the last rule is put on")
    # Without the label no rule concerns the pod, and with the label it lacks the rule.
    name = made(api, bare_pod(last))["metadata"]["name"]
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
