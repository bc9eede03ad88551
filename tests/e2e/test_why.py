"""`kubextend why` names the true cause of each pod that a test keeps from its node, or puts there.

With the variable KUBEXTEND_WHY_PAGE set to a file, the tests write into it what the command prints
for each cause; a release has such a page.
"""

import json
import os
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from kubextend import cluster, why
from kubextend.decisions.explanation import Cause, Explanation, Facts, explain

from .controlplane import ControlPlane
from .door import Door
from .kubeapi import MERGE, RDMA_LABEL, Api, NodePool, Object, node, pod
from .manifests import ELASTIC_QUOTAS, apply, define, elastic_quota
from .queue_policies import GATE, gates, install_queue
from .queue_stack import NAMESPACE as LEASE_NAMESPACE
from .queue_stack import forget_lease
from .stack import PLUGIN_FOLDER, Mode, Stack, grant_needed, profile, run_kubextend
from .versions import KUBE
from .workbench import until

TOKEN = "reads-and-decides-nothing"
NAMESPACE = "why"
# The page of docs that a run with this variable writes.
PAGE = os.environ.get("KUBEXTEND_WHY_PAGE")
HANG_S = 30.0
HANGS = "hangs"
# The pods with a namespace of their own, since the quota is that of the namespace.
QUOTA_NAMESPACE = "why-quota"
PAGE_COLUMNS = 118
PATIENCE_S = 60.0

RULES = {
    "filters": [{"podSelector": "disk", "nodeSelector": "disk=ssd", "reason": "no ssd"}],
    "scores": [{"podSelector": "likes", "nodeSelector": "liked=yes", "score": 80}],
}


def gang(name: str, least: int) -> dict[str, str]:
    return {
        "scheduling.x-k8s.io/pod-group": name,
        "pod-group.scheduling.sigs.k8s.io/min-available": str(least),
    }


@dataclass(frozen=True)
class Case:
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
    cause: Cause
    words: str = ""
    plugin: str = ""
    unblock: str = ""
    scheduler: str = "why"
    labels: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)


def on_demand(point: str, deed: str, cause: Cause, words: str) -> Case:
    injected = f"a plugin {deed.replace('-', ' ')} at {point}"
    labels = {f"at-{point}": deed}
    return Case(injected, cause, words, "OnDemand", scheduler="why-demand", labels=labels)


def needs(key: str, value: str) -> dict[str, Any]:
    return {"nodeSelector": {key: value}}


def asking(cpu: str, memory: str = "1Mi") -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    return {"containers": [{"name": "c", "image": "registry.invalid/none", "resources": resources}]}


def spread_over(key: str) -> dict[str, Any]:
    limits = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**limits, "labelSelector": {"matchLabels": {"a": "b"}}}]}


