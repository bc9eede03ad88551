"""kube-scheduler's own scores are right where requests name the nodes, and wrong otherwise."""

import itertools
from collections.abc import Iterator

import pytest

from .kubeapi import Api, NodePool
from .stack import Stack
from .workload import NewWorkload, Workload

# As many that all of them land on one of two equal nodes by chance once in 500,000 runs.
PODS = 20

_numbers = itertools.count()


@pytest.fixture
def pool(api: Api) -> Iterator[NodePool]:
    """Two nodes under names that no other test has used; the tests fill the first."""
    pool = NodePool(api, f"whole-nodes-{next(_numbers)}", 2)
    yield pool
    pool.delete()


def fill(workload: Workload, node: str) -> None:
    """Leave little room on a node of 32 cores."""
    on_it = {"kubernetes.io/hostname": node}
    workload.until_placed(workload.create("large", 1, cpu="30", node_labels=on_it))


def test_small_pods_go_to_the_free_node_where_requests_have_names(
    names_stack: Stack, pool: NodePool, new_workload: NewWorkload
) -> None:
    workload = new_workload(names_stack, pool)
    fill(workload, pool.names[0])
    nodes = workload.until_placed(workload.create("small", PODS))
    assert set(nodes.values()) == {pool.names[1]}


def test_small_pods_go_to_the_full_node_as_well_where_requests_have_whole_nodes(
    full_stack: Stack, pool: NodePool, new_workload: NewWorkload
) -> None:
    """kube-scheduler takes the nodes of such an answer for empty: kubernetes/kubernetes#141781."""
    workload = new_workload(full_stack, pool)
    fill(workload, pool.names[0])
    nodes = workload.until_placed(workload.create("small", PODS))
    assert set(nodes.values()) == set(pool.names)
