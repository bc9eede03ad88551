"""Watches kubextend with the shipped alerts through an hour of normal load, in which none may fire.

A real Prometheus scrapes a kubextend that a real kube-scheduler calls for everything that a usual
cluster has: pods of a filter rule, gangs, pods that fit on no node for a while, and pods that end.
"""

import argparse
import itertools
import json
import shutil
import time
from collections.abc import Iterator

import httpx
import yaml
from tests.integration.monitoring.shipped_rules import alerts, rule_file

from .kubeapi import RDMA_LABEL, Api, NodePool
from .program_plane import program_plane
from .stack import HIGH_COMM, LABEL_MATCH, Mode, Stack, profile
from .workbench import Workbench, say, until
from .workload import Workload

NODES = 50
RDMA_NODES = 10
GANG = 3
EVERY_S = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0)
    seconds = parser.parse_args().seconds
    with program_plane() as plane:
        stack = Stack(
            plane,
            "normal",
            Mode(binds=True),
            profile=profile("normal", "HighCommPodFilter", LabelMatch=LABEL_MATCH, Coscheduling={}),
        )
        prometheus = Prometheus(plane.bench, stack)
        pods_bound = _pods_bound(plane.api, stack)
        end = time.monotonic() + seconds
        bound = next(pods_bound)
        while time.monotonic() < end:
            time.sleep(EVERY_S)
            bound = next(pods_bound)
        fired = prometheus.alerts("firing")
        say(f"fired: {fired}; pending for a while: {prometheus.alerts('pending')}")
        figures = {
            "seconds": seconds,
            "bound_pods": bound,
            "alerts": len(alerts()),
            "answered_scrapes": prometheus.value('sum_over_time(up{job="kubextend"}[2h])'),
            "alerts_that_fired": len(fired),
        }
        say(json.dumps(figures))


def _pods_bound(api: Api, stack: Stack) -> Iterator[int]:
    """Let pods come and go, round after round; yield how many were bound so far."""
    pool = NodePool(api, "normal", NODES, born_with=(RDMA_LABEL, "true", range(RDMA_NODES)))
    workload = Workload(api, "normal", stack.scheduler_name, pool)
    bound = 0
    for number in itertools.count():
        gang = {
            "scheduling.x-k8s.io/pod-group": f"gang-{number}",
            "pod-group.scheduling.sigs.k8s.io/min-available": str(GANG),
        }
        nowhere = workload.create(f"nowhere-{number}", 1, node_labels={"no": "node"})
        coming = [
            *workload.create(f"plain-{number}", 6),
            *workload.create(f"chatty-{number}", 2, HIGH_COMM),
            *workload.create(f"gang-{number}", GANG, gang),
        ]
        workload.until_placed(coming)
        bound += len(coming)
        for name in [*nowhere, *coming]:
            workload.delete(name)
        yield bound


class Prometheus:
    """A real Prometheus with the shipped rules that scrapes the kubextend of a stack."""

    def __init__(self, bench: Workbench, stack: Stack) -> None:
        found = shutil.which("prometheus")
        if found is None:
            message = "Prometheus has to be on the PATH: make apt-packages"
            raise FileNotFoundError(message)
        folder = bench.folder / "prometheus"
        folder.mkdir()
        (folder / "rules.yaml").write_text(yaml.safe_dump(rule_file()))
        target = stack.url.removeprefix("http://")
        config = {
            "global": {"scrape_interval": "15s", "evaluation_interval": "15s"},
            "rule_files": [str(folder / "rules.yaml")],
            "scrape_configs": [
                {
                    "job_name": "kubextend",
                    "static_configs": [{"targets": [target], "labels": {"namespace": "normal"}}],
                }
            ],
        }
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        address = f"127.0.0.1:{bench.free_port()}"
        self._client = httpx.Client(base_url=f"http://{address}", trust_env=False, timeout=60.0)
        program = bench.start(
            "prometheus",
            found,
            f"--config.file={folder / 'prometheus.yaml'}",
            f"--web.listen-address={address}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            "--log.level=warn",
        )
        until(self._is_ready, "Prometheus is ready", program=program)

    def alerts(self, state: str) -> list[str]:
        """Return the alerts that were in a state at any time, firing or pending."""
        found = self._query(
            f'count by (alertname) (count_over_time(ALERTS{{alertstate="{state}"}}[2h]))'
        )
        return sorted(each["metric"]["alertname"] for each in found)

    def value(self, query: str) -> float:
        (found,) = self._query(query)
        return float(found["value"][1])

    def _query(self, query: str) -> list[dict[str, dict[str, str]]]:
        answer = self._client.get("/api/v1/query", params={"query": query}).raise_for_status()
        result: list[dict[str, dict[str, str]]] = answer.json()["data"]["result"]
        return result

    def _is_ready(self) -> bool:
        try:
            return self._client.get("/-/ready").is_success
        except httpx.TransportError:
            return False


if __name__ == "__main__":
    main()
