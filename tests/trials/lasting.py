"""Sends 100,000 requests, and compares what kubextend takes early with what it takes in the end."""

import http.client
import itertools
import json
import os
import statistics
import time
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx
from tests.doors.scripted_api import ScriptedApi

from .clients import Client, Tally, ThreadClients, filter_body, status_number
from .harness import Report, trial
from .served import MB, Served, ready, scripted_api, serving, workbench

_REQUESTS, _UNEXPECTED = "requests", "unexpected"
_CLIENTS: Final = 8
_FEW_NODES: Final = [f"node-{number}" for number in range(100)]
# More than kubextend has threads for calls of the API, while each call takes some time.
_CLIENTS_AT_FIRST: Final = 150
_SLOW_S: Final = 0.1
# What is done for a pod; which pods are spared and which make a plugin raise.
_FATES: Final = (
    *["bound"] * 6,
    "fits nowhere",
    *["filter", "filter exits", "score", "reserve", "permit", "preempted for"],
)
_FAILS: Final = '''
import time
from pathlib import Path

from kubextend.framework import Status

SLOW = Path(__file__).with_name("slow")


class DiesError(BaseException):
    """An exception that only BaseException catches."""


class Fails:
    """Raises where the label ``fate`` of a pod says so; rejects what fits nowhere."""

    name = "Fails"
    needs_pods = True

    def filter(self, state, pod, node):
        fail(pod, "filter")
        if pod.labels["fate"] == "filter exits":
            raise SystemExit(3)
        if pod.labels["fate"] in ("fits nowhere", "preempted for"):
            return Status.unschedulable("fits nowhere")
        assert len(node.pods) >= 0

    def score(self, state, pod, node):
        fail(pod, "score")
        return len(node.pods) % 100

    def reserve(self, state, pod, node_name):
        if SLOW.exists():
            time.sleep(0.1)
        if pod.labels["fate"] == "reserve":
            raise DiesError

    def unreserve(self, state, pod, node_name):
        pass

    def permit(self, state, pod, node_name):
        fail(pod, "permit")


def fail(pod, point):
    if pod.labels["fate"] == point:
        raise RuntimeError(f"{pod.name} at {point}")
'''
_FAILING: Final[dict[str, Any]] = {
    "outOfTree": ["fails:Fails"],
    "extender": {"nodeCacheCapable": True, "bind": True, "httpTimeout": "30s"},
    "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Fails"}]}}}],
}


def _used(pid: int) -> tuple[int, int, int]:
    """Return resident bytes, descriptors and threads: the least in ten seconds of no requests.

    A watch that ends is replaced by another, which for a moment is one descriptor more.
    """
    seen = []
    for _ in range(20):
        time.sleep(0.5)
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208  not a folder of files
        resident, threads = status_number(pid, "VmRSS") * 1024, status_number(pid, "Threads")
        seen.append((resident, descriptors, threads))
    resident, descriptors, threads = (min(each) for each in zip(*seen, strict=True))
    return resident, descriptors, threads


class Soak:
    """Creates pods, asks about each, and counts requests and answers that nobody expects."""

    def __init__(self, api: ScriptedApi, port: int) -> None:
        self._api = api
        self._mine = ThreadClients(port)
        self._numbers = itertools.count()
        self.found = Tally()

    def until(self, requests: int, clients: int) -> None:
        """Schedule further pods from some threads until so many requests were sent in all."""
        with ThreadPoolExecutor(clients) as threads_of_clients:
            while self.found[_REQUESTS] < requests:
                numbers = itertools.islice(self._numbers, 200)
                list(threads_of_clients.map(self._schedule, numbers))

    def _schedule(self, number: int) -> None:
        """Create the pod of a number, take it through a scheduling cycle, and delete it."""
        fate = _FATES[number % len(_FATES)]
        name = f"pod-{number}"
        self._api.put_pod(name, f"uid-{name}", labels={"fate": fate}, annotations={"a": "x" * 500})
        pod = self._api.pods[name]
        asked = {"Pod": pod, "Nodes": None, "NodeNames": _FEW_NODES}
        answer = self._ask("filter", asked)
        fails = fate in {"filter", "filter exits"}
        passes = not fails and fate not in {"fits nowhere", "preempted for"}
        self._expect(fate, "filter", bool(answer["Error"]) == fails)
        self._expect(fate, "filter", bool(answer["NodeNames"]) == passes or fails)
        if fate == "preempted for":
            victims = {"Pods": [{"metadata": {"uid": "v"}}], "NumPDBViolations": 0}
            asked = {"Pod": pod, "NodeNameToMetaVictims": {_FEW_NODES[0]: victims}}
            self._expect(fate, "preempt", not self._ask("preempt", asked)["NodeNameToMetaVictims"])
        if passes:
            scores = self._ask("prioritize", asked)
            self._expect(fate, "prioritize", bool(scores) == (fate != "score"))
            binding = {"PodName": name, "PodNamespace": "default", "PodUID": f"uid-{name}"}
            node = _FEW_NODES[number % len(_FEW_NODES)]
            error = self._ask("bind", binding | {"Node": node})["Error"]
            self._expect(fate, "bind", bool(error) == (fate in {"reserve", "permit"}))
            if not error:
                self._api.bind_pod(name, node)
        self._api.delete_pod(name)

    def _ask(self, verb: str, asked: object) -> Any:
        status, answer = self._mine.client.post(f"/{verb}", asked)
        self.found.note(_REQUESTS)
        self.found.note(f"{verb} {status}", status != 200)
        return json.loads(answer)

    def _expect(self, fate: str, verb: str, right: bool) -> None:
        self.found.note(f"{verb} for {fate}", not right)