def near_to(label: str) -> dict[str, Any]:
    term = {
        "labelSelector": {"matchLabels": {"app": label}},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


THEIRS = Cause.REJECTED_BY_KUBE_SCHEDULER
ON_A_NODE_OR_ABSENT = {Cause.BOUND, Cause.NO_SUCH_POD}
POOL = "e2e.kubextend.dev/pool"

CASES = {
    "bound": Case("nothing: the pod is bound", Cause.BOUND, "is on node"),
    "bound-by-score": Case(
        "nothing: a node is liked", Cause.BOUND, "LabelMatch 80", labels={"likes": "it"}
    ),
    "label": Case(
        "no node has the label",
        Cause.REJECTED,
        "no ssd",
        "LabelMatch",
        "disk=ssd",
        labels={"disk": "any"},
    ),
    "rdma": Case(
        "no node has RDMA",
        Cause.REJECTED,
        "does not support RDMA",
        "HighCommPodFilter",
        f"{RDMA_LABEL}=true",
        labels={"high-comm": "yes"},
    ),
    "two-plugins": Case(
        "two plugins reject all nodes",
        Cause.REJECTED,
        "RDMA",
        "HighCommPodFilter",
        "disk=ssd",
        labels={"high-comm": "yes", "disk": "any"},
    ),
    "pod-label": Case(
        "the pod lacks a label",
        Cause.REJECTED,
        "high-comm=true label",
        "RdmaAware",
        "the label high-comm=true of the pod",
        scheduler="why-aware",
    ),
    "aware-node": Case(
        "the nodes lack RDMA",
        Cause.REJECTED,
        "does not support RDMA",
        "RdmaAware",
        "rdma=true",
        scheduler="why-aware",
        labels={"high-comm": "true"},
    ),
    "both": Case(
        "kube-scheduler rejects some nodes, and a plugin the others",
        Cause.REJECTED,
        "no ssd",
        "LabelMatch",
        labels={"disk": "any"},
        spec=asking("3"),
    ),
    "gang-short": Case(
        "the gang has too few pods",
        Cause.REJECTED,
        "fewer pods than its minimum",
        "Coscheduling",
        "4 more pods of the pod group short",
        scheduler="why-gang",
        labels=gang("short", 5),
    ),
    "gang-number": Case(
        "the gang's number is no number",
        Cause.REJECTED,
        "does not say how many",
        "Coscheduling",
        "a valid number",
        scheduler="why-gang",
        labels={"scheduling.x-k8s.io/pod-group": "odd"},
    ),
    "gang-waits": Case(
        "a member of the gang finds no room",
        Cause.PERMIT_WAITS,
        "Permit of Coscheduling",
        "Coscheduling",
        "1 more pods of the pod group waits",
        scheduler="why-gang",
        labels=gang("waits", 2),
    ),
    "pre-filter-rejects": on_demand("pre-filter", "rejects", Cause.REJECTED, "demands a rejection"),
    "pre-filter-raises": on_demand("pre-filter", "raises", Cause.PLUGIN_FAILED, "RuntimeError"),
    "pre-filter-wrong": on_demand("pre-filter", "answers-wrong", Cause.PLUGIN_FAILED, "str"),
    "filter-rejects": on_demand("filter", "rejects", Cause.REJECTED, "demands a rejection"),
    "filter-raises": on_demand("filter", "raises", Cause.PLUGIN_FAILED, "RuntimeError"),
    "filter-fails": on_demand("filter", "fails", Cause.PLUGIN_FAILED, "demands an Error"),
    "filter-wrong": on_demand("filter", "answers-wrong", Cause.PLUGIN_FAILED, "str"),
    "reserve-rejects": on_demand("reserve", "rejects", Cause.RESERVE_REJECTED, "Reserve of"),
    "reserve-raises": on_demand("reserve", "raises", Cause.PLUGIN_FAILED, "Reserve of"),
    "permit-rejects": on_demand("permit", "rejects", Cause.PERMIT_REJECTED, "demands a rejection"),
    "permit-raises": on_demand("permit", "raises", Cause.PLUGIN_FAILED, "Permit of"),
    "permit-waits": on_demand("permit", "waits", Cause.PERMIT_WAITS, "Permit of OnDemand"),
    "permit-times-out": on_demand("permit", "times-out", Cause.PERMIT_REJECTED, "timeout"),
    "pre-bind-rejects": on_demand("pre-bind", "rejects", Cause.PRE_BIND_REJECTED, "PreBind of"),
    "pre-bind-raises": on_demand("pre-bind", "raises", Cause.PLUGIN_FAILED, "PreBind of"),
    "bind-rejects": on_demand("bind", "rejects", Cause.BIND_REJECTED, "Bind of"),
    "bind-raises": on_demand("bind", "raises", Cause.PLUGIN_FAILED, "Bind of"),
    "pre-filter-fails": on_demand("pre-filter", "fails", Cause.PLUGIN_FAILED, "PreFilter of"),
    "reserve-fails": on_demand("reserve", "fails", Cause.PLUGIN_FAILED, "Reserve of"),
    "reserve-wrong": on_demand("reserve", "answers-wrong", Cause.PLUGIN_FAILED, "Reserve of"),
    "permit-fails": on_demand("permit", "fails", Cause.PLUGIN_FAILED, "Permit of"),
    "permit-wrong": on_demand("permit", "answers-wrong", Cause.PLUGIN_FAILED, "Permit of"),
    "pre-bind-fails": on_demand("pre-bind", "fails", Cause.PLUGIN_FAILED, "PreBind of"),
    "bind-fails": on_demand("bind", "fails", Cause.PLUGIN_FAILED, "Bind of"),
    "memory": Case(
        "no node has the memory", THEIRS, "Insufficient memory", spec=asking("1", "1Ti")
    ),
    "spread": Case(
        "no node has the label by which the pod spreads",
        THEIRS,
        "topology spread",
        spec=spread_over("example.com/rack"),
    ),
    "taint": Case(
        "every node is tainted", THEIRS, "untolerated taint", spec=needs("tainted", "yes")
    ),
    "cordoned": Case(
        "the node is cordoned", THEIRS, "unschedulable", spec=needs("cordoned", "yes")
    ),
    "full": Case("no node has so much CPU", THEIRS, "Insufficient cpu", spec=asking("64")),
    "selector": Case(
        "no node matches the nodeSelector",
        THEIRS,
        "affinity/selector",
        spec=needs("no-node", "has-it"),
    ),
    "affinity": Case("no pod is there to be near to", THEIRS, "pod affinity", spec=near_to("none")),
    "no-claim": Case(
        "a volume claim does not exist",
        THEIRS,
        "not found",
        spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "absent"}}]},
    ),
    "resource": Case(
        "no node has the device",
        THEIRS,
        "Insufficient example.com/gpu",
        spec={
            "containers": [
                {
                    "name": "c",
                    "image": "registry.invalid/none",
                    "resources": {"limits": {"example.com/gpu": "1"}},
                }
            ]
        },
    ),
    "resource-claim": Case(
        "a ResourceClaim does not exist",
        Cause.OBJECT_MISSING,
        "the ResourceClaim absent does not exist",
        spec={"resourceClaims": [{"name": "device", "resourceClaimName": "absent"}]},
    ),
    "other-gate": Case(
        "another controller's gate",
        Cause.OTHER_GATE,
        "example.com/quota",
        unblock="example.com/quota",
        spec={"schedulingGates": [{"name": "example.com/quota"}]},
    ),
    "queue-gate": Case(
        "a gate of kubextend's queue, which this kubextend does not run",
        Cause.QUEUE_GATE,
        "has no queue",
        spec={"schedulingGates": [{"name": "kubextend.dev/queue"}]},
    ),
    "misspelt": Case(
        "the schedulerName is misspelt",
        Cause.NO_SCHEDULER,
        "did you mean why-gang?",
        scheduler="why-gagn",
    ),
    "other-scheduler": Case(
        "the pod is for a scheduler that does not run",
        Cause.NO_SCHEDULER,
        "volcano",
        scheduler="volcano",
    ),
}
if KUBE < "1.34":
    # ResourceClaims are behind a feature gate.
    del CASES["resource-claim"]
