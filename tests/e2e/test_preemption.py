"""A pod evicts others where filter lets it run, and nowhere else."""

from collections.abc import Iterator

import pytest

from .controlplane import ControlPlane
from .kubeapi import POOL_LABEL, NewPool, NodePool, node, pod
from .stack import HIGH_COMM, NewStack, Stack, profile
from .workload import NewWorkload, Workload

ZONE = "topology.kubernetes.io/zone"
ZONES = 8


@pytest.mark.parametrize("mode", ["names", "full"])
def test_a_high_comm_pod_evicts_one_pod_of_a_labelled_node_though_cheaper_ones_are_elsewhere(
    mode: str, new_pool: NewPool, new_workload: NewWorkload, request: pytest.FixtureRequest
) -> None:
    stack: Stack = request.getfixturevalue(f"{mode}_stack")
    calls = stack.calls("preempt")
    pool = new_pool(f"preemption-{mode}", 5, cpu="4")
    labelled = pool.names[1:3]
    pool.enable_rdma(*labelled)
    workload = new_workload(stack, pool)
    workload.fill(2, "e2e-low", HIGH_COMM)
    workload.fill(3, "e2e-lowest")
    where = workload.placed()
    before = workload.uids()
    (name,) = workload.create("urgent", 1, HIGH_COMM, cpu="1", priority_class="e2e-high")
    node = workload.until_placed([name])[name]
    evicted = [n for uid, n in before.items() if uid not in workload.uids()]
    assert node in labelled
    assert len(evicted) == 1
    assert where[evicted[0]] == node
    assert stack.calls("preempt") > calls


@pytest.fixture
def own_stack(new_stack: NewStack) -> Stack:
    """Start a kubextend that the test may kill."""
    return new_stack("preemption-down")


def test_no_pod_is_evicted_while_kubextend_is_down(
    own_stack: Stack, new_pool: NewPool, new_workload: NewWorkload
) -> None:
    """The nodes are full, so that kube-scheduler calls preempt without a call of filter before."""
    pool = new_pool(own_stack.name, 2, cpu="4")
    pool.enable_rdma(pool.names[0])
    workload = new_workload(own_stack, pool)
    workload.fill(2, "e2e-low")
    before = workload.uids()
    own_stack.kill_kubextend()
    (name,) = workload.create("urgent", 1, HIGH_COMM, cpu="1", priority_class="e2e-high")
    assert "preemption: Post" in workload.until_pending(name)
    assert before.items() <= workload.uids().items()


@pytest.fixture(scope="module")
def zone_stack(new_stack: NewStack) -> Stack:
    return new_stack(
        "zones", profile=profile("zones", "OneAppPerZone"), out_of_tree=["zones:OneAppPerZone"]
    )


@pytest.fixture(scope="module")
def zones(control_plane: ControlPlane) -> Iterator[dict[str, list[str]]]:
    """Names of the nodes of each zone; a node has room for one pod."""
    api, made = control_plane.api, {}
    for number in range(ZONES):
        zone = f"trap-{number}"
        made[zone] = [f"{zone}-{each}" for each in range(2 + number % 3)]
        api.create_nodes(node(n, {POOL_LABEL: zone, ZONE: zone}, cpu="1") for n in made[zone])
    yield made
    for zone in made:
        api.call("DELETE", "/api/v1/nodes", labelSelector=f"{POOL_LABEL}={zone}")


def test_no_pod_is_evicted_that_does_not_let_the_other_in(
    control_plane: ControlPlane,
    zone_stack: Stack,
    zones: dict[str, list[str]],
    new_workload: NewWorkload,
) -> None:
    """In each zone one node has the app's pod, and the others have cheaper ones of other apps.

    kube-scheduler offers them all, as it knows nothing of apps. Evicting a cheap one helps nobody.
    """
    workload = new_workload(zone_stack, NodePool(control_plane.api, "trap", 0))
    rivals = _fill(control_plane, workload, zones)
    before = set(workload.uids().values())
    _create(control_plane, workload, {zone: ("urgent", zone, "e2e-high") for zone in zones})
    where = workload.until_placed([f"urgent-{zone}" for zone in zones])
    gone = before - set(workload.uids().values())
    assert gone == {f"web-{zone}" for zone in zones}, "nobody else was evicted"
    assert {where[f"urgent-{zone}"] for zone in zones} == set(rivals.values())


def _fill(plane: ControlPlane, workload: Workload, zones: dict[str, list[str]]) -> dict[str, str]:
    """Every node is full. Returns where the pod of each zone's app is."""
    _create(plane, workload, {zone: ("web", zone, "e2e-low") for zone in zones})
    webs = workload.until_placed([f"web-{zone}" for zone in zones])
    cheap = {
        f"{zone}-{number}": ("cheap", zone, "e2e-lowest" if number % 2 else "")
        for zone, names in zones.items()
        for number in range(len(names) - 1)
    }
    _create(plane, workload, cheap)
    workload.until_placed([f"cheap-{name}" for name in cheap])
    return {zone: webs[f"web-{zone}"] for zone in zones}


def _create(
    plane: ControlPlane, workload: Workload, wanted: dict[str, tuple[str, str, str]]
) -> None:
    """Pods by the end of their names: what they begin with, their zone, their PriorityClass."""
    pods = []
    for name, (kind, zone, priority) in wanted.items():
        app = {"app": f"other-{name}" if kind == "cheap" else zone}
        like = {"cpu": "1", "priority_class": priority}
        pods.append(pod(f"{kind}-{name}", workload.scheduler, zone, app, **like))
    plane.api.create_pods(workload.namespace, pods)
