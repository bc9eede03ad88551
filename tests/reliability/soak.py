"""Sends 100,000 requests of every verb, a part of them for pods that make plugins raise.

Each pod is created, asked about as kube-scheduler asks, bound unless a plugin fails, and deleted.
The program compares memory, descriptors and threads of kubextend after a warm-up with those at the
end.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.e2e.workbench import Workbench, say
from tests.hostile.memory import MB, Served
from tests.integration.cluster.scripted_api import ScriptedApi

from .clients import Client, descriptors, resident_bytes, tell, threads

NODES: Final = [f"node-{number}" for number in range(100)]
_CLIENTS: Final = 8
# More than kubextend has threads for calls of the API, while each call takes some time.
_CLIENTS_AT_FIRST: Final = 150
_SLOW_S: Final = 0.1
# What is done for a pod; which pods are spared and which make a plugin raise.
_FATES: Final = (
    *["bound"] * 6,
    "fits nowhere",
    *["filter", "filter exits", "score", "reserve", "permit", "preempted for"],
)
_PLUGIN: Final = '''
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
_CONFIG: Final[dict[str, Any]] = {
    "server": {},
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
            seen.append((resident_bytes(pid), descriptors(pid), threads(pid)))
        return cls(*(min(each) for each in zip(*seen, strict=True)))


class Soak:
    """Creates pods, asks about each, and counts requests and answers that nobody expects."""

    def __init__(self, api: ScriptedApi, port: int) -> None:
        self._api = api
        self._port = port
        self._mine = threading.local()
        self._lock = threading.Lock()
        self.requests = 0
        self.unexpected: Counter[str] = Counter()

    def schedule(self, number: int) -> None:
        """Create the pod of a number, take it through a scheduling cycle, and delete it."""
        fate = _FATES[number % len(_FATES)]
        name = f"pod-{number}"
        self._api.put_pod(name, f"uid-{name}", labels={"fate": fate}, annotations={"a": "x" * 500})
        pod = self._api.pods[name]
        asked = {"Pod": pod, "Nodes": None, "NodeNames": NODES}
        answer = self._ask("filter", asked)
        fails = fate in {"filter", "filter exits"}
        passes = not fails and fate not in {"fits nowhere", "preempted for"}
        self._expect(fate, "filter", bool(answer["Error"]) == fails)
        self._expect(fate, "filter", bool(answer["NodeNames"]) == passes or fails)
        if fate == "preempted for":
            victims = {"Pods": [{"metadata": {"uid": "v"}}], "NumPDBViolations": 0}
            asked = {"Pod": pod, "NodeNameToMetaVictims": {NODES[0]: victims}}
            self._expect(fate, "preempt", not self._ask("preempt", asked)["NodeNameToMetaVictims"])
        if passes:
            scores = self._ask("prioritize", asked)
            self._expect(fate, "prioritize", bool(scores) == (fate != "score"))
            binding = {"PodName": name, "PodNamespace": "default", "PodUID": f"uid-{name}"}
            node = NODES[number % len(NODES)]
            error = self._ask("bind", binding | {"Node": node})["Error"]
            self._expect(fate, "bind", bool(error) == (fate in {"reserve", "permit"}))
            if not error:
                self._api.bind_pod(name, node)
        self._api.delete_pod(name)

    def _ask(self, verb: str, asked: object) -> Any:
        if not hasattr(self._mine, "client"):
            self._mine.client = Client(self._port)
        status, answer = self._mine.client.post(f"/{verb}", json.dumps(asked).encode())
        with self._lock:
            self.requests += 1
            self.unexpected[f"{verb} {status}"] += status != 200
        return json.loads(answer)

    def _expect(self, fate: str, verb: str, right: bool) -> None:
        with self._lock:
            self.unexpected[f"{verb} for {fate}"] += not right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    options = parser.parse_args()
    api = ScriptedApi()
    for node in NODES:
        api.put_node(node)
    api.up()
    with tempfile.TemporaryDirectory() as folder, Workbench(Path(folder)) as bench:
        (bench.folder / "fails.py").write_text(_PLUGIN)
        server = Served(bench, _CONFIG, api)
        soak = Soak(api, server.port)
        with ThreadPoolExecutor(_CLIENTS) as clients:
            numbers = iter(range(sys.maxsize))
            _until(soak, clients, numbers, 1)
            # The pools of threads and connections may grow up to their sizes, and do so here.
            api.latency_s = _SLOW_S
            slow = bench.folder / "slow"
            slow.touch()
            with ThreadPoolExecutor(_CLIENTS_AT_FIRST) as more:
                _until(soak, more, numbers, options.requests // 5)
            api.latency_s = 0.0
            slow.unlink()
            before = Use.of(server.program.pid)
            say(f"after a warm-up of {soak.requests} requests: {before}")
            warm = soak.requests
            for part in range(1, 6):
                _until(soak, clients, numbers, warm + options.requests * part // 5)
                say(f"{soak.requests - warm} requests, {resident_bytes(server.program.pid)} bytes")
            after = Use.of(server.program.pid)
        say(f"at the end: {after}; unexpected: {+soak.unexpected}")
        tell(
            {
                "requests": soak.requests - warm,
                "unexpected": soak.unexpected.total(),
                "memory_mb": before.resident / MB,
                "memory_growth_mb": (after.resident - before.resident) / MB,
                "memory_growth_percent": 100 * (after.resident / before.resident - 1),
                "more_descriptors": max(0, after.descriptors - before.descriptors),
                "more_threads": max(0, after.threads - before.threads),
            }
        )
    api.down()
    return 0


def _until(soak: Soak, clients: ThreadPoolExecutor, numbers: Any, requests: int) -> None:
    """Schedule further pods until this many requests were sent in all."""
    while soak.requests < requests:
        list(clients.map(soak.schedule, [next(numbers) for _ in range(200)]))


if __name__ == "__main__":
    sys.exit(main())
