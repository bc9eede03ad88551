"""The nodes of a pod with compiled rules are those that LabelMatch keeps: random rules and pods.

kube-scheduler's own code for node affinity judges the pods that the real kube-apiserver returned;
for a part of them, the real kube-scheduler does.
"""

import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from kubextend import app, core, discovery

from .admission_rules import PODS, bare_pod, configuration, installed, profile
from .affinity_model import Object, random_affinity, without_empty
from .controlplane import ROOT, ControlPlane
from .kubeapi import Api, condition, node
from .stack import Scheduler, run_kubextend
from .versions import needs
from .workbench import until

pytestmark = needs("MutatingAdmissionPolicy")

RULE_SETS = 20
PODS_OF_A_SET = 100
POD_KEYS = ("job", "team", "size")
POD_VALUES = ("a", "b", "7", "16", "007", "9223372036854775808", "x" * 63)
NODES = [
    {"metadata": {"name": f"n{number}", "labels": labels}}
    for number, labels in enumerate(
        [
            {},
            {"zone": "a"},
            {"zone": "b", "disk": "a"},
            {"zone": "", "spot": "a", "example.com/gpus": "8"},
            {"disk": "b", "example.com/gpus": "16"},
            {"zone": "a", "disk": "7", "spot": "", "example.com/gpus": "007"},
            {"zone": "7", "example.com/gpus": "many"},
            {"zone": "a", "example.com/gpus": "99999999999999999999"},
        ]
    )
]


def random_selector(chance: random.Random, keys: Sequence[str], values: Sequence[str]) -> str:
    """Return a selector with every operator that there is, and at times an empty one."""
    return ", ".join(_requirement(chance, keys, values) for _ in range(chance.randint(0, 3)))


def _requirement(chance: random.Random, keys: Sequence[str], values: Sequence[str]) -> str:
    key = chance.choice(keys)
    some = ",".join(chance.choices(values, k=chance.randint(1, 3)))
    one, number = chance.choice(values), chance.randint(0, 20)
    forms = (key, f"!{key}", f"{key}={one}", f"{key}=={one}", f"{key}!={one}")
    more = (f"{key} in ({some})", f"{key} notin ({some})", f"{key}>{number}", f"{key}<{number}")
    return chance.choice((*forms, *more))


def random_profile(chance: random.Random, name: str) -> Object:
    node_keys, node_values = ("zone", "disk", "spot", "example.com/gpus"), ("", "a", "b", "7")

    def selectors() -> Object:
        pods = random_selector(chance, POD_KEYS, POD_VALUES)
        return {
            "podSelector": pods,
            "nodeSelector": random_selector(chance, node_keys, node_values),
        }

    filters = [selectors() for _ in range(chance.randint(1, 4))]
    scores = [{**selectors(), "score": chance.randint(0, 25)} for _ in range(chance.randint(0, 4))]
    return profile(name, filters, scores)


class Case(NamedTuple):
    """A random pod of a random rule set."""

    scheduler: str
    labels: Object
    affinity: Object | None

    def pod(self) -> Object:
        spec = {} if self.affinity is None else {"affinity": self.affinity}
        return bare_pod(self.scheduler, self.labels, **spec)


