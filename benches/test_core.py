"""Measures reading a request, HighCommPodFilter and writing the answer in ``kubextend.core``."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from asked import Asked
from figures import AS_LONG, Figure
from kubextend import core
from nodes import Cluster
from pairing import Work
from remote import Stopwatch
from works import FIRST_POD, FULL, NAMES, SIZES, Case, Mode, loads, loads_without_gc, memory

_PLUGIN = core.NativePlugin.named("HighCommPodFilter")
_LIMIT_AIM = 1.3
_ORJSON_AIMS = {"full, cold": 5.0}
_GO_AIMS = {"full, cold": 15.0, "full, warm": 60.0, "names": 15.0}
_NORMALIZE_AIM = 5.0
_NORMALIZE_NODES = 15_000
_LARGEST = max(SIZES)


def answer(
    body: bytes, store: core.RequestStore | None = None, watched: core.NodeStore | None = None
) -> bytes:
    args = core.read_args(body, store, watched=watched)
    assert args.pod is not None
    assert args.nodes is not None
    return args.filter_answer(_PLUGIN.filter_nodes(args.pod, args.nodes))


def full_cold(cluster: Cluster, body: bytes) -> Work:
    del cluster
    return Work("full, cold", core.RequestStore, lambda store: answer(body, store))


def full_warm(cluster: Cluster, body: bytes) -> Work:
    store = core.RequestStore()
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


def names_mixed(cluster: Cluster, body: bytes) -> Work:
    # As kube-scheduler's threads mix them: neighbours in the request are never so in the store.
    watched = core.NodeStore()
    size = len(cluster.items)
    items = b",".join(cluster.items[at * 7 % size] for at in range(size))
    watched.replace(b'{"metadata":{"resourceVersion":"1"},"items":[' + items + b"]}")
    return Work("names, mixed", lambda: watched, lambda watched: answer(body, watched=watched))


FULL_COLD, FULL_WARM = Case(FULL, full_cold), Case(FULL, full_warm)
NAMES_WATCHED = Case(NAMES, names)
CASES = [
    pytest.param(FULL_COLD, id="full-cold"),
    pytest.param(FULL_WARM, id="full-warm"),
    pytest.param(NAMES_WATCHED, id="names"),
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
    aim = _ORJSON_AIMS.get(work.name) if size == _LARGEST else None
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
    compare(work, memory(body, work.expected), size, len(body), _LIMIT_AIM, AS_LONG)


@pytest.mark.parametrize("size", SIZES)
def test_orjson_loads_without_the_garbage_collector(
    size: int, clusters: Callable[[int], Cluster], compare: Callable[..., None]
) -> None:
    body = FULL.body(clusters(size))
    compare(loads_without_gc(body), loads(body), size, len(body))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [min(SIZES), _LARGEST])
def test_filter_beside_a_go_extender(
    size: int,
    case: Case,
    clusters: Callable[[int], Cluster],
    go: Stopwatch,
    tmp_path: Path,
    compare: Callable[..., None],
) -> None:
    cluster = clusters(size)
    theirs = Asked(cluster, case.mode, tmp_path).go_work(go)
    body = case.mode.body(cluster)
    work = case.work(cluster, body)
    aim = _GO_AIMS[work.name] if size == _LARGEST else None
    compare(work, theirs, size, len(body), aim)


@pytest.mark.parametrize("size", SIZES)
def test_names_in_another_order_than_the_stored_ones(
    size: int, clusters: Callable[[int], Cluster], compare: Callable[..., None]
) -> None:
    cluster = clusters(size)
    body = NAMES.body(cluster)
    in_order = NAMES_WATCHED.work(cluster, body)
    mixed = Case(NAMES, names_mixed).work(cluster, body)
    compare(mixed, in_order, size, len(body), None, AS_LONG)


def test_normalisation_weights_and_scaling_beside_a_request(
    clusters: Callable[[int], Cluster], compare: Callable[..., None]
) -> None:
    cluster = clusters(_NORMALIZE_NODES)
    body = NAMES.body(cluster)
    raw = core.checked_scores([row * 7 % 101 for row in range(_NORMALIZE_NODES)])

    def weighed(raw: memoryview) -> memoryview:
        return core.weigh([(core.normalize(raw), 3)])

    work = Work("normalise, weigh, scale", lambda: raw, weighed, expected=bytes(weighed(raw)))
    request = NAMES_WATCHED.work(cluster, body)
    percent = Figure(" % of it", lambda ours_s, floor_s: ours_s / floor_s * 100, at_least=False)
    compare(
        work,
        replace(request, name="names, whole request"),
        _NORMALIZE_NODES,
        len(body),
        _NORMALIZE_AIM,
        percent,
    )
