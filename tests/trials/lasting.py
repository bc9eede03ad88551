"""Sends 100,000 requests, and compares what kubextend takes early with what it takes in the end."""

import http.client
import itertools
import json
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx
from tests.doors.scripted_api import ScriptedApi

from .clients import Tally, ThreadClients, descriptors, memory_bytes, threads
from .harness import Report, trial
from .served import DECISION_BYTES, MB, Served, ready, scripted_api, serving, workbench

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
            from kubextend.framework import Status
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


@dataclass(frozen=True)
class Use:
    """What a process uses: resident bytes, descriptors and threads."""

    resident: int
    descriptors: int
    threads: int

    @classmethod
    def of(cls, pid: int) -> "Use":
        """Return the least that a process uses within some seconds in which nobody asks.

        A watch that ends is replaced by another, which for a moment is one descriptor more.
        """
        seen = []
        for _ in range(20):
            time.sleep(0.5)
            seen.append((memory_bytes(pid), descriptors(pid), threads(pid)))
        return cls(*(min(each) for each in zip(*seen, strict=True)))


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
        status, answer = self._mine.client.post(f"/{verb}", json.dumps(asked).encode())
        self.found.note(_REQUESTS)
        self.found.note(f"{verb} {status}", status != 200)
        return json.loads(answer)

    def _expect(self, fate: str, verb: str, right: bool) -> None:
        self.found.note(f"{verb} for {fate}", not right)


