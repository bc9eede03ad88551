import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import real_prometheus
from real_prometheus import DEVICE, free_port, node_exporter, prometheus

from kubextend import core
from kubextend.framework.handle import Handle
from kubextend.plugins import NetworkTraffic
from kubextend.profile import Profile, Profiles, WaitingPods
from kubextend.verbs import Verbs
from make_verbs import make_verbs

BUSY_BYTES_PER_S = 1_000_000
PATIENCE_S = 60.0
NODES = ("busy", "idle", "unmeasured")
# What score * weight * 10 of 0..100 is on the wire.
BEST, NEUTRAL, WORST = 10, 5, 0


@pytest.fixture(scope="module")
def exporters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A node with traffic and one without."""
    lacking = real_prometheus.missing()
    if lacking:
        pytest.fail(f"{' and '.join(lacking)} not installed: make apt-packages")
    root = tmp_path_factory.mktemp("exporters")
    with (
        node_exporter(BUSY_BYTES_PER_S, root / "busy") as busy,
        node_exporter(0, root / "idle") as idle,
    ):
        yield {"busy": busy, "idle": idle}


@dataclass(frozen=True)
class Watched:
    store: core.NodeStore
    synced: bool = True

    def age_s(self) -> float | None:
        return 0.0


def plugin_at(address: str) -> NetworkTraffic:
    given = {
        "prometheusAddress": address,
        "networkInterface": DEVICE,
        "nodeLabel": "node",
        "timeRange": "2s",
        "refreshInterval": "200ms",
        "timeout": "1s",
        "timeToLive": "3s",
    }
    args = NetworkTraffic.Args.model_validate(given)
    return NetworkTraffic(args, Handle(WaitingPods()))


def verbs_with(plugin: NetworkTraffic) -> Verbs:
    store = core.NodeStore()
    items = [{"metadata": {"name": name}} for name in NODES]
    listed = {"kind": "NodeList", "metadata": {"resourceVersion": "1"}, "items": items}
    store.replace(json.dumps(listed).encode())
    profile = Profile("default-scheduler", score=[(plugin, 1)])
    return make_verbs(Profiles.of([profile]), watched=Watched(store))


def prioritized(verbs: Verbs) -> dict[str, int]:
    pod = {"metadata": {"name": "pod", "namespace": "ml", "uid": "uid"}, "spec": {}}
    body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": list(NODES)}).encode()
    return {entry["Host"]: entry["Score"] for entry in json.loads(verbs.prioritize(body))}


def becomes(expected: dict[str, int], verbs: Verbs) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (scores := prioritized(verbs)) != expected:
        assert time.monotonic() < deadline, scores
        time.sleep(0.05)


@contextmanager
def started(plugin: NetworkTraffic) -> Iterator[None]:
    plugin.start()
    try:
        yield
    finally:
        plugin.stop()


def test_the_idle_node_is_preferred_and_without_prometheus_all_are_equal_after_a_while(
    exporters: dict[str, str], tmp_path: Path
) -> None:
    port = free_port()
    plugin = plugin_at(f"http://127.0.0.1:{port}")
    verbs = verbs_with(plugin)
    known = {"busy": WORST, "idle": BEST, "unmeasured": NEUTRAL}
    unknown = dict.fromkeys(NODES, NEUTRAL)
    with started(plugin):
        assert prioritized(verbs) == unknown
        with prometheus(exporters, tmp_path, port):
            becomes(known, verbs)
        becomes(unknown, verbs)
        with prometheus(exporters, tmp_path, port):
            becomes(known, verbs)


def test_a_node_whose_exporter_is_gone_becomes_neutral(
    exporters: dict[str, str], tmp_path: Path
) -> None:
    port = free_port()
    plugin = plugin_at(f"http://127.0.0.1:{port}")
    verbs = verbs_with(plugin)
    with ExitStack() as ends_last, ExitStack() as gone:
        idle = gone.enter_context(node_exporter(0, tmp_path / "short"))
        targets = exporters | {"idle": idle}
        ends_last.enter_context(prometheus(targets, tmp_path / "prometheus", port))
        ends_last.enter_context(started(plugin))
        becomes({"busy": WORST, "idle": BEST, "unmeasured": NEUTRAL}, verbs)
        gone.close()
        becomes({"busy": WORST, "idle": NEUTRAL, "unmeasured": NEUTRAL}, verbs)
