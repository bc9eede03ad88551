"""Measures 150,000 pods on 15,000 nodes: lists, events, queries by label, and who waits.

CPU time is that of the thread that works; of a server, that of its process. The tests also check
the stored pods and the answers.
"""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import pytest

import pods
from asked import Asked
from figures import AS_LONG_AT_P99, MILLISECONDS, Figure
from kubextend import core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import ClusterPorts, Handle
from kubextend.framework.status import Code
from kubextend.plugins.coscheduling import Coscheduling, CoschedulingArgs
from kubextend.profile import WaitingPods
from nodes import Cluster
from pairing import Work
from remote import Stopwatch
from report import Reading
from servers import FILTER_AND_SCORE, Servers
from test_tail import Relist, UnderLoad
from works import FIRST_POD, NAMES

_NODES, _PODS = 15_000, 150_000
_EVENTS = 2_000
_RUNS = 5
_GANG = 1_000
_CALLS = 100
_COLD_AIM_S, _WAIT_AIM_MS, _P99_AIM = 6.0, 5.0, 2.0
_PERMIT_AIM_MS = 0.2
_EVENT_AIM_US, _LABELLED_AIM_MS, _BYTES_AIM, _LEFT_AIM = 30.0, 1.0, 1_200, 100
_SECONDS = Figure(" s of CPU", lambda ours_s, _: ours_s, at_least=False)
_MICROSECONDS = Figure(" us of CPU", lambda ours_s, _: ours_s * 1e6, at_least=False)
_BYTES = Figure(" bytes a pod", lambda ours, _: ours, at_least=False)
_POD_MEMORY = Path(__file__).with_name("pod_memory.py")


@pytest.fixture(scope="module")
def world(clusters: Callable[[int], Cluster]) -> tuple[core.NodeStore, core.PodStore, Cluster]:
    cluster = clusters(_NODES)
    nodes = core.NodeStore()
    nodes.replace(cluster.node_list())
    store = core.PodStore()
    _listed(store, cluster.names).commit()
    assert len(store) == len(store.snapshot()) == _PODS
    return nodes, store, cluster


def test_a_cold_start(clusters: Callable[[int], Cluster], add: Callable[..., None]) -> None:
    cluster = clusters(_NODES)
    node_list = cluster.node_list()
    nodes, store = core.NodeStore(), core.PodStore()
    with _cpu() as times_s:
        nodes.replace(node_list)
    relist = store.relist()
    for page in pods.pages(_PODS, cluster.names):
        with _cpu(times_s):
            relist.page(page)
    with _cpu(times_s):
        relist.commit()
    assert len(nodes) == _NODES
    assert len(store) == len(store.snapshot()) == _PODS
    add(Reading("scale", _NODES, "list all, cold", [sum(times_s)], _SECONDS, _COLD_AIM_S))


def test_names_while_the_same_pods_are_listed_again(
    world: tuple[core.NodeStore, core.PodStore, Cluster],
    compare: Callable[..., None],
    add: Callable[..., None],
) -> None:
    nodes, store, cluster = world
    body = NAMES.request(cluster, FIRST_POD)
    longest_s = [0.0]

    def asked(_: object) -> bytes:
        start = perf_counter()
        snapshot, pod = store.snapshot(), store.get(pods.uid(7))
        longest_s.append(perf_counter() - start)
        assert pod is not None
        assert len(snapshot) == _PODS
        asked_about = core.read_args(body, watched=nodes).nodes
        assert asked_about is not None
        return b"%d" % len(asked_about)

    alone = Work("names, alone", lambda: None, asked, expected=b"%d" % _NODES)
    beside = _WhileListed(Work("names, pods relisted", lambda: None, asked), store, cluster)
    compare(beside, alone, _NODES, len(body), _P99_AIM, AS_LONG_AT_P99, _CALLS)
    longest_ms = [max(longest_s) * 1e3]
    add(Reading("scale", _NODES, "longest wait", longest_ms, MILLISECONDS, _WAIT_AIM_MS))


class _WhileListed:
    """A work that is timed only while a list of the same pods is committed to the store."""

    def __init__(self, work: Work, store: core.PodStore, cluster: Cluster) -> None:
        self.name = work.name
        self._work = work
        self._store = store
        self._cluster = cluster

    def turn(self, calls: int) -> list[float]:
        """Return the seconds of at least so many calls, each begun before a commit has ended."""
        times_s: list[float] = []
        while len(times_s) < calls:
            relist = _listed(self._store, self._cluster.names)
            commit = threading.Thread(target=relist.commit)
            commit.start()
            while commit.is_alive():
                times_s.append(self._work.seconds())
            commit.join()
        return times_s


def test_a_server_while_the_api_lists_the_same_pods_again(
    clusters: Callable[[int], Cluster],
    servers: Servers,
    client: Stopwatch,
    tmp_path: Path,
    compare: Callable[..., None],
    add: Callable[..., None],
) -> None:
    cluster = clusters(_NODES)
    asked, pod_list = Asked(cluster, NAMES, tmp_path), tmp_path / "pods"
    pods.write_list(pod_list, _PODS, cluster.names)
    api = servers.api(asked.node_list, pod_list)
    # Coscheduling asks for pods by a label at PreFilter.
    gangs = {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}
    profile = {"plugins": FILTER_AND_SCORE | gangs}
    url, kubextend = servers.kubextend(servers.kubeconfig(api), profile)
    add(Reading("scale", _NODES, "server ready", [_cpu_s(kubextend.pid)], _SECONDS, _COLD_AIM_S))
    names = asked.server_work("names over HTTP, alone", client, url)
    beside = _Longest(UnderLoad("names over HTTP, pods relisted", names, Relist(api, "pods")))
    compare(beside, names, _NODES, asked.size[1], _P99_AIM, AS_LONG_AT_P99, _CALLS)
    longest_ms = [beside.longest_s * 1e3]
    add(
        Reading("scale", _NODES, "longest names over HTTP, pods relisted", longest_ms, MILLISECONDS)
    )


