"""Installs the admission policies of deploy/queue in a control plane."""

from collections.abc import Mapping

from .controlplane import ControlPlane
from .kubeapi import MERGE, Api, Object, pod
from .manifests import DEPLOY, apply, objects
from .versions import is_served
from .workbench import until

GATE = "kubextend.dev/queue"
QUEUED = {"kubextend.dev/queue": "enabled"}
# Puts the gate on pods. Where no such kind is served, pods have to bring the gate.
GATE_POLICY = "MutatingAdmissionPolicy"
# The scheduler name in gate.yaml.
SCHEDULER = "kubextend-scheduler"
# The policy that every way to run kubextend brings.
LIMITS = DEPLOY / "service" / "limits.yaml"
PROBE = "queue-probe"
PODS = f"/api/v1/namespaces/{PROBE}/pods"


def install_queue(plane: ControlPlane) -> None:
    """Apply what kube-apiserver serves of deploy/queue and the limits; return once in force."""
    api = plane.api
    for path, manifest in sorted(objects(), key=lambda found: found[1]["kind"] != "Namespace"):
        wanted = path.parent == DEPLOY / "queue" or path == LIMITS
        if wanted and is_served(manifest["kind"]):
            apply(api, manifest)
    await_queue(plane)


def await_queue(plane: ControlPlane) -> None:
    """Return once the policies of deploy/queue are in force, which some version may not serve."""
    api = plane.api
    namespace = {"metadata": {"name": PROBE, "labels": QUEUED}}
    apply(api, {"apiVersion": "v1", "kind": "Namespace", **namespace})
    if is_served(GATE_POLICY):
        until(lambda: gates(_made(api, PROBE)) == [GATE], "a pod gets the gate for its namespace")
        until(lambda: gates(_made(api, "default", QUEUED)) == [GATE], "and one for its own label")
    with plane.api_of("kubextend") as kubextend:
        until(lambda: _is_limited(api, kubextend), "kubextend is limited")
    api.delete_pods(PROBE)


def gates(pod: Object) -> list[str]:
    """Return the names of a pod's scheduling gates."""
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def _made(api: Api, namespace: str, labels: Mapping[str, str] | None = None) -> Object:
    made = pod(PROBE, SCHEDULER, "", labels)
    return api.call("POST", f"/api/v1/namespaces/{namespace}/pods", made, dryRun="All")


def _is_limited(api: Api, kubextend: Api) -> bool:
    probe = pod(PROBE, SCHEDULER)
    probe["metadata"]["namespace"] = PROBE
    apply(api, {"apiVersion": "v1", "kind": "Pod", **probe})
    label = {"metadata": {"labels": {"a": "b"}}}
    return "denied request" in kubextend.refusal("PATCH", f"{PODS}/{PROBE}", label, MERGE)