AT_ANY_TIME = list(CASES)

# Causes that need a moment of their own: a test for each of them is below.
CASES |= {
    # A hanging call delays the attempts of all pods.
    HANGS: Case("a filter hangs", Cause.PLUGIN_HUNG, "in time", "Hangs", scheduler="why-hangs"),
    "breaker-open": Case(
        "the breaker of a filter is open",
        Cause.BREAKER_OPEN,
        "its breaker is open",
        "Hangs",
        scheduler="why-hangs",
    ),
    "quota": Case(
        "the namespace has used its quota",
        Cause.REJECTED,
        "more than the max of its ElasticQuota",
        "CapacityScheduling",
        "a larger max: cpu would be",
        scheduler="why-quota",
        spec=asking("200m"),
    ),
    "binding-refused": Case(
        "the Kubernetes API refuses the Binding",
        Cause.BIND_FAILED,
        "nobody binds this pod",
        scheduler="why-demand",
        spec=needs("late", "yes"),
    ),
    "guard": Case(
        "another scheduler has filled the node, and the guard refuses the pod",
        Cause.GUARD_REFUSED,
        "Insufficient cpu",
        scheduler="why-late",
        spec=asking("600m"),
    ),
    "queue-head": Case(
        "the queue has released the pod, and the pod fits on no node",
        THEIRS,
        "Insufficient cpu",
        scheduler="why-queue",
        spec=asking("64"),
    ),
    "queue-behind": Case(
        "the pod is in kubextend's queue behind a pod that fits on no node",
        Cause.QUEUE_GATE,
        "waits for why/queue-head",
        scheduler="why-queue",
    ),
    "stands-still": Case(
        "kube-scheduler stands still", Cause.NOT_TRIED, "the profile why", scheduler="why"
    ),
    "unreached": Case(
        "kubextend is down", Cause.NOT_REACHED, "could not reach it", scheduler="why-down"
    ),
    "not-ready": Case(
        "kubextend has not listed the nodes yet",
        Cause.NOT_READY,
        "the nodes are not listed yet",
        scheduler="why-down",
    ),
    "deleted": Case("the pod is being deleted", Cause.DELETED, "nobody places it"),
    "absent": Case("nobody has created the pod", Cause.NO_SUCH_POD, "there is no pod"),
}


