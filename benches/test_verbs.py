"""The same work through ``kubextend.verbs``, as a server calls it: profile, metrics and all."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from nodes import Cluster
from pairing import Work
from works import FIRST_POD, FULL, NAMES, SIZES, Mode, loads

from kubextend import app, config, core
from kubextend.verbs import Verbs


@dataclass(frozen=True)
class Watched:
    """Nodes that a watch would have brought."""

    store: core.NodeStore
    synced: bool = True

    def age_s(self) -> float | None:
        return 0.0


def verbs_of(watched: Watched | None = None) -> Verbs:
    """HighCommPodFilter for every pod of the default scheduler: the configuration of old."""
    return app.build_verbs(config.DEFAULT, watched=watched)


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
    pytest.param(FULL, full_cold, id="full-cold"),
    pytest.param(FULL, full_warm, id="full-warm"),
    pytest.param(NAMES, names, id="names"),
]


@pytest.mark.parametrize(("mode", "work_of"), CASES)
@pytest.mark.parametrize("size", SIZES)
def test_filter_beside_orjson_loads(  # noqa: PLR0913  two parameters, the rest are fixtures
    size: int,
    mode: Mode,
    work_of: Callable[[Cluster, bytes], Work],
    clusters: Callable[[int], Cluster],
    absolute: Callable[..., None],
    compare: Callable[..., None],
) -> None:
    cluster = clusters(size)
    body = mode.body(cluster)
    work = mode.checked(work_of(cluster, body), cluster)
    absolute(work, mode, size)
    compare(work, loads(body), size, len(body))
