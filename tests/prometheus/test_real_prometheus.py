import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.doors import real_prometheus
from tests.doors.prometheus import handle_with_metrics
from tests.doors.real_prometheus import DEVICE, node_exporter, prometheus
from tests.doors.sockets import free_port
from tests.doors.wire import Wire, pod

from kubextend.plugins import NetworkTraffic

pytestmark = pytest.mark.slow

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
    with node_exporter(BUSY_BYTES_PER_S, root / "1") as busy, node_exporter(0, root / "2") as idle:
        yield {"busy": busy, "idle": idle}


def prioritized(wire: Wire) -> dict[str, int]:
    return {entry["Host"]: entry["Score"] for entry in wire.prioritize(pod()).json}


def becomes(expected: dict[str, int], wire: Wire) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (scores := prioritized(wire)) != expected:
        assert time.monotonic() < deadline, scores
        time.sleep(0.05)


@contextmanager
def scored_by(address: str) -> Iterator[Wire]:
    """Yield the wire of a plugin that asks Prometheus until the block ends."""
    given = {"prometheusAddress": address, "networkInterface": DEVICE, "nodeLabel": "node"}
    given |= {"timeRange": "2s", "refreshInterval": "200ms", "timeout": "1s", "timeToLive": "3s"}
    plugin = NetworkTraffic(NetworkTraffic.Args.model_validate(given), handle_with_metrics())
    try:
        yield Wire(plugin, nodes=NODES)
    finally:
        plugin.stop()


def test_the_idle_node_is_preferred_and_without_prometheus_all_are_equal_after_a_while(
    exporters: dict[str, str], tmp_path: Path
) -> None:
    port = free_port()
    known = {"busy": WORST, "idle": BEST, "unmeasured": NEUTRAL}
    unknown = dict.fromkeys(NODES, NEUTRAL)
    with scored_by(f"http://127.0.0.1:{port}") as wire:
        assert prioritized(wire) == unknown
        with prometheus(exporters, tmp_path, port):
            becomes(known, wire)
        becomes(unknown, wire)
        with prometheus(exporters, tmp_path, port):
            becomes(known, wire)


def test_a_node_whose_exporter_is_gone_becomes_neutral(
    exporters: dict[str, str], tmp_path: Path
) -> None:
    with ExitStack() as ends_last, ExitStack() as gone:
        idle = gone.enter_context(node_exporter(0, tmp_path / "short"))
        targets = exporters | {"idle": idle}
        running = prometheus(targets, tmp_path / "prometheus", free_port())
        wire = ends_last.enter_context(scored_by(ends_last.enter_context(running)))
        becomes({"busy": WORST, "idle": BEST, "unmeasured": NEUTRAL}, wire)
        gone.close()
        becomes({"busy": WORST, "idle": NEUTRAL, "unmeasured": NEUTRAL}, wire)