@dataclass(frozen=True)
class World:
    """A stack of these tests, and how to ask why."""

    stack: Stack
    plane: ControlPlane
    server: why.Server
    token: Path
    answers: dict[str, str]

    def facts(self, name: str, namespace: str = NAMESPACE) -> Facts:
        kubeconfig = str(self.plane.kubeconfig("admin"))
        return why.gathered(
            namespace, name, self.server, lambda: cluster.connect(kubeconfig), "kubextend.dev/queue"
        )

    def printed(self, name: str, *options: str) -> str:
        return run_kubextend(
            "why", name, "-n", NAMESPACE, "--config", self.stack.config,
            "--kubeconfig", self.plane.kubeconfig("admin"), *options,
            python_path=[PLUGIN_FOLDER],
        )  # fmt: skip

    def until(
        self, name: str, cause: Cause, words: str = "", namespace: str = NAMESPACE
    ) -> tuple[Explanation, Facts]:
        """Wait until the cause of a pod is this one; return the explanation and its facts."""
        last: list[tuple[Explanation, Facts]] = []

        def found() -> bool:
            facts = self.facts(name, namespace)
            last[:] = [(explain(facts), facts)]
            return last[0][0].cause is cause and words in last[0][0].sentence

        try:
            until(found, f"{name} is explained by {cause}", PATIENCE_S)
        except TimeoutError as error:
            error.add_note(f"the last explanation is {last}")
            raise
        return last[0]

    def judge(self, name: str, namespace: str = NAMESPACE) -> None:
        """Wait until `kubextend why` names the cause of a case, and look at all that it says."""
        case = CASES[name]
        found, facts = self.until(name, case.cause, case.words, namespace)
        assert found.plugin == case.plugin
        assert case.unblock in "\n".join(found.unblock)
        if PAGE:
            # By another question the cause may be over.
            capture = self.token.with_name(f"{name}.json")
            capture.write_text(json.dumps(why.captured(facts, found)))
            self.answers[name] = run_kubextend("why", "--file", capture)


@pytest.fixture(scope="module")
def answers(control_plane: ControlPlane) -> Iterator[dict[str, str]]:
    """What `kubextend why` printed for each case; the page of docs is written of it."""
    control_plane.api.create_namespace(NAMESPACE)
    printed: dict[str, str] = {}
    yield printed
    if PAGE:
        assert printed.keys() == CASES.keys()
        Path(PAGE).write_text(page_of(printed))


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Path:
    token = tmp_path_factory.mktemp("why") / "token"
    token.write_text(f"{TOKEN}\n")
    return token