def random_cases(chance: random.Random, scheduler: str, count: int) -> list[Case]:
    return [
        Case(
            scheduler,
            {k: chance.choice(POD_VALUES) for k in POD_KEYS if chance.random() < 0.6},
            random_affinity(chance),
        )
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that asks kube-scheduler's own code."""
    program = tmp_path_factory.mktemp("judge") / "affinity_judge"
    command = ["go", "build", "-o", program, "./affinity_judge"]
    subprocess.run(command, cwd=ROOT / "tests" / "go", check=True)
    return program


def judged(judge: Path, pods: Sequence[Object]) -> list[Object]:
    """Return what kube-scheduler's code says about each pod and all nodes."""
    asked = "\n".join(json.dumps({"pod": pod, "nodes": NODES}) for pod in pods)
    done = subprocess.run([judge], input=asked, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


class LabelMatch:
    """The answers of LabelMatch's verbs, without admission."""

    def __init__(self, config: Path) -> None:
        tree = yaml.safe_load(config.read_text())
        del tree["cluster"]
        whole = config.with_name("whole-nodes.yaml")
        whole.write_text(json.dumps(tree))
        self._verbs = app.build_verbs(discovery.load(whole))

    def keeps(self, pod: Object) -> list[bool]:
        answer = json.loads(bytes(self._verbs.filter(self._request(pod))))
        kept = {each["metadata"]["name"] for each in answer["Nodes"]["items"] or ()}
        return [each["metadata"]["name"] in kept for each in NODES]

    @staticmethod
    def _request(pod: Object) -> bytes:
        named = {**pod, "metadata": {**pod["metadata"], "name": "p", "namespace": "default"}}
        request = {"Pod": named, "Nodes": {"metadata": {}, "items": NODES}, "NodeNames": None}
        return json.dumps(request).encode()


def points(rules: Sequence[Object], labels: Object) -> list[int]:
    """Return the points of each node for a pod, rule by rule; points for all nodes are left out."""
    matching = [
        rule
        for rule in rules
        if rule["nodeSelector"] and core.Selector(rule["podSelector"]).matches(labels)
    ]
    return [
        sum(
            rule["score"]
            for rule in matching
            if core.Selector(rule["nodeSelector"]).matches(each["metadata"]["labels"])
        )
        for each in NODES
    ]


def test_2000_compiled_pods_may_run_where_label_match_lets_them(
    control_plane: ControlPlane, api: Api, judge: Path, tmp_path: Path
) -> None:
    chance = random.Random(2000)
    names = [f"admission-set-{number}" for number in range(RULE_SETS)]
    profiles = [random_profile(chance, name) for name in names]
    cases = [case for name in names for case in random_cases(chance, name, PODS_OF_A_SET)]
    config = configuration(tmp_path / "kubextend.yaml", profiles)
    called = LabelMatch(config)
    scores = {p["schedulerName"]: p["pluginConfig"][0]["args"]["scores"] for p in profiles}
    pods = [case.pod() for case in cases]
    with installed(control_plane, config):
        compiled = api.create_all(f"{PODS}?dryRun=All", pods)
    own, found = judged(judge, pods), judged(judge, compiled)
    changed = 0
    for case, pod, before, after, shown in zip(cases, pods, own, found, compiled, strict=True):
        both = [a and b for a, b in zip(before["allowed"], called.keeps(pod), strict=True)]
        assert after["allowed"] == both, (case, shown["spec"].get("affinity"))
        wanted = points(scores[case.scheduler], case.labels)
        both_scores = [a + b for a, b in zip(before["scores"], wanted, strict=True)]
        assert after["scores"] == both_scores, (case, shown["spec"].get("affinity"))
        changed += shown["spec"].get("affinity") != without_empty(case.affinity)
    assert changed > len(cases) / 4


def test_kube_scheduler_itself_places_compiled_pods_where_label_match_lets_them(
    control_plane: ControlPlane, api: Api, tmp_path: Path
) -> None:
    chance = random.Random(36)
    names = [f"admission-placed-{number}" for number in range(3)]
    profiles = [random_profile(chance, name) for name in names]
    cases = [case for name in names for case in random_cases(chance, name, 5)]
    config = configuration(tmp_path / "kubextend.yaml", profiles)
    called = LabelMatch(config)
    file = tmp_path / "kube-scheduler.yaml"
    kubeconfig = str(control_plane.kubeconfig("system:kube-scheduler"))
    options = ("--with-admission", "--kubeconfig", kubeconfig, "--no-leader-elect")
    file.write_text(run_kubextend("scheduler-config", "--config", config, *options))
    # No kubextend runs, and kube-scheduler knows of none.
    assert yaml.safe_load(file.read_text())["extenders"] == []
    api.create_nodes(
        node(each["metadata"]["name"], {**each["metadata"]["labels"], POOL: "yes"})
        for each in NODES
    )
    scheduler = Scheduler(control_plane, "admission-placed", file)
    try:
        with installed(control_plane, config):
            made = [_on_each_node(api, case) for case in cases]
            found = [_allowed(api, pods) for pods in made]
        api.delete_pods("default")
    finally:
        scheduler.close()
        api.call("DELETE", "/api/v1/nodes", labelSelector=POOL)
    for case, allowed in zip(cases, found, strict=True):
        bare = bare_pod(case.scheduler, case.labels)
        assert allowed == called.keeps(bare), case


POOL = "e2e.kubextend.dev/admission"


def _on_each_node(api: Api, case: Case) -> list[str]:
    """Create a pod for each node that may run there only; return the names of the pods."""
    pods = [
        bare_pod(case.scheduler, case.labels, nodeSelector={HOST: each["metadata"]["name"]})
        for each in NODES
    ]
    return [pod["metadata"]["name"] for pod in api.create_all(PODS, pods)]


HOST = "kubernetes.io/hostname"


def _allowed(api: Api, names: Sequence[str]) -> list[bool]:
    """Wait until kube-scheduler has tried every pod; return which pods are placed."""

    def tried() -> list[Object]:
        pods = [api.pod("default", name) for name in names]
        done = all(condition(pod, "PodScheduled") for pod in pods)
        return pods if done else []

    pods = until(tried, "kube-scheduler has tried every pod")
    return [bool(pod["spec"].get("nodeName")) for pod in pods]
