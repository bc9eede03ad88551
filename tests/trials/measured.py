"""Measures kubextend on a real control plane: queue, ``why``, alerts, and Karpenter."""

import itertools
import os
import re
import shutil
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Final

import httpx
import yaml
from tests.doors.shipped_rules import alerts, rule_file
from tests.e2e.controlplane import USERS, ControlPlane
from tests.e2e.karpenter import build_karpenter
from tests.e2e.kubeapi import RDMA_LABEL, Api, NodePool, Object, pod
from tests.e2e.program_plane import program_plane
from tests.e2e.queue_policies import GATE, install_queue
from tests.e2e.queue_stack import QueueStack, queue_scheduler, sorted_by
from tests.e2e.queued_pods import QueuedPods, by_qos, in_order, remove_gate
from tests.e2e.stack import HIGH_COMM, LABEL_MATCH, Mode, Scheduler, Stack, profile, run_kubextend
from tests.e2e.workbench import Workbench, until
from tests.e2e.workload import Workload

from .harness import Report, trial
from .served import ROOT

_UNLIMITED = {"qps": 5000, "burst": 10000}
_BOUND = re.compile(
    r'^scheduler_schedule_attempts_total\{.*result="scheduled".*\} (\S+)$', re.MULTILINE
)
_numbers = itertools.count()
_RUNS: Final = 5
_MOST_S: Final = 5.0
_NAMESPACE: Final = "why-at-size"
_TOKEN: Final = "reads-and-decides-nothing"
_NODES, _RDMA_NODES, _GANG = 50, 10, 3
_EVERY_S: Final = 5.0


class Bench:
    """Makes runs that bind ``count`` pods each, all of which fit on each node."""

    def __init__(self, plane: ControlPlane, count: int, nodes: int) -> None:
        self._plane = plane
        self._count = count
        self._pool = NodePool(plane.api, "bench", nodes, cpu="64")

    def run(self, name: str) -> str:
        """Make the run of this name, and return its result as text."""
        if name == "backlog":
            with self._pods(queued=False) as pods:
                self._create(pods)
                with self._scheduler() as scheduler:
                    return f"{self._rate(scheduler):.1f}/s"
        with (
            self._scheduler() as scheduler,
            self._pods(queued=name != "created") as pods,
            ThreadPoolExecutor(1) as thread,
        ):
            if name == "created":
                thread.submit(self._create, pods)
                return f"{self._rate(scheduler):.1f}/s"
            made = self._create(pods)
            if name.isdecimal():
                named = f"bench-{next(_numbers)}"
                with QueueStack(self._plane, named, sorted_by("QOSSort"), window=int(name)):
                    rate = self._rate(scheduler)
            else:
                loop = thread.submit(self._loop, pods.namespace, made, waits=name == "bare")
                rate = self._rate(scheduler)
                loop.result()
            exact = in_order(pods.bound_order(), made, by_qos)
            return f"{rate:.1f}/s, order {'exact' if exact else 'not exact'}"

    def _loop(self, namespace: str, made: dict[str, Object], *, waits: bool) -> None:
        """Remove the gates of pods in their order; wait for each until a watch shows it bound."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        changes = self._plane.api.changes(path, "0", fieldSelector="spec.nodeName!=")
        # The policies check the requests of kubextend's account.
        ours = Api(self._plane.url, self._plane.authority.cert, USERS["kubextend"][0])
        with closing(changes), ours as api:
            for name in sorted(made, key=lambda name: by_qos(made[name])):
                remove_gate(api, namespace, name, GATE)
                while waits and next(changes)["object"]["metadata"]["name"] != name:
                    continue

    def _create(self, pods: QueuedPods) -> dict[str, Object]:
        return pods.create_mixed(self._count, seed=20)

    @contextmanager
    def _pods(self, *, queued: bool) -> Iterator[QueuedPods]:
        pods = QueuedPods(self._plane.api, f"bench-{next(_numbers)}", self._pool, queued=queued)
        yield pods
        pods.close()
        until(lambda: not pods.all(), "the pods are gone", every_s=0.5)

    def _scheduler(self) -> closing[Scheduler]:
        name = f"bench-{next(_numbers)}"
        return closing(queue_scheduler(self._plane, name, clientConnection=_UNLIMITED))

    def _rate(self, scheduler: Scheduler) -> float:
        """Wait until all pods are bound, and return how many were bound a second."""
        first = until(lambda: _bound(scheduler), "the first is bound", every_s=0.02)
        began = time.monotonic()
        until(lambda: _bound(scheduler) >= self._count, "all are bound", 300.0, every_s=0.1)
        return (self._count - first) / (time.monotonic() - began)


def _bound(scheduler: Scheduler) -> int:
    found = _BOUND.search(scheduler.get("/metrics").text)
    return int(float(found[1])) if found else 0


@trial(
    words=("backlog", "20", "hasty", "backlog", "1", "bare", "backlog", "created"),
    few=("backlog", "20"),
    pods=(2000, 100),
    nodes=(1000, 50),
)
def queue_rate(options: Namespace, report: Report) -> None:
    """How fast gated pods are bound, compared with pods without gates.

    Each run is timed from the first binding to the last, by kube-scheduler's own counter. In all
    runs kube-scheduler's limit of API calls a second is lifted. Runs by name:

    - ``created``: without gates, bound while they are created.
    - ``backlog``: without gates, all created before kube-scheduler is started.
    - ``20`` and ``1``: all gated before kubextend is started with this window.
    - ``bare``: all gated; a loop without any queue removes the gate of one pod, waits until a
      watch shows the pod bound, and goes on. The reference for a window of 1.
    - ``hasty``: as ``bare``, but the loop does not wait. The reference for larger windows.
    """
    with program_plane() as plane:
        install_queue(plane)
        bench = Bench(plane, options.pods, options.nodes)
        for name in options.words:
            report.say(f"{name}: {bench.run(name)}")


@trial(nodes=(5000, 200))
def why_at_size(options: Namespace, report: Report) -> None:
    """How long `kubextend why` takes with 5,000 nodes: it must not be more than 5 s.

    Beside the seconds of each run, from the start of the command to its end, are those of
    processor time for all runs together, since other work on the machine makes a run longer.
    """
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
        before_s = _processor_s(stack)
        for number in range(_RUNS):
            began_s = time.monotonic()
            answer = _answer(plane, stack)
            took_s = time.monotonic() - began_s
            report.tell(**{f"run_{number + 1}_s": took_s})
            report.judge(took_s <= _MOST_S, f"a run of {took_s:.2f} s")
            if sentence not in answer:
                report.mistake(answer)
        after_s = _processor_s(stack)
        stack.close()
    report.tell(**{f"processor_s_{name}": after_s[name] - before_s[name] for name in after_s})


def _processor_s(stack: Stack) -> dict[str, float]:
    times = os.times()
    command_s = times.children_user + times.children_system
    return {"command": command_s, "kubextend": stack.processor_s()["kubextend"]}


def _answer(plane: ControlPlane, stack: Stack) -> str:
    kubeconfig = plane.kubeconfig("admin")
    where = ("-n", _NAMESPACE, "--config", stack.config, "--kubeconfig", kubeconfig)
    return run_kubextend("why", "p", *where)


@trial(seconds=(3600.0, 60.0))
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