@pytest.fixture(scope="module")
def world(control_plane: ControlPlane, answers: dict[str, str], token: Path) -> Iterator[World]:
    api = control_plane.api
    define(api, ELASTIC_QUOTAS)
    quotas = profile("why-quota", "CapacityScheduling")
    grant_needed(control_plane, quotas)
    stack = Stack(
        control_plane,
        "why",
        Mode(names=True),
        profile=profile("why", "HighCommPodFilter", LabelMatch=RULES),
        more_profiles=[
            profile("why-aware", "RdmaAware"),
            profile("why-gang", Coscheduling={"permitWaitingTimeSeconds": 250}),
            profile("why-demand", "OnDemand"),
            profile("why-hangs", Hangs={"seconds": HANG_S}),
            quotas,
        ],
        out_of_tree=["on_demand:OnDemand", "trouble:Hangs"],
        python_path=[PLUGIN_FOLDER],
        extender={"permitMaxWait": "300s", "httpTimeout": "5s"},
        readers=token,
    )
    pool = NodePool(api, "why", 3, cpu="2")
    big = NodePool(api, "why-big", 1, cpu="4")
    api.label_node(pool.names[1], {"liked": "yes"})
    others = [
        node("why-tainted", {POOL: "why", "tainted": "yes"}),
        node("why-cordoned", {POOL: "why", "cordoned": "yes"}),
        node("why-gang-one", {POOL: "why-gang"}, cpu="1"),
    ]
    others[0]["spec"] = {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
    others[1]["spec"] = {"unschedulable": True}
    api.create_nodes(others)
    api.label_node(big.names[0], {POOL: "why"})
    api.create_pods(NAMESPACE, [pod_of(name, CASES[name]) for name in AT_ANY_TIME])
    yield world_of(stack, control_plane, answers, token)
    api.delete_pods(NAMESPACE)
    stack.close()
    for each in (*others, *(node(name) for name in (*pool.names, *big.names))):
        api.delete_node(each["metadata"]["name"])


def world_of(stack: Stack, plane: ControlPlane, answers: dict[str, str], token: Path) -> World:
    return World(stack, plane, why.Server(stack.url, token_file=str(token)), token, answers)


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


def pod_of(name: str, case: Case, pool: str = "why") -> Object:
    made = pod(name, case.scheduler, "why-gang" if name == "gang-waits" else pool, case.labels)
    selector = {**made["spec"]["nodeSelector"], **case.spec.get("nodeSelector", {})}
    made["spec"] |= {**case.spec, "nodeSelector": selector}
    return made


@pytest.mark.parametrize("name", AT_ANY_TIME)
def test_why_names_the_true_cause(name: str, world: World) -> None:
    if name == "gang-waits":
        sibling = pod("gang-sibling", "why-gang", "nowhere", CASES[name].labels)
        world.plane.api.create_pods(NAMESPACE, [sibling])
    world.judge(name)


def test_a_capture_says_the_same_without_a_cluster(world: World, tmp_path: Path) -> None:
    world.until("label", Cause.REJECTED)
    capture = tmp_path / "capture.json"
    capture.write_text(world.printed("label", "--output", "json"))
    assert json.loads(capture.read_text())["cause"] == "Rejected"
    assert "no ssd" in run_kubextend("why", "--file", capture)
    assert TOKEN not in capture.read_text()


def test_a_pod_that_is_not_there_is_named(world: World) -> None:
    world.judge("absent")


def test_a_deleted_pod_is_said_to_be_deleted(world: World) -> None:
    api = world.plane.api
    doomed = pod("deleted", "nobody", "why")
    doomed["metadata"]["finalizers"] = ["example.com/keep"]
    api.create_pods(NAMESPACE, [doomed])
    api.delete_pod(NAMESPACE, "deleted")
    world.judge("deleted")
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/deleted"
    api.call("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)


# In one test, since only the pod whose attempt is a probe finds that the plugin hangs.
def test_a_plugin_that_hangs_is_the_cause_and_then_its_open_breaker(world: World) -> None:
    create(world, HANGS)
    world.judge(HANGS)
    create(world, "breaker-open")
    world.judge("breaker-open")


def test_a_kube_scheduler_that_stands_still_is_the_cause(world: World) -> None:
    with world.stack.paused_scheduler():
        create(world, "stands-still")
        world.judge("stands-still")


def test_a_quota_is_the_cause(world: World) -> None:
    api = world.plane.api
    api.create_namespace(QUOTA_NAMESPACE)
    with elastic_quota(api, QUOTA_NAMESPACE, {"min": {"cpu": "100m"}, "max": {"cpu": "150m"}}):
        create(world, "quota", QUOTA_NAMESPACE)
        world.judge("quota", QUOTA_NAMESPACE)
    api.delete_pods(QUOTA_NAMESPACE)


def test_a_binding_that_the_api_refuses_is_the_cause(world: World) -> None:
    api, name = world.plane.api, "binding-refused"
    with ExitStack() as policies:
        refuse_binding(api, name, policies)
        create(world, name)
        # An earlier attempt ended otherwise, and the pod's condition said so.
        world.until(name, THEIRS)
        api.label_node("why-0000", {"late": "yes"})
        world.judge(name)
        api.delete_pod(NAMESPACE, name)
        api.label_node("why-0000", {"late": None})


def refuse_binding(api: Api, name: str, policies: ExitStack) -> None:
    """Make kube-apiserver refuse the Binding of a pod until ``policies`` is left."""
    group = {"apiVersion": "admissionregistration.k8s.io/v1"}
    root = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    metadata = {"metadata": {"name": "why"}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}
    policy: Object = {
        "kind": "ValidatingAdmissionPolicy",
        "spec": {
            "matchConstraints": {"resourceRules": [{**rule, "resources": ["pods/binding"]}]},
            "validations": [
                {
                    "expression": f"object.metadata.name != '{name}'",
                    "message": "nobody binds this pod",
                }
            ],
        },
    }
    use: Object = {
        "kind": "ValidatingAdmissionPolicyBinding",
        "spec": {"policyName": "why", "validationActions": ["Deny"]},
    }
    for path, each in ((f"{root}ies", policy), (f"{root}ybindings", use)):
        apply(api, {**group, **metadata, **each})
        policies.callback(api.call, "DELETE", f"{path}/why")
    binding = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "none"}}
    binding["metadata"] = {"name": name}

    def is_refused() -> bool:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/binding"
        try:
            api.call("POST", path, binding, dryRun="All")
        except httpx.HTTPStatusError as refusal:
            return "nobody binds this pod" in str(refusal)
        return False

    until(is_refused, "the policy is in force")