@trial(requests=(100_000, 2000))
def soak(options: Namespace, report: Report) -> None:
    """Requests of every verb, a part of them for pods that make plugins raise.

    Memory, descriptors and threads after a warm-up are compared with those at the end.
    """
    with (
        scripted_api(_FEW_NODES) as api,
        serving(_FAILING, api, plugins={"fails": _FAILS}) as server,
    ):
        pods, pid = Soak(api, server.port), server.program.pid
        slow = server.folder / "slow"
        pods.until(1, _CLIENTS)
        # The pools of threads and connections may grow up to their sizes, and do so here.
        api.latency_s = _SLOW_S
        slow.touch()
        pods.until(options.requests // 5, _CLIENTS_AT_FIRST)
        api.latency_s = 0.0
        slow.unlink()
        before, warm = Use.of(pid), pods.found[_REQUESTS]
        report.say(f"after a warm-up of {warm} requests: {before}")
        for part in range(1, 6):
            pods.until(warm + options.requests * part // 5, _CLIENTS)
            report.say(f"{pods.found[_REQUESTS] - warm} requests, {memory_bytes(pid)} bytes")
        after = Use.of(pid)
    requests = pods.found[_REQUESTS]
    report.say(f"at the end: {after}; {+pods.found}")
    report.tell(requests=requests - warm, unexpected=pods.found.total() - requests)
    report.tell(memory_mb=before.resident / MB)
    report.tell(memory_growth_mb=(after.resident - before.resident) / MB)
    report.tell(memory_growth_percent=100 * (after.resident / before.resident - 1))
    report.tell(more_descriptors=max(0, after.descriptors - before.descriptors))
    report.tell(more_threads=max(0, after.threads - before.threads))


NODES: Final = [f"node-{number}" for number in range(5000)]
_RECORDED_CLIENTS: Final = 4
_PODS_AT_ONCE: Final = 500
_TOKEN: Final = "reads-what-was-decided"
# A kubelet writes the status of its node every five minutes.
_NODE_CHANGE_S: Final = 300 / len(NODES)
# kubextend looks every ten seconds whether to give freed memory back to the system.
_GIVEN_BACK_S: Final = 25.0
_PLACE: Final = "0000000000"
_SMALL_RECORD_BYTES: Final = MB
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
        self._body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": NODES}).encode()
        self._expected: tuple[bytes, bytes] | None = None
        self.found = Tally()

    def schedule(self, number: int) -> None:
        """Ask about the pod of a number; all pods have the answers of the first one."""
        body = self._body.replace(_PLACE.encode(), f"{number:010}".encode())
        filtered, told = self._mine.client.post("/filter", body)
        scored, scores = self._mine.client.post("/prioritize", body)
        right = (filtered, scored) == (http.client.OK, http.client.OK)
        if self._expected is None:
            kept = [name for place, name in enumerate(NODES) if place % 2]
            points = [7 if place % 4 == 0 else 0 for place in range(len(NODES))]
            right = right and json.loads(told)["NodeNames"] == kept
            right = right and [each["Score"] for each in json.loads(scores)] == points
            self._expected = told, scores
        right = right and (told, scores) == self._expected
        for _ in range(2):
            self.found.note(_REQUESTS)
        self.found.note(_UNEXPECTED, not right)


def _recorded(server: Served) -> int:
    """Return of how many pods there is a record."""
    url = f"http://127.0.0.1:{server.port}/overview"
    headers = {"Authorization": f"Bearer {_TOKEN}"}
    answer = httpx.get(url, headers=headers, trust_env=False, timeout=60.0)
    return int(answer.raise_for_status().json()["pods"]["total"])


@contextmanager
def _changing_nodes(api: ScriptedApi) -> Iterator[None]:
    """Let nodes change one after the other until the block ends."""
    ended = threading.Event()

    def change() -> None:
        number = 0
        while not ended.wait(_NODE_CHANGE_S):
            _put_node(api, number % len(NODES), beat=str(number))
            number += 1

    beats = threading.Thread(target=change)
    beats.start()
    try:
        yield
    finally:
        ended.set()
        beats.join()


def _put_node(api: ScriptedApi, number: int, **labels: str) -> None:
    disk = {"disk": "ssd"} if number % 2 else {}
    api.put_node(NODES[number], zone="abcd"[number % 4], **disk, **labels)


def _filled(report: Report, requests: int, record_bytes: int) -> tuple[Asking, int, list[float]]:
    """Send requests to a kubextend whose record of decisions may take some bytes.

    Returns: what was asked; of how many pods there is a record; how many resident megabytes more
        than before there were at most, and once memory that is kept for a while was given back.
    """
    api = ScriptedApi()
    for number in range(len(NODES)):
        _put_node(api, number)
    with ready(api), workbench() as bench:
        tokens = bench.folder / "token"
        tokens.write_text(_TOKEN)
        decisions = {"tokenFile": str(tokens), "maxBytes": record_bytes}
        server = Served(bench, _MATCHING | {"server": {"decisions": decisions}}, api)
        server.until_nodes(len(NODES))
        asking, idle = Asking(server.port), server.resident_bytes()
        server.forget_worst()
        asking.schedule(0)
        with _changing_nodes(api), ThreadPoolExecutor(_RECORDED_CLIENTS) as clients:
            while asking.found[_REQUESTS] < requests:
                first = asking.found[_REQUESTS] // 2
                list(clients.map(asking.schedule, range(first, first + _PODS_AT_ONCE)))
                report.say(f"{asking.found[_REQUESTS]} requests, {server.resident_bytes()} bytes")
        worst = server.worst_bytes()
        time.sleep(_GIVEN_BACK_S)
        recorded = _recorded(server)
        return asking, recorded, [(e - idle) / MB for e in (worst, server.resident_bytes())]


@trial(requests=(100_000, 2000))
def full_record(options: Namespace, report: Report) -> None:
    """Requests about 5,000 nodes for pods that are never deleted, so that the record stays full.

    Meanwhile nodes change as often as kubelets write the status of 5,000 nodes. The memory is
    compared with that of a kubextend whose record of decisions may take 1 MB only, once both have
    given back what requests freed.
    """
    few, _, small_mb = _filled(report, options.requests // 5, _SMALL_RECORD_BYTES)
    many, recorded, full_mb = _filled(report, options.requests, DECISION_BYTES)
    report.tell(requests=many.found[_REQUESTS], recorded_pods=recorded)
    report.tell(unexpected=sum(each.found[_UNEXPECTED] for each in (few, many)))
    report.tell(over_idle_mb=full_mb[0], over_idle_mb_with_a_record_of_1_mb=small_mb[0])
    report.tell(record_mb=full_mb[1] - small_mb[1])
