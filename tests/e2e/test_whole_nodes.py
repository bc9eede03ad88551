"""kube-scheduler's own scores are right where requests name the nodes, and wrong otherwise."""

import itertools
from collections.abc import Iterator

import pytest

from .kubeapi import Api, NodePool
from .stack import Stack
from .workload import NewWorkload

# As many that all of them land on one of two equal nodes by chance once in 500,000 runs.
PODS = 20

_numbers = itertools.count()


@pytest.fixture
def pool(api: Api) -> Iterator[NodePool]:
    """Two nodes under names that no other test has used; the tests fill the first."""
    pool = NodePool(api, f"whole-nodes-{next(_numbers)}", 2)
    yield pool
    pool.delete()


def nodes_of_small_pods(stack: Stack, pool: NodePool, new_workload: NewWorkload) -> set[str]:
    """Leave little room on the first node, of 32 cores; return the nodes where small pods go."""
    workload = new_workload(stack, pool)
    on_first = {"kubernetes.io/hostname": pool.names[0]}
    workload.until_placed(workload.create("large", 1, cpu="30", node_labels=on_first))
    return set(workload.until_placed(workload.create("small", PODS)).values())


def test_small_pods_go_to_the_free_node_where_requests_have_names(
    names_stack: Stack, pool: NodePool, new_workload: NewWorkload
) -> None:
    assert nodes_of_small_pods(names_stack, pool, new_workload) == {pool.names[1]}


def test_small_pods_go_to_the_full_node_as_well_where_requests_have_whole_nodes(
    full_stack: Stack, pool: NodePool, new_workload: NewWorkload
) -> None:
    """kube-scheduler takes the nodes of such an answer for empty: kubernetes/kubernetes#141781."""
    assert nodes_of_small_pods(full_stack, pool, new_workload) == set(pool.names)
