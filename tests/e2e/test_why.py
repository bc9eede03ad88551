"""`kubextend why` names the true cause of each pod that a test keeps from its node, or puts there.

With the variable KUBEXTEND_WHY_PAGE set to a file, the tests write into it what the command prints
for each cause; docs/why-causes.md is such a file.
"""

import json
import os
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kubextend import cluster, why
from kubextend.decisions.explanation import Cause, Explanation, Facts, explain

from .controlplane import ControlPlane
from .door import Door
from .kubeapi import MERGE, RDMA_LABEL, NodePool, Object, node, pod
from .stack import PLUGIN_FOLDER, Mode, Stack, profile, run_kubextend
from .workbench import until

TOKEN = "reads-and-decides-nothing"
NAMESPACE = "why"
# The page of docs that a run with this variable writes.
PAGE = os.environ.get("KUBEXTEND_WHY_PAGE")
HANG_S = 30.0
HANGS = "hangs"
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
    HANGS: Case("a filter hangs", Cause.PLUGIN_HUNG, "in time", "Hangs", scheduler="why-hangs"),
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


# A hanging call delays the attempts of all pods.
AT_ANY_TIME = [name for name in CASES if name != HANGS]


@dataclass(frozen=True)
class World:
    """The stack of these tests, and how to ask why."""

    stack: Stack
    plane: ControlPlane
    server: why.Server
    token: Path
    printed_for: dict[str, str] = field(default_factory=dict)

    def facts(self, name: str, namespace: str = NAMESPACE) -> Facts:
        kubeconfig = str(self.plane.kubeconfig("admin"))
        return why.gathered(
            namespace, name, self.server, lambda: cluster.connect(kubeconfig), "kubextend.dev/queue"
        )

    def explained(self, name: str, namespace: str = NAMESPACE) -> Explanation:
        return explain(self.facts(name, namespace))

    def printed(self, name: str, *options: str) -> str:
        return run_kubextend(
            "why", name, "-n", NAMESPACE, "--config", self.stack.config,
            "--kubeconfig", self.plane.kubeconfig("admin"), *options,
            python_path=[PLUGIN_FOLDER],
        )  # fmt: skip

    def until(
        self, name: str, cause: Cause, words: str = "", namespace: str = NAMESPACE
    ) -> Explanation:
        """Wait until the cause of a pod is this one, and return the explanation."""
        last: list[Explanation] = []

        def found() -> Explanation | None:
            last[:] = [self.explained(name, namespace)]
            return last[0] if last[0].cause is cause and words in last[0].sentence else None

        try:
            return until(found, f"{name} is explained by {cause}", PATIENCE_S) or last[0]
        except TimeoutError as error:
            error.add_note(f"the last explanation is {last}")
            raise


