"""The nodes of a pod with compiled rules are those that LabelMatch keeps: random rules and pods.

kube-scheduler's own code for node affinity judges the pods that the real kube-apiserver returned;
for a part of them, the real kube-scheduler does.
"""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from .admission_rules import PODS, bare_pod, configuration, installed
from .affinity_model import Object, without_empty
from .controlplane import ControlPlane
from .kubeapi import Api, condition, node
from .random_rules import (
    NODES,
    Case,
    LabelMatch,
    build_judge,
    judged,
    points,
    random_cases,
    random_profile,
)
from .stack import Scheduler, run_kubextend
from .versions import needs
from .workbench import until

pytestmark = needs("MutatingAdmissionPolicy")

RULE_SETS = 20
PODS_OF_A_SET = 100


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_judge(tmp_path_factory.mktemp("judge"))


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
