"""Sends requests with 100,000 names, and with 15,000 whole nodes, and tells time and memory."""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from tests.e2e.workbench import Workbench, until
from tests.hostile.memory import MB, Served
from tests.integration.cluster.scripted_api import ScriptedApi

from .burst_of_large_requests import body, fits
from .clients import Client, tell

_FILTER: Final = {"plugins": {"filter": {"enabled": [{"name": "HighCommPodFilter"}]}}}
_POD: Final[dict[str, Any]] = {"metadata": {"name": "p", "uid": "u"}}


def names(count: int, times: int) -> dict[str, float]:
    """Send requests with many names, which are known, and return how long an answer takes."""
    api = ScriptedApi()
    for number in range(count):
        api.put_node(f"node-{number}")
    # The watch begins behind all of it.
    api.history.clear()
    api.up()
    config = {"server": {}, "extender": {"nodeCacheCapable": True}, "profiles": [_FILTER]}
    with tempfile.TemporaryDirectory() as folder, Workbench(Path(folder)) as bench:
        server = Served(bench, config, api)
        until(lambda: server.count("kubextend_node_store_nodes") == count, "all nodes are listed")
        asked = [f"node-{number}" for number in range(count)]
        request = json.dumps({"Pod": _POD, "NodeNames": asked}).encode()
        client = Client(server.port)
        took_ms, wrong = [], 0
        for _ in range(times):
            start = time.perf_counter()
            _, answer = client.post("/filter", request)
            took_ms.append((time.perf_counter() - start) * 1e3)
            wrong += json.loads(answer)["NodeNames"] != asked
    api.down()
    return {"names_p50_ms": statistics.median(took_ms), "wrong": wrong}


def whole_nodes(count: int, times: int) -> dict[str, float]:
    """Send requests with many whole nodes, and return the most memory that they took."""
    config = {
        "server": {},
        "extender": {"nodeCacheCapable": False, "httpTimeout": "30s"},
        "profiles": [_FILTER],
    }
    request = body(count)
    expected = [f"node-{number}" for number in range(count) if fits(number)]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, Workbench(Path(folder)) as bench:
        server = Served(bench, config)
        client = Client(server.port)
        server.forget_worst()
        for _ in range(times):
            _, answer = client.post("/filter", request)
            kept = json.loads(answer)["Nodes"]["items"]
            wrong += [node["metadata"]["name"] for node in kept] != expected
        worst = server.worst_bytes()
    return {
        "body_mb": len(request) / MB,
        "memory_mb": worst / MB,
        "memory_over_bodies_mb": (worst - 3.2 * len(request)) / MB,
        "wrong": wrong,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=15_000)
    parser.add_argument("--times", type=int, default=10)
    options = parser.parse_args()
    of_names = names(options.names, options.times)
    of_nodes = whole_nodes(options.nodes, options.times)
    tell(of_names | of_nodes | {"wrong": of_names["wrong"] + of_nodes["wrong"]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
