"""The causes that the tests of `kubextend why` inject, and the page of docs about them."""

import textwrap
from collections.abc import Mapping
from typing import Any, NamedTuple

from .kubeapi import RDMA_LABEL, REQUIRED, Object, container, pod
from .versions import is_served

PAGE_COLUMNS = 118
ON_A_NODE_OR_ABSENT = {"Bound", "NoSuchPod"}
THEIRS = "RejectedByKubeScheduler"
GANG = "scheduling.x-k8s.io/pod-group"


class Case(NamedTuple):
    """One cause that a test injects, and what `kubextend why` has to say.

    Attributes:
        injected: the cause in words.
        cause: the word that names it.
        words: what the sentence has to contain.
        plugin: the plugin that has to be named.
        unblock: what the lines about a remedy have to contain.
        scheduler: the schedulerName of the pod.
        labels: the labels of the pod.
        spec: further fields of the pod's spec.
    """

    injected: str
    cause: str
    words: str = ""
    plugin: str = ""
    unblock: str = ""
    scheduler: str = "why"
    labels: Mapping[str, str] = {}
    spec: Mapping[str, Any] = {}

    def pod(self, name: str, pool: str = "why") -> Object:
        """Make the pod of the case, for the nodes of a pool."""
        made = pod(name, self.scheduler, pool, self.labels)
        selector = {**made["spec"]["nodeSelector"], **self.spec.get("nodeSelector", {})}
        made["spec"] |= {**self.spec, "nodeSelector": selector}
        return made


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
_NEAR = {
    "labelSelector": {"matchLabels": {"app": "none"}},
    "topologyKey": "kubernetes.io/hostname",
}
_CLAIM = {"name": "v", "persistentVolumeClaim": {"claimName": "absent"}}
_DEVICE = {"name": "device", "resourceClaimName": "absent"}
_RDMA, _DISK = {"high-comm": "yes"}, {"disk": "any"}
_FIT, _LABELS = "HighCommPodFilter", "LabelMatch"

AT_ANY_TIME = {
    "bound": Case("nothing: the pod is bound", "Bound", "is on node"),
    "bound-by-score": Case(
        "nothing: a node is liked", "Bound", "LabelMatch 80", labels={"likes": "it"}
    ),
    "label": Case(
        "no node has the label", "Rejected", "no ssd", _LABELS, "disk=ssd", labels=_DISK
    ),
    "rdma": Case(
        "no node has RDMA", "Rejected", "does not support RDMA", _FIT, f"{RDMA_LABEL}=true",
        labels=_RDMA,
    ),
    "two-plugins": Case(
        "two plugins reject all nodes", "Rejected", "RDMA", _FIT, "disk=ssd",
        labels=_RDMA | _DISK,
    ),
    "pod-label": Case(
        "the pod lacks a label", "Rejected", "high-comm=true label", "RdmaAware",
        "the label high-comm=true of the pod", "why-aware",
    ),
    "aware-node": Case(
        "the nodes lack RDMA", "Rejected", "does not support RDMA", "RdmaAware", "rdma=true",
        "why-aware", {"high-comm": "true"},
    ),
    "both": Case(
        "kube-scheduler rejects some nodes, and a plugin the others", "Rejected", "no ssd",
        _LABELS, labels=_DISK, spec=_asking("3", memory="1Mi"),
    ),
    "gang-short": Case(
        "the gang has too few pods", "Rejected", "fewer pods than its minimum", "Coscheduling",
        "4 more pods of the pod group short", "why-gang", _gang("short", 5),
    ),
    "gang-number": Case(
        "the gang's number is no number", "Rejected", "does not say how many", "Coscheduling",
        "a valid number", "why-gang", {GANG: "odd"},
    ),
    "gang-waits": Case(
        "a member of the gang finds no room", "PermitWaits", "Permit of Coscheduling",
        "Coscheduling", "1 more pods of the pod group waits", "why-gang", _gang("waits", 2),
    ),
    "memory": Case(
        "no node has the memory", THEIRS, "Insufficient memory", spec=_asking("1", memory="1Ti")
    ),
    "spread": Case(
        "no node has the label by which the pod spreads", THEIRS, "topology spread",
        spec={"topologySpreadConstraints": [_SPREAD]},
    ),
    "taint": Case("every node is tainted", THEIRS, "untolerated taint", spec=_on("tainted")),
    "cordoned": Case("the node is cordoned", THEIRS, "unschedulable", spec=_on("cordoned")),
    "full": Case("no node has so much CPU", THEIRS, "Insufficient cpu", spec=_asking("64")),
    "selector": Case(
        "no node matches the nodeSelector", THEIRS, "affinity/selector",
        spec=_on("no-node", "has-it"),
    ),
    "affinity": Case(
        "no pod is there to be near to", THEIRS, "pod affinity",
        spec={"affinity": {"podAffinity": {REQUIRED: [_NEAR]}}},
    ),
    "no-claim": Case(
        "a volume claim does not exist", THEIRS, "not found", spec={"volumes": [_CLAIM]}
    ),
    "resource": Case(
        "no node has the device", THEIRS, "Insufficient example.com/gpu",
        spec={"containers": [container(limits={"example.com/gpu": "1"})]},
    ),
    "resource-claim": Case(
        "a ResourceClaim does not exist", "ObjectMissing",
        "the ResourceClaim absent does not exist", spec={"resourceClaims": [_DEVICE]},
    ),
    "other-gate": Case(
        "another controller's gate", "OtherGate", unblock="example.com/quota",
        spec=_gated("example.com/quota"),
    ),
    "queue-gate": Case(
        "a gate of kubextend's queue, which this kubextend does not run", "QueueGate",
        "has no queue", spec=_gated("kubextend.dev/queue"),
    ),
    "misspelt": Case(
        "the schedulerName is misspelt", "NoScheduler", "did you mean why-gang?",
        scheduler="why-gagn",
    ),
    "other-scheduler": Case(
        "the pod is for a scheduler that does not run", "NoScheduler", "volcano",
        scheduler="volcano",
    ),
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
        f"a plugin {_deed.replace('-', ' ')} at {_point}", _cause, _words, "OnDemand",
        scheduler="why-demand", labels={f"at-{_point}": _deed},
    )  # fmt: skip