@pytest.fixture(scope="module")
def world(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    token = tmp_path_factory.mktemp("why") / "token"
    token.write_text(f"{TOKEN}\n")
    api = control_plane.api
    api.create_namespace(NAMESPACE)
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
    world = World(stack, control_plane, why.Server(stack.url, token_file=str(token)), token)
    yield world
    if PAGE:
        Path(PAGE).write_text(page_of(world.printed_for))
    api.delete_pods(NAMESPACE)
    stack.close()
    for each in (*others, *(node(name) for name in (*pool.names, *big.names))):
        api.delete_node(each["metadata"]["name"])


def page_of(printed: Mapping[str, str]) -> str:
    """Return a page of docs with what the command printed for each case, by the case's name."""
    head = (
        "# Causes, and what kubextend why prints\n\n"
        "For operators: this page shows what `kubextend why` prints for each reason for which a\n"
        "pod is pending or on its node. `tests/e2e/test_why.py` causes each of them on a real\n"
        "control plane, and writes this page.\n"
    )
    cases = [CASES[name] for name in sorted(printed)]
    table = "\n".join(f"| {case.injected} | `{case.cause}` |" for case in cases)
    parts = [
        f"\n## {CASES[name].injected[0].upper()}{CASES[name].injected[1:]}\n\n```text\n"
        f"{_folded(printed[name])}```\n"
        for name in sorted(printed)
    ]
    return f"{head}\n| injected | cause |\n| --- | --- |\n{table}\n{''.join(parts)}"


def _folded(text: str) -> str:
    """Return a text whose long lines go on in the next line, as the pages of docs have it."""
    fold = textwrap.TextWrapper(
        PAGE_COLUMNS, subsequent_indent="    ", replace_whitespace=False, break_on_hyphens=False
    )
    return "".join(f"{fold.fill(line)}\n" for line in text.splitlines())


def pod_of(name: str, case: Case) -> Object:
    made = pod(name, case.scheduler, "why-gang" if name == "gang-waits" else "why", case.labels)
    selector = {**made["spec"]["nodeSelector"], **case.spec.get("nodeSelector", {})}
    made["spec"] |= {**case.spec, "nodeSelector": selector}
    return made


@pytest.mark.parametrize("name", AT_ANY_TIME)
def test_why_names_the_true_cause(name: str, world: World) -> None:
    case = CASES[name]
    if name == "gang-waits":
        sibling = pod("gang-sibling", "why-gang", "nowhere", case.labels)
        world.plane.api.create_pods(NAMESPACE, [sibling])
    judge(name, world)


def judge(name: str, world: World) -> None:
    case = CASES[name]
    found = world.until(name, case.cause, case.words)
    assert found.plugin == case.plugin
    assert case.unblock in "\n".join(found.unblock)
    if PAGE:
        world.printed_for[name] = world.printed(name)


def test_a_capture_says_the_same_without_a_cluster(world: World, tmp_path: Path) -> None:
    world.until("label", Cause.REJECTED)
    capture = tmp_path / "capture.json"
    capture.write_text(world.printed("label", "--output", "json"))
    assert json.loads(capture.read_text())["cause"] == "Rejected"
    assert "no ssd" in run_kubextend("why", "--file", capture)
    assert TOKEN not in capture.read_text()


def test_a_pod_that_is_not_there_is_named(world: World) -> None:
    assert world.explained("nobody").cause is Cause.NO_SUCH_POD


def test_a_deleted_pod_is_said_to_be_deleted(world: World) -> None:
    api = world.plane.api
    doomed = pod("doomed", "nobody", "why")
    doomed["metadata"]["finalizers"] = ["example.com/keep"]
    api.create_pods(NAMESPACE, [doomed])
    api.delete_pod(NAMESPACE, "doomed")
    assert world.explained("doomed").cause is Cause.DELETED
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/doomed"
    api.call("PATCH", path, {"metadata": {"finalizers": None}}, MERGE)


# In one test, since only the pod whose attempt is a probe finds that the plugin hangs.
def test_a_plugin_that_hangs_is_the_cause_and_then_its_open_breaker(world: World) -> None:
    api = world.plane.api
    api.create_pods(NAMESPACE, [pod_of(HANGS, CASES[HANGS])])
    judge(HANGS, world)
    api.create_pods(NAMESPACE, [pod("next", "why-hangs", "why")])
    found = world.until("next", Cause.BREAKER_OPEN)
    assert found.plugin == "Hangs"


def test_the_score_of_any_node_is_shown(world: World) -> None:
    world.until("bound-by-score", Cause.BOUND)
    printed = world.printed("bound-by-score", "--node", "why-0000")
    assert "node why-0000: passed, total 0" in printed
    assert "LabelMatch: 0 (raw 0, normalized 0)" in printed


def test_a_kubextend_that_is_down_or_sees_no_nodes_is_the_cause(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    api = control_plane.api
    token = tmp_path / "token"
    token.write_text(TOKEN)
    pool = NodePool(api, "why-down", 1)
    with Door(control_plane.bench.free_port(), control_plane.port) as door:
        stack = Stack(control_plane, "why-down", Mode(names=True), api_url=door.url, readers=token)
        server = why.Server(stack.url, token_file=str(token))
        world = World(stack, control_plane, server, token)
        stack.kill_kubextend()
        api.create_pods("default", [pod("down", "why-down", pool.name)])
        down = world.until("down", Cause.NOT_REACHED, namespace="default")
        assert "could not reach it" in down.sentence
        assert "cannot be asked" in world.facts("down", "default").unreached
        door.shut()
        stack.start_kubextend()
        blind = world.until("down", Cause.NOT_READY, namespace="default")
        assert "the nodes are not listed yet" in blind.sentence
        door.open()
        world.until("down", Cause.BOUND, namespace="default")
        stack.close()
    api.delete_pod("default", "down")
    pool.delete()
