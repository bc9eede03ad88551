"""What Karpenter sees of kubextend's rules and of held pods: ``make autoscalers``."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from .admission_rules import installed
from .controlplane import ControlPlane, NewControlPlane
from .karpenter import Karpenter, nominations, only_on_loopback
from .kubeapi import RDMA_LABEL, NodePool
from .stack import HIGH_COMM, NO_RDMA, Mode, Scheduler, Stack, run_kubextend
from .stack import profile as stack_profile
from .versions import needs
from .workbench import until
from .workload import Workload

pytestmark = [only_on_loopback, needs("MutatingAdmissionPolicy")]

RUNS = range(10)
COMPILED, CALLED = "autoscaled-compiled", "autoscaled-called"


@pytest.fixture(scope="module")
def plane(new_control_plane: NewControlPlane) -> ControlPlane:
    """Start a control plane of its own: Karpenter looks at all pods and all nodes."""
    return new_control_plane()


@pytest.fixture(scope="module")
def karpenter(plane: ControlPlane) -> Iterator[Karpenter]:
    with Karpenter(plane) as running:
        yield running


@pytest.fixture(scope="module")
def compiled(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Put HighCommPodFilter's rule on pods, and run a kube-scheduler that knows no extender."""
    folder = tmp_path_factory.mktemp("autoscaled")
    config = folder / "kubextend.yaml"
    tree = {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "cluster": {},
        "profiles": [stack_profile(COMPILED, "HighCommPodFilter")],
    }
    config.write_text(yaml.safe_dump(tree))
    file = folder / "kube-scheduler.yaml"
    kubeconfig = str(plane.kubeconfig("system:kube-scheduler"))
    options = ("--with-admission", "--kubeconfig", kubeconfig, "--no-leader-elect")
    file.write_text(run_kubextend("scheduler-config", "--config", config, *options))
    assert yaml.safe_load(file.read_text())["extenders"] == []
    scheduler = Scheduler(plane, COMPILED, file)
    with installed(plane, config):
        yield
    scheduler.close()


@pytest.fixture(scope="module")
def called(plane: ControlPlane) -> Iterator[Stack]:
    """Run a kube-scheduler that asks kubextend about the same rule."""
    rule = stack_profile(CALLED, "HighCommPodFilter")
    running = Stack(plane, CALLED, Mode(names=True), profile=rule)
    yield running
    running.close()


class Cluster:
    """A small node without RDMA, and two pools of Karpenter, of which it prefers the one without.

    Attributes:
        old: the node that was there before.
        rdma: the name of the pool whose nodes have the label of the rule.
        plain: the name of the pool whose nodes do not have it.
    """

    def __init__(self, plane: ControlPlane, karpenter: Karpenter, name: str) -> None:
        self.old = NodePool(plane.api, name, 1, cpu="2")
        self.rdma, self.plain = f"{name}-rdma", f"{name}-plain"
        self._karpenter = karpenter
        karpenter.add_pool(self.rdma, name, {RDMA_LABEL: "true"})
        karpenter.add_pool(self.plain, name, {}, weight=50)

    def bought(self) -> tuple[int, int]:
        """Return how many nodes Karpenter bought: with RDMA, and without."""
        bought = self._karpenter.bought()
        return bought[self.rdma], bought[self.plain]

    def close(self) -> None:
        self._karpenter.remove_pool(self.rdma)
        self._karpenter.remove_pool(self.plain)
        self.old.delete()


@pytest.fixture
def cluster(
    plane: ControlPlane, karpenter: Karpenter, request: pytest.FixtureRequest, run: int
) -> Iterator[Cluster]:
    made = Cluster(plane, karpenter, f"{request.node.originalname[5:25].replace('_', '-')}-{run}")
    yield made
    made.close()


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("run", RUNS)
def test_karpenter_buys_a_node_of_the_right_pool_for_a_pod_of_a_compiled_rule(
    plane: ControlPlane, karpenter: Karpenter, cluster: Cluster, run: int
) -> None:
    workload = Workload(plane.api, f"right-pool-{run}", COMPILED, cluster.old)
    names = workload.create("chatty", 1, HIGH_COMM)
    placed = workload.until_placed(names)
    assert [*placed.values()] == karpenter.nodes(cluster.rdma)
    assert cluster.bought() == (1, 0)
    workload.close()


@pytest.mark.parametrize("run", RUNS)
def test_karpenter_does_not_see_a_rule_that_only_kubextend_knows(
    plane: ControlPlane, called: Stack, cluster: Cluster, run: int
) -> None:
    workload = Workload(plane.api, f"not-seen-{run}", called.scheduler_name, cluster.old)
    (chatty,) = workload.create("chatty", 1, HIGH_COMM)
    assert NO_RDMA in workload.until_pending(chatty)
    said = until(lambda: nominations(plane.api, workload.namespace, chatty), "Karpenter looked")
    assert said == [f"Pod should schedule on: node/{cluster.old.names[0]}"]
    # Whatever Karpenter would buy for the first pod, it buys with the node for this one, or before.
    (large,) = workload.create("large", 1, cpu="3")
    workload.until_placed([large])
    assert cluster.bought() == (0, 1)
    assert chatty not in workload.placed()
    workload.close()
