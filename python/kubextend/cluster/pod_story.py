"""Reads a pod and its Events from the Kubernetes API, for people who ask why the pod is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubextend.cluster.api_call import NAME, NOT_FOUND, Call, RefusedError, parsed_object
from kubextend.errors import ClusterError

if TYPE_CHECKING:
    from kubextend.cluster.client import Cluster

CALL_S = 10.0
MOST_EVENTS = 50
MOST_BYTES = 8 * 1024 * 1024


def read_manifest(cluster: Cluster, namespace: str, name: str) -> dict[str, Any] | None:
    """Return what the API says of a pod's scheduling; None if there is no such pod. Blocks.

    Of the spec only the fields that concern scheduling are returned: environment variables and
    the like may be secret.

    Raises: ClusterError: the pod could not be read, or the names are no names.
    """
    for what, text in (("namespace", namespace), ("pod", name)):
        if not NAME.fullmatch(text):
            message = f"{text!r} is no name of a {what}"
            raise ClusterError(message)
    call = Call("GET", f"/api/v1/namespaces/{namespace}/pods/{name}", CALL_S, most_bytes=MOST_BYTES)
    try:
        whole = parsed_object(call, cluster.request(call))
    except RefusedError as error:
        if error.status == NOT_FOUND:
            return None
        raise
    return {
        "metadata": _some(
            whole,
            "metadata",
            ("namespace", "name", "uid", "creationTimestamp", "deletionTimestamp", "labels"),
        ),
        "spec": _some(
            whole,
            "spec",
            (
                "nodeName",
                "schedulerName",
                "schedulingGates",
                "schedulingGroup",
                "priority",
                "affinity",
            ),
        ),
        "status": _some(whole, "status", ("phase", "conditions", "nominatedNodeName")),
    }


def pod_events(cluster: Cluster, namespace: str, uid: str) -> list[dict[str, Any]]:
    """Return at most 50 Events about a pod, oldest first. Blocks.

    Raises: ClusterError: the Events could not be listed.
    """
    query = {"fieldSelector": f"involvedObject.uid={uid}", "limit": "500"}
    path = f"/api/v1/namespaces/{namespace}/events"
    call = Call("GET", path, CALL_S, query, most_bytes=MOST_BYTES)
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


def _some(whole: dict[str, Any], part: str, fields: tuple[str, ...]) -> dict[str, Any]:
    return {field: value for field in fields if (value := (whole.get(part) or {}).get(field))}