if not is_served("ResourceClaim"):
    del AT_ANY_TIME["resource-claim"]

CASES = AT_ANY_TIME | {
    # A hanging call delays the attempts of all pods.
    "hangs": Case("a filter hangs", "PluginHung", "in time", "Hangs", scheduler="why-hangs"),
    "breaker-open": Case(
        "the breaker of a filter is open", "BreakerOpen", "its breaker is open", "Hangs",
        scheduler="why-hangs",
    ),
    "quota": Case(
        "the namespace has used its quota", "Rejected", "more than the max of its ElasticQuota",
        "CapacityScheduling", "a larger max: cpu would be", "why-quota", spec=_asking("200m"),
    ),
    "binding-refused": Case(
        "the Kubernetes API refuses the Binding", "BindFailed", "nobody binds this pod",
        scheduler="why-demand", spec=_on("late"),
    ),
    "guard": Case(
        "another scheduler has filled the node, and the guard refuses the pod", "GuardRefused",
        "Insufficient cpu", scheduler="why-late", spec=_asking("600m"),
    ),
    "queue-head": Case(
        "the queue has released the pod, and the pod fits on no node", THEIRS,
        "Insufficient cpu", scheduler="why-queue", spec=_asking("64"),
    ),
    "queue-behind": Case(
        "the pod is in kubextend's queue behind a pod that fits on no node", "QueueGate",
        "waits for why/queue-head", scheduler="why-queue",
    ),
    "stands-still": Case("kube-scheduler stands still", "NotTried", "the profile why"),
    "unreached": Case(
        "kubextend is down", "NotReached", "could not reach it", scheduler="why-down"
    ),
    "not-ready": Case(
        "kubextend has not listed the nodes yet", "NotReady", "the nodes are not listed yet",
        scheduler="why-down",
    ),
    "deleted": Case("the pod is being deleted", "Deleted", "nobody places it", scheduler="nobody"),
    "absent": Case("nobody has created the pod", "NoSuchPod", "there is no pod"),
}  # fmt: skip


def table_of() -> str:
    """Return the table of all cases on the page of docs."""
    lines = [f"| {case.injected} | `{case.cause}` |" for _, case in sorted(CASES.items())]
    return "\n".join(["| injected | cause |", "| --- | --- |", *lines, ""])


def page_of(printed: Mapping[str, str]) -> str:
    """Return a page of docs with what the command printed for each case, by the case's name."""
    pending = sum(case.cause not in ON_A_NODE_OR_ABSENT for case in CASES.values())
    head = (
        "# Causes, and what kubextend why prints\n\n"
        "For operators: this page shows what `kubextend why` prints for each reason for which a\n"
        f"pod is pending or on its node. In {pending} of the cases the pod is on no node.\n"
        "`tests/e2e/test_why.py` causes each of them on a real control plane, and writes this\n"
        "page.\n"
    )
    parts = [
        f"\n## {CASES[name].injected[0].upper()}{CASES[name].injected[1:]}\n\n```text\n"
        f"{_folded(printed[name])}```\n"
        for name in sorted(printed)
    ]
    return f"{head}\n{table_of()}{''.join(parts)}"


def _folded(text: str) -> str:
    """Return a text whose long lines go on in the next line, as the pages of docs have it."""
    fold = textwrap.TextWrapper(
        PAGE_COLUMNS, subsequent_indent="    ", replace_whitespace=False, break_on_hyphens=False
    )
    return "".join(f"{fold.fill(line)}\n" for line in text.splitlines())