class _Longest:
    """A work whose longest call is kept."""

    def __init__(self, work: UnderLoad) -> None:
        self.name = work.name
        self.longest_s = 0.0
        self._work = work

    def turn(self, calls: int) -> list[float]:
        times_s = self._work.turn(calls)
        self.longest_s = max(self.longest_s, *times_s)
        return times_s


def _cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process until now."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("looked", [False, True], ids=["in a row", "each looked at"])
def test_events(
    looked: bool,
    world: tuple[core.NodeStore, core.PodStore, Cluster],
    add: Callable[..., None],
) -> None:
    _, store, cluster = world
    values_us: list[float] = []
    for run in range(_RUNS):
        version, label = run + 2, f"v{run}-{looked}"
        events = [
            pods.event(at * (_PODS // _EVENTS), cluster.names, version, label)
            for at in range(_EVENTS)
        ]
        with _cpu() as times_s:
            for event in events:
                store.apply(event)
                if looked:
                    store.snapshot()
        values_us.append(sum(times_s) / _EVENTS * 1e6)
        changed = store.get(pods.uid(0))
        assert changed is not None
        assert changed.labels["version"] == label
    what = "an event, and a snapshot" if looked else "an event"
    add(Reading("scale", _NODES, what, values_us, _MICROSECONDS, _EVENT_AIM_US))


def test_labelled_pods(
    world: tuple[core.NodeStore, core.PodStore, Cluster], add: Callable[..., None]
) -> None:
    _, store, _ = world
    snapshot = store.snapshot()
    times_ms: list[float] = []
    for _ in range(_RUNS + 1):
        with _cpu() as times_s:
            found = snapshot.these(store.with_label("team-3", pods.LABEL, "web"))
        times_ms.append(sum(times_s) * 1e3)
        assert len(found) == pods.group_size(_PODS)
        assert {pod.namespace for pod in found} == {"team-3"}
    # The first question walked over every pod.
    values_ms = [each * 1_000 / pods.group_size(_PODS) for each in times_ms[1:]]
    add(Reading("scale", _NODES, "1,000 pods by label", values_ms, MILLISECONDS, _LABELLED_AIM_MS))


def test_permit_of_a_gang(
    world: tuple[core.NodeStore, core.PodStore, Cluster], add: Callable[..., None]
) -> None:
    _, store, cluster = world
    values_ms: list[float] = []
    for run in range(_RUNS):
        members = [_member(f"gang-{run}", number) for number in range(_GANG)]
        for member in members:
            store.apply(json.dumps({"type": "ADDED", "object": member}).encode())
        found = [store.get(member["metadata"]["uid"]) for member in members]
        gang = [pod for pod in found if pod is not None]
        with _cpu() as times_s:
            held = asyncio.run(_permitted(store, gang, cluster.names[0]))
        values_ms.append(sum(times_s) / _GANG * 1e3)
        assert held == [True] * (_GANG - 1) + [False]
    add(
        Reading("scale", _NODES, "Permit, a pod of a gang", values_ms, MILLISECONDS, _PERMIT_AIM_MS)
    )


def _member(gang: str, number: int) -> dict[str, Any]:
    labels = {
        "scheduling.x-k8s.io/pod-group": gang,
        "pod-group.scheduling.sigs.k8s.io/min-available": str(_GANG),
    }
    name = f"{gang}-{number}"
    metadata = {"name": name, "namespace": "team-3", "uid": name, "labels": labels}
    return {"metadata": metadata, "spec": {}, "status": {"phase": "Pending"}}


async def _permitted(store: core.PodStore, gang: list[core.Pod], node: str) -> list[bool]:
    """Assume each pod of a gang on a node and call Permit; return for each whether it waits."""
    handle = Handle(WaitingPods(), ClusterPorts(pods=_Watched(store)))
    plugin = Coscheduling(CoschedulingArgs(), handle)
    held: list[bool] = []
    for pod in gang:
        store.assume(pod, node)
        answer = await plugin.permit(CycleState(), pod, node)
        status = answer[0] if isinstance(answer, tuple) else answer
        assert status.is_success or status.code is Code.WAIT
        held.append(not status.is_success)
    return held


@dataclass(frozen=True)
class _Watched:
    """The pods of a store that is listed."""

    store: core.PodStore
    synced: bool = True


def test_bytes_of_a_pod(add: Callable[..., None]) -> None:
    command = [sys.executable, str(_POD_MEMORY), str(_PODS), str(_NODES)]
    held, left = map(float, subprocess.check_output(command).split())  # noqa: S603  ours
    add(Reading("scale", _NODES, "memory of pods", [held], _BYTES, _BYTES_AIM))
    add(Reading("scale", _NODES, "memory once all are gone", [left], _BYTES, _LEFT_AIM))


def _listed(store: core.PodStore, names: tuple[str, ...]) -> core.PodRelist:
    relist = store.relist()
    for page in pods.pages(_PODS, names):
        relist.page(page)
    return relist


@contextmanager
def _cpu(times_s: list[float] | None = None) -> Iterator[list[float]]:
    """Add the CPU seconds of this thread within the block to a list; yield the list."""
    into = [] if times_s is None else times_s
    start = thread_time()
    yield into
    into.append(thread_time() - start)
