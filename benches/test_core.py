"""Reading, HighCommPodFilter and the bytes of the answer, through ``kubextend.core`` alone."""

from collections.abc import Callable

import pytest

from kubextend import core
from nodes import Cluster
from pairing import Work
from works import FIRST_POD, FULL, NAMES, SIZES, Case, Mode, loads, loads_without_gc, memory

_PLUGIN = core.NativePlugin.named("HighCommPodFilter")
_LIMIT_AIM = 1 / 1.3
_AIMS = {"full, cold": 5.0, "full, warm": 20.0}


def answer(
    body: bytes, store: core.NodeStore | None = None, watched: core.NodeStore | None = None
) -> bytes:
    args = core.read_args(body, store, watched=watched)
    assert args.pod is not None
    assert args.nodes is not None
    return args.filter_answer(_PLUGIN.filter_nodes(args.pod, args.nodes))


def full_cold(cluster: Cluster, body: bytes) -> Work:
    del cluster
    return Work("full, cold", core.NodeStore, lambda store: answer(body, store))


def full_warm(cluster: Cluster, body: bytes) -> Work:
    store = core.NodeStore()
    answer(cluster.full_body(FIRST_POD), store)
    work = Work("full, warm", lambda: store, lambda store: answer(body, store))
    work.seconds()
    stats = store.stats()
    assert (stats.hits, stats.misses) == (len(cluster.names), len(cluster.names))
    return work


def names(cluster: Cluster, body: bytes) -> Work:
    watched = core.NodeStore()
    watched.replace(cluster.node_list())
    return Work("names", lambda: watched, lambda watched: answer(body, watched=watched))


FULL_COLD, FULL_WARM = Case(FULL, full_cold), Case(FULL, full_warm)
CASES = [
    pytest.param(FULL_COLD, id="full-cold"),
    pytest.param(FULL_WARM, id="full-warm"),
    pytest.param(Case(NAMES, names), id="names"),
]


@pytest.mark.parametrize("mode", [FULL, NAMES], ids=lambda mode: mode.name)
@pytest.mark.parametrize("size", SIZES)
def test_orjson_loads_alone(
    size: int,
    mode: Mode,
    clusters: Callable[[int], Cluster],
    absolute: Callable[..., None],
) -> None:
    absolute(loads(mode.body(clusters(size))), mode, size)


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
    aim = _AIMS.get(work.name) if size == max(SIZES) else None
    compare(work, loads(body), size, len(body), aim)


@pytest.mark.parametrize("case", CASES[:2])
@pytest.mark.parametrize("size", SIZES)
def test_filter_beside_orjson_loads_without_the_garbage_collector(
    size: int, case: Case, clusters: Callable[[int], Cluster], compare: Callable[..., None]
) -> None:
    cluster = clusters(size)
    body = FULL.body(cluster)
    compare(case.work(cluster, body), loads_without_gc(body), size, len(body))


@pytest.mark.parametrize("size", SIZES)
def test_known_nodes_beside_a_memory_compare(
    size: int, clusters: Callable[[int], Cluster], compare: Callable[..., None]
) -> None:
    cluster = clusters(size)
    body = FULL.body(cluster)
    work = FULL_WARM.work(cluster, body)
    assert work.expected is not None
    compare(work, memory(body, work.expected), size, len(body), _LIMIT_AIM)


@pytest.mark.parametrize("size", SIZES)
def test_orjson_loads_without_the_garbage_collector(
    size: int, clusters: Callable[[int], Cluster], compare: Callable[..., None]
) -> None:
    body = FULL.body(clusters(size))
    compare(loads_without_gc(body), loads(body), size, len(body))
