"""Measures what plugins read of 50,000 pods on 5,000 nodes: counts, annotations, bytes of a pod.

CPU time is that of the thread that works. Each figure is checked against the objects themselves.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import thread_time

import pytest

import pods
from figures import MILLISECONDS, Figure
from kubextend import core
from nodes import Cluster
from report import Reading

_NODES, _PODS = 5_000, 50_000
_RUNS = 50
_CACHE_BYTES = 64 << 20
_COUNT_AIM_MS, _ANNOTATION_AIM_NS, _BYTES_AIM = 2.0, 300.0, 2_048
_NANOSECONDS = Figure(" ns of CPU a node", lambda ours_s, _: ours_s * 1e9, at_least=False)
_BYTES = Figure(" bytes a pod", lambda ours, _: ours, at_least=False)
_ZONE = "topology.kubernetes.io/zone"
_POD_MEMORY = Path(__file__).with_name("pod_memory.py")


@pytest.fixture(scope="module")
def world(clusters: Callable[[int], Cluster]) -> tuple[core.Nodes, core.PodStore, Cluster]:
    cluster = clusters(_NODES)
    nodes = core.NodeStore(details=True)
    nodes.replace(cluster.node_list())
    store = core.PodStore(details=True)
    relist = store.relist()
    for page in pods.pages(_PODS, cluster.names):
        relist.page(page)
    relist.commit()
    return nodes.select(cluster.names), store, cluster


@pytest.mark.parametrize("key", [_ZONE, "kubernetes.io/hostname"])
def test_counting_by_topology_after_each_pod(
    world: tuple[core.Nodes, core.PodStore, Cluster], add: Callable[..., None], key: str
) -> None:
    everything, store, cluster = world
    left = everything.only(core.Mask(at % 2 == 0 for at in range(_NODES)))
    values_ms: list[float] = []
    for run in range(_RUNS + 1):
        store.apply(pods.event(run, cluster.names, run + 2, f"{key[0]}{run}"))
        snapshot = store.snapshot()
        start = thread_time()
        counts = snapshot.count_by(
            key, left, "app=web", namespaces=["team-3"], terminating=False, among=everything
        )
        values_ms.append((thread_time() - start) * 1e3)
    by_value: dict[str | None, int] = {}
    labels = everything.labels(key)
    for name, value in zip(everything.names, labels, strict=True):
        here = [pod for pod in snapshot.pods_on(name) if pod.namespace == "team-3"]
        by_value[value] = by_value.get(value, 0) + len(here)
    assert list(counts) == [by_value[value] for value in labels[::2]]
    # The first call counted the pods of every node.
    what = f"pods by {key.rpartition('/')[2]}, after an event"
    add(Reading("state", _NODES, what, values_ms[1:], MILLISECONDS, _COUNT_AIM_MS))


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("volumes.kubernetes.io/controller-managed-attach-detach", "equal values"),
        ("csi.volume.kubernetes.io/nodeid", "distinct values"),
    ],
)
def test_annotations(
    world: tuple[core.Nodes, core.PodStore, Cluster],
    add: Callable[..., None],
    key: str,
    values: str,
) -> None:
    nodes, _, cluster = world
    expected = [json.loads(item)["metadata"]["annotations"].get(key) for item in cluster.items]
    elsewhere = bytearray(_CACHE_BYTES)
    values_ns: list[float] = []
    for _ in range(_RUNS):
        # A plugin finds nothing of the nodes in the processor's cache, nor where their memory is.
        assert not elsewhere.count(1)
        start = thread_time()
        found = nodes.annotations(key)
        values_ns.append((thread_time() - start) / _NODES * 1e9)
        assert found == expected
        # The next call would free the list, in the time that is measured.
        del found
    what = f"an annotation, {values}"
    add(Reading("state", _NODES, what, values_ns, _NANOSECONDS, _ANNOTATION_AIM_NS))


def test_bytes_of_a_pod_with_details(add: Callable[..., None]) -> None:
    command = [sys.executable, str(_POD_MEMORY), str(_PODS), str(_NODES), "details"]
    held, _ = map(float, subprocess.check_output(command).split())  # noqa: S603  ours
    add(Reading("state", _NODES, "memory of pods with details", [held], _BYTES, _BYTES_AIM))
