"""Measures what the record of decisions costs: filter with the record beside filter without it."""

from collections.abc import Callable

import pytest

from kubextend import app, config, core
from kubextend.framework.handle import ClusterPorts
from kubextend.plugins import IN_TREE
from kubextend.verbs import Verbs
from nodes import Cluster
from pairing import Work
from works import FIRST_POD, FULL, NAMES, Mode, Watched

# The aim for a request over HTTP is 1.01; in this process a request takes half of that time.
NODES = 5_000


def verbs_of(cluster: Cluster, mode: Mode, most_bytes: int) -> Verbs:
    overrides = {"server.decisions.maxBytes": most_bytes}
    loaded = config.load(None, known=IN_TREE, overrides=overrides)
    store = core.NodeStore()
    store.replace(cluster.node_list())
    watched = Watched(store) if mode is NAMES else None
    verbs = app.build_verbs(loaded, ports=ClusterPorts(nodes=watched))
    if mode is FULL:
        verbs.filter(cluster.full_body(FIRST_POD))
    return verbs


@pytest.mark.parametrize("mode", [NAMES, FULL], ids=["names", "full"])
def test_filter_with_the_record_beside_filter_without(
    mode: Mode, clusters: Callable[[int], Cluster], compare: Callable[..., None]
) -> None:
    cluster = clusters(NODES)
    body = mode.body(cluster)
    recording, silent = verbs_of(cluster, mode, 64 << 20), verbs_of(cluster, mode, 0)
    compare(
        Work("recorded", lambda: recording, lambda verbs: verbs.filter(body)),
        Work("not recorded", lambda: silent, lambda verbs: verbs.filter(body)),
        NODES,
        len(body),
    )
