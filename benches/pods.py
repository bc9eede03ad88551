"""Generates running pods as kube-apiserver lists them, some KB each, fifty for each Deployment.

The same numbers give the same bytes. The fifty pods of a Deployment differ only in name, UID, times
and one annotation.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = [
    "LABEL",
    "PAGE",
    "event",
    "group_size",
    "item",
    "namespace",
    "pages",
    "uid",
    "write_list",
]

PAGE = 500
LABEL = "app"
_OF_A_DEPLOYMENT = 50
_NAMESPACES = 100
_MANAGED = ",".join(
    f'{{"manager":"manager-{at}","operation":"Update","apiVersion":"v1",'
    f'"time":"2026-11-01T10:11:12Z","fieldsType":"FieldsV1",'
    f'"fieldsV1":{{"f:metadata":{{"f:labels":{{".":{{}},"f:app":{{}}}}}}}}}}'
    for at in range(4)
)
_ENVIRONMENT = ",".join(f'{{"name":"VARIABLE_{at}","value":"a value"}}' for at in range(10))
_CONDITIONS = ",".join(
    f'{{"type":"{kind}","status":"True","lastProbeTime":null,'
    f'"lastTransitionTime":"2026-11-01T10:11:12Z"}}'
    for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
)
_TOLERATIONS = ",".join(
    f'{{"key":"node.kubernetes.io/{taint}","operator":"Exists","effect":"NoExecute",'
    f'"tolerationSeconds":300}}'
    for taint in ("not-ready", "unreachable")
)
_POD = (
    '{"metadata":{"name":"app-%(app)d-%(at)05x","generateName":"app-%(app)d-",'
    '"namespace":"%(namespace)s","uid":"%(uid)s","resourceVersion":"%(version)d","generation":1,'
    '"creationTimestamp":"2026-11-01T10:11:12Z","labels":{"app":"%(group)s","version":"%(label)s",'
    '"pod-template-hash":"%(app)x"},"annotations":{"kubernetes.io/config.seen":'
    '"2026-11-01T10:11:12.%(at)09dZ"},"ownerReferences":[{"apiVersion":"apps/v1",'
    '"kind":"ReplicaSet","name":"app-%(app)d","uid":"%(app)036x","controller":true}],'
    '"managedFields":[' + _MANAGED + "]},"
    '"spec":{"volumes":[{"name":"token","projected":{"sources":[{"serviceAccountToken":'
    '{"expirationSeconds":3607,"path":"token"}}],"defaultMode":420}}],"containers":[{"name":"main",'
    '"image":"registry.example.com/platform/app:%(app)d","ports":[{"containerPort":8080,'
    '"protocol":"TCP"}],"env":[' + _ENVIRONMENT + '],"resources":{"limits":{"cpu":"2",'
    '"memory":"4Gi"},"requests":{"cpu":"500m","memory":"1Gi"}},"imagePullPolicy":"IfNotPresent"}],'
    '"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst",'
    '"serviceAccountName":"default","nodeName":"%(node)s","securityContext":{},'
    '"schedulerName":"default-scheduler","tolerations":[' + _TOLERATIONS + "],"
    '"priority":0,"preemptionPolicy":"PreemptLowerPriority"},"status":{"phase":"Running",'
    '"conditions":[' + _CONDITIONS + '],"hostIP":"10.1.2.3","podIP":"10.4.5.6",'
    '"startTime":"2026-11-01T10:12:%(second)02dZ","containerStatuses":[{"name":"main","state":'
    '{"running":{"startedAt":"2026-11-01T10:11:12Z"}},"ready":true,"restartCount":0,"image":"app",'
    '"containerID":"containerd://%(at)064x"}],"qosClass":"Burstable"}}'
)


def uid(at: int) -> str:
    """Return the UID of the pod with this number."""
    return f"{at:08x}-1111-4222-8333-{at:012x}"


def namespace(at: int) -> str:
    """Return the namespace of the pod with this number, which is that of its Deployment."""
    return f"team-{at // _OF_A_DEPLOYMENT % _NAMESPACES}"


def group_size(pods: int) -> int:
    """Return how many of ``pods`` pods have the same value of ``LABEL`` in the same namespace."""
    return pods // _NAMESPACES


def item(at: int, nodes: Sequence[str], version: int = 1, label: str = "v1") -> str:
    """Return the pod with this number as JSON, on one of the nodes."""
    return _POD % {
        "app": at // _OF_A_DEPLOYMENT,
        "at": at,
        "group": "web",
        "label": label,
        "namespace": namespace(at),
        "node": nodes[at % len(nodes)],
        "second": at % 60,
        "uid": uid(at),
        "version": version,
    }


def pages(pods: int, nodes: Sequence[str]) -> Iterator[bytes]:
    """Yield the pages of a PodList of ``pods`` pods, 500 pods a page."""
    for start in range(0, pods, PAGE):
        after = '"continue":"more",' if start + PAGE < pods else ""
        items = ",".join(item(at, nodes) for at in range(start, min(start + PAGE, pods)))
        yield (
            f'{{"kind":"PodList","apiVersion":"v1","metadata":{{{after}"resourceVersion":"100"}},'
            f'"items":[{items}]}}'
        ).encode()


def write_list(file: Path, pods: int, nodes: Sequence[str]) -> None:
    """Write a PodList of ``pods`` pods to a file."""
    with file.open("w") as out:
        out.write('{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[')
        for at in range(pods):
            out.write(f"{',' if at else ''}{item(at, nodes)}")
        out.write("]}")


def event(at: int, nodes: Sequence[str], version: int, label: str) -> bytes:
    """Return the MODIFIED event that gives the pod with this number another label."""
    return f'{{"type":"MODIFIED","object":{item(at, nodes, version, label)}}}'.encode()
