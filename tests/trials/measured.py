"""Measures kubextend on a real control plane: ``why``, alerts, and Karpenter."""

import itertools
import os
import shutil
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from typing import Final

import httpx
import yaml
from tests.doors.shipped_rules import alerts, rule_file
from tests.e2e.controlplane import ControlPlane
from tests.e2e.karpenter import build_karpenter
from tests.e2e.kubeapi import RDMA_LABEL, Api, NodePool, pod
from tests.e2e.program_plane import program_plane
from tests.e2e.stack import HIGH_COMM, KUBEXTEND, LABEL_MATCH, Mode, Stack, profile
from tests.e2e.workbench import Workbench, until
from tests.e2e.workload import Workload

from .harness import Report, trial
from .served import ROOT

_RUNS: Final = 5
_MOST_S: Final = 5.0
_NAMESPACE: Final = "why-at-size"
_TOKEN: Final = "reads-and-decides-nothing"
_NODES, _RDMA_NODES, _GANG = 50, 10, 3
_EVERY_S: Final = 5.0


@trial(nodes=5000)
def why_at_size(options: Namespace, report: Report) -> None:
    """How long `kubextend why` takes with 5,000 nodes: it must not be more than 5 s."""
    with program_plane() as plane:
        token = plane.bench.folder / "token"
        token.write_text(f"{_TOKEN}\n")
        plane.api.create_namespace(_NAMESPACE)
        pool = NodePool(plane.api, "size", options.nodes)
        plugins = profile("size", "HighCommPodFilter")
        stack = Stack(plane, "size", Mode(), profile=plugins, readers=token)
        until(lambda: stack.kept(pool.names[-1:], {"app": "a"}), "the nodes are known")
        plane.api.create_pods(_NAMESPACE, [pod("p", "size", "size", {"high-comm": "true"})])
        until(lambda: stack.attempts("unschedulable"), "the pod is tried")
        sentence = f"kubextend rejected {options.nodes} nodes"
        until(lambda: sentence in _answer(plane, stack), "the pod's decision is recorded")
        for number in range(_RUNS):
            began_s = time.monotonic()
            answer = _answer(plane, stack)
            took_s = time.monotonic() - began_s
            report.tell(**{f"run_{number + 1}_s": took_s})
            report.judge(took_s <= _MOST_S, f"a run of {took_s:.2f} s")
            if sentence not in answer:
                report.mistake(answer)
        stack.close()


def _answer(plane: ControlPlane, stack: Stack) -> str:
    kubeconfig = plane.kubeconfig("admin")
    where = ("-n", _NAMESPACE, "--config", stack.config, "--kubeconfig", kubeconfig)
    command = [KUBEXTEND, "why", "p", *where]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@trial(seconds=3600.0)
def silent_alerts(options: Namespace, report: Report) -> None:
    """An hour of normal load, in which none of the shipped alerts may fire."""
    plugins = profile("normal", "HighCommPodFilter", LabelMatch=LABEL_MATCH, Coscheduling={})
    with program_plane() as plane:
        stack = Stack(plane, "normal", Mode(binds=True), profile=plugins)
        prometheus = Prometheus(plane.bench, stack)
        pods_bound = _pods_bound(plane.api, stack)
        end = time.monotonic() + options.seconds
        bound = next(pods_bound)
        while time.monotonic() < end:
            time.sleep(_EVERY_S)
            bound = next(pods_bound)
        for alert in (fired := prometheus.alerts("firing")):
            report.mistake(f"{alert} fired")
        report.say(f"pending for a while: {prometheus.alerts('pending')}")
        scrapes = prometheus.value('sum_over_time(up{job="kubextend"}[2h])')
    report.tell(seconds=options.seconds, bound_pods=bound, alerts=len(alerts()))
    report.tell(answered_scrapes=scrapes, alerts_that_fired=len(fired))


def _pods_bound(api: Api, stack: Stack) -> Iterator[int]:
    """Let pods come and go, round after round; yield how many were bound so far."""
    pool = NodePool(api, "normal", _NODES, born_with=(RDMA_LABEL, "true", range(_RDMA_NODES)))
    workload = Workload(api, "normal", stack.scheduler_name, pool)
    bound = 0
    for number in itertools.count():
        gang = {
            "scheduling.x-k8s.io/pod-group": f"gang-{number}",
            "pod-group.scheduling.sigs.k8s.io/min-available": str(_GANG),
        }
        nowhere = workload.create(f"nowhere-{number}", 1, node_labels={"no": "node"})
        coming = [
            *workload.create(f"plain-{number}", 6),
            *workload.create(f"chatty-{number}", 2, HIGH_COMM),
            *workload.create(f"gang-{number}", _GANG, gang),
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
            message = "Prometheus has to be on the PATH: tests/apt-packages prometheus"
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


@trial()
def autoscalers(_: Namespace, report: Report) -> None:
    """What Karpenter sees of compiled rules and held pods; needs root or sudo.

    Karpenter listens on all addresses, so that the tests run in a network namespace of their own.
    """
    build_karpenter()
    path = f"PATH={os.environ['PATH']}"
    root = [] if os.geteuid() == 0 else ["sudo", "--preserve-env", "env", path]
    alone = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    tests = ["-m", "pytest", "-p", "no:cacheprovider", "tests/e2e/test_autoscalers.py"]
    done = subprocess.run([*root, *alone, sys.executable, *tests], cwd=ROOT, check=False)
    report.judge(done.returncode == 0, f"pytest ended with {done.returncode}")
