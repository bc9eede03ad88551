"""What Karpenter sees of kubextend's rules and of held pods."""

from collections.abc import Iterator
from functools import partial
from itertools import count

import pytest

from .admission_rules import installed
from .controlplane import ControlPlane
from .karpenter import Karpenter, nominations
from .kubeapi import MERGE, RDMA_LABEL, Api, NodePool, Object, condition, placed_on, pod
from .stack import (
    HIGH_COMM,
    NO_RDMA,
    NewStack,
    Scheduler,
    Stack,
    configuration,
    profile,
    scheduler_configuration,
)
from .versions import needs
from .workbench import until
from .workload import Workload

_numbers = count()

pytestmark = needs("MutatingAdmissionPolicy")

RUNS = range(10)
COMPILED, CALLED = "autoscaled-compiled", "autoscaled-called"
MARKED, UNMARKED = "autoscaled-marked", "autoscaled-unmarked"
# The namespace in which Stack.kept asks about pods.
NAMESPACE = "default"
# No wait in Permit ends by its time.
PATIENT_S = 280


@pytest.fixture(scope="module")
def karpenter(own_plane: ControlPlane) -> Iterator[Karpenter]:
    with Karpenter(own_plane) as running:
        yield running


@pytest.fixture(scope="module")
def compiled(own_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Put HighCommPodFilter's rule on pods, and run a kube-scheduler that knows no extender."""
    file = tmp_path_factory.mktemp("autoscaled") / "kubextend.yaml"
    config = configuration(file, profile(COMPILED, "HighCommPodFilter"))
    written = scheduler_configuration(own_plane, config, "--with-admission")
    assert written["extenders"] == []
    with Scheduler(own_plane, COMPILED, written), installed(own_plane, config):
        yield


@pytest.fixture(scope="module")
def called(own_plane: ControlPlane, new_stack: NewStack) -> Stack:
    """Run a kube-scheduler that asks kubextend about the same rule."""
    return new_stack(CALLED, plane=own_plane, profile=profile(CALLED, "HighCommPodFilter"))


class Cluster:
    """A small node without RDMA, and two pools of Karpenter, which prefers the one without."""

    def __init__(self, own_plane: ControlPlane, karpenter: Karpenter, name: str) -> None:
        # Karpenter looks at all pods and all nodes of the control plane.
        self.old = NodePool(own_plane.api, name, 1, cpu="2")
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
def cluster(own_plane: ControlPlane, karpenter: Karpenter) -> Iterator[Cluster]:
    made = Cluster(own_plane, karpenter, f"cluster-{next(_numbers)}")
    yield made
    made.close()


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("run", RUNS)
def test_karpenter_buys_a_node_of_the_right_pool_for_a_pod_of_a_compiled_rule(
    own_plane: ControlPlane, karpenter: Karpenter, cluster: Cluster, run: int
) -> None:
    workload = Workload(own_plane.api, f"right-pool-{run}", COMPILED, cluster.old)
    names = workload.create("chatty", 1, HIGH_COMM)
    placed = workload.until_placed(names)
    assert [*placed.values()] == karpenter.nodes(cluster.rdma)
    assert cluster.bought() == (1, 0)
    workload.close()


@pytest.mark.parametrize("run", RUNS)
def test_karpenter_does_not_see_a_rule_that_only_kubextend_knows(
    own_plane: ControlPlane, called: Stack, cluster: Cluster, run: int
) -> None:
    workload = Workload(own_plane.api, f"not-seen-{run}", called.scheduler_name, cluster.old)
    (chatty,) = workload.create("chatty", 1, HIGH_COMM)
    assert NO_RDMA in workload.until_pending(chatty)
    said = until(lambda: nominations(own_plane.api, workload.namespace, chatty), "Karpenter looked")
    assert said == [f"Pod should schedule on: node/{cluster.old.names[0]}"]
    # Whatever Karpenter would buy for the first pod, it buys with the node for this one, or before.
    (large,) = workload.create("large", 1, cpu="3")
    workload.until_placed([large])
    assert cluster.bought() == (0, 1)
    assert chatty not in workload.placed()
    workload.close()


def coscheduling(
    new_stack: NewStack, own_plane: ControlPlane, name: str, **sections: Object
) -> Stack:
    gangs = profile(name, Coscheduling={"permitWaitingTimeSeconds": PATIENT_S})
    wait = {"permitMaxWait": "300s"}
    return new_stack(name, plane=own_plane, profile=gangs, extender=wait, sections=sections)


@pytest.fixture(scope="module")
def marked(own_plane: ControlPlane, new_stack: NewStack) -> Stack:
    """Run a kubextend that marks held pods."""
    return coscheduling(new_stack, own_plane, MARKED, autoscaler={"name": "Karpenter"})


@pytest.fixture(scope="module")
def unmarked(own_plane: ControlPlane, new_stack: NewStack) -> Stack:
    """Run a kubextend that knows of no autoscaler."""
    return coscheduling(new_stack, own_plane, UNMARKED)


class Gangs:
    """Ten gangs of two pods, each with a pool of Karpenter's of its own, and a pool without a gang.

    The first member of each gang gets a node that is there, and Permit holds it until the last
    member has a node, too. With ``spare``, the first member fits on a second node, too, which
    Karpenter tries first.
    """

    def __init__(
        self, api: Api, karpenter: Karpenter, stack: Stack, *, spare: bool = False
    ) -> None:
        name = f"gangs-{next(_numbers)}"
        self._api = api
        self._karpenter = karpenter
        self._stack = stack
        self.pools = [f"{name}-{run}" for run in RUNS]
        self.other = f"{name}-other"
        self._all_pools = [*self.pools, self.other]
        self._late_pools: list[str] = []
        for pool in self._all_pools:
            karpenter.add_pool(pool, pool, {})
        # On one node there is no room for both.
        self._fillers = [f"filler-{name}" for name in (["a", "b"] if spare else ["a"])]
        fillers = [f"{filler}-{pool}" for filler in self._fillers for pool in self._all_pools]
        cpu = "2" if spare else "1"
        for filler in self._fillers:
            self._create(*(self._pod(f"{filler}-{p}", p, cpu) for p in self._all_pools))
        placed = self.until_placed(*fillers)
        nodes = {p: sorted(placed[f"{f}-{p}"] for f in self._fillers) for p in self._all_pools}
        self._first_nodes = {pool: nodes[pool][-1] for pool in self._all_pools}
        if spare:
            # Karpenter tries nodes in the order of their names, and kube-scheduler chooses the one
            # with the most room.
            self._fillers.append("filler-c")
            self._create(*(self._on(f"filler-c-{p}", p, nodes[p][0]) for p in self._all_pools))
            self.until_placed(*(f"filler-c-{p}" for p in self._all_pools))

    def begin(self) -> None:
        """Create the gangs, and wait until Permit holds the first member of each.

        The last member of a gang needs a node of a pool that there is not yet.
        """
        self._create(*(self._pod(f"last-{p}", f"late-{p}", "3", _gang(p)) for p in self.pools))
        for pool in self.pools:
            # Otherwise the first member could be rejected, and be unschedulable before it is held.
            node, labels = self._first_nodes[pool], _gang(pool)
            until(partial(self._stack.kept, [node], labels), "kubextend knows the last member")
        self._create(*(self._pod(f"first-{p}", p, "1500m", _gang(p)) for p in self.pools))
        until(lambda: all(map(self._is_held, self.pools)), "the first members are held")

    def add_members(self) -> None:
        """Create one more member of each gang, for which the first member leaves too little room.

        With the first member, the new one is enough for the gang.
        """
        self._create(*(self._pod(f"more-{p}", p, "2500m", _gang(p)) for p in self.pools))

    def until_marked(self) -> None:
        until(lambda: all(map(self._is_marked, self.pools)), "the held pods are marked")

    def empty_the_nodes(self) -> None:
        """Delete the pods that are bound, and wait until Karpenter has removed the other nodes."""
        for pool in self._all_pools:
            for filler in self._fillers:
                self._api.delete_pod(NAMESPACE, f"{filler}-{pool}")
        until(lambda: not self._karpenter.nodes(self.other), "the other nodes are gone")

    def nominate(self) -> None:
        """Say in the status of each first member for which node it is held."""
        for pool in self.pools:
            path = f"/api/v1/namespaces/{NAMESPACE}/pods/first-{pool}/status"
            status = {"status": {"nominatedNodeName": self._first_nodes[pool]}}
            self._api.call("PATCH", path, status, MERGE)

    def bind_all(self) -> None:
        """Let Karpenter buy nodes for the last members, and wait until both are bound."""
        for late in (f"late-{pool}" for pool in self.pools):
            self._late_pools.append(late)
            self._karpenter.add_pool(late, late, {})
        self.until_bound("first", "last")

    def until_bound(self, *members: str) -> None:
        """Wait until these members of every gang are bound, to nodes that exist."""
        placed = self.until_placed(*(f"{each}-{p}" for each in members for p in self.pools))
        there = {each["metadata"]["name"] for each in self._api.items("/api/v1/nodes")}
        assert {*placed.values()} <= there

    def add_witness(self) -> None:
        """Create a pod for a node that is not there, and wait until Karpenter has bought the node.

        Whatever Karpenter would buy for the new members, it buys with this node, or before.
        """

        def are_unschedulable() -> bool:
            pods = [self._api.pod(NAMESPACE, f"more-{pool}") for pool in self.pools]
            return all(condition(p, "PodScheduled").get("reason") == "Unschedulable" for p in pods)

        until(are_unschedulable, "kube-scheduler has no node for the new members")
        self._create(self._pod("witness", self.other, "3500m"))
        self.until_placed("witness")

    def placed(self) -> dict[str, str]:
        return placed_on(self._api.pods(NAMESPACE))

    def kept(self) -> list[str]:
        """Return the pools whose first node is still there."""
        return [p for p in self.pools if self._first_nodes[p] in self._karpenter.nodes(p)]

    def bought(self) -> list[tuple[int, int]]:
        """Return how many nodes Karpenter ever bought for each gang, and how many for its last."""
        bought = self._karpenter.bought()
        return [(bought[pool], bought[f"late-{pool}"]) for pool in self.pools]

    def nominated(self) -> set[bool]:
        """Return whether Karpenter said that the new members should be on the first nodes."""
        return {
            said.endswith(f"node/{self._first_nodes[pool]}")
            for pool in self.pools
            for said in nominations(self._api, NAMESPACE, f"more-{pool}")
        }

    def close(self) -> None:
        self._api.delete_pods(NAMESPACE)
        until(lambda: not self._api.pods(NAMESPACE), "the pods are gone")
        for pool in (*self._all_pools, *self._late_pools):
            self._karpenter.remove_pool(pool)

    def until_placed(self, *names: str) -> dict[str, str]:
        until(lambda: {*names} <= self.placed().keys(), "the pods are placed")
        return self.placed()

    def _is_held(self, pool: str) -> bool:
        events = self._api.items(f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events")
        about = (e for e in events if e["regarding"].get("name") == f"first-{pool}")
        return any(event["reason"] == "WaitingOnPermit" for event in about)

    def _is_marked(self, pool: str) -> bool:
        found = condition(self._api.pod(NAMESPACE, f"first-{pool}"), "PodScheduled")
        held = f"held for node {self._first_nodes[pool]},"
        return found.get("reason") == "Unschedulable" and held in found["message"]

    def _on(self, name: str, place: str, node: str) -> Object:
        """Make a small pod that is on a node from the start."""
        made = self._pod(name, place, "300m")
        made["spec"]["nodeName"] = node
        return made

    def _pod(self, name: str, place: str, cpu: str, labels: Object | None = None) -> Object:
        return pod(name, self._stack.scheduler_name, place, labels, cpu=cpu)

    def _create(self, *pods: Object) -> None:
        self._api.create_pods(NAMESPACE, list(pods))


def _gang(name: str) -> Object:
    return {
        "scheduling.x-k8s.io/pod-group": name,
        "pod-group.scheduling.sigs.k8s.io/min-available": "2",
    }


@pytest.fixture
def marked_gangs(own_plane: ControlPlane, karpenter: Karpenter, marked: Stack) -> Iterator[Gangs]:
    gangs = Gangs(own_plane.api, karpenter, marked)
    gangs.begin()
    gangs.until_marked()
    yield gangs
    gangs.close()


@pytest.fixture
def unmarked_gangs(
    own_plane: ControlPlane, karpenter: Karpenter, unmarked: Stack
) -> Iterator[Gangs]:
    gangs = Gangs(own_plane.api, karpenter, unmarked)
    gangs.begin()
    yield gangs
    gangs.close()


@pytest.mark.parametrize("run", RUNS)
def test_karpenter_keeps_the_nodes_of_marked_pods_while_it_removes_empty_ones(
    marked_gangs: Gangs, run: int
) -> None:
    marked_gangs.empty_the_nodes()
    assert marked_gangs.kept() == marked_gangs.pools
    marked_gangs.bind_all()
    assert {*marked_gangs.bought()} == {(1, 1)}


def test_karpenter_removes_the_nodes_of_unmarked_pods_and_buys_others(
    unmarked_gangs: Gangs,
) -> None:
    unmarked_gangs.empty_the_nodes()
    until(lambda: not unmarked_gangs.kept(), "the nodes of the held pods are gone")
    unmarked_gangs.bind_all()
    # More, if Karpenter removes a node of a pod that is held again before the gang is complete.
    assert all(first >= 2 and last >= 1 for first, last in unmarked_gangs.bought())


def test_karpenter_removes_the_node_of_a_marked_pod_that_fits_on_another_one_too(
    own_plane: ControlPlane, karpenter: Karpenter, marked: Stack
) -> None:
    gangs = Gangs(own_plane.api, karpenter, marked, spare=True)
    gangs.begin()
    gangs.until_marked()
    gangs.empty_the_nodes()
    until(lambda: not gangs.kept(), "the nodes of the held pods are gone")
    gangs.bind_all()
    assert {*gangs.bought()} == {(2, 1)}
    gangs.close()


def test_karpenter_removes_the_node_of_a_marked_pod_with_a_nominated_node(
    marked_gangs: Gangs,
) -> None:
    marked_gangs.nominate()
    marked_gangs.empty_the_nodes()
    until(lambda: not marked_gangs.kept(), "the nodes of the held pods are gone")


def test_karpenter_buys_a_node_for_a_member_if_a_marked_pod_takes_the_room(
    marked_gangs: Gangs,
) -> None:
    marked_gangs.add_members()
    marked_gangs.until_bound("first", "more")
    assert {*marked_gangs.bought()} == {(2, 0)}


def test_karpenter_gives_the_room_of_an_unmarked_pod_to_another_member(
    unmarked_gangs: Gangs,
) -> None:
    unmarked_gangs.add_members()
    unmarked_gangs.add_witness()
    assert {*unmarked_gangs.bought()} == {(1, 0)}
    assert not [name for name in unmarked_gangs.placed() if name.startswith("more-")]
    assert unmarked_gangs.nominated() == {True}
