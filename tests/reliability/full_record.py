"""Sends 100,000 requests about 5,000 nodes, each two for a new pod, so that the record stays full.

Each pod is asked about with filter and prioritize, and is never deleted. Meanwhile nodes change as
often as kubelets write the status of 5,000 nodes. The program compares the memory of kubextend
with that of a kubextend whose record of decisions may take 1 MB only, once both have given back
what requests freed.
"""

import argparse
import http.client
import json
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from tests.e2e.workbench import Workbench, say, until
from tests.hostile.memory import DECISION_BYTES, MB, Served
from tests.integration.cluster.scripted_api import ScriptedApi

from .clients import Client, tell

NODES: Final = [f"node-{number}" for number in range(5000)]
_CLIENTS: Final = 4
_PODS_AT_ONCE: Final = 500
_TOKEN: Final = "reads-what-was-decided"
# A kubelet writes the status of its node every five minutes.
_NODE_CHANGE_S: Final = 300 / len(NODES)
# kubextend looks every ten seconds whether to give freed memory back to the system.
_GIVEN_BACK_S: Final = 25.0
_PLACE: Final = "0000000000"
_SMALL_RECORD_BYTES: Final = MB
_CONFIG: Final[dict[str, Any]] = {
    "extender": {"nodeCacheCapable": True, "httpTimeout": "30s"},
    "profiles": [
        {
            "plugins": {
                point: {"enabled": [{"name": "LabelMatch"}]} for point in ("filter", "score")
            },
            "pluginConfig": [
                {
                    "name": "LabelMatch",
                    "args": {
                        "filters": [{"nodeSelector": "disk=ssd", "reason": "no SSD"}],
                        "scores": [{"nodeSelector": "zone=a", "score": 70}],
                    },
                }
            ],
        }
    ],
}


class Asking:
    """Asks about pods, and counts answers that nobody expects."""

    def __init__(self, port: int) -> None:
        self._port = port
        pod = {"metadata": {"name": f"p-{_PLACE}", "namespace": "ml", "uid": f"u-{_PLACE}"}}
        body = {"Pod": pod, "Nodes": None, "NodeNames": NODES}
        self._body = json.dumps(body).encode()
        self._expected: tuple[bytes, bytes] | None = None
        self._mine = threading.local()
        self._lock = threading.Lock()
        self.requests = self.unexpected = 0

    def schedule(self, number: int) -> None:
        """Ask about the pod of a number; all pods have the answers of the first one."""
        if not hasattr(self._mine, "client"):
            self._mine.client = Client(self._port)
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
        with self._lock:
            self.requests += 2
            self.unexpected += not right


def recorded(port: int) -> int:
    """Return of how many pods there is a record."""
    url, headers = f"http://127.0.0.1:{port}/overview", {"Authorization": f"Bearer {_TOKEN}"}
    answer = httpx.get(url, headers=headers, trust_env=False, timeout=60.0)
    return int(answer.raise_for_status().json()["pods"]["total"])


def change_nodes(api: ScriptedApi, ended: threading.Event) -> None:
    """Let nodes change one after the other until told to end."""
    number = 0
    while not ended.wait(_NODE_CHANGE_S):
        put_node(api, number % len(NODES), beat=str(number))
        number += 1


def put_node(api: ScriptedApi, number: int, **labels: str) -> None:
    disk = {"disk": "ssd"} if number % 2 else {}
    api.put_node(NODES[number], zone="abcd"[number % 4], **disk, **labels)


@dataclass(frozen=True)
class Use:
    """What requests about 5,000 nodes took of a kubextend.

    Attributes:
        requests: how many requests were sent.
        unexpected: how many of the answers were not right.
        pods: of how many pods there is a record in the end.
        idle: the resident bytes before the first request.
        worst: the most resident bytes after that, with memory that is kept for later requests.
        settled: the resident bytes once that memory was given back.
    """

    requests: int
    unexpected: int
    pods: int
    idle: int
    worst: int
    settled: int

    @property
    def over_idle_mb(self) -> float:
        return (self.worst - self.idle) / MB

    @property
    def settled_mb(self) -> float:
        return (self.settled - self.idle) / MB


def use(requests: int, record_bytes: int) -> Use:
    """Send requests to a kubextend whose record of decisions may take some bytes."""
    api, ended = ScriptedApi(), threading.Event()
    for number in range(len(NODES)):
        put_node(api, number)
    # The watch begins behind all of it.
    api.history.clear()
    api.up()
    with tempfile.TemporaryDirectory() as folder, Workbench(Path(folder)) as bench:
        tokens = bench.folder / "token"
        tokens.write_text(_TOKEN)
        decisions = {"tokenFile": str(tokens), "maxBytes": record_bytes}
        server = Served(bench, _CONFIG | {"server": {"decisions": decisions}}, api)
        until(lambda: server.count("kubextend_node_store_nodes") == len(NODES), "nodes are listed")
        asking = Asking(server.port)
        idle = server.resident_bytes()
        server.forget_worst()
        asking.schedule(0)
        beats = threading.Thread(target=change_nodes, args=(api, ended))
        beats.start()
        try:
            with ThreadPoolExecutor(_CLIENTS) as clients:
                while asking.requests < requests:
                    first = asking.requests // 2
                    list(clients.map(asking.schedule, range(first, first + _PODS_AT_ONCE)))
                    say(f"{asking.requests} requests, {server.resident_bytes()} bytes")
        finally:
            ended.set()
            beats.join()
        worst = server.worst_bytes()
        time.sleep(_GIVEN_BACK_S)
        found = Use(
            asking.requests,
            asking.unexpected,
            recorded(server.port),
            idle,
            worst,
            server.resident_bytes(),
        )
    api.down()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    options = parser.parse_args()
    small = use(options.requests // 5, _SMALL_RECORD_BYTES)
    full = use(options.requests, DECISION_BYTES)
    tell(
        {
            "requests": full.requests,
            "unexpected": small.unexpected + full.unexpected,
            "recorded_pods": full.pods,
            "over_idle_mb": full.over_idle_mb,
            "over_idle_mb_with_a_record_of_1_mb": small.over_idle_mb,
            "record_mb": full.settled_mb - small.settled_mb,
        }
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