def create(world: World, name: str, namespace: str = NAMESPACE, pool: str = "why") -> None:
    world.plane.api.create_pods(namespace, [pod_of(name, CASES[name], pool)])


def test_the_score_of_any_node_is_shown(world: World) -> None:
    world.until("bound-by-score", Cause.BOUND)
    printed = world.printed("bound-by-score", "--node", "why-0000")
    assert "node why-0000: passed, total 0" in printed
    assert "LabelMatch: 0 (raw 0, normalized 0)" in printed


def test_a_kubextend_that_is_down_or_sees_no_nodes_is_the_cause(
    control_plane: ControlPlane, answers: dict[str, str], token: Path
) -> None:
    api = control_plane.api
    pool = NodePool(api, "why-down", 1)
    with Door(control_plane.bench.free_port(), control_plane.port) as door:
        stack = Stack(control_plane, "why-down", Mode(names=True), api_url=door.url, readers=token)
        world = world_of(stack, control_plane, answers, token)
        stack.kill_kubextend()
        create(world, "unreached", pool=pool.name)
        world.judge("unreached")
        assert "cannot be asked" in world.facts("unreached").unreached
        door.shut()
        stack.start_kubextend()
        create(world, "not-ready", pool=pool.name)
        world.judge("not-ready")
        door.open()
        world.until("unreached", Cause.BOUND)
        world.until("not-ready", Cause.BOUND)
        stack.close()
    for name in ("unreached", "not-ready"):
        api.delete_pod(NAMESPACE, name)
    pool.delete()


@pytest.fixture(scope="module")
def late_world(
    control_plane: ControlPlane, answers: dict[str, str], token: Path
) -> Iterator[World]:
    """Run a kubextend with a guard and a queue, for one node."""
    install_queue(control_plane)
    sorting = {"queueSort": {"enabled": [{"name": "PrioritySort"}]}}
    late = profile("why-late", Room={"limit_milli": 1100, "timeout_s": 280.0})
    late["plugins"] |= sorting
    stack = Stack(
        control_plane,
        "why-late",
        Mode(names=True),
        profile=late,
        more_profiles=[{"schedulerName": "why-queue", "plugins": sorting}],
        out_of_tree=["room:Room"],
        python_path=[PLUGIN_FOLDER],
        extender={"permitMaxWait": "300s"},
        guard=True,
        queue={
            "strategy": "StrictFIFO",
            "maxHold": "1h",
            "lease": {"namespace": LEASE_NAMESPACE},
        },
        readers=token,
    )
    pool = NodePool(control_plane.api, "why-late", 1, cpu="1")
    yield world_of(stack, control_plane, answers, token)
    pool.delete()
    stack.close()
    forget_lease(control_plane.api)


def test_the_guard_is_the_cause_until_kube_scheduler_sees_the_full_node(late_world: World) -> None:
    api, stack = late_world.plane.api, late_world.stack
    create(late_world, "guard", pool="why-late")
    late_world.until("guard", Cause.PERMIT_WAITS)
    foreign = pod("foreign", "none", "why-late", cpu="600m")
    foreign["spec"]["nodeName"] = "why-late-0000"
    api.create_pods(NAMESPACE, [foreign])
    until(lambda: not stack.kept(["why-late-0000"]), "kubextend has seen that the node is full")
    with stack.paused_scheduler():
        stack.kept(["why-late-0000"], {"starts": "yes"})
        late_world.judge("guard")
    late_world.until("guard", THEIRS, "Insufficient cpu")
    for name in ("guard", "foreign"):
        api.delete_pod(NAMESPACE, name)


def test_a_head_of_the_queue_that_fits_nowhere_is_the_cause_for_those_behind(
    late_world: World,
) -> None:
    api = late_world.plane.api
    gated = {"schedulingGates": [{"name": GATE}]}
    for name in ("queue-head", "queue-behind"):
        made = pod_of(name, CASES[name], "why-late")
        made["spec"] |= gated
        api.create_pods(NAMESPACE, [made])
        late_world.judge(name)
    assert gates(api.pod(NAMESPACE, "queue-behind")) == [GATE]
    api.delete_pod(NAMESPACE, "queue-head")
    late_world.until("queue-behind", Cause.BOUND)
    api.delete_pod(NAMESPACE, "queue-behind")
