"""Compiled rules need no extender, and ``kubextend why`` names them, on a real control plane."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from .admission_rules import bare_pod, installed, is_put_on, made, profile
from .controlplane import ControlPlane
from .kubeapi import RDMA_LABEL, Api, node, placed_on
from .manifests import DEPLOY
from .stack import (
    Scheduler,
    configuration,
    refused_kubextend,
    run_kubextend,
    scheduler_configuration,
)
from .versions import needs
from .workbench import until

pytestmark = needs("MutatingAdmissionPolicy")

RDMA = DEPLOY / "examples" / "rdma"


@contextmanager
def scheduler_without_extender(plane: ControlPlane, name: str, config: Path) -> Iterator[None]:
    """Run the kube-scheduler of a configuration whose rules are all compiled; delete all pods."""
    written = scheduler_configuration(plane, config, "--with-admission")
    assert written["extenders"] == []
    with Scheduler(plane, name, written):
        yield
    plane.api.delete_pods("default")


def test_the_rdma_example_needs_no_extender(control_plane: ControlPlane, api: Api) -> None:
    config = RDMA / "kubextend.yaml"
    kubeconfig = control_plane.kubeconfig("admin")
    diff = ("admission", "--config", config, "--diff", "--kubeconfig", kubeconfig)
    assert refused_kubextend(*diff).count("is not installed") == 4
    pods = list(yaml.safe_load_all((RDMA / "pods.yaml").read_text()))
    nodes = api.create_nodes(yaml.safe_load_all((RDMA / "nodes.yaml").read_text()))
    with (
        scheduler_without_extender(control_plane, "admission-rdma", config),
        installed(control_plane, config, in_force=False),
    ):
        chatty = next(pod for pod in pods if pod["metadata"]["name"] == "chatty")
        assert run_kubextend(*diff) == "the cluster has these admission policies\n"
        # In force once the pod shows the rule.
        until(lambda: is_put_on(api, chatty), "the rule is put on")
        api.create_pods("default", pods)
        until(lambda: len(placed_on(api.pods("default"))) == len(pods), "both pods are placed")
        found = placed_on(api.pods("default"))
        # Other tests label nodes of their own, and the rule allows those as well.
        fast = api.items("/api/v1/nodes", labelSelector=f"{RDMA_LABEL}=true")
    for each in nodes:
        api.delete_node(each["metadata"]["name"])
    allowed = {each["metadata"]["name"] for each in fast}
    assert allowed >= {"rdma-100", "rdma-200"}
    assert "plain" not in allowed
    assert found["chatty"] in allowed


def test_why_names_the_compiled_rule_behind_the_reason_of_kube_scheduler(
    control_plane: ControlPlane, api: Api, tmp_path: Path
) -> None:
    name = "admission-why"
    rules = [{"podSelector": "job=why", "nodeSelector": "why in (a, b)"}]
    config = configuration(tmp_path / "kubextend.yaml", profile(name, rules))
    # Nobody listens there, as no rule is left to call.
    server = f"http://127.0.0.1:{control_plane.bench.free_port()}"
    asked = ("--config", config, "--server", server, "--kubeconfig")

    def why(pod: str, words: str) -> str:
        printed = run_kubextend("why", pod, *asked, control_plane.kubeconfig("admin"))
        return printed if words in printed else ""

    api.create_nodes([node(name)])
    with scheduler_without_extender(control_plane, name, config):
        with installed(control_plane, config):
            pods = bare_pod(name, {"job": "why"}), bare_pod(name, nodeSelector={"why": "c"})
            ruled, other = (made(api, pod)["metadata"]["name"] for pod in pods)
        said = f"LabelMatch in the profile {name} asks for nodes why in (a, b): no node meets that"
        printed = until(lambda: why(ruled, said), "the rule is named")
        assert "RejectedByKubeScheduler" in printed
        assert "LabelMatch: a node with the labels why in (a, b)" in printed
        # No rule concerns this pod, which kube-scheduler rejects for the same reason.
        told = until(lambda: why(other, "RejectedByKubeScheduler"), "the other pod is rejected")
        assert "compiled" not in told
        api.label_node(name, {"why": "a"})
        until(lambda: why(ruled, "Bound"), "the pod has a node")
    api.delete_node(name)
