"""The causes that the tests of `kubextend why` inject."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from .kubeapi import RDMA_LABEL, REQUIRED, Object, container, pod
from .versions import is_served

ON_A_NODE_OR_ABSENT = {"Bound", "NoSuchPod"}
THEIRS = "RejectedByKubeScheduler"
GANG = "scheduling.x-k8s.io/pod-group"


class Case(NamedTuple):
    """The cause that a test injects, and what `kubextend why` has to say of the pod.

    Attributes:
        words: what the sentence has to contain.
        plugin: the plugin that has to be named.
        unblock: what the lines about a remedy have to contain.
    """

    cause: str
    words: str = ""
    plugin: str = ""
    unblock: str = ""
    scheduler: str = "why"
    labels: Mapping[str, str] = {}
    spec: Mapping[str, Any] = {}

    def pod(self, name: str, pool: str = "why") -> Object:
        return pod(name, self.scheduler, pool, self.labels, **self.spec)


def _gang(name: str, least: int) -> dict[str, str]:
    return {GANG: name, "pod-group.scheduling.sigs.k8s.io/min-available": str(least)}


def _on(key: str, value: str = "yes") -> dict[str, Any]:
    return {"nodeSelector": {key: value}}


def _asking(cpu: str, **more: str) -> dict[str, Any]:
    return {"containers": [container(requests={"cpu": cpu, **more})]}


def _gated(gate: str) -> dict[str, Any]:
    return {"schedulingGates": [{"name": gate}]}


_SPREAD = {
    "maxSkew": 1,
    "topologyKey": "example.com/rack",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"a": "b"}},
}
_NEAR = {"labelSelector": {"matchLabels": {"app": "none"}}, "topologyKey": "kubernetes.io/hostname"}
_CLAIM = {"name": "v", "persistentVolumeClaim": {"claimName": "absent"}}
_DEVICE = {"name": "device", "resourceClaimName": "absent"}
_RDMA, _DISK = {"high-comm": "yes"}, {"disk": "any"}
_FIT, _LABELS = "HighCommPodFilter", "LabelMatch"

AT_ANY_TIME = {
    "bound": Case("Bound", "is on node"),
    "bound-by-score": Case("Bound", "LabelMatch 80", labels={"likes": "it"}),
    "label": Case("Rejected", "no ssd", _LABELS, "disk=ssd", labels=_DISK),
    "rdma": Case(
        "Rejected", "does not support RDMA", _FIT, f"{RDMA_LABEL}=true", labels=_RDMA
    ),
    "two-plugins": Case("Rejected", "RDMA", _FIT, "disk=ssd", labels=_RDMA | _DISK),
    "pod-label": Case(
        "Rejected", "high-comm=true label", "RdmaAware", "the label high-comm=true of the pod",
        "why-aware",
    ),
    "aware-node": Case(
        "Rejected", "does not support RDMA", "RdmaAware", "rdma=true", "why-aware",
        {"high-comm": "true"},
    ),
    # kube-scheduler rejects some nodes, and a plugin the others.
    "both": Case("Rejected", "no ssd", _LABELS, labels=_DISK, spec=_asking("3", memory="1Mi")),
    "gang-short": Case(
        "Rejected", "fewer pods than its minimum", "Coscheduling",
        "4 more pods of the pod group short", "why-gang", _gang("short", 5),
    ),
    "gang-number": Case(
        "Rejected", "does not say how many", "Coscheduling", "a valid number", "why-gang",
        {GANG: "odd"},
    ),
    "gang-waits": Case(
        "PermitWaits", "Permit of Coscheduling", "Coscheduling",
        "1 more pods of the pod group waits", "why-gang", _gang("waits", 2),
    ),
    "memory": Case(THEIRS, "Insufficient memory", spec=_asking("1", memory="1Ti")),
    "spread": Case(THEIRS, "topology spread", spec={"topologySpreadConstraints": [_SPREAD]}),
    "taint": Case(THEIRS, "untolerated taint", spec=_on("tainted")),
    "cordoned": Case(THEIRS, "unschedulable", spec=_on("cordoned")),
    "full": Case(THEIRS, "Insufficient cpu", spec=_asking("64")),
    "selector": Case(THEIRS, "affinity/selector", spec=_on("no-node", "has-it")),
    "affinity": Case(
        THEIRS, "pod affinity", spec={"affinity": {"podAffinity": {REQUIRED: [_NEAR]}}}
    ),
    "no-claim": Case(THEIRS, "not found", spec={"volumes": [_CLAIM]}),
    "resource": Case(
        THEIRS, "Insufficient example.com/gpu",
        spec={"containers": [container(limits={"example.com/gpu": "1"})]},
    ),
    "resource-claim": Case(
        "ObjectMissing", "the ResourceClaim absent does not exist",
        spec={"resourceClaims": [_DEVICE]},
    ),
    "other-gate": Case(
        "OtherGate", unblock="example.com/quota", spec=_gated("example.com/quota")
    ),
    # This kubextend has no queue.
    "queue-gate": Case("QueueGate", "has no queue", spec=_gated("kubextend.dev/queue")),
    "misspelt": Case("NoScheduler", "did you mean why-gang?", scheduler="why-gagn"),
    "other-scheduler": Case("NoScheduler", "volcano", scheduler="volcano"),
}  # fmt: skip
# What the plugin OnDemand does where, the cause, and words of the sentence.
_DEMANDS = """
pre-filter rejects       Rejected         demands a rejection
pre-filter raises        PluginFailed     RuntimeError
pre-filter answers-wrong PluginFailed     str
pre-filter fails         PluginFailed     PreFilter of
filter     rejects       Rejected         demands a rejection
filter     raises        PluginFailed     RuntimeError
filter     fails         PluginFailed     demands an Error
filter     answers-wrong PluginFailed     str
reserve    rejects       ReserveRejected  Reserve of
reserve    raises        PluginFailed     Reserve of
reserve    fails         PluginFailed     Reserve of
reserve    answers-wrong PluginFailed     Reserve of
permit     rejects       PermitRejected   demands a rejection
permit     raises        PluginFailed     Permit of
permit     fails         PluginFailed     Permit of
permit     answers-wrong PluginFailed     Permit of
permit     waits         PermitWaits      Permit of OnDemand
permit     times-out     PermitRejected   timeout
pre-bind   rejects       PreBindRejected  PreBind of
pre-bind   raises        PluginFailed     PreBind of
pre-bind   fails         PluginFailed     PreBind of
bind       rejects       BindRejected     Bind of
bind       raises        PluginFailed     Bind of
bind       fails         PluginFailed     Bind of
"""
for _line in _DEMANDS.split("\n")[1:-1]:
    _point, _deed, _cause, _words = _line.split(maxsplit=3)
    AT_ANY_TIME[f"{_point}-{_deed.removeprefix('answers-')}"] = Case(
        _cause, _words, "OnDemand", scheduler="why-demand", labels={f"at-{_point}": _deed}
    )
if not is_served("ResourceClaim"):
    del AT_ANY_TIME["resource-claim"]

CASES = AT_ANY_TIME | {
    # A hanging call delays the attempts of all pods.
    "hangs": Case("PluginHung", "in time", "Hangs", scheduler="why-hangs"),
    "breaker-open": Case("BreakerOpen", "its breaker is open", "Hangs", scheduler="why-hangs"),
    "quota": Case(
        "Rejected", "more than the max of its ElasticQuota", "CapacityScheduling",
        "a larger max: cpu would be", "why-quota", spec=_asking("200m"),
    ),
    "binding-refused": Case(
        "BindFailed", "nobody binds this pod", scheduler="why-demand", spec=_on("late")
    ),
    "guard": Case(
        "GuardRefused", "Insufficient cpu", scheduler="why-late", spec=_asking("600m")
    ),
    "queue-head": Case(THEIRS, "Insufficient cpu", scheduler="why-queue", spec=_asking("64")),
    "queue-behind": Case("QueueGate", "waits for why/queue-head", scheduler="why-queue"),
    "stands-still": Case("NotTried", "the profile why"),
    "unreached": Case("NotReached", "could not reach it", scheduler="why-down"),
    "not-ready": Case("NotReady", "the nodes are not listed yet", scheduler="why-down"),
    "deleted": Case("Deleted", "nobody places it", scheduler="nobody"),
    "absent": Case("NoSuchPod", "there is no pod"),
}  # fmt: skip
