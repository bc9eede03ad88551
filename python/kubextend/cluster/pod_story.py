"""Reads a pod and its Events from the Kubernetes API, for people who ask why the pod is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from kubextend.cluster.api_call import NOT_FOUND, Call, check_names, parsed_object
from kubextend.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubextend.cluster.client import Cluster

_FIELDS = {
    "metadata": "namespace name uid creationTimestamp deletionTimestamp labels",
    "spec": "nodeName schedulerName priority affinity schedulingGates schedulingGroup"
    " resourceClaims",
    "status": "phase conditions nominatedNodeName resourceClaimStatuses",
}
CALL_S = 10.0
MOST_EVENTS = 50


def read_manifest(cluster: Cluster, namespace: str, name: str) -> dict[str, Any] | None:
    """Return what the API says of a pod's scheduling; None if there is no such pod. Blocks.

    Of the spec only the fields that concern scheduling are returned: environment variables and
    the like may be secret.

    Raises: ClusterError: the pod could not be read, or the names are no names.
    """
    check_names("read a pod", namespace=namespace, pod=name)
    call = Call("GET", f"/api/v1/namespaces/{namespace}/pods/{name}", CALL_S)
    if (body := cluster.read(call)) is None:
        return None
    whole = parsed_object(call, body)
    return {
        part: {
            field: value
            for field in fields.split()
            if (value := (whole.get(part) or {}).get(field))
        }
        for part, fields in _FIELDS.items()
    }


def awaited(cluster: Cluster, pod: dict[str, Any]) -> dict[str, list[str]]:
    """Return what is ``missing`` of what a pod names, and what is missing ``perhaps``. Blocks.

    Until that is there, kube-scheduler does not try the pod, and writes no condition.

    Source: kubernetes v1.37 pkg/scheduler/framework/plugins, PreEnqueue of dynamicresources and
    gangscheduling
    """
    missing: list[str] = []
    perhaps: list[str] = []
    for group, kind, name, lacks in _named(pod):
        path = f"/apis/{group}/namespaces/{pod['metadata']['namespace']}/{kind.lower()}s"
        call = Call("GET", f"{path}/{quote(name, safe='')}", CALL_S)
        what = f"the {kind} {name}"
        found: dict[str, Any] = {}
        try:
            found = parsed_object(call, cluster.request(call))
        except ClusterError as error:
            # Without the name in its message, the API does not serve the group or the version.
            if error.status == NOT_FOUND and f'"{name}" not found' in str(error):
                lacks = f"{what} does not exist"  # noqa: PLW2901  what is known better
            elif not lacks:
                perhaps.append(f"{what}, which could not be read ({error})")
        if kind == "ResourceClaim" and (found.get("metadata") or {}).get("deletionTimestamp"):
            missing.append(f"{what} is being deleted")
        elif lacks:
            missing.append(lacks)
        elif gang := ((found.get("spec") or {}).get("schedulingPolicy") or {}).get("gang"):
            count = gang.get("minCount")
            perhaps.append(f"the {count} pods without scheduling gates that {what} demands")
    return {"missing": missing, "perhaps": perhaps}


def _named(pod: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield API group, kind and name of the objects that a pod names, and what else is missing."""
    spec: dict[str, Any] = pod.get("spec") or {}
    if spec.get("nodeName"):
        return
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    made = {each["name"]: each.get("resourceClaimName") for each in statuses}
    for claim in spec.get("resourceClaims") or ():
        template = claim.get("resourceClaimTemplateName")
        if template and claim["name"] not in made:
            lacks = f"no ResourceClaim was made yet of the ResourceClaimTemplate {template}"
            yield "resource.k8s.io/v1", "ResourceClaimTemplate", template, lacks
        elif name := claim.get("resourceClaimName") or made.get(claim["name"]):
            yield "resource.k8s.io/v1", "ResourceClaim", name, ""
    if group := (spec.get("schedulingGroup") or {}).get("podGroupName"):
        yield "scheduling.k8s.io/v1beta1", "PodGroup", group, ""


def pod_events(cluster: Cluster, namespace: str, uid: str) -> list[dict[str, Any]]:
    """Return at most 50 Events about a pod, oldest first. Blocks.

    Raises: ClusterError: the Events could not be listed.
    """
    query = {"fieldSelector": f"involvedObject.uid={uid}", "limit": "500"}
    path = f"/api/v1/namespaces/{namespace}/events"
    call = Call("GET", path, CALL_S, query)
    items = parsed_object(call, cluster.request(call)).get("items") or []
    told = [
        {
            "at": (each.get("series") or {}).get("lastObservedTime")
            or each.get("lastTimestamp")
            or each.get("eventTime")
            or "",
            "type": each.get("type") or "",
            "reason": each.get("reason") or "",
            "from": each.get("reportingComponent")
            or (each.get("source") or {}).get("component")
            or "",
            "note": str(each.get("message") or "")[:1024],
        }
        for each in items
    ]
    return sorted(told, key=lambda each: str(each["at"]))[-MOST_EVENTS:]