@trial(requests=100_000)
def soak(options: Namespace, report: Report) -> None:
    """Requests of every verb, a part of them for pods that make plugins raise.

    Memory, descriptors and threads after a warm-up are compared with those at the end.
    """
    with scripted_api(_FEW_NODES) as api, serving(_FAILING, api, fails=_FAILS) as server:
        pods, pid = Soak(api, server.port), server.program.pid
        slow = server.folder / "slow"
        pods.until(1, _CLIENTS)
        # The pools of threads and connections may grow up to their sizes, and do so here.
        api.latency_s = _SLOW_S
        slow.touch()
        pods.until(options.requests // 5, _CLIENTS_AT_FIRST)
        api.latency_s = 0.0
        slow.unlink()
        resident, descriptors, threads = _used(pid)
        warm = pods.found[_REQUESTS]
        pods.until(warm + options.requests, _CLIENTS)
        after = _used(pid)
    requests = pods.found[_REQUESTS]
    report.say(dict(+pods.found))
    report.tell(requests=requests - warm, unexpected=pods.found.total() - requests)
    report.tell(memory_mb=resident / MB, memory_growth_mb=(after[0] - resident) / MB)
    report.tell(memory_growth_percent=100 * (after[0] / resident - 1))
    report.tell(more_descriptors=max(0, after[1] - descriptors))
    report.tell(more_threads=max(0, after[2] - threads))


_MANY_NODES: Final = [f"node-{number}" for number in range(5000)]
_PODS_AT_ONCE: Final = 500
_CLIENTS_OF_RECORDS: Final = 4
_TOKEN: Final = "reads-what-was-decided"
# kubextend looks every ten seconds whether to give freed memory back to the system.
_GIVEN_BACK_S: Final = 25.0
_PLACE: Final = "0000000000"
_RDMA: Final = {"node.kubernetes.io/rdma-enabled": "true"}
_MATCH: Final = {
    "filters": [{"nodeSelector": "disk=ssd", "reason": "no SSD"}],
    "scores": [{"nodeSelector": "zone=a", "score": 70}],
}
_MATCHING: Final[dict[str, Any]] = {
    "extender": {"nodeCacheCapable": True, "httpTimeout": "30s"},
    "profiles": [
        {
            "plugins": {
                point: {"enabled": [{"name": "LabelMatch"}]} for point in ("filter", "score")
            },
            "pluginConfig": [{"name": "LabelMatch", "args": _MATCH}],
        }
    ],
}


class Asking:
    """Asks about pods, and counts answers that nobody expects."""

    def __init__(self, port: int) -> None:
        self._mine = ThreadClients(port)
        pod = {"metadata": {"name": f"p-{_PLACE}", "namespace": "ml", "uid": f"u-{_PLACE}"}}
        self._body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": _MANY_NODES}).encode()
        self._expected: tuple[bytes, bytes] | None = None
        self.found = Tally()

    def schedule(self, number: int) -> None:
        """Ask about the pod of a number; all pods have the answers of the first one."""
        body = self._body.replace(_PLACE.encode(), f"{number:010}".encode())
        filtered, told = self._mine.client.post("/filter", body)
        scored, scores = self._mine.client.post("/prioritize", body)
        right = (filtered, scored) == (http.client.OK, http.client.OK)
        if self._expected is None:
            points = [7 if place % 4 == 0 else 0 for place in range(len(_MANY_NODES))]
            right = right and json.loads(told)["NodeNames"] == _MANY_NODES[1::2]
            right = right and [each["Score"] for each in json.loads(scores)] == points
            self._expected = told, scores
        for _ in range(2):
            self.found.note(_REQUESTS)
        self.found.note(_UNEXPECTED, not (right and (told, scores) == self._expected))


def _put_node(api: ScriptedApi, number: int, **labels: str) -> None:
    disk = {"disk": "ssd"} if number % 2 else {}
    api.put_node(_MANY_NODES[number], zone="abcd"[number % 4], **disk, **labels)


@trial(requests=100_000)
def full_record(options: Namespace, report: Report) -> None:
    """Requests about 5,000 nodes for pods that are never deleted, so that the record stays full.

    Meanwhile nodes change, so that the calls on record share no snapshot.
    """
    api = ScriptedApi()
    for number in range(len(_MANY_NODES)):
        _put_node(api, number)
    with ready(api), workbench() as bench:
        tokens = bench.folder / "token"
        tokens.write_text(_TOKEN)
        decisions = {"server": {"decisions": {"tokenFile": str(tokens)}}}
        server = Served(bench, _MATCHING | decisions, api)
        server.until_nodes(len(_MANY_NODES))
        asking, idle = Asking(server.port), server.resident_bytes()
        server.forget_worst()
        asking.schedule(0)
        with ThreadPoolExecutor(_CLIENTS_OF_RECORDS) as clients:
            for first in range(0, options.requests // 2, _PODS_AT_ONCE):
                asked = clients.map(asking.schedule, range(first, first + _PODS_AT_ONCE))
                for number, _ in enumerate(asked):
                    if number % 10 == 0:
                        _put_node(api, (first + number) % len(_MANY_NODES), beat=str(first))
                report.say(f"{asking.found[_REQUESTS]} requests, {server.resident_bytes()} bytes")
        worst = server.worst_bytes()
        time.sleep(_GIVEN_BACK_S)
        report.tell(requests=asking.found[_REQUESTS], unexpected=asking.found[_UNEXPECTED])
        report.tell(recorded_pods=_recorded(server), over_idle_mb=(worst - idle) / MB)
        report.tell(over_idle_mb_in_the_end=(server.resident_bytes() - idle) / MB)


def _recorded(server: Served) -> int:
    """Return of how many pods there is a record."""
    url = f"http://127.0.0.1:{server.port}/overview"
    headers = {"Authorization": f"Bearer {_TOKEN}"}
    answer = httpx.get(url, headers=headers, trust_env=False, timeout=60.0)
    return int(answer.raise_for_status().json()["pods"]["total"])


@trial(names=100_000, nodes=15_000, times=10)
def large_requests(options: Namespace, report: Report) -> None:
    """Requests bring 100,000 names, and 15,000 whole nodes of 16 KB each."""
    names, took_ms, wrong = [f"node-{number}" for number in range(options.names)], [], 0
    asked = {"Pod": {"metadata": {"name": "p", "uid": "u"}}, "NodeNames": names}
    with (
        scripted_api(names) as api,
        serving({"extender": {"nodeCacheCapable": True}}, api) as server,
    ):
        server.until_nodes(len(names))
        client, request = Client(server.port), json.dumps(asked).encode()
        for _ in range(options.times):
            start = time.perf_counter()
            _, answer = client.post("/filter", request)
            took_ms.append((time.perf_counter() - start) * 1e3)
            wrong += json.loads(answer)["NodeNames"] != names
    images = [{"names": [f"registry.example/{at:03}@sha256:{at:064}"] * 2} for at in range(80)]
    nodes = [
        {
            "metadata": {"name": each, "labels": _RDMA if at % 5 < 2 else {}},
            "status": {"images": images},
        }
        for at, each in enumerate(names[: options.nodes])
    ]
    body = filter_body(nodes, labels={"high-comm": "true"})
    fitting = [node["metadata"]["name"] for node in nodes if node["metadata"]["labels"]]
    with serving({"extender": {"nodeCacheCapable": False, "httpTimeout": "30s"}}) as server:
        client = Client(server.port)
        server.forget_worst()
        for _ in range(options.times):
            kept = json.loads(client.post("/filter", body)[1])["Nodes"]["items"]
            wrong += [each["metadata"]["name"] for each in kept] != fitting
        worst = server.worst_bytes()
    report.tell(wrong=wrong, names_p50_ms=statistics.median(took_ms))
    report.tell(body_mb=len(body) / MB, memory_over_bodies_mb=(worst - 3.2 * len(body)) / MB)
