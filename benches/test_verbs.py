"""Measures filter through ``kubextend.verbs``, as the server calls it, with profile and metrics."""

from collections.abc import Callable

import pytest

from kubextend import app, config, core
from kubextend.framework.handle import ClusterPorts
from kubextend.plugins import IN_TREE
from kubextend.verbs import Verbs
from nodes import Cluster
from pairing import Work
from works import FIRST_POD, FULL, NAMES, SIZES, Case, Watched, loads


def verbs_of(watched: Watched | None = None) -> Verbs:
    """Make the verbs of the default configuration, which runs HighCommPodFilter alone."""
    return app.build_verbs(config.load(None, known=IN_TREE), ports=ClusterPorts(nodes=watched))


def full_cold(cluster: Cluster, body: bytes) -> Work:
    del cluster
    return Work("full, cold", verbs_of, lambda verbs: verbs.filter(body))


def full_warm(cluster: Cluster, body: bytes) -> Work:
    verbs = verbs_of()
    verbs.filter(cluster.full_body(FIRST_POD))
    return Work("full, warm", lambda: verbs, lambda verbs: verbs.filter(body))


def names(cluster: Cluster, body: bytes) -> Work:
    store = core.NodeStore()
    store.replace(cluster.node_list())
    verbs = verbs_of(Watched(store))
    return Work("names", lambda: verbs, lambda verbs: verbs.filter(body))


CASES = [
    pytest.param(Case(FULL, full_cold), id="full-cold"),
    pytest.param(Case(FULL, full_warm), id="full-warm"),
    pytest.param(Case(NAMES, names), id="names"),
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", SIZES)
def test_filter_beside_orjson_loads(
    size: int,
    case: Case,
    clusters: Callable[[int], Cluster],
    absolute: Callable[..., None],
    compare: Callable[..., None],
) -> None:
    cluster = clusters(size)
    body = case.mode.body(cluster)
    work = case.work(cluster, body)
    absolute(work, case.mode, size)
    compare(work, loads(body), size, len(body))
