"""Extended resources that dynamic resource allocation serves, on a real control plane."""

import pytest

from .controlplane import ControlPlane
from .kubeapi import Api, NewPool, NodePool, Object, container, pod
from .stack import NewStack, Stack, grant_needed, profile
from .versions import needs
from .workbench import until
from .workload import NewWorkload, Workload

pytestmark = needs("DRAExtendedResource")
CARD = "example.com/card"
PATH = "/apis/resource.k8s.io/v1"


@pytest.fixture
def stack(control_plane: ControlPlane, new_stack: NewStack) -> Stack:
    wanted = profile("cards", "NodeResourcesFit")
    grant_needed(control_plane, wanted)
    return new_stack("cards", profile=wanted, guard=True)


def device_class() -> Object:
    selector = {"cel": {"expression": "device.driver == 'cards.example.com'"}}
    spec = {"selectors": [selector], "extendedResourceName": CARD}
    return {"metadata": {"name": "cards"}, "spec": spec}


def slice_of(node: str) -> Object:
    """Return what a driver publishes for a node with one card."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "cards.example.com", "nodeName": node, "pool": pool}
    return {"metadata": {"name": f"cards-of-{node}"}, "spec": spec | {"devices": [{"name": "c"}]}}


def ask_for_a_card(api: Api, workload: Workload, name: str, pool: NodePool) -> None:
    amounts = {"cpu": "10m", CARD: "1"}
    containers = [container(requests=amounts, limits=amounts)]
    wanted = pod(name, workload.scheduler, pool.name, containers=containers)
    api.create_pods(workload.namespace, [wanted])


def test_a_pod_gets_a_device_that_no_node_has_in_its_status(
    stack: Stack, control_plane: ControlPlane, new_pool: NewPool, new_workload: NewWorkload
) -> None:
    api = control_plane.api
    pool = new_pool("cards", 2)
    until(lambda: stack.kept(pool.names) == pool.names, "the nodes are known")
    api.call("POST", f"{PATH}/deviceclasses", device_class())
    api.call("POST", f"{PATH}/resourceslices", slice_of(pool.names[1]))
    workload = new_workload(stack, pool)
    ask_for_a_card(api, workload, "first", pool)
    # Both NodeResourcesFit and the guard, which looks again before the Binding, let the pod go on.
    assert workload.until_placed(["first"]) == {"first": pool.names[1]}
    # kube-scheduler itself knows that there is no second card.
    ask_for_a_card(api, workload, "second", pool)
    assert "cannot allocate" in workload.until_pending("second")
    assert "Insufficient" not in workload.why_pending("second")
