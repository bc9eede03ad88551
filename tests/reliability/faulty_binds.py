"""Binds 10,000 pods through a proxy that loses, doubles and delays 5 % of what it passes on.

Without faults the program tells how many binds a second there are, ``--latency`` beside an API that
takes its time.

The clients do what kube-scheduler does: after an Error they ask again, for another node while the
API shows the pod on none. After some of the successes they ask again for the same node, which has
to succeed, and for another node, which has to be an Error.
"""

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from tests.e2e.workbench import Workbench, say
from tests.hostile.memory import Served
from tests.integration.cluster.scripted_api import ScriptedApi

from .clients import Client, tell
from .faulty_proxy import FaultyProxy

NODES: Final = [f"node-{number}" for number in range(50)]
_ATTEMPTS: Final = 12
_REPEATED: Final = 0.05
_CONFIG: Final[dict[str, Any]] = {
    "server": {},
    "extender": {"bind": True, "httpTimeout": "30s"},
    "profiles": [{"plugins": {"filter": {"enabled": [{"name": "HighCommPodFilter"}]}}}],
}


class Binds:
    """Binds pods as kube-scheduler does, and compares each answer with the pods of the API.

    Attributes:
        found: how often each figure's event has happened.
    """

    def __init__(self, api: ScriptedApi, port: int, seed: int) -> None:
        self._api = api
        self._port = port
        self._seed = seed
        self._mine = threading.local()
        self._lock = threading.Lock()
        self.found: Counter[str] = Counter()

    def bind(self, number: int) -> None:
        """Bind one pod, and ask again after a share of the successes."""
        dice = random.Random(f"{self._seed}-{number}")
        pod, node = f"pod-{number}", dice.choice(NODES)
        for _ in range(_ATTEMPTS):
            if not self._error(pod, node):
                self._count("told_wrongly", self._node_of(pod) != node)
                break
            self._count("errors")
            # kube-scheduler would see that the pod is bound, and ask no more: whether the node
            # may be told again is asked here.
            node = self._node_of(pod) or dice.choice(NODES)
        else:
            self._count("lost")
        if dice.random() < _REPEATED:
            self._repeat(pod, dice)

    def _repeat(self, pod: str, dice: random.Random) -> None:
        """Ask for another node, which has to be an Error whatever the API answers."""
        node = self._node_of(pod)
        other = dice.choice([each for each in NODES if each != node])
        self._count("bound_twice", not self._error(pod, other) or self._node_of(pod) != node)
        self._count("repeats")

    def _error(self, pod: str, node: str) -> str:
        """Ask kubextend to bind a pod to a node, and return the Error of its answer."""
        body = {"PodName": pod, "PodNamespace": "default", "PodUID": f"uid-{pod}", "Node": node}
        if not hasattr(self._mine, "client"):
            self._mine.client = Client(self._port)
        status, answer = self._mine.client.post("/bind", json.dumps(body).encode())
        self._count("other_answers", status != 200)
        error: str = json.loads(answer)["Error"]
        return error

    def _node_of(self, pod: str) -> str:
        node: str = self._api.pods[pod]["spec"].get("nodeName", "")
        return node

    def _count(self, what: str, happened: bool = True) -> None:
        with self._lock:
            self.found[what] += happened


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binds", type=int, default=10_000)
    parser.add_argument("--faults", type=float, default=0.05, help="share of calls with a fault")
    parser.add_argument("--clients", type=int, default=64, help="how many bind at a time")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds of each API call")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 16))
    options = parser.parse_args()
    say(f"seed {options.seed}")
    api = ScriptedApi()
    for node in NODES:
        api.put_node(node)
    for number in range(options.binds):
        api.put_pod(f"pod-{number}", f"uid-pod-{number}")
    # Nobody watches pods here, so the history of the API need not grow.
    api.history.clear()
    api.up()
    with (
        tempfile.TemporaryDirectory() as folder,
        Workbench(Path(folder)) as bench,
        FaultyProxy(api.port, options.faults, options.seed) as proxy,
    ):
        server = Served(bench, _CONFIG, proxy)
        binds = Binds(api, server.port, options.seed)
        api.latency_s = options.latency
        start = time.monotonic()
        with ThreadPoolExecutor(options.clients) as clients:
            for done, _ in enumerate(clients.map(binds.bind, range(options.binds)), start=1):
                if done % 1000 == 0:
                    say(f"{done} pods, {dict(binds.found)}")
        took_s = time.monotonic() - start
        tell(_figures(api, proxy, binds) | {"binds_a_second": options.binds / took_s})
    api.down()
    return 0


def _figures(api: ScriptedApi, proxy: FaultyProxy, binds: Binds) -> dict[str, float]:
    """Return the figures of the run, from the API's pods and the clients' answers."""
    bound = [pod.get("bindings", 0) for pod in api.pods.values()]
    faults = sum(proxy.committed.values())
    say(f"faults: {dict(proxy.committed)}")
    return {
        "binds": len(bound),
        "faults": faults,
        "faults_percent": 100 * faults / len(bound),
        "repeats": binds.found["repeats"],
        "errors": binds.found["errors"],
        "bound_twice": binds.found["bound_twice"] + sum(each > 1 for each in bound),
        "told_wrongly": binds.found["told_wrongly"] + binds.found["other_answers"],
        "lost": binds.found["lost"] + sum(each == 0 for each in bound),
    }


if __name__ == "__main__":
    sys.exit(main())
