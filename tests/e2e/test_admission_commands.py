"""``kubextend admission --diff`` and the compiled RDMA example, on a real control plane."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from .admission_rules import (
    GROUP,
    RESOURCES,
    bare_pod,
    configuration,
    installed,
    is_put_on,
    made,
    profile,
)
from .controlplane import ControlPlane
from .kubeapi import MERGE, RDMA_LABEL, Api, node, placed_on
from .manifests import DEPLOY
from .stack import Scheduler, refused_kubextend, run_kubextend
from .versions import lacks, needs
from .workbench import until

RDMA = DEPLOY / "examples" / "rdma"
RULES = [{"podSelector": "job=train", "nodeSelector": "zone in (a, b)"}]

Compare = Callable[[bool], str]


@pytest.fixture
def compare(control_plane: ControlPlane, config: Path) -> Compare:
    """Return a function that compares, and checks whether the comparison succeeds."""
    kubeconfig = control_plane.kubeconfig("admin")
    command = ("admission", "--config", config, "--diff", "--kubeconfig", kubeconfig)
    return lambda same: (run_kubextend if same else refused_kubextend)(*command)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return configuration(tmp_path / "kubextend.yaml", [profile("admission-diff", RULES)])


@needs("MutatingAdmissionPolicy")
def test_what_was_written_is_what_the_cluster_has_until_somebody_changes_it(
    compare: Compare, config: Path, control_plane: ControlPlane, api: Api
) -> None:
    missing = compare(False)
    assert [line.count("is not installed") for line in missing.splitlines()[:4]] == [1] * 4
    with installed(control_plane, config, in_force=False):
        assert compare(True) == "the cluster has these admission policies\n"
        path = f"{GROUP}/{RESOURCES['ValidatingAdmissionPolicyBinding']}"
        (binding,) = api.items(path, labelSelector="kubextend.dev/admission=rules")
        weaker = {"spec": {"validationActions": ["Warn"]}}
        api.call("PATCH", f"{path}/{binding['metadata']['name']}", weaker, MERGE)
        assert "differs at spec.validationActions" in compare(False)


@lacks("MutatingAdmissionPolicy")
def test_a_cluster_that_cannot_have_the_policies_is_named(compare: Compare) -> None:
    assert "serves no MutatingAdmissionPolicy" in compare(False)


@needs("MutatingAdmissionPolicy")
def test_the_rdma_example_needs_no_extender(
    control_plane: ControlPlane, api: Api, tmp_path: Path
) -> None:
    config = RDMA / "kubextend.yaml"
    file = tmp_path / "kube-scheduler.yaml"
    kubeconfig = str(control_plane.kubeconfig("system:kube-scheduler"))
    options = ("--with-admission", "--kubeconfig", kubeconfig, "--no-leader-elect")
    file.write_text(run_kubextend("scheduler-config", "--config", config, *options))
    pods = list(yaml.safe_load_all((RDMA / "pods.yaml").read_text()))
    nodes = list(yaml.safe_load_all((RDMA / "nodes.yaml").read_text()))
    labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in nodes}
    api.create_nodes(node(name, labels[name]) for name in labels)
    scheduler = Scheduler(control_plane, "admission-rdma", file)
    try:
        with installed(control_plane, config, in_force=False):
            chatty = next(pod for pod in pods if pod["metadata"]["name"] == "chatty")
            # In force once the pod shows the rule.
            until(lambda: is_put_on(api, chatty), "the rule is put on")
            api.create_pods("default", pods)
            found = until(lambda: _placed(api, len(pods)), "both pods are placed")
            # Other tests label nodes of their own, and the rule allows those as well.
            fast = api.items("/api/v1/nodes", labelSelector=f"{RDMA_LABEL}=true")
    finally:
        scheduler.close()
        for name in ("chatty", "quiet"):
            api.delete_pod("default", name)
        for name in labels:
            api.delete_node(name)
    allowed = {each["metadata"]["name"] for each in fast}
    assert allowed >= {"rdma-100", "rdma-200"}
    assert "plain" not in allowed
    assert found["chatty"] in allowed


@needs("MutatingAdmissionPolicy")
def test_why_names_the_compiled_rule_behind_the_reason_of_kube_scheduler(
    control_plane: ControlPlane, api: Api, tmp_path: Path
) -> None:
    name = "admission-why"
    rules = [{"podSelector": "job=why", "nodeSelector": "why in (a, b)"}]
    config = configuration(tmp_path / "kubextend.yaml", [profile(name, rules)])
    file = tmp_path / "kube-scheduler.yaml"
    kubeconfig = str(control_plane.kubeconfig("system:kube-scheduler"))
    options = ("--with-admission", "--kubeconfig", kubeconfig, "--no-leader-elect")
    file.write_text(run_kubextend("scheduler-config", "--config", config, *options))
    # Nobody listens there, as no rule is left to call.
    server = f"http://127.0.0.1:{control_plane.bench.free_port()}"
    asked = ("--config", config, "--server", server, "--kubeconfig")

    def why(pod_name: str) -> str:
        return run_kubextend("why", pod_name, *asked, control_plane.kubeconfig("admin"))

    def is_named(pod_name: str, meeting: str) -> str:
        said = f"LabelMatch in the profile {name} asks for nodes why in (a, b): {meeting}"
        printed = why(pod_name)
        return printed if said in printed else ""

    api.create_nodes([node(name)])
    scheduler = Scheduler(control_plane, name, file)
    pods = []
    try:
        with installed(control_plane, config):
            pods.append(made(api, bare_pod(name, {"job": "why"}))["metadata"]["name"])
            pods.append(made(api, bare_pod(name, nodeSelector={"why": "c"}))["metadata"]["name"])
        pod_name, other = pods
        printed = until(lambda: is_named(pod_name, "no node meets that"), "the rule is named")
        assert "RejectedByKubeScheduler" in printed
        assert "LabelMatch: a node with the labels why in (a, b)" in printed
        # No rule concerns this pod, which kube-scheduler rejects for the same reason.
        told = until(lambda: _rejected(why(other)), "the other pod is rejected")
        assert "compiled" not in told
        api.label_node(name, {"why": "a"})
        until(lambda: "Bound" in why(pod_name), "the pod has a node")
    finally:
        scheduler.close()
        for each in pods:
            api.delete_pod("default", each)
        api.delete_node(name)


def _rejected(printed: str) -> str:
    return printed if "RejectedByKubeScheduler" in printed else ""


def _placed(api: Api, count: int) -> dict[str, str]:
    names = {"chatty", "quiet"}
    pods = [p for p in api.pods("default") if p["metadata"]["name"] in names]
    placed = placed_on(pods)
    return placed if len(placed) == count else {}
