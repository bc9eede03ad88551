"""Measures how long prioritize takes with NetworkTraffic while Prometheus is up, hangs or is gone.

    python benches/prometheus_outage.py

A stand-in for Prometheus is up, then hangs, then is gone; it answers for 5,000 nodes. Refreshes
come 15 times as often as by default. The program prints p50 and p99 of each phase, and of
prioritize without the plugin. The last line has, as JSON, how much longer p99 is while Prometheus
hangs or is gone. The program checks the answers, but not the times.
"""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import quantiles

from kubextend import core
from kubextend.framework.handle import Handle
from kubextend.plugins import NetworkTraffic
from kubextend.profile import Profile, Profiles, WaitingPods
from kubextend.verbs import Verbs
from works import Watched, verbs_over

NODES = [f"node-{number}" for number in range(5000)]
CALLS = 1500
WARM_UP = 200
SCORES = {"Host": NODES[0], "Score": 10}


class StandIn(http.server.ThreadingHTTPServer):
    """A stand-in for Prometheus: answers every query for every node; hangs if ``hangs`` is set."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        result = [
            {"metric": {"instance": f"{name}:9100"}, "value": [1.0, str(rate)]}
            for rate, name in enumerate(NODES)
        ]
        data = {"resultType": "vector", "result": result}
        self.body = json.dumps({"status": "success", "data": data}).encode()
        self.hangs = threading.Event()
        self.over = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that gave up, as these are what is measured."""


class Answers(http.server.BaseHTTPRequestHandler):
    server: StandIn

    def do_GET(self) -> None:
        if self.server.hangs.is_set():
            self.server.over.wait()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""


@contextmanager
def stand_in() -> Iterator[tuple[StandIn, str]]:
    server = StandIn()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()


def verbs_with(*plugins: NetworkTraffic) -> Verbs:
    store = core.NodeStore()
    items = [{"metadata": {"name": name}} for name in NODES]
    listed = {"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": items}
    store.replace(json.dumps(listed).encode())
    profile = Profile("default-scheduler", score=[(plugin, 1) for plugin in plugins])
    return verbs_over(Profiles.of([profile]), Watched(store))


def measured(verbs: Verbs, phase: str) -> float:
    """Time prioritize, print the figures of the phase, and return p99 in ms."""
    pod = {"metadata": {"name": "pod", "namespace": "ml", "uid": "uid"}, "spec": {}}
    body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": NODES}).encode()
    times_ms = []
    for call in range(WARM_UP + CALLS):
        began = time.perf_counter()
        answer = verbs.prioritize(body)
        if call >= WARM_UP:
            times_ms.append((time.perf_counter() - began) * 1000)
    if phase != "without the plugin":
        assert json.loads(bytes(answer))[0] == SCORES
    cuts = quantiles(times_ms, n=100)
    print(f"{phase:34} p50 {cuts[49]:6.2f} ms   p99 {cuts[98]:6.2f} ms")  # noqa: T201
    return cuts[98]


def main() -> None:
    measured(verbs_with(), "without the plugin")
    with stand_in() as (server, address):
        given = {"prometheusAddress": address, "networkInterface": "eth0"}
        given |= {"refreshInterval": "1s", "timeout": "1s", "timeToLive": "5m"}
        args = NetworkTraffic.Args.model_validate(given)
        plugin = NetworkTraffic(args, Handle(WaitingPods()))
        verbs = verbs_with(plugin)
        plugin.start()
        time.sleep(2)
        up_ms = measured(verbs, "Prometheus up")
        server.hangs.set()
        hangs_ms = measured(verbs, "Prometheus hangs")
    gone_ms = measured(verbs, "Prometheus gone")
    plugin.stop()
    more_ms = max(hangs_ms, gone_ms) - up_ms
    figures = {"p99_ms": round(up_ms, 2), "p99_more_ms": round(more_ms, 2)}
    print(json.dumps(figures))  # noqa: T201


if __name__ == "__main__":
    main()
